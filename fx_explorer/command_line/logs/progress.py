"""How far the reading of a log is, on one line of a terminal that is gone when it was read."""

from __future__ import annotations

from fx_explorer.command_line.live_line import LiveLine
from fx_explorer.readers.torch_trace.progress import Progress, in_words


class LogProgress(LiveLine):
    """Shows on the line what is read of a log."""

    def tell(self, progress: Progress) -> None:
        if self.is_due:
            self.show(in_words(progress))
