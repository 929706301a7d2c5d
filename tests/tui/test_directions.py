"""These tests check the column of directions, on terminals that are too narrow for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.drawing.view_table import DIRECTION
from fx_explorer.session import SessionWriter
from fx_explorer.tui.widgets.row_list import ListColumn, column_widths
from tests.tui.conftest import OpenApp


def session_with(path: Path, directions: tuple[model.Direction, ...]) -> Path:
    """Write a session with a kernel of each of these directions."""
    with SessionWriter(path) as writer:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        for number, direction in enumerate(directions):
            name = f"triton_poi_fused_native_layer_norm_backward_{number}"
            writer.add(model.Kernel(0, compilation, direction, 0, name, "triton"))
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    return path


@pytest.mark.parametrize(
    ("size", "words"),
    [((80, 24), ("dir", "fwd", "bwd")), ((160, 40), ("direction", "forward", "backward"))],
)
async def test_directions_are_shown_in_short_words_where_the_room_is_needed(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int], words: tuple[str, ...]
) -> None:
    path = session_with(tmp_path / "s.fxs", ("forward", "backward"))
    async with open_app(path, size=size) as driver:
        await driver.press("6")
        await driver.until(lambda: "2 rows" in driver.screen)
        shown = driver.screen.split()
        assert all(word in shown for word in words)


async def test_a_direction_that_all_kernels_have_has_no_column(
    open_app: OpenApp, tmp_path: Path
) -> None:
    path = session_with(tmp_path / "s.fxs", ("inference", "inference"))
    async with open_app(path, size=(160, 40)) as driver:
        await driver.press("6")
        await driver.until(lambda: "2 rows" in driver.screen)
        assert "inference" not in driver.screen.split()


def test_a_column_with_short_words_takes_their_cells_only_where_not_all_fits() -> None:
    columns = (
        ListColumn("direction", min_width=3, short=DIRECTION.short),
        ListColumn("kernel", min_width=20, max_width=60),
    )
    assert column_widths(columns, [9, 30], 60) == ((0, 9), (1, 30))
    assert column_widths(columns, [9, 80], 60) == ((0, 9), (1, 49))
    before_others = (ListColumn("kernel", min_width=20, max_width=60), columns[0], columns[0])
    assert column_widths(before_others, [50, 9, 9], 60) == ((0, 50), (1, 3), (2, 3))


def test_the_heading_has_a_shorter_word_too() -> None:
    column = ListColumn("direction", min_width=3, short=DIRECTION.short, arrow="▲")
    assert column.short_cells == 3
    assert column.short_heading == "dir ▲"
    assert ListColumn("name").short_cells == 0
