"""Options explained in the JSON report, and of its own."""

from __future__ import annotations

import json

from fx_explorer.instruments.options.explained_options import ExplainedOption, is_called, meaning
from fx_explorer.instruments.options.option_words import GROUPS, OptionWords
from fx_explorer.model import OptionInForce

Json = dict[str, object]


def compile_option(option: ExplainedOption) -> Json:
    """Return an option; ``in_force`` has each value it had, in the order of their first use;
    ``set_by`` is never null.
    """
    return {
        "name": option.name,
        "group": option.group,
        "does": option.words.does,
        "default": json.loads(option.setting.default),
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
    """Return what is known of the options without a session, or of one: no values of any torch."""
    return [
        {
            "name": name,
            "group": group,
            "does": words.does,
            "more": words.more,
            "values": _meanings(words),
        }
        for group, options in GROUPS.items()
        for name, words in options.items()
        if is_called(name, wanted)
    ]


def _meanings(words: OptionWords) -> list[Json]:
    return [{"value": json.loads(value), "means": means} for value, means in words.values.items()]
