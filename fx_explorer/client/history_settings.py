"""This module has the settings of the history: whether captures are kept by themselves, and how
many. They are the table ``[history]`` of the configuration file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fx_explorer.folders import config_path
from fx_explorer.outside_file import read_toml, shown_value

NAMES = ("keep", "sessions", "megabytes")


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """The settings of the history, with their errors."""

    keep: bool = True
    """Whether captures are kept by themselves."""
    sessions: int = 20
    """Maximum number of captures of one project."""
    megabytes: int = 2000
    """Maximum size of all captures together, in 10^6 bytes."""
    problems: tuple[str, ...] = ()
    """Messages for the user, one for each error."""


def read_history_settings() -> HistorySettings:
    """Return the settings of the configuration file; the defaults where there is none, or where it
    cannot be read, which is then a problem.
    """
    path = config_path()
    try:
        entries = read_toml(path)
    except (FileNotFoundError, NotADirectoryError):
        return HistorySettings()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return HistorySettings(problems=(f"{path} cannot be read ({reason}); captures are kept",))
    return parse_history(entries.get("history", {}), str(path))


def parse_history(table: object, where: str) -> HistorySettings:
    """Return the settings of the table; a mistake is a problem, and its default holds."""
    settings = HistorySettings()
    if not isinstance(table, Mapping):
        message = f"{where}: history must be a table: [history] followed by keep = false"
        return replace(settings, problems=(message,))
    problems = []
    keep = table.get("keep", settings.keep)
    if not isinstance(keep, bool):
        problems.append(f"{where}: keep = {shown_value(keep)} must be true or false")
        keep = settings.keep
    limits = {}
    for name in ("sessions", "megabytes"):
        default = getattr(settings, name)
        value = table.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            message = "must be a whole number from 1 on. To keep no captures: keep = false"
            problems.append(f"{where}: {name} = {shown_value(value)} {message}")
            value = default
        limits[name] = value
    problems += [
        f"{where}: {shown_value(name)} is not a setting of [history]"
        for name in table
        if name not in NAMES
    ]
    return HistorySettings(keep, limits["sessions"], limits["megabytes"], tuple(problems))
