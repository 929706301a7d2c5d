"""Two variants of a compilation, or two compilations, beside each other."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Chooser, matching
from fx_explorer.tui.tasks.conversation import ask, conversation

NO_OTHER = (
    "There is only one variant so far. Go again from a stage (c a) to have another one to "
    "compare it with."
)


class Comparing:
    """Shows two of them, which the user chooses."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app

    @conversation("compare variants", "choose two variants to compare")
    async def variants(self) -> None:
        """Ask which compilations to compare. If there are only two, they are compared at once."""
        from fx_explorer.instruments.diff.headings import (
            original_first,  # not needed for the first paint, all
        )
        from fx_explorer.instruments.diff.screen import CompareScreen
        from fx_explorer.tui.dialogs.choices import variant_choices

        reader = self._explorer.reader
        variants = reader.rows(model.Compilation) if reader else []
        if reader is None or len(variants) < 2:
            self._explorer.notify(NO_OTHER)
            return
        chosen = variants if len(variants) == 2 else []
        while len(chosen) < 2:
            title = f"Compare [{chosen[0].name}] with" if chosen else "Compare"
            variant = await ask(self.app, Chooser(title, matching(variant_choices(reader, chosen))))
            if variant is None:
                return
            chosen = [*chosen, variant]
        left, right = original_first(*chosen)
        self.app.push_screen(CompareScreen(reader, left, right, self._explorer.keymap))
