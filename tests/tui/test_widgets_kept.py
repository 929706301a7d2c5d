"""What is not painted again, and what is."""

from __future__ import annotations

import sys

from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.content import Content

from fx_explorer.tui.widgets.line_painter import Line
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Column, RowList, Rows


class Counted(OneLine):
    """Counts how often it is rendered."""

    renders = 0

    def render(self) -> Content:
        self.renders += 1
        return super().render()


class Lines(App[None]):
    """A line above a list."""

    CSS = ".loud { color: red; }"

    def compose(self) -> ComposeResult:
        yield Counted()
        yield RowList([Column("name")], Rows([(f"row {i}",) for i in range(100)]))

    def painted(self) -> str:
        return "".join(segment.text for segment in self.screen._compositor.render_strips()[0])


async def test_a_line_is_rendered_again_only_when_it_says_something_else() -> None:
    app = Lines()
    async with app.run_test(size=(20, 6)) as pilot:
        line = app.query_one(Counted)
        line.show(Content("one"))
        await pilot.pause()
        before = line.renders
        app.query_one(RowList).focus()
        await pilot.press("pagedown", "pagedown", "up")
        assert (line.renders, app.painted().split()) == (before, ["one"])
        line.show(Content("two"))
        await pilot.pause()
        assert app.painted().split() == ["two"]


async def test_a_line_follows_the_terminals_width_and_its_style() -> None:
    app = Lines()
    async with app.run_test(size=(30, 6)) as pilot:
        line = app.query_one(Counted)
        line.show(Content("left"), Content("right"))
        await pilot.resize_terminal(20, 6)
        await pilot.pause()
        assert app.painted() == " left         right "
        line.add_class("loud")
        await pilot.pause()
        styles = [segment.style for segment in app.screen._compositor.render_strips()[0] if "left" in segment.text]
        assert [style.color.triplet.hex for style in styles if style and style.color and style.color.triplet] == ["#ff0000"]


def test_a_line_that_was_cut_nowhere_does_not_keep_itself() -> None:
    line = Line([Segment("abc")], 3)
    before = sys.getrefcount(line)
    assert line.divide([3])[0] is line
    assert sys.getrefcount(line) == before
    assert [part.text for part in line.divide([1, 3])] == ["a", "bc"]
