"""The key of the source view opens the user's own file at its most interesting line, beside graph
and kernel, whatever was shown before.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.kernels.line_heat import NO_HEAT, LineHeat, SourceHeat
from fx_explorer.overview.own_file import own_place
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import with_others
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

SCRIPT = "from lib import model\ndef loss(x):\n    out = model(x)\n    return out.sum()\n"
LIBRARY = "def model(x):\n    h = x + 1\n    h = h * 2\n    return h.relu()\n"


def write_session(
    path: Path,
    *,
    passes: bool = False,
    own_operations: int = 0,
    breaks_at: int = 0,
    library_breaks: bool = False,
) -> Path:
    """A target that calls a library's model, in which the operations are.

    ``passes``: the operations' stacks pass through line 3 of the target. ``own_operations``: so
    many are written on its line 4. ``breaks_at``: a line of the target that breaks the graph.
    ``library_breaks``: the library breaks it, called from line 3.
    """
    with SessionWriter(path) as writer:
        writer.set_meta("target", {"name": "train.py", "kind": "script", "file": "/p/train.py"})
        files = {
            "/lib/site-packages/lib.py": writer.add(
                model.SourceFile(
                    0, "/lib/site-packages/lib.py", writer.text(LIBRARY), 4, is_user=False
                )
            ),
            "/p/train.py": writer.add(model.SourceFile(0, "/p/train.py", writer.text(SCRIPT), 4)),
        }

        def stack(*places: tuple[str, int]) -> int:
            frames = tuple(model.Frame(path, line, "f", "") for path, line in places)
            return writer.add_stack(model.Stack(0, frames), files)

        def node(name: str, file: str, line: int, *callers: tuple[str, int]) -> model.Node:
            return model.Node(
                0,
                0,
                0,
                name,
                "call_function",
                name,
                "",
                stack=stack(*callers, (file, line)),
                file=files[file],
                line=line,
            )

        library = "/lib/site-packages/lib.py"
        callers = [("/p/train.py", 3)] if passes or library_breaks else []
        nodes = [node(f"mul_{line}", library, line, *callers) for line in (2, 3, 3, 4)]
        nodes += [node(f"sum_{i}", "/p/train.py", 4) for i in range(own_operations)]
        compilation = writer.add(
            model.Compilation(0, "0/0", 0, 0, "model", library, 1, status="ok")
        )
        writer.add_graph(
            model.Graph(0, compilation, "dynamo", "", call_count=len(nodes)), nodes, []
        )
        if breaks_at:
            writer.add(
                model.GraphBreak(
                    0, compilation, "GB0124", "item", "", (), "/p/train.py", breaks_at, ""
                )
            )
        if library_breaks:
            broken = stack(("/p/train.py", 3), (library, 3))
            writer.add(
                model.GraphBreak(
                    0, compilation, "GB0291", "logger", "", (), library, 3, "", chain=broken
                )
            )
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    return path


def line_of(session: Path, heat: SourceHeat = NO_HEAT) -> tuple[str, int]:
    with SessionReader(session) as reader:
        own = own_place(reader, heat)
        assert own is not None
        return own.place.document.title, own.place.line + 1


def test_the_line_that_calls_the_library_is_the_users_own(tmp_path: Path) -> None:
    assert line_of(write_session(tmp_path / "a.fxs", passes=True)) == ("train.py", 3)


def test_the_line_with_most_operations_comes_before_one_that_only_calls(tmp_path: Path) -> None:
    session = write_session(tmp_path / "a.fxs", passes=True, own_operations=2)
    assert line_of(session) == ("train.py", 4)


def test_a_line_that_breaks_comes_before_the_one_with_most_operations(tmp_path: Path) -> None:
    session = write_session(tmp_path / "a.fxs", own_operations=2, breaks_at=2)
    assert line_of(session) == ("train.py", 2)


def test_a_break_in_a_library_is_shown_at_the_users_line_that_led_there(tmp_path: Path) -> None:
    session = write_session(tmp_path / "a.fxs", own_operations=2, library_breaks=True)
    assert line_of(session) == ("train.py", 3)


def test_the_line_whose_kernels_take_most_comes_before_the_one_with_most_operations(
    hand: Hand,
) -> None:
    assert line_of(hand.path) == ("mlp.py", 7)
    costs = {6: LineHeat(((1, 0.2),)), 7: LineHeat(((1, 0.8),))}
    assert line_of(hand.path, SourceHeat("estimated time", {hand.source: costs})) == ("mlp.py", 8)


def test_a_file_without_a_compiled_line_is_no_place_to_look_at(tmp_path: Path) -> None:
    with SessionReader(write_session(tmp_path / "a.fxs")) as reader:
        assert own_place(reader, NO_HEAT) is None


# the key


def source_line(driver: Driver) -> tuple[str, int]:
    pane = driver.panes[0]
    return pane.document.title, pane.place.line + 1


def slots(driver: Driver) -> list[str]:
    return [pane.slot for pane in driver.panes]


async def test_the_key_opens_the_targets_file_though_a_librarys_was_compiled(
    tmp_path: Path, open_app: OpenApp
) -> None:
    async with open_app(write_session(tmp_path / "a.fxs", library_breaks=True)) as driver:
        await driver.press("2")
        assert source_line(driver) == ("train.py", 3)
        assert slots(driver) == ["source", "graph", "kernel"]
        assert driver.panes[1].document.title == "Dynamo graph"
        assert "train.py:3 · ✗ graph break: a logger is called, in a package" in driver.screen


async def test_the_key_opens_the_librarys_file_where_the_target_has_no_line_of_its_own(
    tmp_path: Path, open_app: OpenApp
) -> None:
    async with open_app(write_session(tmp_path / "a.fxs")) as driver:
        await driver.press("2")
        assert source_line(driver)[0] == "lib.py"


@pytest.mark.parametrize(
    "before", with_others([("p", "b")], [("2", "p", "j"), ("p", "y"), ("2", "tab", "p", "x")])
)
async def test_the_key_shows_source_graph_and_kernel_whatever_was_shown_before(
    hand: Hand, open_app: OpenApp, before: tuple[str, ...]
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press(*before, "1", "2")
        assert slots(driver) == ["source", "graph", "kernel"]
        assert source_line(driver) == ("mlp.py", 7)


async def test_the_key_leaves_a_stage_for_the_most_interesting_line(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("3", "G", "enter")
        assert slots(driver) != ["source", "graph", "kernel"]
        await driver.press("2")
        assert slots(driver) == ["source", "graph", "kernel"]
        assert source_line(driver) == ("mlp.py", 7)


async def test_the_key_leads_back_to_the_users_line_and_pressed_again_to_the_most_interesting(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "j", "p", "b", "2")
        assert source_line(driver) == ("mlp.py", 8)
        await driver.press("2")
        assert source_line(driver) == ("mlp.py", 7)
