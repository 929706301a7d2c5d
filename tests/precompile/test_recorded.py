"""These tests run a program that uses Precompile under the recorder: its own assertions check that
it computes the same as without it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.model import Compilation, Failure, Graph, Guard, Kernel, RegionLowering
from fx_explorer.overview.conditions import checks
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader

PROGRAM = Path(__file__).parent / "programs" / "precompiled.py"


@pytest.fixture
def session(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> SessionReader:
    return reader(captured(PROGRAM))


def line_of(name: str) -> int:
    """Return the line of the function, or of the class's forward."""
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return next(
                one.lineno
                for one in node.body
                if isinstance(one, ast.FunctionDef) and one.name == "forward"
            )
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node.lineno
    raise AssertionError(name)


def stages(session: SessionReader, compilation: Compilation) -> list[str]:
    return list(
        dict.fromkeys(graph.stage for graph in session.rows(Graph, compilation=compilation.id))
    )


def test_each_capture_is_a_compilation_with_its_function_its_line_and_its_stages(
    session: SessionReader,
) -> None:
    found = {row.name: row for row in session.rows(Compilation)}
    mlp, block, double, again, only_captured, failed, torchs = found.values()
    named = [
        (row.function, row.file, row.line)
        for row in (mlp, block, double, again, only_captured, torchs)
    ]
    assert named == [
        ("MLP.forward", str(PROGRAM), line_of("MLP")),
        ("Block.forward", str(PROGRAM), line_of("Block")),
        *[("double", str(PROGRAM), line_of("double"))] * 4,
    ]
    assert [row.backend for row in found.values()] == [
        "inductor",
        "regional_inductor",
        "<lambda>",
        "inductor",
        "",
        "<lambda>",
        "inductor",
    ]
    assert [row.status for row in found.values()] == ["ok"] * 5 + ["failed", "ok"]
    assert stages(session, mlp) == [
        "dynamo",
        "pre_grad",
        "joint",
        "forward",
        "backward",
        "post_grad",
    ]
    assert stages(session, again) == ["dynamo", "pre_grad", "forward", "post_grad"]
    assert stages(session, torchs) == stages(session, again)
    assert stages(session, only_captured) == ["dynamo"]
    assert set((only_captured.missing_stages or {}).values()) == {
        "only Dynamo has been asked for so far"
    }
    assert all(row.duration_s > 0 for row in (mlp, block, double, again, only_captured))
    assert "ZeroDivisionError: division by zero" in failed.error


def test_its_regions_and_kernels_are_there(session: SessionReader) -> None:
    regions = {(row.name, row.direction) for row in session.rows(RegionLowering) if row.subgraph}
    assert regions == {("attention", "forward"), ("mlp", "forward"), ("mlp", "backward")}
    compiled = {row.compilation for row in session.rows(Kernel)}
    names = [row.name for row in session.rows(Compilation) if row.id in compiled]
    assert names == ["0/0", "2/0", "4/0#2", "6/0"]


def test_saving_and_loading_leave_nothing_in_the_session(session: SessionReader) -> None:
    """The program saves two functions and loads them, and runs what it has loaded: it would have
    ended in an exception.
    """
    assert session.meta("outcome")["kind"] == "finished"
    assert not [row for row in session.rows(Failure) if row.where == "recorder"]


def test_guards_that_are_built_again_stand_once(session: SessionReader) -> None:
    for row in session.rows(Compilation):
        guards = [
            (guard.kind, guard.source, guard.code)
            for guard in session.rows(Guard, compilation=row.id)
        ]
        assert len(guards) == len(set(guards))


def test_nothing_of_it_is_a_break_or_left_to_python(session: SessionReader) -> None:
    assert distinct_fallbacks(session) == []
    assert all(check.is_met for check in checks(session, {"max-graph-breaks": 0}))
    assert not any("runs in eager mode" in fact.text for fact in overview(session))
    assert session.count(Failure, where="recorder") == 0
    assert [row.where for row in session.rows(Failure) if row.where != "recorder"] == ["compiler"]
