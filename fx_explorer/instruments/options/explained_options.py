"""This module lists the compiler's options in a session, with explanations: what each does, the
values in force, who set them, and other possible values.

Options are found by words of their names and of torch's help. For those that the user set by hand
while a compilation waited it says what it takes to see what they changed: the same stages once more
without them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from fx_explorer import model
from fx_explorer.analysis.other_variants import VariantStart, variant_starts
from fx_explorer.analysis.words import listed
from fx_explorer.instruments.options.option_words import GROUPS, WORDS, OptionWords
from fx_explorer.model import Gate, OptionInForce, Setting, SettingGroup
from fx_explorer.model.setting_values import as_python, first_sentence, plain_type, python_text
from fx_explorer.session import SessionReader

OTHERS = "all other options of torch"
"""Group of the options for which we have no description."""

GROUP_OF = {name: group for group, options in GROUPS.items() for name in options}


@dataclass(frozen=True, slots=True)
class ExplainedOption:
    """One option with its values in this session."""

    group: str
    """The subject of the option, such as ``graph breaks``."""
    setting: Setting
    words: OptionWords
    in_force: tuple[OptionInForce, ...]
    """Each value that it had, in the order of first use; empty when the session does not say."""

    @property
    def name(self) -> str:
        return self.setting.full_name

    @property
    def values(self) -> tuple[str, ...]:
        """Return each value (JSON) that was in force, once. When the session does not say, it is
        the value at the beginning of the capture.
        """
        return tuple(dict.fromkeys(force.value for force in self.in_force)) or (self.setting.value,)

    @property
    def has_default(self) -> bool:
        """Return whether the default is known: a log does not say it."""
        return bool(self.setting.default)

    @property
    def is_changed(self) -> bool:
        if not self.has_default:
            return len(self.values) > 1
        return any(force.set_by != "default" for force in self.in_force) or self.values != (
            self.setting.default,
        )

    @property
    def set_by(self) -> str:
        """Return who set values other than the default, each once: ``program, fx-explorer``;
        ``default`` without any.
        """
        return (
            ", ".join(
                dict.fromkeys(force.set_by for force in self.in_force if force.set_by != "default")
            )
            or "default"
        )


def is_called(full_name: str, name: str) -> bool:
    """Return whether ``name`` is this option's, with or without its group. An empty name matches
    every option.
    """
    return name in ("", full_name, full_name.partition(".")[2])


def explained_options(reader: SessionReader) -> list[ExplainedOption]:
    """Return the options in the order they are explained, without those that the torch of the
    session lacks; empty in a session without a catalogue or values.
    """
    return [option for option in all_options(reader) if option.name in WORDS]


def all_options(reader: SessionReader) -> list[ExplainedOption]:
    """Return every option that the session lists, those of explained_options first. The others are
    in torch's words. Those of a log, and others that the program set, have values alone.
    """
    values: dict[str, list[OptionInForce]] = defaultdict(list)
    for row in reader.rows(OptionInForce):
        if _is_json(row.value):
            values[row.name].append(row)
    settings = read_settings(reader)
    listed_names = {setting.full_name for setting in settings}
    # A log lists none; a capture lists those that it explains, and the program may set others.
    more = {name: rows for name, rows in values.items() if name not in listed_names}
    options = []
    for setting in order_of([*settings, *_settings_with_values(more)]):
        name = setting.full_name
        group = GROUP_OF.get(name, OTHERS)
        options.append(ExplainedOption(group, setting, explained(setting), tuple(values[name])))
    return options


def _settings_with_values(values: Mapping[str, Sequence[OptionInForce]]) -> list[Setting]:
    """Return options of which only the values are known: no default, no type."""
    settings = []
    for full_name, rows in values.items():
        group, _, name = full_name.partition(".")
        if group in get_args(SettingGroup):
            settings.append(Setting(0, cast(SettingGroup, group), name, "", "", rows[0].value, ""))
    return settings


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    # The value is of a file that anybody may have written: nested deeply, it ends json's recursion.
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def choices_in_order(option: ExplainedOption) -> list[str]:
    """Return its values (JSON): those with an explanation first, in their order; empty when there
    are too many to list.
    """
    parts = [value for value in option.words.values if value in option.setting.choices]
    return [*parts, *(value for value in option.setting.choices if value not in parts)]


def next_value(option: ExplainedOption, value: object) -> object:
    """Return the next choice among those with an explanation; the value itself where there are
    none.
    """
    texts = choices_in_order(option)
    if option.words.values:
        texts = [text for text in texts if meaning(option, text)]
    choices = [json.loads(text) for text in texts]
    if not choices:
        return value
    # For Python ``True`` equals 1, and 1 equals 1.0.
    of_type = (at for at, choice in enumerate(choices) if type(choice) is type(value))
    at = next((at for at in of_type if choices[at] == value), -1)
    return choices[(at + 1) % len(choices)]


def meaning(option: ExplainedOption, value: str) -> str:
    """Return the meaning of a value (JSON) of the option; empty where its words are enough."""
    return option.words.values.get(value, "")


def origins(option: ExplainedOption, folder: Path | None = None) -> list[str]:
    """Return ``False: set at train.py:5 for f``, one per value and origin. Paths are relative to
    ``folder``.
    """
    functions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in option.in_force:
        functions[as_python((row.value,))[0], _who(row, folder)].append(row.function)
    if len(functions) == 1:
        return [f"{value}: {who}" for value, who in functions]
    return [f"{value}: {who}{_for(names)}" for (value, who), names in functions.items()]


def _for(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(filter(None, names)))
    return f" for {listed(known)}" if known else ""


def _who(row: OptionInForce, folder: Path | None) -> str:
    if row.set_by == "default":
        return "the default"
    if row.set_by == "environment":
        return f"set by the environment variable {row.variable}"
    if row.set_by == "fx-explorer":
        return "an option of fx-explorer"
    if row.set_by == "not recorded":
        return "the log does not say who set it"
    if row.file:
        return f"set at {_relative(row.file, folder)}:{row.line}"
    return f"set by the program{_side_effect(row)}"


_BY_DYNAMIC = ("dynamo.assume_static_by_default", "dynamo.automatic_dynamic_shapes")


def _side_effect(row: OptionInForce) -> str:
    """Return a remark for a config that torch itself may have set, for the argument ``dynamic``
    (eval_frame.py, make_set_enable_dynamic); empty for any other.
    """
    if row.name in _BY_DYNAMIC:
        return ", or by its argument dynamic"
    return ""


def _relative(file: str, folder: Path | None) -> str:
    path = Path(file)
    if folder and path.is_relative_to(folder):
        return str(path.relative_to(folder))
    return file


def explained(setting: Setting) -> OptionWords:
    """Return our words for an option; outside the console, the first sentence of torch's words."""
    return WORDS.get(setting.full_name) or OptionWords(first_sentence(setting.help))


