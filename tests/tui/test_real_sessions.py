"""These tests open the app on sessions torch really made, and on a real worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client import Capture
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from tests.conftest import SAMPLES, Captured
from tests.tui.conftest import OpenApp


async def test_the_gelu_line_lights_up_the_nodes_whose_stack_names_it_and_its_kernel(
    captured: Captured, open_app: OpenApp
) -> None:
    path = captured("mlp")
    with SessionReader(path) as reader:
        (file,) = [f for f in reader.rows(model.SourceFile) if f.path.endswith("mlp.py")]
        lines = reader.text(file.text).splitlines()
        line = next(i for i, text in enumerate(lines) if "gelu" in text)
        graph = next(g for g in reader.rows(model.Graph, stage="post_grad", direction="forward"))
        calls = [
            n.position
            for n in reader.nodes(graph)
            if n.line == line + 1 and n.op == "call_function"
        ]
    assert calls
    async with open_app(path) as driver:
        await driver.press("2", "g", *["j"] * line)
        source, nodes, kernel = driver.panes
        assert source.body.cursor == line
        assert set(calls) <= nodes.body.marks
        assert "gelu" in kernel.document.title
        marked = [kernel.body.line_text(number) for number in kernel.body.marks]
        assert any("erf" in text for text in marked)


async def test_breaks_are_those_torch_counted(captured: Captured, open_app: OpenApp) -> None:
    path = captured("graph_breaks")
    with SessionReader(path) as reader:
        counted = sum(reader.meta("counters")["graph_break"].values())
    async with open_app(path) as driver:
        await driver.press("4")
        rows = driver.explorer.views.table_of("breaks")._table.rows
        assert len([row for row in rows if "break" in row.cells[0]]) >= 1
        assert counted >= 1
        assert "graph_breaks.py:" in driver.screen


async def test_a_line_that_broke_is_marked_and_says_why(
    captured: Captured, open_app: OpenApp
) -> None:
    path = captured("graph_breaks")
    with SessionReader(path) as reader:
        first = reader.rows(model.GraphBreak)[0]
    async with open_app(path) as driver:
        await driver.press("2", "g", *["j"] * (first.line - 1))
        source = driver.panes[0].body
        assert "✗" in "".join(text for text, _ in source.gutter_tokens(first.line - 1))
        assert "✗ graph break:" in driver.screen


async def test_a_line_compiled_after_a_break_turns_the_panes_to_its_compilation(
    captured: Captured, open_app: OpenApp
) -> None:
    path = captured("graph_breaks")
    with SessionReader(path) as reader:
        later = reader.query(
            "SELECT node.line, compilation.name FROM node JOIN graph ON graph.id = node.graph "
            "JOIN compilation ON compilation.id = graph.compilation WHERE graph.stage='dynamo' AND node.op LIKE 'call_%' "
            "AND compilation.name != '0/0' AND node.line NOT IN "
            "(SELECT node.line FROM node JOIN graph ON graph.id = node.graph "
            "WHERE graph.compilation = (SELECT min(id) FROM compilation)) ORDER BY 1 LIMIT 1"
        )
    (line, name) = later[0]
    async with open_app(path) as driver:
        await driver.press("2", "g", *["j"] * (line - 1))
        assert driver.panes[1].document.owner == name
        assert driver.panes[1].body.marks


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are looked up in /proc")
async def test_quitting_while_compiling_leaves_no_process(open_app: OpenApp) -> None:
    captures: list[Capture] = []

    def make_capture() -> Capture:
        captures.append(Capture(CaptureRequest(str(SAMPLES / "mlp.py"), "")))
        return captures[0]

    before = children()
    async with open_app(make_capture=make_capture, target="mlp.py") as driver:
        await driver.until(lambda: children() - before)
        workers = children() - before
        await driver.pilot.press("q")
    assert not any(is_running(worker) for worker in workers)
    assert not captures[0].session_path.exists()


def children() -> set[int]:
    """Return the process ids of this process's children."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set(map(int, (task / "children").read_text().split()))
    return found


def is_running(process: int) -> bool:
    """Whether anything of the process group is left."""
    try:
        os.killpg(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_without_a_terminal_the_overview_is_printed(
    captured: Captured, capsys, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    from fx_explorer.cli import main

    assert main([str(captured("mlp"))]) == 0
    printed = capsys.readouterr().out
    assert "Everything became one graph" in printed
    assert "\x1b" not in printed


def test_the_file_of_a_target_is_watched(tmp_path: Path) -> None:
    from fx_explorer.command_line.starting_app import watched_files

    file = tmp_path / "a:b.py"
    file.write_text("")
    assert watched_files(f"{file}:Model") == [file]
    assert watched_files(str(file)) == [file]
    assert watched_files("package.module:object") == []
