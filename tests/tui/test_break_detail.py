"""These tests check what the app shows about one graph break, down to the tree of calls around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.breaks.call_tree import FunctionCall, tree_lines
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.breaks.view import CODE_WIDTH, break_text, breaks_table, marked_code
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import Captured, OpenedReader

SAMPLE = Path(__file__).parents[2] / "sample_models" / "graph_breaks.py"


@pytest.fixture
def session(captured: Captured, reader: OpenedReader) -> SessionReader:
    return reader(captured("graph_breaks"))


@pytest.fixture
def detail(session: SessionReader) -> Callable[[str], str]:
    """Of the break on the line with this comment."""

    def of(comment: str) -> str:
        (found,) = (one for one in distinct_breaks(session) if one.code.endswith(comment))
        return break_text(session, found)

    return of


def test_carets_stand_below_the_condition(detail: Callable[[str], str]) -> None:
    lines = detail("# a branch on the value of a tensor").splitlines()
    code = next(line for line in lines if line.lstrip().startswith("if x.sum()"))
    below = lines[lines.index(code) + 1]
    assert code[below.index("^") : len(below)] == "x.sum() > 0"


def test_the_cost_says_that_no_run_was_measured(detail: Callable[[str], str]) -> None:
    """The sample's ``relu`` (4 by 8 floats) is used behind the branch."""
    text = detail("# a branch on the value of a tensor")
    assert "1 more graph, 1 tensor (128 B) written and read back" in text
    assert "Run time: not measured." in text


def test_the_tree_marks_this_break_among_the_functions_rests(detail: Callable[[str], str]) -> None:
    lines = detail("# one that was asked for").splitlines()
    tree = lines[lines.index("Calls, and the graphs they became") + 1 :]
    tree = tree[: tree.index("")]
    assert [line for line in tree if "▶" in line] == [
        "    ▶ graph_breaks.py:27  torch._dynamo.graph_break()  # one that was asked for"
    ]
    assert len([line for line in tree if "✗" in line]) == 4
    assert len([line for line in tree if line.endswith("1 graph")]) == 5
    assert "rest of forward after line 27" in "\n".join(lines)


def test_rows_say_what_each_break_adds_the_costliest_first(session: SessionReader) -> None:
    table = breaks_table(session)
    adds = [row.cells[2] for row in table.rows]
    assert adds == ["+1 graph"] * 4 + ["no graph"]
    assert "4 more graphs" in table.notice
    assert session.meta("counters")["stats"]["unique_graphs"] == 5


def test_of_a_long_line_the_part_with_the_carets_is_shown() -> None:
    code = "result = " + " + ".join(f"value_{i}" for i in range(30)) + " + x.item()"
    carets = " " * (len(code) - 8) + "^" * 8
    shown, below = marked_code(code, carets)
    assert shown[below.index("^") : len(below)] == "x.item()"
    assert len(shown) <= CODE_WIDTH + 1


def test_a_line_without_carets_stands_alone() -> None:
    assert marked_code("x.item()", "") == ["x.item()"]
    assert marked_code("", "") == []


def test_a_called_function_stands_further_in_and_a_rest_does_not() -> None:
    def called(name: str, *calls: FunctionCall) -> FunctionCall:
        row = model.Compilation(1, "0/0", 0, 0, name, "/p.py", 1, status="broke")
        return FunctionCall("0", name, "/p.py", 1, 0, (row,), (), (), calls)

    tree = called("f", called("g"), called("torch_dynamo_resume_in_f_at_3"))
    assert [line.partition("[")[0].rstrip() for line in tree_lines(tree)] == [
        "f",
        "  g",
        "rest of f after line 3",
    ]


def test_what_was_left_to_python_has_a_row(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(
            model.Fallback(
                0,
                0,
                "skipped",
                "numbers",
                "/p.py",
                3,
                "GB0003",
                "Attempt to trace generator",
                "why",
                ("do",),
            )
        )
        writer.add(
            model.Fallback(
                0, 0, "skipped", "f", "/p.py", 9, "", "no tensor-related objects found in frame"
            )
        )
    with SessionReader(tmp_path / "s.fxs") as reader:
        (row,) = breaks_table(reader).rows
        assert row.detail is not None
        text = row.detail().text
    assert row.cells[:3] == ("✗ left", "p.py:3", "not compiled")
    assert "Attempt to trace generator" in text
    assert "• do" in text


def test_a_break_that_torch_tells_nothing_about_has_a_detail(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.GraphBreak(0, 0, "", "something", "", (), "", 0, ""))
    with SessionReader(tmp_path / "s.fxs") as reader:
        (found,) = distinct_breaks(reader)
        assert isinstance(found, DistinctBreak)
        assert break_text(reader, found).startswith("something")
