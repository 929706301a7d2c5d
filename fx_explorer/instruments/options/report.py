"""This module writes explanations of options as plain text and as JSON: what each does, its values
in a session, and the result of trying others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from fx_explorer.analysis.measured_times import ComparedFigure
from fx_explorer.instruments.options.explained_options import (
    OTHERS,
    ExplainedOption,
    choices_in_order,
    is_called,
    meaning,
    origins,
)
from fx_explorer.instruments.options.option_words import GROUPS, OptionWords
from fx_explorer.model import OptionInForce
from fx_explorer.model.setting_values import as_python
from fx_explorer.output.formats import text_of
from fx_explorer.output.terminal import Hanging, Line

FULL = 56
"""Length from which on a line of torch's text continues its sentence in the next line, in
characters.
"""

_ITEM = re.compile(r"[-*•] |\w+[:.)] |[`\"']\S+[`\"']:")


def options_text(options: Sequence[ExplainedOption], width: int | None = None) -> str:
    """Return the options by group; below an option, the origin of values other than the default.
    Lines have at most ``width`` cells here and below; None sets no limit.
    """
    lines: list[Line] = []
    for group, found in groupby(options, key=lambda option: option.group):
        lines += ["", group] if lines else [group]
        for option in found:
            lines += _lines(option)
    return text_of(lines, width)


def _lines(option: ExplainedOption) -> Iterator[str]:
    mark = "▲" if option.is_changed else " "
    yield f"{mark} {option.name} = {', '.join(as_python(option.values))}"
    if option.words.does:
        yield f"      {option.words.does}"
    if option.is_changed or not option.has_default:
        yield from (f"      {origin}" for origin in origins(option, Path.cwd()))


def option_text(option: ExplainedOption, width: int | None = None) -> str:
    """Return everything about one option."""
    lines: list[Line] = [option.name]
    if option.group != OTHERS:
        lines += _indented(f"{option.words.does} {option.words.more}".strip(), "  ")
    elif option.has_default and not option.setting.help:
        lines += ["  torch does not document this option."]
    lines += [""]
    lines += [Hanging("  in force   ", origin) for origin in origins(option, Path.cwd())]
    if not option.in_force:
        values = as_python(option.values)
        lines += [Hanging("  value      ", f"{value}: when the capture began") for value in values]
    if option.has_default:
        lines += [Hanging("  default    ", text) for text in as_python((option.setting.default,))]
    else:
        lines += ["  default    not recorded"]
    choices = choices_in_order(option)
    means = (meaning(option, value) for value in choices)
    lines += _side_by_side("  choice     ", as_python(choices), [*means])
    if option.setting.help:
        lines += ["", "  torch says", *_indented(_reflowed(option.setting.help), "    ")]
    return text_of(lines, width)


def known_text(wanted: str = "", width: int | None = None) -> str:
    """Return the text about all options, or one, without a session."""
    lines: list[Line] = []
    for group, every in GROUPS.items():
        options = {one: words for one, words in every.items() if is_called(one, wanted)}
        if options:
            lines += ["", group] if lines else [group]
        for name, words in options.items():
            lines += [
                f"  {name}",
                *_indented(f"{words.does} {words.more}".strip(), "      "),
                *_side_by_side(" " * 8, as_python(words.values), [*words.values.values()]),
            ]
    return text_of(lines, width)


def figures_text(figures: Sequence[ComparedFigure], width: int | None = None) -> str:
    """Return the figures that differ, before and after, and a line for all that are equal."""
    same = []
    lines: list[Line] = []
    for figure in figures:
        before = f"  {figure.what:<28} {figure.left:>10}"
        if not figure.differs:
            same.append(figure.what)
        elif figure.change:
            lines.append(Hanging(f"{before} → {figure.right:<10} ", figure.change))
        else:
            lines.append(f"{before} → {figure.right}")
    if same:
        lines.append(f"  as before: {', '.join(same)}")
    return text_of(lines, width)


def _indented(text: str, indent: str) -> list[str]:
    return [f"{indent}{paragraph}".rstrip() for paragraph in text.splitlines()]


def _reflowed(text: str) -> str:
    """Return torch's documentation of an option with one line for each paragraph: torch breaks full
    lines, and begins new ones for items of a list.
    """
    lines: list[str] = []
    was_full = False
    for line in (" ".join(line.split()) for line in text.splitlines()):
        if was_full and line and not _ITEM.match(line):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        was_full = len(line) >= FULL
    return "\n".join(lines)


def _side_by_side(before: str, values: Sequence[str], means: Sequence[str]) -> list[Line]:
    """Return the values of an option and their meanings in two columns."""
    wide = max(map(len, values), default=0)
    lines: list[Line] = []
    for value, effect in zip(values, means, strict=True):
        head = f"{before}{value:<{wide}}  "
        if effect:
            lines.append(Hanging(head, effect))
        else:
            lines.append(head.rstrip())
    return lines


# As JSON.


Json = dict[str, object]


def compile_option(option: ExplainedOption) -> Json:
    """Return an option; ``in_force`` has each value it had, in the order of their first use;
    ``set_by`` is never null. ``default`` is also null where a log does not say it.
    """
    return {
        "name": option.name,
        "group": option.group,
        "does": option.words.does,
        "default": json.loads(option.setting.default) if option.has_default else None,
        "in_force": [_in_force(row) for row in option.in_force],
        "choices": [
            {"value": json.loads(value), "means": meaning(option, value)}
            for value in option.setting.choices
        ],
    }


def _in_force(row: OptionInForce) -> Json:
    return {
        "value": json.loads(row.value),
        "set_by": row.set_by,
        "function": row.function or None,
        "file": row.file or None,
        "line": row.line or None,
        "variable": row.variable or None,
    }


def known_options(wanted: str = "") -> list[Json]:
    """Return a JSON object for each option, or for those called ``wanted``, from our catalogue
    alone: without a session they have no values.
    """
    listed = []
    for group, options in GROUPS.items():
        for name, words in options.items():
            if is_called(name, wanted):
                listed.append(_known_option(name, group, words))
    return listed


def _known_option(name: str, group: str, words: OptionWords) -> Json:
    return {
        "name": name,
        "group": group,
        "does": words.does,
        "more": words.more,
        "values": _meanings(words),
    }


def _meanings(words: OptionWords) -> list[Json]:
    return [{"value": json.loads(value), "means": means} for value, means in words.values.items()]
