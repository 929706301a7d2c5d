"""Tables of text fit the room that there is: names keep both ends, sentences go on below, and what is left out is named."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from fx_explorer.text_table import IN_A_FILE, ColumnRules, text_table

HEADER = ("kernel", "frame", "runs", "time", "where")
COLUMNS = ColumnRules(
    right=frozenset(("runs", "time")),
    names={"kernel": 16},
    prose={"where": 20},
    first_to_go=("runs", "frame", "absent"),
)
NAMES = [
    f"triton_per_fused__to_copy_add_native_layer_norm_backward_view_{number}" for number in (2, 5)
]
ROWS = [
    (NAMES[0], "[0/0]", "40", "60.9 µs", "between one kernel and the next"),
    (NAMES[1], "[1/0]", "2", "8.1 µs", ""),
]


def test_a_program_reads_a_line_for_each_row_with_all_there_is() -> None:
    table = text_table(HEADER, ROWS, COLUMNS, None)
    assert [len(lines) for lines in table.rows] == [1, 1, 1]
    assert all(
        cell in line for row, line in zip(ROWS, table.lines[1:], strict=True) for cell in row
    )
    assert table.left_out == ()
    assert table.left_out_in_words() == []


@pytest.mark.parametrize("room", range(48, 140, 7))
def test_in_a_room_no_line_is_longer_and_names_that_differ_at_their_ends_still_do(
    room: int,
) -> None:
    table = text_table(HEADER, ROWS, COLUMNS, room, indent=2)
    assert max(map(cell_len, table.lines)) <= room
    first, second = (lines[0].split()[0] for lines in table.rows[1:])
    assert (first[:5], first[-1], second[-1]) == ("trito", "2", "5")


def test_sentences_go_on_under_themselves_and_lose_no_word() -> None:
    table = text_table(HEADER, ROWS, COLUMNS, 80)
    lines = table.rows[1]
    begins = lines[0].index("between")
    assert len(lines) > 1
    assert all(line[:begins].isspace() for line in lines[1:])
    assert " ".join(line[begins:] for line in lines).split() == ROWS[0][-1].split()


def test_columns_are_left_out_in_order_only_where_there_is_no_room_and_are_named() -> None:
    everything = text_table(HEADER, ROWS, COLUMNS, 60)
    assert everything.left_out == ()
    assert everything.lines[0].split() == [*HEADER]
    assert text_table(HEADER, ROWS, COLUMNS, 59).left_out == ("runs",)
    narrow = text_table(HEADER, ROWS, COLUMNS, 50)
    assert narrow.left_out == ("frame", "runs")
    assert narrow.left_out_in_words(IN_A_FILE) == [
        "Left out for want of room: “frame” and “runs”. A wider terminal and output to a file have all."
    ]


def test_numbers_stand_to_the_right_and_names_of_wide_letters_do_not_move_them() -> None:
    rows = [("层归一化" * 20, "", "1", "2 µs", "here"), ("short", "", "12", "345 µs", "here")]
    table = text_table(HEADER, rows, COLUMNS, 60)
    assert max(map(cell_len, table.lines)) <= 60
    assert len({cell_len(line[: line.index("here")]) for line in table.lines[1:]}) == 1
    assert "frame" not in table.lines[0]  # empty in every row


def test_what_could_steer_a_terminal_is_visible_before_it_is_measured() -> None:
    table = text_table(
        ("name", "time"), [("a\x1b[2Jb\nc", "1 µs")], ColumnRules(names={"name": 8}), 40
    )
    assert table.lines[1].split() == ["a␛[2Jb␊c", "1", "µs"]
    assert len(table.lines) == 2


def test_a_word_that_is_longer_than_its_column_keeps_both_ends() -> None:
    (_, lines) = text_table(
        ("what",), [(f"starting {NAMES[1]}",)], ColumnRules(prose={"what": 24}), 24
    ).rows
    assert lines[0] == "starting"
    assert lines[1].startswith("triton_per")
    assert lines[1].endswith("view_5")
