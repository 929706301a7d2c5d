"""These tests check that a table is declared once: its text fits the available width, and markdown
and CSV have all of it.
"""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from fx_explorer.output.formats import (
    csv_of_objects,
    csv_text,
    markdown_list,
    markdown_table,
    text_lines,
    text_of,
    text_table,
)
from fx_explorer.output.table import IN_A_FILE, Column, Table
from fx_explorer.output.terminal import Hanging, wrapped

COLUMNS = (
    Column("kernel", narrowing="cut", least=16),
    Column("frame", priority=1),
    Column("runs", is_number=True, priority=2),
    Column("time", is_number=True),
    Column("where", narrowing="wrapped", least=20),
)
TITLES = [column.title for column in COLUMNS]
NAMES = [
    f"triton_per_fused__to_copy_add_native_layer_norm_backward_view_{number}" for number in (2, 5)
]
ROWS = [
    (NAMES[0], "[0/0]", "40", "60.9 µs", "between one kernel and the next"),
    (NAMES[1], "[1/0]", "2", "8.1 µs", ""),
]


def test_a_program_reads_a_line_for_each_row_with_all_there_is() -> None:
    table = text_table(Table(COLUMNS, ROWS), None)
    assert [len(lines) for lines in (table.titles, *table.rows)] == [1, 1, 1]
    assert all(
        cell in line for row, line in zip(ROWS, table.lines[1:], strict=True) for cell in row
    )
    assert table.below == []


@pytest.mark.parametrize("room", range(48, 140, 7))
def test_in_a_room_no_line_is_longer_and_names_that_differ_at_their_ends_still_do(
    room: int,
) -> None:
    table = text_table(Table(COLUMNS, ROWS, indent=2), room)
    assert max(map(cell_len, table.lines)) <= room
    first, second = (lines[0].split()[0] for lines in table.rows)
    assert (first[:5], first[-1], second[-1]) == ("trito", "2", "5")


def test_sentences_go_on_under_themselves_and_lose_no_word() -> None:
    table = text_table(Table(COLUMNS, ROWS), 80)
    lines = table.rows[0]
    begins = lines[0].index("between")
    assert len(lines) > 1
    assert all(line[:begins].isspace() for line in lines[1:])
    assert " ".join(line[begins:] for line in lines).split() == ROWS[0][-1].split()


def test_columns_are_left_out_in_order_only_where_there_is_no_room_and_are_named() -> None:
    everything = text_table(Table(COLUMNS, ROWS), 60)
    assert list(everything.below) == []
    assert everything.lines[0].split() == TITLES
    assert "“runs”. " in text_table(Table(COLUMNS, ROWS), 59).below[0]
    narrow = text_table(Table(COLUMNS, ROWS, elsewhere=IN_A_FILE), 50)
    assert narrow.below == [
        "Not enough room for: “frame” and “runs”. A wider terminal and output to a file show all columns."
    ]


def test_numbers_stand_to_the_right_and_names_of_wide_letters_do_not_move_them() -> None:
    rows = [("层归一化" * 20, "", "1", "2 µs", "here"), ("short", "", "12", "345 µs", "here")]
    table = text_table(Table(COLUMNS, rows), 60)
    assert max(map(cell_len, table.lines)) <= 60
    assert len({cell_len(line[: line.index("here")]) for line in table.lines[1:]}) == 1
    assert "frame" not in table.lines[0]  # empty in every row


def test_what_could_steer_a_terminal_is_visible_before_it_is_measured() -> None:
    columns = (Column("name", narrowing="cut", least=8), Column("time"))
    table = text_table(Table(columns, [("a\x1b[2Jb\nc", "1 µs")]), 40)
    assert table.lines[1].split() == ["a␛[2Jb␊c", "1", "µs"]
    assert len(table.lines) == 2


def test_a_word_that_is_longer_than_its_column_keeps_both_ends() -> None:
    what = Column("what", narrowing="wrapped", least=24)
    (lines,) = text_table(Table([what], [(f"starting {NAMES[1]}",)]), 24).rows
    assert lines[0] == "starting"
    assert lines[1].startswith("triton_per")
    assert lines[1].endswith("view_5")


