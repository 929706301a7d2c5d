"""Options explained as plain text: what each does, its values in a session, and what came of
trying others.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from fx_explorer.analysis.comparing.figure import Figure
from fx_explorer.analysis.options.explained_options import ExplainedOption, choices_in_order, is_called, meaning, origins
from fx_explorer.analysis.options.option_words import GROUPS, OptionWords
from fx_explorer.highlight import printable
from fx_explorer.model.setting_values import as_python

WIDTH = 100


def options_text(options: Sequence[ExplainedOption]) -> str:
    """Print the options by group; below an option stands who set what is not the default."""
    lines: list[str] = []
    for group, found in groupby(options, key=lambda option: option.group):
        lines += ["", group] if lines else [group]
        for option in found:
            lines += _lines(option)
    return "\n".join(map(printable, lines)) + "\n"


def _lines(option: ExplainedOption) -> Iterator[str]:
    yield f"{'▲' if option.is_changed else ' '} {option.name} = {', '.join(as_python(option.values))}"
    yield f"      {option.words.does}"
    if option.is_changed:
        yield from (f"      {origin}" for origin in origins(option, Path.cwd()))


def option_text(option: ExplainedOption) -> str:
    """Return everything about one option."""
    lines = [option.name, *_wrapped(f"{option.words.does} {option.words.more}".strip(), "  "), ""]
    lines += [f"  in force   {origin}" for origin in origins(option, Path.cwd())]
    lines += [f"  default    {one}" for one in as_python((option.setting.default,))]
    choices = choices_in_order(option)
    means = (meaning(option, value) for value in choices)
    lines += [f"  choice     {text:<28} {one}".rstrip() for text, one in zip(as_python(choices), means, strict=True)]
    if option.setting.help:
        lines += ["", "  torch says", *_wrapped(option.setting.help, "    ")]
    return "\n".join(map(printable, lines)) + "\n"


def known_text(wanted: str = "") -> str:
    """Return what is known without a session, of all or of one option."""
    lines: list[str] = []
    for group, every in GROUPS.items():
        options = {one: words for one, words in every.items() if is_called(one, wanted)}
        if options:
            lines += ["", group] if lines else [group]
        for name, words in options.items():
            lines += [f"  {name}", *_wrapped(f"{words.does} {words.more}".strip(), "      "), *_values(words)]
    return "\n".join(lines) + "\n"


def _values(words: OptionWords) -> list[str]:
    return [f"        {text:<28} {means}" for text, means in zip(as_python(words.values), words.values.values(), strict=True)]


def figures_text(figures: Sequence[Figure]) -> str:
    """Return what differs, before and after; a line for all that is as before."""
    differing = [figure for figure in figures if figure.differs]
    same = [figure.what for figure in figures if not figure.differs]
    lines = [f"  {figure.what:<28} {figure.left:>10} → {figure.right:<10} {figure.change}".rstrip() for figure in differing]
    lines += (
        textwrap.wrap(f"as before: {', '.join(same)}", WIDTH, initial_indent="  ", subsequent_indent="    ") if same else []
    )
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str) -> list[str]:
    return [
        line
        for paragraph in text.splitlines()
        for line in textwrap.wrap(paragraph, WIDTH, initial_indent=indent, subsequent_indent=indent)
    ]
