"""These tests check how graph breaks are grouped; the second source is torch's own counter of the
same run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.whole_session import totals
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written

SAMPLE = Path(__file__).parents[2] / "sample_models" / "graph_breaks.py"


def a_break(
    line: int, registry_id: str = "GB0059", reason: str = "why", compilation: int = 1
) -> model.GraphBreak:
    return model.GraphBreak(
        0, compilation, registry_id, reason, "", ("do this",), "/p/m.py", line, "  print(x)  "
    )


def write_breaks(*breaks: model.GraphBreak) -> Callable[[SessionWriter], None]:
    def write(writer: SessionWriter) -> None:
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1))
        writer.add(model.Compilation(0, "0/1", 0, 1, "f", "/p/m.py", 1))
        writer.add_all(breaks)

    return write


def test_hits_of_one_cause_on_one_line_are_one_break(written: Written) -> None:
    reader = written(write_breaks(a_break(3), a_break(3, compilation=2), a_break(3, compilation=2)))
    (found,) = distinct_breaks(reader)
    assert (found.count, found.compilations, found.code) == (3, ("0/0", "0/1"), "print(x)")


def test_other_lines_and_other_causes_are_other_breaks(written: Written) -> None:
    reader = written(
        write_breaks(
            a_break(3), a_break(4), a_break(3, "GB0124"), a_break(3, "", "a"), a_break(3, "", "b")
        )
    )
    assert [(b.line, b.registry_id or b.reason) for b in distinct_breaks(reader)] == [
        (3, "GB0059"),
        (4, "GB0059"),
        (3, "GB0124"),
        (3, "a"),
        (3, "b"),
    ]


def test_totals_count_the_same_breaks(written: Written) -> None:
    reader = written(
        write_breaks(a_break(3), a_break(3), a_break(4), a_break(3, "", "a"), a_break(3, "", "b"))
    )
    counted = totals(reader)
    assert (counted.graph_breaks, counted.graph_break_hits) == (len(distinct_breaks(reader)), 5)


def test_an_unknown_reason_is_told_in_torchs_words(written: Written) -> None:
    (found,) = distinct_breaks(
        written(write_breaks(a_break(3, "GB9999", "Something new\nwith details")))
    )
    assert found.description == "Something new"


@pytest.fixture(scope="module")
def broken(captured: Callable[..., Path]) -> Path:
    return captured("graph_breaks")


def test_every_break_torch_counted_is_there_and_no_other(
    broken: Path, reader: Callable[[Path], SessionReader]
) -> None:
    session = reader(broken)
    counters = session.meta("counters")
    # A branch on a tensor's value is counted under "unimplemented" only; see
    # torch/_dynamo/symbolic_convert.py.
    counted = {**counters["graph_break"], **counters.get("unimplemented", {})}
    assert sorted(b.reason for b in distinct_breaks(session)) == sorted(
        text.partition("\n")[0] for text in counted
    )
    assert totals(session).graph_break_hits == sum(counted.values())


def test_a_break_is_at_the_line_that_causes_it(
    broken: Path, reader: Callable[[Path], SessionReader]
) -> None:
    """Every line of the sample that breaks says so in a comment of its own; the code torch quotes
    is that line.
    """
    source = SAMPLE.read_text().splitlines()
    found = distinct_breaks(reader(broken))
    assert found
    for one in found:
        assert one.code == source[one.line - 1].strip()
        assert one.place is not None
        assert one.place.line == one.line - 1
