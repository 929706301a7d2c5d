"""What the dialog of options says: its rows, the words for one option, and the result of trying
another value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from fx_explorer.instruments.options.explained_options import (
    GROUP_OF,
    OTHERS,
    ExplainedOption,
    choices_in_order,
    explained,
    meaning,
    order_of,
    origins,
)
from fx_explorer.instruments.options.settings import is_changed, search
from fx_explorer.instruments.options.trial import OptionTrial, figures_of, settings_in_words
from fx_explorer.model import Setting
from fx_explorer.model.setting_values import as_python, python_text
from fx_explorer.tui.widgets.row_list import ListColumn, Row

COLUMNS = (
    ListColumn("option", "text", min_width=34, max_width=52),
    ListColumn("in force", "text", min_width=8, max_width=22),
    ListColumn("default", "muted", min_width=8, max_width=18, priority=1),
    ListColumn("set by", "annotation", min_width=8, max_width=22, priority=2),
    ListColumn("what it does", "muted", min_width=20, max_width=100, priority=3),
)

OptionEntry = Setting | str
"""A row of the list: an option, or the heading above some."""


def entries(settings: Sequence[Setting], typed: str, chosen: Collection[str]) -> list[OptionEntry]:
    """Return what matches ``typed``, best first; with nothing typed everything under headings, what
    was changed on top.
    """
    found = search(settings, typed, chosen)
    if typed.strip():
        return list(found)
    picked = [setting for setting in found if setting.full_name in chosen]
    rest = order_of(setting for setting in found if setting.full_name not in chosen)
    rows: list[OptionEntry] = [*picked]
    for group, some in groupby(rest, key=lambda setting: GROUP_OF.get(setting.full_name, OTHERS)):
        rows += [group, *some]
    return rows


def row_of(entry: OptionEntry, option: ExplainedOption | None, chosen: Mapping[str, object]) -> Row:
    """Return the row of a setting. ``option`` has its values in force, for one that the console
    explains.
    """
    if isinstance(entry, str):
        return ((f"── {entry}", "strong"),)
    name = entry.full_name
    value, kind = ", ".join(as_python(option.values if option else (entry.value,))), "text"
    if (option.is_changed if option else is_changed(entry)) or name in chosen:
        kind = "annotation"
    if name in chosen:
        value, kind = python_text(chosen[name]), "warning"
    if option and option.in_force:
        set_by = option.set_by
    elif entry.value == entry.default:
        set_by = ""
    else:
        set_by = "not the default"
    does = explained(entry).does if entry.type else "holds a Python object"
    return (
        (name, "text" if entry.type else "muted"),
        (value, kind),
        *as_python((entry.default,)),
        "" if set_by == "default" else set_by,
        does,
    )


def help_of(setting: Setting, option: ExplainedOption | None = None) -> str:
    """Say what the option does, its values in force and who set them, what it may be, and torch's
    own words.
    """
    parts = [f"{setting.full_name}: {setting.type or 'a Python object'}"]
    if option:
        parts[0] += f"\n{option.words.does} {option.words.more}".rstrip()
        parts += ["\n".join(_in_force(option)), *filter(None, ["\n".join(_choices(option))])]
    elif setting.choices:
        parts[0] += f"\nAllowed: {', '.join(as_python(setting.choices))}"
    if not setting.type:
        parts[0] += "\nIt cannot be set from here, only in your own program."
    said = setting.help or ("" if option else "torch does not document this option.")
    return "\n\n".join([*parts, f"torch says: {said}" if option and said else said]).rstrip()


def _in_force(option: ExplainedOption) -> list[str]:
    if not option.in_force:
        value, default = as_python((option.setting.value, option.setting.default))
        return [f"When the capture began: {value} · default: {default}"]
    rows = [f"In force: {origin}" for origin in origins(option, Path.cwd())]
    if option.values == (option.setting.default,):
        return rows
    return [*rows, *(f"Default: {one}" for one in as_python((option.setting.default,)))]


def _choices(option: ExplainedOption) -> list[str]:
    """List the values there are words for, one per line; then the others."""
    parts = [value for value in choices_in_order(option) if meaning(option, value)]
    others = [value for value in choices_in_order(option) if value not in parts]
    shown = as_python(parts)
    width = max(map(len, shown), default=0)
    lines = [
        f"{text:<{width}}  {meaning(option, value)}"
        for text, value in zip(shown, parts, strict=True)
    ]
    if others:
        return [*lines, f"{'also' if parts else 'allowed'}: {', '.join(as_python(others))}"]
    return lines


def trial_in_words(trial: OptionTrial) -> str:
    """Say what changed, before → after; and how it ended, when that is worth a word."""
    lines = [f"tried {settings_in_words(trial.settings)} in {trial.took_s:.0f} s"]
    if trial.outcome.kind != "finished" or trial.outcome.message:
        lines.append(f"{trial.outcome.kind.replace('_', ' ')}: {trial.outcome.message}")
    if trial.outcome.kind == "not_started":
        return "\n".join(lines)
    figures = figures_of(trial)
    lines += [
        f"  {figure.what:<28} {figure.left:>10} → {figure.right:<10} {figure.change}"
        for figure in figures
        if figure.differs
    ]
    return "\n".join(
        [*lines, f"as before: {', '.join(figure.what for figure in figures if not figure.differs)}"]
    )
