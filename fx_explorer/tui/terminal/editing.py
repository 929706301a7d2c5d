"""Opening a file in the user's editor from inside the app: the screen steps aside when the editor
needs the terminal.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from fx_explorer.errors import UsageError
from fx_explorer.tui.terminal.editor import editor_command, needs_terminal

if TYPE_CHECKING:
    from textual.app import App


def edit(app: App[int], path: str, line: int) -> None:
    """Open ``path`` at ``line`` and, for an editor in this terminal, wait for its end. Raises
    UsageError when it cannot.
    """
    if not os.path.exists(path):
        raise UsageError(f"{path} is not on this machine; the session keeps its text, shown here.")
    command = editor_command(path, line)
    try:
        if needs_terminal(command):
            with app.suspend():
                subprocess.run(command, check=False)
            app.refresh()
        else:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    except SuspendNotSupported as error:
        raise UsageError(
            f"this terminal cannot step aside for {command[0]}; set EDITOR to one with a window"
        ) from error
