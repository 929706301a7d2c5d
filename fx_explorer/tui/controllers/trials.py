"""This module starts trials from the keyboard: workers run the program again with a change, such as
a fixed graph break or another setting of dynamic shapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.words import listed
from fx_explorer.errors import UsageError
from fx_explorer.model import TWICE_THE_BATCH
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.config import AfterFix
from fx_explorer.tui.controllers.capturing import Capturing
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.dialog import Ask, Consent

if TYPE_CHECKING:
    from fx_explorer.analysis.whole_session import SessionFigures
    from fx_explorer.instruments.dynamic.screen import TryDynamic
    from fx_explorer.instruments.dynamic.trial import DynamicTrial
    from fx_explorer.instruments.fixes.fix import Fix
    from fx_explorer.instruments.fixes.offers import TryFix
    from fx_explorer.instruments.fixes.trial import Trial, Verdict
    from fx_explorer.model import CaptureRequest
    from fx_explorer.source_edit.writing import WrittenEdits
    from fx_explorer.trials import Told

READ_S = 15

NOTHING_TO_UNDO = "No fix has been written since fx-explorer was started."
UNDONE = "The file gets its content from before the fix back."
OLD_ON_SCREEN = "The screen shows the file with the fix."

NO_BREAK = "There are no graph breaks to fix."


class Trials:
    """Looks for fixes of graph breaks and tries them, and tries settings of dynamic shapes."""

    def __init__(
        self,
        services: Services,
        capturing: Capturing,
        after_fix: Callable[[], AfterFix],
        try_fix: TryFix | None,
        try_dynamic: TryDynamic | None,
    ) -> None:
        """``after_fix`` is the action after a fix was written. ``try_fix`` and ``try_dynamic``
        replace the worker that runs the changed program; None uses a worker.
        """
        self._services = services
        self._capturing = capturing
        self._after_fix = after_fix
        self._try_fix = try_fix
        self._try_dynamic = try_dynamic
        self.app = services.app
        self._fix_trials: dict[Path, list[Trial]] = {}
        """The trials of fixes, by session."""
        self._written: list[WrittenEdits] = []
        """What fixes have written to the user's files, the last one at the end."""
        self._dynamic_trials: dict[tuple[Path, str], list[DynamicTrial]] = {}
        """The trials of dynamic shapes, by session and by the expression for other inputs."""

    # fixes of graph breaks

    def count_trials(self) -> int:
        """Return how many fixes were tried to their end."""
        return sum(map(len, self._fix_trials.values()))

    def last_verdict(self) -> Verdict | None:
        """Return the verdict of the last trial; None before one has ended."""
        trials = list(chain.from_iterable(self._fix_trials.values()))
        return trials[-1].verdict if trials else None

    @conversation("fixes", "look for changes that may avoid a graph break")
    async def show_fixes(self) -> None:
        """Show the fixes of the break. This works on a saved session too: proposing runs
        nothing.
        """
        await self._offer_fixes(tries_all=False)

    @conversation("try all", "look for changes that may avoid a graph break, and try them")
    async def try_all_fixes(self) -> None:
        """Show the fixes of the break, and try all of them."""
        await self._offer_fixes(tries_all=True)

    async def _offer_fixes(self, *, tries_all: bool) -> None:
        from fx_explorer.instruments.breaks.view import subjects
        from fx_explorer.instruments.fixes.dynamic_marks import try_any
        from fx_explorer.instruments.fixes.offers import offer as offer_of_fixes
        from fx_explorer.instruments.fixes.screen import (
            FixScreen,
        )  # not needed for the first paint: libcst is loaded with it

        explorer = self._services.explorer
        place = explorer.cursor.place_of_shown_break
        view = explorer.view
        if view != "breaks":
            await explorer.action_show_view("breaks")
        breaks = subjects(explorer.reader) if explorer.reader else []
        at_place = [subject for subject in breaks if place and subject.place == place]
        fixable = at_place or breaks[explorer.cursor.row_of_breaks() :]
        if not fixable or explorer.reader is None:
            self._services.notify(NO_BREAK)
            return
        offer = await asyncio.to_thread(offer_of_fixes, explorer.reader.path, fixable[0])
        if offer.fixes:
            trials = self._fix_trials.setdefault(explorer.reader.path, [])
            try_fix = self._try_fix or partial(try_any, worker=self._services.worker_of_trials)
            after: AfterFix = self._after_fix() if self._services.captures.can_run else "nothing"
            if after == "ask" and self._capturing.is_watching:
                after = "capture"  # as for any file that is saved
            screen = FixScreen(
                offer,
                self._asking_first(try_fix),
                trials,
                self._written,
                explorer.keymap,
                after_fix=after,
                tries_all=tries_all,
            )
            captures_again = await ask(self.app, screen)
            if explorer.table:
                explorer.table.renew_detail()  # it says how the trials ended
            if captures_again:
                await explorer.action_show_view("overview")  # where it will say the result
                self._capturing.restart(pauses=False)
            elif view == "overview":
                await explorer.action_show_view(view)
        else:
            self._services.notify(offer.why_none, title="no fix", timeout=15)

    @conversation("undo fix", "undo a fix")
    async def undo_fix(self) -> None:
        """Take the last written fix back, after asking, and capture again if the user agrees."""
        if not self._written:
            self._services.notify(NOTHING_TO_UNDO)
            return
        edits = self._written[-1]
        names = listed(file.name for file in edits.files)
        if not await ask(self.app, Consent(f"Undo the fix in {names}?", UNDONE)):
            return
        try:
            edits.undo()
        except UsageError as error:
            self._services.notify(str(error), title="not undone", severity="error", timeout=READ_S)
            return
        self._written.pop()
        is_captured_again = self._services.captures.can_run and not self._capturing.is_watching
        if is_captured_again and await ask(
            self.app,
            Consent(f"{names} is now as before the fix. Capture again now?", OLD_ON_SCREEN),
        ):
            self._capturing.restart(pauses=False)

    def _asking_first(self, try_fix: TryFix) -> TryFix:
        """Return ``try_fix``, asking first: a trial runs the program that the session names, with
        source files of the session in place of those on disk.
        """

        async def try_after_asking(
            request: CaptureRequest, fix: Fix, before: SessionFigures, tell: Told
        ) -> Trial:
            tell("waiting for your answer")
            await self._services.ask_to_run()
            tell("starting")
            return await try_fix(request, fix, before, tell)

        return try_after_asking

    # dynamic shapes

    @conversation("dynamic shapes", "try settings of dynamic shapes")
    async def try_dynamic(self) -> None:
        """Try settings of dynamic shapes. This works on a saved session too, when its target is
        here.
        """
        from fx_explorer.instruments.dynamic.screen import DynamicScreen
        from fx_explorer.instruments.dynamic.trial import A_SCRIPT, try_dynamic

        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        if reader is None or request is None or request.as_script or reader.is_of_a_script():
            reason = A_SCRIPT if request else NO_REQUEST
            self._services.notify(reason, title="not tried", severity="warning", timeout=READ_S)
            return
        if not await self._services.user_agrees_to_run():
            return
        words = "Other inputs that the compiled code should also accept, as for --inputs"
        typed = await ask(self.app, Ask(words, TWICE_THE_BATCH, verb="tries four settings on both"))
        if typed:
            others = "" if typed == TWICE_THE_BATCH else typed
            trials = self._dynamic_trials.setdefault((reader.path, others), [])
            try_setting = self._try_dynamic or partial(
                try_dynamic, worker=self._services.worker_of_trials
            )
            await ask(
                self.app,
                DynamicScreen(request, others, try_setting, trials, self._services.explorer.keymap),
            )
