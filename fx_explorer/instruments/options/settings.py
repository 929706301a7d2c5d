"""This module finds options of the compiler by words of their names and of torch's help, and those
that the user set by hand while a compilation waited, with what it takes to see what they changed:
the same stages once more without them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.other_variants import VariantStart, variant_starts
from fx_explorer.instruments.options.option_words import WORDS
from fx_explorer.model import Gate, Setting
from fx_explorer.model.setting_types import plain_type
from fx_explorer.model.setting_values import python_text
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


@dataclass(frozen=True, slots=True)
class SetByHand:
    """Options that were set at a gate."""

    gate: Gate
    compilation: str
    """The one that waited there; empty where the whole program did."""
    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Without:
    """A variant in which options have the values again that they had before they were set by hand."""

    start: VariantStart
    settings: dict[str, object]
    had: dict[str, object]
    """What was set by hand, and is left out."""

    @property
    def title(self) -> str:
        """Return what is left out: ``max_fusion_size = 8``."""
        return ", ".join(
            f"{name.partition('.')[2] or name} = {python_text(value)}"
            for name, value in self.had.items()
        )

    @property
    def words(self) -> str:
        return f"without {self.title} · [{self.start.compilation}]"

    @property
    def detail(self) -> str:
        return "and compare"


def without_what_was_set(reader: SessionReader, done: Iterable[SetByHand]) -> Iterator[Without]:
    """Yield the variants that leave out what was set, the newest first. Only a stage that a variant
    can set out from counts.
    """
    before = {setting.full_name: json.loads(setting.value) for setting in read_settings(reader)}
    originals = {row.name for row in reader.rows(model.Compilation) if not row.variant_of}
    starts = [
        start
        for start in variant_starts(reader)
        if start.compilation in originals and not start.region
    ]
    for hand in reversed(list(done)):
        settings = {name: before[name] for name in hand.settings if name in before}
        if not settings:
            continue
        had = {name: hand.settings[name] for name in settings}
        for start in starts:
            if start.gate == hand.gate and hand.compilation in ("", start.compilation):
                yield Without(start, settings, had)
