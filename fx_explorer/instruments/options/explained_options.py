"""Options explained: what each does, the values in force in a session, who set them, and other
values it can have.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.analysis.words import listed
from fx_explorer.instruments.options.option_words import GROUPS, WORDS, OptionWords
from fx_explorer.instruments.options.settings import read_settings
from fx_explorer.model import OptionInForce, Setting
from fx_explorer.model.setting_values import as_python
from fx_explorer.session import SessionReader

OTHERS = "all other options of torch"
"""The group of what has no words of ours."""

GROUP_OF = {name: group for group, options in GROUPS.items() for name in options}


@dataclass(frozen=True, slots=True)
class ExplainedOption:
    """One option with its values in this session."""

    group: str
    """What the option decides, such as ``graph breaks``."""
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
    def is_changed(self) -> bool:
        return any(force.set_by != "default" for force in self.in_force) or self.values != (
            self.setting.default,
        )

    @property
    def set_by(self) -> str:
        """Return who set values other than the default, each once: ``program, fx-explorer``;
        ``default`` when nobody did.
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
    session lacks; empty in a session without a catalogue.
    """
    return [option for option in all_options(reader) if option.name in WORDS]


def all_options(reader: SessionReader) -> list[ExplainedOption]:
    """Return every option that the session lists, those of explained_options first. The others are
    in torch's words, and a session does not say who set them.
    """
    values: dict[str, list[OptionInForce]] = defaultdict(list)
    for row in reader.rows(OptionInForce):
        if _is_json(row.value):
            values[row.name].append(row)
    return [
        ExplainedOption(
            GROUP_OF.get(setting.full_name, OTHERS),
            setting,
            explained(setting),
            tuple(values[setting.full_name]),
        )
        for setting in order_of(read_settings(reader))
    ]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    # The value is of a file that anybody may have written: nested deeply, it ends json's recursion.
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def choices_in_order(option: ExplainedOption) -> list[str]:
    """Return its values (JSON): those with words first, in their order; empty when there are too
    many to list.
    """
    parts = [value for value in option.words.values if value in option.setting.choices]
    return [*parts, *(value for value in option.setting.choices if value not in parts)]


def next_value(option: ExplainedOption, value: object) -> object:
    """Return the next choice among those with words; the value itself where there are none."""
    choices = [
        json.loads(choice)
        for choice in choices_in_order(option)
        if meaning(option, choice) or not option.words.values
    ]
    # For Python ``True`` equals 1, and 1 equals 1.0.
    at = next(
        (i for i, choice in enumerate(choices) if choice == value and type(choice) is type(value)),
        -1,
    )
    return choices[(at + 1) % len(choices)] if choices else value


def meaning(option: ExplainedOption, value: str) -> str:
    """Return the meaning of a value (JSON) of the option; empty where its words are enough."""
    return option.words.values.get(value, "")


def origins(option: ExplainedOption, folder: Path | None = None) -> list[str]:
    """Return ``False: set at train.py:5 for f``, one per value and who set it. Paths are relative
    to ``folder``.
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
    if row.file:
        return f"set at {_relative(row.file, folder)}:{row.line}"
    return f"set by the program{_side_effect(row)}"


_BY_DYNAMIC = ("dynamo.assume_static_by_default", "dynamo.automatic_dynamic_shapes")


def _side_effect(row: OptionInForce) -> str:
    """Return a remark for a config that torch itself may have set, for the argument ``dynamic``
    (eval_frame.py, make_set_enable_dynamic); empty for any other.
    """
    return ", or by its argument dynamic" if row.name in _BY_DYNAMIC else ""


def _relative(file: str, folder: Path | None) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if folder and path.is_relative_to(folder) else file


def explained(setting: Setting) -> OptionWords:
    """Return our words for an option; outside the console, the first sentence of torch's words."""
    return WORDS.get(setting.full_name) or OptionWords(_first_sentence(setting.help))


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")


def order_of(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings with the console's first, in its order, then all others in torch's
    order.
    """
    place = {name: position for position, name in enumerate(WORDS)}
    return sorted(settings, key=lambda setting: place.get(setting.full_name, len(place)))
