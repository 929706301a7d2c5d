"""The picture of the view on screen, written to a file as SVG."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from fx_explorer.errors import FxExplorerError
from fx_explorer.output_file import OutputFile, never_ours
from fx_explorer.state_folder import typed_path
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.ask import Ask
from fx_explorer.tui.tasks.conversation import ask, conversation

READ_S = 10

NO_PICTURE = (
    "This view has no picture. Compile time (v w), kernels against the roof (v k), a call (v "
    "l) and the bench (v p) have."
)


class Pictures:
    """Writes pictures."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.app = services.app

    @conversation("picture as SVG", "write the picture of a view")
    async def save(self) -> None:
        """Ask for a file, and write the picture of the view to it."""
        explorer = self._services.explorer
        draw = explorer.table.svg if explorer.table else None
        if draw is None:
            self._services.notify(NO_PICTURE)
            return
        name = await ask(
            self.app, Ask("Write the picture as SVG to", f"{explorer.view}.svg", "writes")
        )
        if not name:
            return
        try:
            await asyncio.to_thread(_write, draw, typed_path(name))
        except FxExplorerError as error:
            self._services.notify(str(error), severity="error", timeout=READ_S)
            return
        self._services.notify(f"Wrote {name}.", timeout=READ_S)


def _write(draw: Callable[[], str], path: Path) -> None:
    """Write the picture to a free name. Raises UsageError when it cannot be drawn, or written
    there.
    """
    output = OutputFile(path, "picture", never_ours, option="another name")
    output.check()
    output.write_text(draw())
