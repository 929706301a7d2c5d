"""Fixes from the keyboard: what may take the graph break under the cursor away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.tui.config import AfterFix
from fx_explorer.tui.controllers.capturing import Capturing
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.tasks.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.analysis.whole_session import SessionFigures
    from fx_explorer.instruments.fixes import Fix, Trial, TryFix, Verdict
    from fx_explorer.model import CaptureRequest

NO_BREAK = "There is nothing here to fix: this list is empty."


class Fixes:
    """Looks for fixes, and shows them."""

    def __init__(
        self,
        services: Services,
        capturing: Capturing,
        after_fix: Callable[[], AfterFix],
        try_fix: TryFix | None,
    ) -> None:
        """``after_fix`` says what is done when a fix was written. ``try_fix`` stands in for a
        worker that runs the changed program; when it is None, there is such a worker.
        """
        self._services = services
        self._capturing = capturing
        self._after_fix = after_fix
        self.app = services.app
        self._try_fix = try_fix
        self._trials: dict[Path, list[Trial]] = {}
        """The trials, by session."""

    def count_trials(self) -> int:
        """Return how many fixes were tried to their end."""
        return sum(map(len, self._trials.values()))

    def last_verdict(self) -> Verdict | None:
        """Return the verdict of the last trial; None before one has ended."""
        trials = [trial for of_session in self._trials.values() for trial in of_session]
        return trials[-1].verdict if trials else None

    @conversation("fixes", "look for what may take a graph break away")
    async def show(self) -> None:
        """Show what may take the break away. This works on a saved session too: proposing runs
        nothing.
        """
        await self._show(tries_all=False)

    @conversation("try all", "look for what may take a graph break away, and try it")
    async def try_all(self) -> None:
        """Show what may take the break away, and try all of it."""
        await self._show(tries_all=True)

    async def _show(self, *, tries_all: bool) -> None:
        from fx_explorer.instruments.breaks.view import subjects
        from fx_explorer.instruments.fixes import offer as fix_offer
        from fx_explorer.instruments.fixes import try_any
        from fx_explorer.instruments.fixes.screen import (
            FixScreen,  # not needed for the first paint: libcst is loaded with it
        )

        explorer = self._services.explorer
        told = explorer.cursor.place_of_break_told
        if explorer.view != "breaks":
            await explorer.action_show_view("breaks")
        found = subjects(explorer.reader) if explorer.reader else []
        found = [one for one in found if told and one.place == told] or found[
            explorer.cursor.row_of_breaks() :
        ]
        if not found or explorer.reader is None:
            self._services.notify(NO_BREAK)
            return
        offer = await asyncio.to_thread(fix_offer, explorer.reader.path, found[0])
        if offer.fixes:
            trials = self._trials.setdefault(explorer.reader.path, [])
            try_fix = self._try_fix or partial(try_any, worker=self._services.trial_worker)
            after: AfterFix = self._after_fix() if self._services.captures.can_run else "nothing"
            if after == "ask" and self._capturing.is_watching:
                after = "capture"  # as for any file that is saved
            screen = FixScreen(
                offer,
                self._asking_first(try_fix),
                trials,
                explorer.keymap,
                after_fix=after,
                tries_all=tries_all,
            )
            if await ask(self.app, screen):
                await explorer.action_show_view("overview")  # where it will say the result
                self._capturing.anew(pauses=False)
        else:
            self._services.notify(offer.why_none, title="no fix", timeout=15)

    def _asking_first(self, try_fix: TryFix) -> TryFix:
        """Return ``try_fix``, asking first: a trial runs the program that the session names, with
        source files of the session in place of those on disk.
        """

        async def try_after_asking(
            request: CaptureRequest, fix: Fix, before: SessionFigures
        ) -> Trial:
            await self._services.ask_to_run()
            return await try_fix(request, fix, before)

        return try_after_asking
