"""Graph breaks in a library's code: said of the user's line that led there, and after what breaks in the user's own."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.breaks import distinct_breaks
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written

MINE, LOGGING = "/home/me/train.py", "/usr/lib/python3/logging/__init__.py"


def frames(*places: tuple[str, int]) -> tuple[model.Frame, ...]:
    return tuple(model.Frame(file, line, "f", "") for file, line in places)


def with_breaks(written: Written, called_from: tuple[model.Frame, ...]) -> SessionReader:
    """One in a logger's code, in a function that was left to Python, and then one of the user's, which costs nothing."""

    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, MINE, 0))
        writer.add(model.SourceFile(0, LOGGING, 0, is_user=False))
        stack = writer.add(model.Stack(0, called_from))
        theirs = writer.add(model.Compilation(0, "1/0", 1, 0, "_log", LOGGING, 1600, status="skipped", stack=stack))
        mine = writer.add(model.Compilation(0, "0/0", 0, 0, "step", MINE, 4))
        writer.add(model.GraphBreak(0, theirs, "GB0291", "a logger", "", ("add it to a list",), LOGGING, 1622, "findCaller()"))
        writer.add(model.GraphBreak(0, mine, "GB0059", "a builtin", "", ("leave it",), MINE, 7, "print(x)"))

    return written(write)


def test_the_users_own_comes_first_whatever_the_librarys_costs(written: Written) -> None:
    reader = with_breaks(written, frames((MINE, 14), (LOGGING, 1500)))
    mine, theirs = distinct_breaks(reader)
    assert (mine.file, theirs.file) == (MINE, LOGGING)
    assert theirs.cost.functions_in_python > mine.cost.functions_in_python


def test_the_users_line_that_led_there_is_named(written: Written) -> None:
    reader = with_breaks(written, frames((MINE, 14), (MINE, 9), (LOGGING, 1500)))
    theirs = distinct_breaks(reader)[1]
    assert theirs.in_words == "a logger is called, in a library that train.py:9 calls"
    assert theirs.hints == (
        "Look at the call in train.py:9: what it calls is compiled with it, and breaks go when the call does.",
    )


def test_of_a_library_that_nobody_is_known_to_call_nothing_more_is_said(written: Written) -> None:
    found = {one.file: one for one in distinct_breaks(with_breaks(written, frames((LOGGING, 1500))))}
    assert found[LOGGING].in_words == "a logger is called"
    assert found[LOGGING].hints == ("add it to a list",)
