"""While a capture starts, the first page shows the text of the target as it is on disk, and above
it what is being done, for how long, and how long that usually takes.
"""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from fx_explorer.highlight import printable
from fx_explorer.tui.start_times import PHASES, StartClock
from fx_explorer.tui.terminal.beginning import text_to_show
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.one_line import Cached, OneLine

MOST_BAR_CELLS = 40


class StartProgress(Cached):
    """Shows ``importing torch · 6 s · usually 10 to 15 s here``, and below it a bar by phase."""

    DEFAULT_CSS = """
    StartProgress { height: 2; width: 1fr; padding: 0 1; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._sentence = ""
        self._share = 0.0
        self._phase = 0

    def tell(self, clock: StartClock, elapsed_s: float) -> None:
        """Show how far the start is, ``elapsed_s`` seconds after it began."""
        self._sentence = clock.sentence(elapsed_s)
        self._share = clock.share(elapsed_s)
        self._phase = clock.phase
        self.display = True
        self.refresh()

    def render(self) -> Content:
        phases = []
        for at, phase in enumerate(PHASES):
            if at < self._phase:
                phases.append(Content.styled(f"✓ {phase}", "$text-success"))
            elif at == self._phase:
                phases.append(Content.styled(f"▷ {phase}", "bold $text-accent"))
            else:
                phases.append(Content.styled(f"· {phase}", "$text-muted"))
        names = Content("  ").join(phases)
        cells = max(8, min(MOST_BAR_CELLS, self.size.width - names.cell_length - 2))
        done = round(self._share * cells)
        bar = Content.styled("━" * done, "$text-accent") + Content.styled(
            "─" * (cells - done), "$border"
        )
        width = self.size.width
        first = Content.styled(printable(self._sentence), "bold").truncate(width, ellipsis=True)
        return first + Content("\n") + (bar + Content("  ") + names).truncate(width, ellipsis=True)


class TargetText(Vertical):
    """Shows the text of the target as it is on disk, until the session has it with its marks."""

    def __init__(self) -> None:
        super().__init__()
        self._title = OneLine(classes="pane-title")
        self.code = CodeView()
        self.has_text = False

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.code

    def read(self, file: Path) -> None:
        """Show a Python file; nothing where it cannot be read, which the worker will say."""
        text = text_to_show(file)
        if not text:
            return
        self._title.show(Content(printable(file.name)))
        self.code.load(text, "python")
        self.has_text = True
