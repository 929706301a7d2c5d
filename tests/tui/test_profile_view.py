"""These tests check a profile on the screen: its view, the column of kernels, the gutter of the
source, the modules.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.instruments.profile.view import profile_table
from tests.conftest import Captured
from tests.exhaustive import in_exhaustive_runs
from tests.profiles import events, graph_seconds, profiled_session
from tests.tui.conftest import OpenApp


async def test_the_view_begins_with_the_sums_and_the_longest_gap(
    tmp_path: Path, open_app: OpenApp
) -> None:
    async with open_app(profiled_session("broken", tmp_path)) as driver:
        await driver.press("v", "g")
        await driver.until(lambda: "idle in 42 gaps" in driver.screen)
        assert "The GPU computes for 147 µs in broken.json.gz" in driver.screen
        assert "torch compiles, called from [0/1]" in driver.screen
        kinds = [row.cells[0] for row in profile_table(driver.explorer.reader).rows]
        assert kinds == sorted(kinds, key=("sum", "idle", "line", "else").index)


async def test_enter_on_a_gap_goes_to_the_kernel_behind_it(
    tmp_path: Path, open_app: OpenApp
) -> None:
    async with open_app(profiled_session("broken", tmp_path)) as driver:
        await driver.press("v", "g")
        await driver.until(lambda: "idle in 42 gaps" in driver.screen)
        rows = [row.cells[0] for row in profile_table(driver.explorer.reader).rows]
        await driver.press(*["down"] * (rows.index("idle") + 1), "enter")
        await driver.until(lambda: "extern_kernels." in driver.screen)


async def test_kernels_have_a_column_of_the_profile_with_its_sum(
    tmp_path: Path, open_app: OpenApp
) -> None:
    whole = microseconds(graph_seconds(events("gpt2.json.gz")))
    async with open_app(profiled_session("gpt2", tmp_path)) as driver:
        await driver.press("6")
        await driver.until(lambda: "profiled" in driver.screen)
        assert "Times are from gpt2.json.gz" in driver.screen
        assert f"profiled {whole}" in driver.screen


@in_exhaustive_runs
async def test_the_gutter_of_the_source_has_shares_of_the_profile(
    tmp_path: Path, open_app: OpenApp
) -> None:
    session = profiled_session("broken", tmp_path)
    async with open_app(session) as driver:
        await driver.press("2")
        await driver.until(
            lambda: driver.explorer.linked.kernel_marks.heat.measure == "profiled time"
        )
        heat = driver.explorer.linked.kernel_marks.heat
        (file,) = [
            row.id
            for row in driver.explorer.reader.rows(model.SourceFile)
            if row.path.endswith("broken.py")
        ]
        most_expensive = max(heat.files[file].items(), key=lambda item: item[1].share)[0]
        assert most_expensive + 1 == 30


async def test_without_a_profile_the_view_says_how_to_give_one(
    captured: Captured, open_app: OpenApp
) -> None:
    async with open_app(captured("mlp")) as driver:
        await driver.press("v", "g")
        assert "No profile was read" in driver.screen
        assert "--profile FILE" in driver.screen
