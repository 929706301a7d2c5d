"""These tests check CodeView and the features of LineView in it: moving, marks, find, mouse,
growth, and text that must not reach the terminal.
"""

from __future__ import annotations

import time
import typing

import pytest
from rich.style import Style
from textual.pilot import Pilot

from fx_explorer.highlight import Kind
from fx_explorer.tui.theme import KINDS
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_view import LineView
from tests.tui.lines_app import LinesApp

HUNDRED = "\n".join(f"line {i}" for i in range(100))
SIZE = (40, 10)


def app_of(text: str = HUNDRED, language: str = "text", **options: object) -> LinesApp:
    return LinesApp(CodeView(text, language, **options))  # type: ignore[arg-type]


async def settled(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


# what is shown


async def test_a_page_is_shown_with_numbers_from_one_and_the_cursor_on_the_first_line() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        assert pilot.app.shown()[:2] == ["▸  1 line 0", "   2 line 1"]
        assert len(pilot.app.shown()) == 10


async def test_an_empty_view_says_why() -> None:
    async with app_of("", placeholder="No kernel yet: \x1b[31mInductor has not run.").run_test(
        size=(40, 9)
    ) as pilot:
        words = " ".join(" ".join(pilot.app.shown()).split())
        assert words == "No kernel yet: ␛[31mInductor has not run."


async def test_a_placeholder_given_later_is_shown() -> None:
    async with app_of("", placeholder="first").run_test(size=SIZE) as pilot:
        pilot.app.view.placeholder = "second"
        assert "second" in "".join(pilot.app.shown())


async def test_code_is_coloured_by_its_language() -> None:
    async with app_of("return 'x'  # why", "python").run_test(size=SIZE) as pilot:
        styles = [pilot.app.style_at(0, text) for text in ("return", "'x'", "# why")]
        assert len({style.color for style in styles}) == 3  # type: ignore[attr-defined]


async def test_annotations_stand_between_the_number_and_the_text() -> None:
    async with app_of("a\nb").run_test(size=SIZE) as pilot:
        pilot.app.view.annotate({1: ("3 nodes", "annotation")})
        assert pilot.app.shown()[:2] == ["▸1         a", " 2 3 nodes b"]


@pytest.mark.parametrize(
    "theme",
    ["fx-dark", "fx-light", "textual-dark", "textual-light", "ansi-dark", "nord", "gruvbox"],
)
async def test_every_theme_shows_the_cursor_and_marks_apart_from_other_lines(theme: str) -> None:
    app = LinesApp(CodeView(HUNDRED), theme)
    async with app.run_test(size=SIZE) as pilot:
        app.view.marks = frozenset({2})
        await pilot.pause()
        styles = [app.style_at(row, "line") for row in range(3)]
        assert len(set(styles)) == 3


def test_every_kind_of_text_has_a_look() -> None:
    assert set(typing.get_args(Kind)) <= set(KINDS)


async def test_without_colours_cursor_and_marks_are_told_by_glyph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.marks = frozenset({0, 2})
        assert [row[0] for row in pilot.app.shown()[:4]] == ["▶", " ", "▌", " "]
        cursor = pilot.app.style_at(0, "line")
        assert isinstance(cursor, Style)
        assert cursor.reverse
        for strip in (pilot.app.view.render_line(row) for row in range(4)):
            shades = {
                segment.style.color.triplet
                for segment in strip
                if segment.style and segment.style.color
            }
            assert all(shade is None or len(set(shade)) == 1 for shade in shades), "greys only"


# text from outside


async def test_escape_sequences_are_shown_and_never_sent() -> None:
    attack = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202etxt \x00\r\n\tx"
    app = app_of(attack, "python")
    async with app.run_test(size=SIZE) as pilot:
        app.view.annotate({0: ("\x1b[1m", "annotation")})
        assert all(row.isprintable() for row in app.shown())
        assert "␛]0;owned␇" in app.shown()[0]
        assert app.view.text_to_copy() == attack.split("\r\n")[0]
        await pilot.pause()


@pytest.mark.parametrize("left", range(6))
async def test_wide_characters_keep_their_columns(left: int) -> None:
    text = "漢字かな = 'ｗｉｄｅ'\nascii"
    async with app_of(text, "python").run_test(size=(20, 4)) as pilot:
        pilot.app.view.scroll_columns_to(left)
        row = pilot.app.shown()[0]  # checks that every row is exactly as wide as the view
        assert row.startswith("▸1 " + ["漢字", " 字", "字", " か", "か", " な"][left])


# moving


async def test_keys_move_the_cursor_and_say_so() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.press("down", "j", "k", "G", "up", "g")
        assert pilot.app.moved == [1, 2, 1, 99, 98, 0]


async def test_a_key_that_moves_nothing_says_nothing() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.press("up", "home", "pageup")
        assert pilot.app.moved == []


async def test_the_program_moves_the_cursor_without_an_answer() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.move_to(50, center=True)
        await pilot.pause()
        assert pilot.app.view.cursor == 50
        assert 50 in pilot.app.view.visible_lines
        assert pilot.app.moved == []


async def test_moving_beyond_the_end_stops_at_the_last_line() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.move_to(1_000)
        assert pilot.app.view.cursor == 99
        pilot.app.view.move_to(-5)
        assert pilot.app.view.cursor == 0


async def test_pages_go_through_the_whole_text() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.press("pagedown", "pagedown")
        assert pilot.app.view.cursor == 18
        assert 18 in pilot.app.view.visible_lines
        await pilot.press("ctrl+u")
        assert pilot.app.view.cursor == 13


async def test_the_cursor_stays_on_screen_going_down() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        for _ in range(15):
            await pilot.press("down")
        assert pilot.app.view.visible_lines == range(6, 16)
        assert pilot.app.shown()[-1] == "▸ 16 line 15"


async def test_sideways_scrolling_leaves_the_numbers_in_place() -> None:
    async with app_of("0123456789" * 10).run_test(size=SIZE) as pilot:
        await pilot.press("l")
        assert pilot.app.shown()[0].startswith("▸1 89012345")
        await pilot.press("h")
        assert pilot.app.shown()[0].startswith("▸1 01234567")


async def test_a_place_given_before_the_first_layout_is_shown() -> None:
    app = app_of()
    app.view.move_to(70, center=True)
    async with app.run_test(size=SIZE):
        assert 70 in app.view.visible_lines


async def test_enter_and_double_click_follow() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.press("down", "enter")
        await pilot.click(LineView, offset=(10, 4), times=2)
        assert pilot.app.followed == [1, 4]


# mouse


async def test_a_click_selects_the_line() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.click(LineView, offset=(10, 3))
        assert pilot.app.moved == [3]


async def test_the_wheel_scrolls_and_leaves_the_cursor() -> None:
    app = app_of()
    async with app.run_test(size=SIZE) as pilot:
        await pilot._post_mouse_events([_scroll_down()], LineView, button=0)
        assert app.view.visible_lines.start == 3
        assert app.moved == []


def _scroll_down() -> type:
    from textual.events import MouseScrollDown

    return MouseScrollDown


async def test_dragging_selects_lines_to_copy() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.mouse_down(LineView, offset=(10, 2))
        await pilot.hover(LineView, offset=(12, 4))
        await pilot.mouse_up(LineView, offset=(12, 4))
        assert pilot.app.view.selected == range(2, 5)
        assert pilot.app.view.text_to_copy() == "line 2\nline 3\nline 4"
        await pilot.click(LineView, offset=(10, 0))
        assert not pilot.app.view.selected


async def test_the_track_is_a_scroll_bar_for_the_mouse() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        await pilot.click(LineView, offset=(39, 9))
        assert pilot.app.view.visible_lines.stop == 100
        assert pilot.app.moved == []


async def test_the_track_shows_where_we_are_and_where_marks_are() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        assert pilot.app.track() == "┃         "
        pilot.app.view.marks = frozenset({45, 99})
        assert pilot.app.track() == "┃   ╸    ╸"


async def test_a_text_that_fits_has_no_track() -> None:
    async with app_of("a\nb").run_test(size=SIZE) as pilot:
        assert pilot.app.track().strip() == ""


# marks


async def test_marks_out_of_sight_are_scrolled_into_view_without_moving_the_cursor() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.show_marks(frozenset({60, 80}), near=82)
        assert 80 in pilot.app.view.visible_lines
        assert pilot.app.view.cursor == 0
        assert pilot.app.moved == []


async def test_marks_in_sight_leave_the_page_where_it_is() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.show_marks(frozenset({3, 80}))
        assert pilot.app.view.visible_lines.start == 0


async def test_brackets_go_from_mark_to_mark() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.marks = frozenset({5, 50})
        await pilot.press("]", "]", "[")
        assert pilot.app.moved == [5, 50, 5]


# find


async def test_find_goes_to_the_first_match_from_the_cursor_on_and_n_goes_round() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.move_to(20)
        pilot.app.view.find("LINE 1".lower())
        await settled(pilot)
        assert pilot.app.view.cursor == 1  # 1, 10 to 19: all above, so round the end
        assert list(pilot.app.view.matches) == [1, *range(10, 20)]
        await pilot.press("n", "n", "N", "N", "N")
        assert pilot.app.moved == [1, 10, 11, 10, 1, 19]
        assert pilot.app.found[-1] == (11, True)


async def test_a_capital_makes_find_mind_case() -> None:
    async with app_of("gelu\nGELU\nGelu").run_test(size=SIZE) as pilot:
        pilot.app.view.find("gelu")
        await settled(pilot)
        assert list(pilot.app.view.matches) == [0, 1, 2]
        pilot.app.view.find("GELU")
        await settled(pilot)
        assert list(pilot.app.view.matches) == [1]


async def test_find_takes_the_pattern_as_it_is_written() -> None:
    async with app_of("f(x\nfx").run_test(size=SIZE) as pilot:
        pilot.app.view.find("f(x")
        await settled(pilot)
        assert list(pilot.app.view.matches) == [0]


async def test_matches_are_underlined_and_ticked_on_the_track() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.find("99")
        await settled(pilot)
        assert pilot.app.view.cursor == 99
        style = pilot.app.style_at(9, "99")
        assert isinstance(style, Style)
        assert pilot.app.track()[-1] == "·"
        matched = [
            s
            for s in pilot.app.view.render_line(9)
            if s.text == "99" and s.style and s.style.underline
        ]
        assert matched


async def test_find_of_nothing_ends_the_find() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.find("line 5")
        await settled(pilot)
        pilot.app.view.find("")
        await settled(pilot)
        assert not pilot.app.view.matches
        assert not pilot.app.view.find_pattern


async def test_a_find_that_is_stopped_keeps_what_it_found() -> None:
    app = app_of("needle\n" + "hay\n" * 50_000)
    async with app.run_test(size=SIZE) as pilot:
        app.view.find("needle")
        while not app.view.matches:
            await pilot.pause()
        app.view.stop_find()
        await pilot.pause()
        assert list(app.view.matches) == [0]


async def test_every_line_of_a_long_text_is_searched() -> None:
    text = "\n".join("needle" if i % 3_000 == 0 else "hay" for i in range(20_000))
    async with app_of(text).run_test(size=SIZE) as pilot:
        pilot.app.view.move_to(10_000)
        pilot.app.view.find("needle")
        await settled(pilot)
        assert list(pilot.app.view.matches) == list(range(0, 20_000, 3_000))
        assert pilot.app.view.cursor == 12_000


# growth


async def test_a_text_that_grows_keeps_cursor_and_page() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.move_to(50, center=True)
        before = pilot.app.shown()
        pilot.app.view.append("\nmore\n")
        assert pilot.app.view.cursor == 50
        assert pilot.app.shown() == before
        assert pilot.app.view.line_count == 101


async def test_a_cursor_on_the_last_line_follows_a_growing_text() -> None:
    async with app_of("a\n").run_test(size=SIZE) as pilot:
        pilot.app.view.append("b\n" * 30)
        assert pilot.app.view.cursor == 30
        assert 30 in pilot.app.view.visible_lines


async def test_another_document_starts_at_its_own_place_without_old_marks() -> None:
    async with app_of().run_test(size=SIZE) as pilot:
        pilot.app.view.marks = frozenset({1})
        pilot.app.view.move_to(99)
        pilot.app.view.load("x\ny\nz", "python", line=2)
        await pilot.pause()
        assert pilot.app.view.cursor == 2
        assert not pilot.app.view.marks
        assert pilot.app.shown()[2] == "▸3 z"


async def test_resizing_keeps_the_cursor_in_sight() -> None:
    async with app_of().run_test(size=(40, 30)) as pilot:
        pilot.app.view.move_to(25)
        await pilot.resize_terminal(20, 8)
        await pilot.pause()
        assert 25 in pilot.app.view.visible_lines
        assert len(pilot.app.shown()) == 8


async def test_hundred_thousand_lines_colour_only_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and, where there is time before the key, the next one, which is drawn ahead."""
    view = CodeView("x = 1\n" * 100_000, "python")
    asked: set[int] = set()
    original = CodeView.line_tokens

    def counting(self: CodeView, line: int) -> object:
        asked.add(line)
        return original(self, line)

    monkeypatch.setattr(CodeView, "line_tokens", counting)
    async with LinesApp(view).run_test(size=SIZE) as pilot:
        await pilot.press("G")
        assert pilot.app.shown()[-1] == "▸100000 x = 1"
        assert asked <= set(range(20)) | set(range(99_980, 100_000))


def test_hundred_thousand_lines_open_quickly() -> None:
    text = "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n" * 100_000
    start = time.process_time()
    view = CodeView(text, "triton")
    view.line_tokens(99_999)
    assert (
        time.process_time() - start < 1.0
    )  # 0.03 s where it was measured; a generous limit for slow machines