def test_markdown_has_every_column_in_every_width_with_numbers_to_the_right() -> None:
    lines = markdown_table(Table(COLUMNS, [("a|b", "<0>", "1", "2 µs", "")]))
    assert lines == [
        "| kernel | frame | runs | time | where |",
        "| --- | --- | ---: | ---: | --- |",
        "| a\\|b | &lt;0> | 1 | 2 µs |  |",
    ]
    assert markdown_list(["a | b\nc"]) == ["- a \\| b␊c"]


def test_csv_is_a_line_for_each_row_whatever_is_in_it() -> None:
    assert csv_text(["name", "n"], [("a\n\x1b", 1), ("b,c", None)]) == 'name,n\na␊␛,1\n"b,c",\n'
    assert csv_of_objects([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]) == "a,b\n1,x\n2,y\n"


LONG = "a sentence that is much longer than the terminal is wide"


def test_a_sentence_goes_on_under_its_own_beginning() -> None:
    assert wrapped(Hanging("  name    value  ", LONG), 44) == [
        "  name    value  a sentence that is much",
        "                 longer than the terminal is",
        "                 wide",
    ]
    assert wrapped(f"  {LONG}", 34) == [
        "  a sentence that is much longer",
        "  than the terminal is wide",
    ]


@pytest.mark.parametrize("width", [None, 10, 20, 44, 200])
def test_wrapping_loses_no_word_and_leaves_alone_what_a_program_reads(width: int | None) -> None:
    line = Hanging("  name    value  ", LONG)
    whole = line.head + line.sentence
    assert " ".join(wrapped(line, width)).split() == whole.split()
    if width in (None, 200):
        assert wrapped(line, width) == [whole]


def test_a_sentence_that_begins_too_far_to_the_right_goes_below() -> None:
    line = Hanging("  a command that is long      ", "and what it does with everything")
    assert wrapped(line, 40) == [
        "  a command that is long",
        "      and what it does with everything",
    ]


def test_two_spaces_in_a_sentence_are_no_columns_and_a_path_is_not_broken() -> None:
    assert wrapped("one  two three four five six seven", 24) == [
        "one  two three four five",
        "six seven",
    ]
    path = "/a/very/long/path/that/is/one/word/and/must/stay/whole.py"
    assert wrapped(Hanging("  file    ", path), 40) == [f"  file    {path}"]


def test_sentences_and_tables_are_written_in_one_width() -> None:
    blocks = ["", LONG, Table(COLUMNS, ROWS, indent=2, note="and 3 more"), LONG]
    assert max(map(cell_len, text_lines(blocks, 60))) <= 60
    assert "  and 3 more" in text_lines(blocks, 60)
    assert text_of(["a\x1bb", ""]) == "a␛b\n"


BESIDE = (Column("keys"), Column("id"), Column("help", narrowing="wrapped", least=24))
KEYS = [("a", "first.id", "One two three four five six seven."), ("ctrl+p", "id", "Eight.")]


@pytest.mark.parametrize("width", [26, 30, 50, 60])
def test_a_last_sentence_goes_on_under_itself_or_begins_below_and_loses_no_word(
    width: int,
) -> None:
    table = text_table(Table(BESIDE, KEYS, indent=2, has_titles=False), width)
    assert " ".join(table.lines).split() == " ".join(" ".join(row) for row in KEYS).split()
    assert max(map(cell_len, table.lines)) <= max(width, 24 + 6)
    if width == 50:
        assert table.rows[0][1].startswith(" " * 20)
    if width == 26:
        assert table.rows[1] == ["  ctrl+p  id", "      Eight."]


def test_a_row_without_a_sentence_takes_no_line_for_it() -> None:
    rows = [KEYS[0], ("q", "app.quit", "")]
    assert text_table(Table(BESIDE, rows, has_titles=False), 26).rows[1] == ["q  app.quit"]


def test_an_empty_column_is_shown_only_where_that_is_an_answer() -> None:
    columns = (Column("a"), Column("b", is_always_shown=True), Column("c"))
    assert text_table(Table(columns, [("x", "", "")]), None).lines == ["a  b", "x"]
