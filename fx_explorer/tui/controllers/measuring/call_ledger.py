"""Where the time of one call goes, measured from the keyboard as ``fx-explorer ledger`` does."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from fx_explorer.errors import FxExplorerError
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.controllers.kernels.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.tasks.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.instruments.ledger.trial import Ledger
    from fx_explorer.tui.dialogs.measuring import Measure

READ_S = 15


class CallLedger:
    """Has a call accounted for, and shows the view."""

    account: Measure[Ledger] | None = None
    """What stands in for the worker that runs the program again."""

    def __init__(self, services: Services, builds: KernelBuilds) -> None:
        self._services = services
        self._builds = builds
        self.app = services.app

    @conversation("ledger", "account for a call")
    async def run(self) -> None:
        """Measure with a worker of its own, and add the ledger to the session that is shown."""
        from fx_explorer.client.trust import RUNS
        from fx_explorer.instruments.ledger import trial  # not needed for the first paint
        from fx_explorer.trials.break_times import why_not_measured
        from fx_explorer.tui.dialogs.measuring import OF_A_CALL, MeasuringScreen

        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        problem = NO_REQUEST if request is None else why_not_measured(request)
        if reader is None or request is None or problem:
            self._services.notify(problem, title="not measured", severity="warning", timeout=READ_S)
            return
        try:
            writable = await self._builds.writable(RUNS)
        except FxExplorerError as error:
            self._services.notify(
                str(error), title="not measured", severity="warning", timeout=READ_S
            )
            return
        await self._services.explorer.action_show_view("ledger")
        measure = self.account or partial(
            trial.account_for_call, worker=self._services.trial_worker
        )
        found = await ask(self.app, MeasuringScreen(request, measure, OF_A_CALL))
        if found is None:
            return
        try:
            await asyncio.to_thread(trial.add_ledger, writable.path, found)
        except FxExplorerError as error:
            self._services.notify(
                f"the ledger could not be kept: {error}", severity="error", timeout=READ_S
            )
