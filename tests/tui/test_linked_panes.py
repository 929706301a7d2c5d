"""These tests check panes side by side: what presets show, what a selection highlights, how panes
follow. Expected answers: tests/sessions.py.
"""

from __future__ import annotations

import re

import pytest
from textual import events

from fx_explorer import model
from fx_explorer.analysis import annotated_regions, linked_lines
from fx_explorer.analysis.documents import Place, document_of, texts_of
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.selected_nodes import nodes_at
from fx_explorer.session import SessionReader
from fx_explorer.tui.content import inspect
from fx_explorer.tui.content.following import showable_documents, turned
from fx_explorer.tui.panes.pane import Pane
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

GELU, ADDMM = 2, 1
"""Rows of the forward graphs."""


def titles(driver: Driver) -> list[str]:
    return [pane.document.title if pane.document else "" for pane in driver.panes]


def lit(driver: Driver) -> list[set[int]]:
    return [set(pane.body.marks) for pane in driver.panes]


async def test_source_preset_shows_source_graph_and_kernel(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        assert titles(driver) == ["mlp.py", "Forward · post-grad", "kernel"]


async def test_a_pane_that_was_not_filled_yet_does_not_say_that_there_is_nothing(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        pane = Pane(driver.explorer.linked.kernel_marks, "source")
        assert pane.plain_title == "source"
        assert pane.body.placeholder == "Reading …"


@in_exhaustive_runs
async def test_backward_preset_shows_forward_beside_backward(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("p", "b")
        assert titles(driver) == ["Forward · post-grad", "Backward · post-grad"]


@in_exhaustive_runs
async def test_joint_preset_shows_joint_forward_backward(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("p", "j")
        assert titles(driver) == ["Joint graph", "Forward · post-grad", "Backward · post-grad"]


async def test_bytecode_preset_shows_source_and_bytecode_before_and_after(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("p", "y")
        assert titles(driver) == ["mlp.py", "Bytecode as written", ""]
        assert "Dynamo made no bytecode" in driver.screen


async def test_a_move_asks_once_for_the_nodes_that_it_selects(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panes that follow, what lights up and the line that describes it know them from one another."""
    asked: list[Place] = []

    def counting(reader: SessionReader, place: Place) -> list[int]:
        asked.append(place)
        return nodes_at(reader, place)

    async with open_app(hand.path) as driver:
        await driver.press("2")
        for module in (linked_lines, inspect, annotated_regions):
            monkeypatch.setattr(module, "nodes_at", counting)
        for _ in range(4):
            await driver.press("k")
        assert len(asked) == len(set(asked)) == 4


async def test_an_instruction_and_its_source_line_light_each_other(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("p", "y", "g", *"jjjjjj")
        source, original, _ = driver.panes
        assert source.body.cursor == 6
        assert original.body.marks == {0}
        await driver.press("tab", "G")
        assert original.body.cursor == 1
        assert source.body.marks == {7}


async def test_bytecode_panes_are_tabs_in_a_narrow_terminal(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("p", "y", "tab")
        assert [pane.display for pane in driver.panes] == [False, True, False]
        assert "LOAD_FAST" in driver.screen


async def test_something_is_lit_before_the_user_selects_anything(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        assert lit(driver) == [{6}, {ADDMM, GELU}, {2}]


async def test_a_source_line_lights_up_its_nodes_and_the_line_of_its_kernel(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "g", "j", "j", "j", "j", "j", "j")
        source, graph, kernel = driver.panes
        assert source.body.cursor == 6  # h = F.gelu(self.fc1(x))
        assert graph.body.marks == {ADDMM, GELU}
        assert kernel.document.title == "kernel"
        assert kernel.body.marks == {2}


async def test_a_node_lights_up_its_line_and_its_kernel(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j", "j")
        source, graph, kernel = driver.panes
        assert graph.body.cursor == GELU
        assert source.body.marks == {6}
        assert kernel.body.marks == {2}


async def test_the_kernel_pane_turns_to_the_call_of_a_library_kernel(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j")
        assert driver.panes[2].document.title == "Output code · forward"
        assert driver.panes[2].body.marks == {8}


async def test_panes_moved_by_the_app_do_not_answer_back(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j", "j")
        assert driver.explorer.linked_selection.selection == driver.panes[1].place


async def test_a_forward_node_lights_up_its_backward(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("p", "b", "g", "j", "j")
        assert driver.panes[1].body.marks == {2}  # gelu_backward


async def test_a_document_the_user_chose_stays(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "tab", "p", "d", *"bytecode", "enter")
        assert titles(driver)[2] == "Bytecode as written"
        await driver.press("shift+tab", "g", "j", "j")
        assert titles(driver)[2] == "Bytecode as written"
        assert driver.panes[2].body.marks == {0}  # the instruction of line 7


async def test_panes_are_added_zoomed_and_closed(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(200, 40)) as driver:
        await driver.press("2", "p", "a", *"joint", "enter")
        assert titles(driver) == ["mlp.py", "Joint graph", "Forward · post-grad", "kernel"]
        await driver.press("p", "z")
        assert [pane.display for pane in driver.panes] == [False, True, False, False]
        await driver.press("p", "z", "p", "x")
        assert titles(driver) == ["mlp.py", "Forward · post-grad", "kernel"]
        assert all(pane.display for pane in driver.panes)


async def test_the_last_pane_cannot_be_closed(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", *["p", "x"] * 4)
        assert len(driver.panes) == 1


async def test_at_80_columns_panes_become_tabs(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("2")
        assert [pane.display for pane in driver.panes] == [True, False, False]
        tabs = driver.screen.splitlines()[2]
        assert "mlp.py" in tabs
        assert "Forward · post-grad" in tabs
        await driver.press("tab")
        assert [pane.display for pane in driver.panes] == [False, True, False]
        assert driver.panes[1].body.has_focus


async def test_a_wider_terminal_shows_the_panes_side_by_side_again(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("2")
        await driver.pilot.resize_terminal(160, 40)
        await driver.settle()
        assert [pane.display for pane in driver.panes] == [True, True, True]


@pytest.mark.parametrize("view", ["2", "3", "4", "6"])
async def test_the_outline_is_closed_beside_panes_and_tables_until_it_is_asked_for(
    hand: Hand, open_app: OpenApp, view: str
) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        await driver.press(view)
        assert not driver.explorer.outline.display
        await driver.press("o", "o")
        assert driver.explorer.outline.display
        await driver.press("5")
        assert driver.explorer.outline.display
        await driver.press("o", "o", view)
        assert not driver.explorer.outline.display


async def test_the_inspector_line_tells_the_facts_of_the_selected_node(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j", "j")
        assert "gelu · aten.gelu.default · f32[4, 8]" in driver.screen
        assert "mlp.py:7 · kernel #1 kernel" in driver.screen


async def test_an_empty_pane_gives_the_reason_the_capture_recorded(
    open_app: OpenApp, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    from fx_explorer import model
    from fx_explorer.session import SessionWriter

    path = tmp_path / "eager.fxs"
    reason = "backend eager does not use Inductor"
    with SessionWriter(path) as writer:
        missing = {"kernel": reason, "output_code": reason}
        writer.add(
            model.Compilation(
                0, "0/0", 0, 0, "f", "/p/f.py", 1, status="ok", missing_stages=missing
            )
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    async with open_app(path) as driver:
        await driver.press("2")
        assert reason in driver.panes[2].body.placeholder


async def test_an_empty_pane_says_why(hand: Hand, open_app: OpenApp, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from fx_explorer import model
    from fx_explorer.session import SessionWriter

    path = tmp_path / "nothing.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    async with open_app(path) as driver:
        await driver.press("p", "j")
        joint, _, backward = driver.panes
        assert "only training has one" in joint.body.placeholder
        assert "no backward graph" in backward.body.placeholder
        assert "no joint" in driver.screen  # the first words of it, wrapped


async def test_links_shown_before_a_pane_is_laid_out_do_not_outlive_its_document(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        reader = driver.explorer.reader
        longer, shorter = (
            document_of(reader, "source", hand.source),
            document_of(reader, "artifact", hand.kernel_artifact),
        )
        await driver.explorer.show_view("source")
        for pane in driver.panes:
            pane.show(reader, longer)
            pane.show_links(frozenset({longer.line_count - 1}), longer.line_count - 1)
            pane.show(reader, shorter)
        await driver.settle()
        assert [pane.document for pane in driver.panes] == [shorter] * 3


async def test_late_news_of_an_earlier_focus_leaves_the_active_pane(
    hand: Hand, open_app: OpenApp
) -> None:
    """Each pane tells by a queue of its own that it was focused: on a busy machine the older news
    can come last.
    """
    async with open_app(hand.path) as driver:
        await driver.press("2")
        linked_lines = driver.explorer.linked
        linked_lines.activate(driver.panes[2])
        await driver.settle()
        linked_lines.post_message(events.DescendantFocus(driver.panes[0].body))
        await driver.settle()
        assert linked_lines.active is driver.panes[2]
        assert driver.explorer.place.document == driver.panes[2].document


@pytest.mark.parametrize("direction", ["", "forward", "backward"])
def test_the_kernel_beside_a_line_is_the_same_whatever_was_looked_at_before(
    direction: model.Direction, captured: Captured, reader: OpenedReader
) -> None:
    """A line of a training step belongs to kernels of both directions."""
    session = reader(captured("mlp"))
    compilation = session.rows(model.Compilation)[0].id
    showable = showable_documents(session, compilation)
    artifacts = session.rows(model.Artifact, compilation=compilation, kind="kernel")
    kernels = texts_of(session, compilation, [row.id for row in artifacts])
    assert {kernel.direction for kernel in kernels} == {"forward", "backward"}
    turned_to = called_alone = 0
    for source in showable.sources:
        for line in range(source.line_count):
            selection = Selection(session, Place(source, line))
            chosen = {turned(selection, "kernel", shown, showable, direction) for shown in kernels}
            computing = texts_of(session, compilation, selection.computing)
            if not computing:
                continue
            (kernel,) = chosen
            assert kernel in computing
            wanted = direction or "forward"
            of_direction = [text for text in computing if text.direction == wanted]
            if of_direction:
                assert kernel.direction == wanted
                has_generated = any(text.stage == "kernel" for text in of_direction)
                assert kernel.stage == ("kernel" if has_generated else "output_code")
                called_alone += not has_generated
            turned_to += 1
    assert turned_to
    assert called_alone or direction == "backward"


async def test_a_line_that_is_a_library_call_shows_the_call_and_names_it(
    captured: Captured, open_app: OpenApp
) -> None:
    """The forward of ``linear`` is a library call; its backward has a generated kernel."""
    async with open_app(captured("mlp"), size=(120, 40)) as driver:
        await driver.press("2")
        source, _, kernel = driver.panes
        text = source.body.text.splitlines()
        at = next(line for line, code in enumerate(text) if "return self.fc2" in code)
        await driver.press("g", *["down"] * at)
        await driver.until(lambda: "library call: extern_kernels." in driver.screen)
        assert kernel.document is not None
        assert kernel.document.stage == "output_code"
        assert kernel.lit
        assert re.search(r"Generated for its\s+backward", re.sub(r"[│\s]+", " ", driver.screen))


@pytest.mark.parametrize("size", [(120, 40), (200, 50)])
async def test_the_footer_leads_to_the_backward_graph_where_there_is_one(
    hand: Hand, open_app: OpenApp, size: tuple[int, int]
) -> None:
    async with open_app(hand.path, size=size) as driver:
        await driver.press("2")
        assert "p b backward" in driver.screen
        await driver.press("7")
        assert "p b forward | backward" in driver.screen


@in_exhaustive_runs
async def test_without_a_backward_neither_footer_nor_help_names_its_key(
    captured: Captured, open_app: OpenApp
) -> None:
    async with open_app(captured("recompiles"), size=(200, 50)) as driver:
        assert not driver.explorer.reader.has(model.Graph, stage="backward")
        await driver.press("2")
        assert "p b backward" not in driver.screen
        await driver.press("?")
        assert "p b shows" not in driver.screen
