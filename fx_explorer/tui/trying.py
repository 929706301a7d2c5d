"""Trials from the keyboard: the program is run again by workers of their own, for what this capture cannot tell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import work

from fx_explorer.analysis.measured import run_time
from fx_explorer.analysis.words import counted
from fx_explorer.errors import FxExplorerError
from fx_explorer.tui.capturing import MakeCapture
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.mending import MendingApp

if TYPE_CHECKING:
    from fx_explorer.client.break_times import BreakTimes
    from fx_explorer.mending import TryMend
    from fx_explorer.tui.screens.measuring import MeasureBreaks

READ_S = 15


class TryingApp(MendingApp):
    """Measures graph breaks."""

    def __init__(
        self,
        make_capture: MakeCapture | None,
        keymap: Keymap,
        try_mend: TryMend | None,
        measure_breaks: MeasureBreaks | None,
    ) -> None:
        """What runs the program again; None: a worker in the interpreter that the app itself runs in."""
        super().__init__(make_capture, keymap, try_mend)
        self._measure_breaks = measure_breaks

    @work(name="measure breaks", group="choose", description="measure graph breaks")
    async def measure_breaks(self) -> None:
        from fx_explorer.client import break_times  # not needed for the first paint
        from fx_explorer.tui.screens.measuring import MeasuringScreen

        reader = self.stepped_session
        request = break_times.request_of(reader) if reader else None
        problem = break_times.why_not_measured(request)
        if reader is None or request is None or problem:
            self.notify(problem, title="not measured", severity="warning", timeout=READ_S)
            return
        times = await self.push_screen_wait(MeasuringScreen(request, self._measure_breaks or break_times.measure_breaks))
        if times is None:
            return
        try:
            known = await asyncio.to_thread(break_times.add_break_times, reader.path, times)
        except FxExplorerError as error:
            self.notify(f"the times could not be kept: {error}", severity="error", timeout=READ_S)
        else:
            self.notify(_told(times, known), timeout=READ_S)


def _told(times: BreakTimes, known: int) -> str:
    call = times.call
    whole = f"A call takes {run_time(call.median_s)}, {run_time(call.graphs_s)} of it in compiled graphs"
    return f"{whole}; {counted(known, 'graph break')} measured ({counted(call.runs, 'call')} on {call.device})."
