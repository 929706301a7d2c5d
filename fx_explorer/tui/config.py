"""The user's settings are read from ``$XDG_CONFIG_HOME/fx-explorer/config.toml``, by default under
``~/.config``.

::

    theme = "light"                 # or "dark"; "auto" asks the terminal, which is the default
    after_fix = "capture"           # capture again when a fix was written; or "ask", or "nothing"
    mark_kernels = false            # no numbers, colours and shares of kernels; p h shows them

    [history]
    keep = false                    # captures are not kept by themselves; quitting asks
    sessions = 20                   # of each project
    megabytes = 2000                # of all

    [plugins]
    use = false                     # no plug-in is used
    left_out = ["some-package"]     # those of a package are not

    [keys]
    "pane.zoom" = "Z"               # any id of `fx-explorer keys`
    "history.back" = ["b", "backspace"]

A mistake in the file is reported and the rest of it is used; it never keeps the app from starting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fx_explorer.client.history_settings import HistorySettings, parse_history
from fx_explorer.folders import config_path
from fx_explorer.outside_file import read_toml, shown_value
from fx_explorer.plugin_loading import parse_plugins
from fx_explorer.tui.commands import COMMANDS

THEMES = ("auto", "dark", "light")

AfterFix = Literal["ask", "capture", "nothing"]
"""The action after a fix was written: ask whether to capture again, capture again, or nothing."""

AFTER_FIX: Mapping[object, AfterFix] = {"ask": "ask", "capture": "capture", "nothing": "nothing"}

MOST_PROBLEMS = 5
"""Maximum number of mistakes of a file that are listed one by one."""

SETTINGS = ("theme", "after_fix", "mark_kernels", "history", "plugins", "keys")

__all__ = ["Config", "config_path", "load_config", "parse_config"]


@dataclass(frozen=True, slots=True)
class Config:
    """The content of the config file, with its errors."""

    theme: str = ""
    """``dark`` or ``light``; empty to follow the terminal's background."""
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    after_fix: AfterFix = "ask"
    mark_kernels: bool = True
    """Whether kernels are marked in the panes when the app opens."""
    history: HistorySettings = field(default_factory=HistorySettings)
    problems: tuple[str, ...] = ()
    """Messages for the user, one for each error."""


def load_config(path: Path) -> Config:
    """Load the settings at ``path``; a missing file means the defaults."""
    try:
        entries = read_toml(path)
    except (FileNotFoundError, NotADirectoryError):
        return Config()
    except OSError as error:
        reason = error.strerror or error
        return Config(problems=(f"{path} cannot be read ({reason}); the default keys are in use",))
    except ValueError as error:
        return Config(problems=(f"{path} cannot be read ({error}); the default keys are in use",))
    return parse_config(entries, str(path))


def parse_config(entries: Mapping[str, object], where: str) -> Config:
    problems: list[str] = []
    theme = entries.get("theme", "auto")
    if theme not in THEMES:
        problems.append(
            f'{where}: theme = {shown_value(theme)} is not valid; write "dark", "light" or "auto"'
        )
        theme = ""
    after_fix = entries.get("after_fix", "ask")
    if not isinstance(after_fix, str) or after_fix not in AFTER_FIX:
        problems.append(
            f'{where}: after_fix = {shown_value(after_fix)} is not valid; write "ask", "capture" '
            'or "nothing"'
        )
        after_fix = "ask"
    mark_kernels = entries.get("mark_kernels", True)
    if not isinstance(mark_kernels, bool):
        problems.append(
            f"{where}: mark_kernels = {shown_value(mark_kernels)} must be true or false"
        )
        mark_kernels = True
    problems += [
        f"{where}: {shown_value(name)} is not a setting" for name in entries if name not in SETTINGS
    ]
    history = parse_history(entries.get("history", {}), where)
    problems += history.problems
    problems += parse_plugins(entries.get("plugins", {}), where).problems
    keys, key_problems = _parse_keys(entries.get("keys", {}), where)
    problems += key_problems
    if len(problems) > MOST_PROBLEMS:
        problems[MOST_PROBLEMS:] = [f"{where}: {len(problems) - MOST_PROBLEMS} more"]
    theme = "" if theme == "auto" else str(theme)
    return Config(theme, keys, AFTER_FIX[after_fix], mark_kernels, history, tuple(problems))


def _parse_keys(table: object, where: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    if not isinstance(table, Mapping):
        return {}, [f'{where}: keys must be a table, e.g. [keys] followed by "pane.zoom" = "Z"']
    known = {command.id for command in COMMANDS}
    keys: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for command_id, wanted in table.items():
        names = [wanted] if isinstance(wanted, str) else wanted
        if command_id not in known:
            problems.append(
                f"{where}: there is no command {shown_value(command_id)}; `fx-explorer "
                "keys` lists them"
            )
        elif (
            not isinstance(names, list)
            or not names
            or not all(isinstance(name, str) and name for name in names)
        ):
            problems.append(
                f"{where}: the keys of {command_id!r} must be a key or a list of keys, "
                f"not {shown_value(wanted)}"
            )
        else:
            keys[command_id] = tuple(names)
    return keys, problems
