"""These tests check graph breaks in the code of a package or of Python: they are shown with the
user's line that led there, Python's after all others.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written

MINE, LOGGING = "/home/me/train.py", "/usr/lib/python3.12/logging/__init__.py"


def frames(*places: tuple[str, int]) -> tuple[model.Frame, ...]:
    return tuple(model.Frame(file, line, "f", "") for file, line in places)


def with_breaks(
    written: Written, called_from: tuple[model.Frame, ...], library: str = LOGGING
) -> SessionReader:
    """One in a logger's code, in a function that was left to Python, and then one of the user's,
    which costs nothing.
    """

    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, MINE, 0))
        writer.add(model.SourceFile(0, library, 0, is_user=False))
        stack = writer.add(model.Stack(0, called_from))
        theirs = writer.add(
            model.Compilation(0, "1/0", 1, 0, "_log", library, 1600, status="skipped", stack=stack)
        )
        mine = writer.add(model.Compilation(0, "0/0", 0, 0, "step", MINE, 4))
        writer.add(
            model.GraphBreak(
                0,
                theirs,
                "GB0291",
                "a logger",
                "",
                ("add it to a list",),
                library,
                1622,
                "findCaller()",
            )
        )
        writer.add(
            model.GraphBreak(0, mine, "GB0059", "a builtin", "", ("leave it",), MINE, 7, "print(x)")
        )

    return written(write)


def test_the_users_own_comes_first_whatever_the_librarys_costs(written: Written) -> None:
    reader = with_breaks(written, frames((MINE, 14), (LOGGING, 1500)))
    mine, theirs = distinct_breaks(reader)
    assert (mine.file, theirs.file) == (MINE, LOGGING)
    assert theirs.cost.functions_in_python > mine.cost.functions_in_python


def test_the_users_line_that_led_there_is_named(written: Written) -> None:
    reader = with_breaks(written, frames((MINE, 14), (MINE, 9), (LOGGING, 1500)))
    theirs = distinct_breaks(reader)[1]
    assert theirs.description == "a logger is called, in Python's own code, called from train.py:9"
    assert theirs.hints == (
        (
            "Look at the call in train.py:9: the functions it calls are compiled with it, and their "
            "breaks disappear if the call does."
        ),
    )


def test_a_package_may_be_the_model_itself_and_is_told_by_its_cost_with_torchs_hints(
    written: Written,
) -> None:
    package = "/home/me/.venv/lib/python3.12/site-packages/transformers/modeling.py"
    theirs = distinct_breaks(with_breaks(written, frames((MINE, 14), (package, 1500)), package))[0]
    assert theirs.description == "a logger is called, in a package, called from train.py:14"
    assert theirs.hints == ("add it to a list",)


def test_of_a_library_that_nobody_is_known_to_call_nothing_more_is_said(written: Written) -> None:
    found = {
        one.file: one for one in distinct_breaks(with_breaks(written, frames((LOGGING, 1500))))
    }
    assert found[LOGGING].description == "a logger is called"
    assert found[LOGGING].hints == ("add it to a list",)
