"""The top line: the target, what it ran on, how the capture stands, and what every view is narrowed
to.
"""

from __future__ import annotations

from textual.content import Content

from fx_explorer.analysis.regions.region_nodes import RegionKey
from fx_explorer.tui.status import header
from fx_explorer.tui.widgets.one_line import OneLine

NAME = Content.styled("fx-explorer", "bold $primary")


class HeaderLine(OneLine):
    """Shows
    ``fx-explorer  model.py:Net   torch 2.13.0 · cpu · training          ✓ captured in 2.1 s``.
    """

    DEFAULT_CSS = """
    HeaderLine { background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: tuple[str, str, header.CaptureState] | None = None
        self._region: RegionKey | None = None

    def begin(self) -> None:
        """Show the name alone, while nothing else is known."""
        self.show(NAME)

    def tell(self, left: str, conditions: str, state: header.CaptureState) -> None:
        """Say what is captured, on what, and how that stands."""
        self._told = (left, conditions, state)
        self._write()

    def narrow(self, region: RegionKey | None) -> None:
        """Name the region that every view is narrowed to; None for none."""
        if region != self._region:
            self._region = region
            self._write()

    def _write(self) -> None:
        if self._told is None:
            return
        left, conditions, state = self._told
        if self._region:
            only = Content.styled(f"  {header.only(self._region[1])}", "bold $warning")
        else:
            only = Content("")
        name = NAME + only + Content.styled(f"  {left}", "bold")
        colour = header.COLOURS[state.tone]
        self.show(
            name + Content.styled(f"   {conditions}", "$foreground 60%"),
            Content.styled(state.text, colour),
        )
