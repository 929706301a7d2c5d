"""Other programs of the user's machine are called from the app: an editor for a file at a line, and
a tool that copies to the clipboard.

A native tool talks to the clipboard of the machine fx-explorer runs on. Over ssh that is the wrong
machine, so there the terminal itself (OSC 52) comes first: it is the one that sits in front of the
user. Where neither works, a text is copied to a file.
"""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from fx_explorer.errors import UsageError

_PLUS_LINE = ("{editor}", "+{line}", "{file}")
_COLON = ("{editor}", "{file}:{line}")
_GOTO = ("{editor}", "--goto", "{file}:{line}")

_FORMS: dict[str, Sequence[str]] = {
    **dict.fromkeys(
        (
            "vi",
            "vim",
            "nvim",
            "gvim",
            "view",
            "nano",
            "emacs",
            "emacsclient",
            "micro",
            "joe",
            "kak",
            "ne",
        ),
        _PLUS_LINE,
    ),
    **dict.fromkeys(("hx", "helix", "zed", "subl", "sublime_text"), _COLON),
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor", "windsurf"), _GOTO),
    **dict.fromkeys(
        ("pycharm", "charm", "idea", "kate"), ("{editor}", "--line", "{line}", "{file}")
    ),
    "mate": ("{editor}", "-l", "{line}", "{file}"),
}
"""Editor → its form of naming a line. Most others understand ``+line``."""

_WINDOWED = {
    "code",
    "code-insiders",
    "codium",
    "cursor",
    "windsurf",
    "zed",
    "subl",
    "sublime_text",
    "gvim",
    "pycharm",
    "charm",
}
_WINDOWED |= {"idea", "kate", "mate"}

FALLBACKS = ("vim", "vi", "nano")


def editor_command(
    file: str,
    line: int,
    environ: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
) -> list[str]:
    """Return the command that opens ``file`` at ``line`` (from 1) in ``$VISUAL``, ``$EDITOR``, or
    an installed editor. Raises UsageError without one, or if the named one is not installed.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"$EDITOR cannot be parsed ({error}): {named}") from error
    if not words:
        words = [next((editor for editor in FALLBACKS if which(editor)), "")]
    if not words[0]:
        raise UsageError("no editor to open: set EDITOR, for example: export EDITOR=nano")
    if not which(words[0]):
        raise UsageError(
            f"the editor {words[0]} (from $VISUAL or $EDITOR) is not installed: set "
            "EDITOR to one that is"
        )
    form = _FORMS.get(PurePath(words[0]).stem, _PLUS_LINE)
    # An absolute path cannot be taken for an option, whatever the file is called.
    place = {"editor": "", "line": str(max(1, line)), "file": os.path.abspath(file)}
    return [*words, *(word.format(**place) for word in form[1:])]


def needs_terminal(command: Sequence[str]) -> bool:
    """Return whether the editor runs in this terminal, so that the app must step aside until it
    ends.
    """
    is_emacs_window = PurePath(command[0]).stem in {"emacs", "emacsclient"} and bool(
        {"-c", "--create-frame"} & set(command)
    )
    return PurePath(command[0]).stem not in _WINDOWED and not is_emacs_window


OSC52_LIMIT_BYTES = 74_994
"""Maximum number of bytes that xterm and tmux accept: 100,000 bytes of escape sequence, base64
included. Longer text is dropped silently.
"""

TOOL_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class CopyDestination:
    """The destination of a copied text."""

    way: Literal["tool", "terminal", "file"]
    where: str
    """The tool's name, or the file's path."""
    problem: str = ""
    """Why a better way did not work; empty if none was tried."""

    def __str__(self) -> str:
        """Return a message on what happened and, if it is not obvious, what to do next."""
        if self.way == "tool":
            return f"copied with {self.where}"
        if self.way == "terminal":
            return (
                "copied through the terminal (OSC 52; if nothing arrives, the terminal does "
                "not allow it)"
            )
        return f"no clipboard is available: wrote {self.where}"


def copy(
    text: str,
    write_to_terminal: Callable[[str], object] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> CopyDestination:
    """Copy ``text``. ``write_to_terminal`` sends bytes past the application's screen; without it
    OSC 52 is not tried.

    Raises OSError when not even a file can be written.
    """
    problem = ""
    is_remote = bool(environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"))
    if not is_remote:
        tool = native_tool(environ)
        if tool:
            problem = _run(tool, text)
            if not problem:
                return CopyDestination("tool", tool[0])
    if write_to_terminal is not None and len(text.encode("utf-8", "replace")) <= OSC52_LIMIT_BYTES:
        write_to_terminal(osc52(text, in_tmux="TMUX" in environ))
        return CopyDestination("terminal", "OSC 52", problem)
    return CopyDestination("file", str(_write_file(text)), problem)


def native_tool(
    environ: Mapping[str, str] = os.environ, which: Callable[[str], str | None] = shutil.which
) -> Sequence[str]:
    """Return the command that writes its input to this machine's clipboard; empty without one."""
    candidates: list[Sequence[str]] = []
    if sys.platform == "darwin":
        candidates.append(("pbcopy",))
    if environ.get("WAYLAND_DISPLAY"):
        candidates.append(("wl-copy",))
    if environ.get("DISPLAY"):
        candidates += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
    candidates += [("clip.exe",), ("termux-clipboard-set",)]
    return next((command for command in candidates if which(command[0])), ())


def osc52(text: str, *, in_tmux: bool = False) -> str:
    """Return the escape sequence that asks the terminal to put ``text`` on its clipboard, passed
    through tmux when it is around us.
    """
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07"
    # tmux needs "set -g allow-passthrough on" for the wrapped form and "set-clipboard on" for the
    # plain one: send both.
    if in_tmux:
        return sequence + "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return sequence


def _run(command: Sequence[str], text: str) -> str:
    """Run a command. Returns the error; empty without one."""
    try:
        # Not PIPE: xclip stays behind to serve the clipboard, and would keep our pipe open for
        # ever.
        subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TOOL_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command[0]} failed: {error}"
    return ""


def _write_file(text: str) -> Path:
    """Write into a new file that only the user can read, because copied text is the user's code."""
    descriptor, path = tempfile.mkstemp(prefix="fx-explorer-copied-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return Path(path)
