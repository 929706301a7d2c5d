"""These tests check which parts of the screen are painted again, and which are not."""

from __future__ import annotations

import sys

import pytest
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from fx_explorer.tui.widgets.line_painter import Line
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, RowList, Rows


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
        yield RowList([ListColumn("name")], Rows([(f"row {i}",) for i in range(100)]))

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
        styles = [
            segment.style
            for segment in app.screen._compositor.render_strips()[0]
            if "left" in segment.text
        ]
        assert [
            style.color.triplet.hex
            for style in styles
            if style and style.color and style.color.triplet
        ] == ["#ff0000"]


ROWS = (
    (Content(""), Content("")),
    (Content("plain"), Content("")),
    (Content("wider than there is room for"), Content("right")),
    (
        Content.styled("red", "$error")
        + Content(" 漢字 and ")
        + Content.styled("bold", "bold $accent 50%"),
        Content("12/34"),
    ),
    (Content("at the right"), Content.styled("only this", "$warning on $panel")),
    (Content("clicked").stylize(Style.from_meta({"tab": 1})), Content("")),
)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark"])
@pytest.mark.parametrize(
    "css", ["", "OneLine { padding: 0; background: $panel; color: red; text-style: bold; }"]
)
async def test_a_line_is_painted_as_textual_paints_it(theme: str, css: str) -> None:
    """Cell by cell: its character, its colours and what a click on it means."""
    app = Lines()
    app.CSS = css
    async with app.run_test(size=(24, 6)) as pilot:
        app.theme = theme
        line = app.query_one(Counted)
        for left, right in ROWS:
            line.show(left, right)
            await pilot.pause()
            (own,) = line.paint_lines(line.outer_size.region)
            (textuals,) = Widget.render_lines(line, line.outer_size.region)
            assert cells(own) == cells(textuals)


def cells(strip: Strip) -> list[tuple[str, str, object]]:
    """Return the characters of a strip, each with its style and its metadata. Positions, which
    Textual adds for selecting text with the mouse, are left out.
    """
    told = [(text, style or RichStyle()) for text, style, _ in strip]
    return [
        (
            character,
            str(style.without_color) + str((style.color, style.bgcolor)),
            style.meta.get("tab"),
        )
        for text, style in told
        for character in text
    ]


def test_a_line_that_was_cut_nowhere_does_not_keep_itself() -> None:
    line = Line([Segment("abc")], 3)
    before = sys.getrefcount(line)
    assert line.divide([3])[0] is line
    assert sys.getrefcount(line) == before
    assert [part.text for part in line.divide([1, 3])] == ["a", "bc"]


async def test_rows_are_laid_out_for_the_width_that_they_are_painted_in() -> None:
    """Textual paints a widget in its new size before it tells it of that."""
    app = Titled()
    async with app.run_test(size=(60, 6)) as pilot:
        await pilot.pause()
        rows = app.query_one(RowList)
        assert rows.render_lines(Region(0, 0, 60, 1))[0].text.split()[-2:] == ["more", "7"]
        rows._size = Size(24, 6)
        assert rows.render_lines(Region(0, 0, 24, 1))[0].text.split()[-1] == "7"


class Titled(App[None]):
    """A list whose first column is wide, and whose second one is a number."""

    def compose(self) -> ComposeResult:
        columns = [ListColumn(), ListColumn(align="right", min_width=1)]
        yield RowList(columns, Rows([("a title of thirty cells or more", "7")] * 3))
