"""Search the compiler's options by words of their names and of torch's help."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from fx_explorer.instruments.options.option_words import WORDS
from fx_explorer.model import Setting
from fx_explorer.model.setting_types import plain_type
from fx_explorer.session import SessionReader


def read_settings(reader: SessionReader) -> list[Setting]:
    """Return every option of the torch that captured the session; empty for a log.

    A row that our writer would not write is left out: a session may come from anywhere.
    """
    return [setting for setting in reader.rows(Setting) if _is_sound(setting)]


def _is_sound(setting: Setting) -> bool:
    try:
        for text in (setting.default, setting.value, *setting.choices):
            json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return False
    return not setting.type or plain_type(setting.type) == setting.type


def is_changed(setting: Setting) -> bool:
    """Return whether the option had another value than its default when the capture began."""
    return setting.value != setting.default


def search(settings: Sequence[Setting], typed: str, chosen: Collection[str] = ()) -> list[Setting]:
    """Return the options whose name or help has every word of ``typed`` (upper and lower case
    alike); all options for no words.

    Options that are ``chosen`` (full names) or changed come first, then what was typed in full,
    then those of the console among the matches of a name, matches of a name before those of the
    help, and torch's order.
    """
    words = typed.casefold().split()
    found = [(_rank(setting, words), setting) for setting in settings]
    matching = [(rank, setting) for rank, setting in found if rank < _NO_MATCH]
    matching.sort(
        key=lambda one: (one[1].full_name not in chosen, not is_changed(one[1]), *_how_likely(*one))
    )
    return [setting for _, setting in matching]


_IN_FULL, _NAME_AND_HELP, _NO_MATCH = 0, 3, 4


def _how_likely(rank: int, setting: Setting) -> tuple[bool, bool, int]:
    """Return the sort key of a match: people look for the options that the console has words for."""
    is_of_console = setting.full_name in WORDS and rank < _NAME_AND_HELP
    return rank != _IN_FULL, not is_of_console, rank


def _rank(setting: Setting, words: list[str]) -> int:
    """Return 0 if the name is what was typed, 1 if it begins with it, 2 if it has every word, 3 if
    name and help together have.
    """
    name = setting.full_name.casefold()
    if all(word in name for word in words):
        own_name = setting.name.casefold()
        first = words[0] if words else ""
        return _IN_FULL if first in (own_name, name) else 1 if own_name.startswith(first) else 2
    whole = f"{name} {setting.help.casefold()}"
    return _NAME_AND_HELP if all(word in whole for word in words) else _NO_MATCH
