"""Stepping through Dynamo's bytecode from the keyboard: has it recorded where that is not done yet,
and shows the record.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.session import SessionReader
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.tasks.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.analysis.step_record import StepRecord

LOOK_S = 0.1
"""While the worker records."""

READ_S = 15

NO_RECORD = (
    "Nothing is recorded of what this bytecode did. Capture with --record-bytecode; or "
    "open the target itself, and press this "
    "key when its program has run."
)


class BytecodeSteps:
    """Steps forward and back through what Dynamo's bytecode did."""

    def __init__(self, services: Services, stepping: Stepping) -> None:
        self._services = services
        self._stepping = stepping
        self.app = services.app

    @conversation("bytecode steps", "step through the bytecode")
    async def step(self) -> None:
        from fx_explorer.analysis.step_record import (
            read_record,
        )  # neither is needed for the first paint
        from fx_explorer.tui.screens.step_record import StepScreen

        explorer = self._services.explorer
        reader = explorer.reader
        if reader is None:
            return
        record = await asyncio.to_thread(read_record, reader) or await self._record(reader)
        if record is None:
            return
        screen = StepScreen(reader, record, explorer.keymap, first_at(record, explorer.place))
        left = await ask(self.app, screen)
        if left and explorer.view == "source":
            await explorer.go(left)

    async def _record(self, reader: SessionReader) -> StepRecord | None:
        """Have the worker call the program once more, and return the record; None when it cannot be
        made. The worker's answer is reported as any other.
        """
        from fx_explorer.analysis.step_record import read_record

        live = self._services.captures.live
        if live is None or live.is_over or reader is not self._services.stepped_session:
            self._services.notify(NO_RECORD, timeout=READ_S)
            return None
        if self._stepping.at_rest() is None:
            return None
        self._stepping.send(model.Command("steps"), "recording what the bytecode does")
        while live.waiting is None and not live.is_over:
            await asyncio.sleep(LOOK_S)
        return None if live.is_over else await asyncio.to_thread(read_record, reader)


def first_at(record: StepRecord, place: Place | None) -> int:
    """Return the first step at a line of the bytecode; the very first step when none is there."""
    if place is None or place.document.kind != "artifact":
        return 0
    wanted = place.document.id, place.line + 1
    return next(
        (i for i, step in enumerate(record.steps) if (step.artifact, step.line) == wanted), 0
    )
