"""This module shows the progress of reading a log on the live line, for commands that wait for it.
It is by itself, since what reads a log for the app (``logs.py``) takes 30 ms to import.
"""

from __future__ import annotations

from fx_explorer.command_line.narration import LiveLine
from fx_explorer.readers.torch_trace.growing import Progress, describe_progress


class LogProgress(LiveLine):
    """Shows the progress of reading a log on the live line."""

    def show_progress(self, progress: Progress) -> None:
        if self.is_due:
            self.show(describe_progress(progress))
