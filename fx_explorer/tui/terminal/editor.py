"""The command line that opens a file at a line in the user's editor. Builds it; running it is the
app's business.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

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
"""Editor → its way of naming a line. Others understand ``+line`` more often than not."""

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
    an editor that is there. Raises UsageError when there is none, or the one named cannot be found.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"$EDITOR cannot be understood ({error}): {named}") from error
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