def order_of(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings with the console's first, in its order, then all others in torch's
    order.
    """
    place = {name: position for position, name in enumerate(WORDS)}
    return sorted(settings, key=lambda setting: place.get(setting.full_name, len(place)))


# Options by words of their names and of torch's help.


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
    """Return whether the option had a value other than its default when the capture began."""
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

    def order(match: tuple[int, Setting]) -> tuple[object, ...]:
        rank, setting = match
        is_chosen = setting.full_name in chosen
        return (not is_chosen, not is_changed(setting), *_how_likely(rank, setting))

    matching.sort(key=order)
    return [setting for _, setting in matching]


_IN_FULL, _NAME_AND_HELP, _NO_MATCH = 0, 3, 4


def _how_likely(rank: int, setting: Setting) -> tuple[bool, bool, int]:
    """Return the sort key of a match: people look for the options that the console has words
    for.
    """
    is_of_console = setting.full_name in WORDS and rank < _NAME_AND_HELP
    return rank != _IN_FULL, not is_of_console, rank


def _rank(setting: Setting, words: list[str]) -> int:
    """Return the rank of an option in a search: 0 if its name is the text, 1 if the name begins
    with it, 2 if the name has every word, 3 if name and help together have.
    """
    name = setting.full_name.casefold()
    if all(word in name for word in words):
        own_name = setting.name.casefold()
        first = words[0] if words else ""
        if first in (own_name, name):
            return _IN_FULL
        if own_name.startswith(first):
            return 1
        return 2
    whole = f"{name} {setting.help.casefold()}"
    if all(word in whole for word in words):
        return _NAME_AND_HELP
    return _NO_MATCH


# Options that the user set while a compilation waited.


@dataclass(frozen=True, slots=True)
class SetByHand:
    """Options that were set at a gate."""

    gate: Gate
    compilation: str
    """Name of the compilation that was paused when they were set; empty when they were set for the
    whole program.
    """
    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Without:
    """A variant in which options have the values again that they had before they were set by
    hand.
    """

    start: VariantStart
    settings: dict[str, object]
    had: dict[str, object]
    """The values set by hand that this variant leaves out."""

    @property
    def title(self) -> str:
        """Return the settings that are left out: ``max_fusion_size = 8``."""
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
    """Yield the variants that leave out earlier settings, the newest first. Only stages from which
    a variant can begin count.
    """
    before = {setting.full_name: json.loads(setting.value) for setting in read_settings(reader)}
    originals = {row.name for row in reader.rows(model.Compilation) if not row.variant_of}
    of_whole_graphs = (start for start in variant_starts(reader) if not start.region)
    starts = [start for start in of_whole_graphs if start.compilation in originals]
    for hand in reversed(list(done)):
        settings = {name: before[name] for name in hand.settings if name in before}
        if not settings:
            continue
        had = {name: hand.settings[name] for name in settings}
        for start in starts:
            if start.gate == hand.gate and hand.compilation in ("", start.compilation):
                yield Without(start, settings, had)
