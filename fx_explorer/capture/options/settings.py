"""Checking and setting options of the compiler."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping

from fx_explorer.capture.options.catalogue import list_settings
from fx_explorer.capture.options.config_entries import MODULES, Restore, set_entry, value_of
from fx_explorer.errors import UsageError
from fx_explorer.model import WHOLE_CAPTURE, Setting
from fx_explorer.model.setting_types import declared
from fx_explorer.model.setting_values import one_of, problem_of


def check(settings: Mapping[str, object]) -> None:
    """Raise UsageError for entries that do not exist or have another type."""
    # Some values torch itself refuses, and that shows only when they are set.
    apply(settings)()


def check_at_gate(settings: Mapping[str, object]) -> None:
    """Raise UsageError for what only a whole capture can have."""
    whole = [name for name in settings if name in WHOLE_CAPTURE]
    if whole:
        raise UsageError(
            (
                f"{one_of(whole)} decides whether and how Dynamo is entered, so it cannot "
                "change at a pause; capture again with "
            )
            + " ".join(f"--setting {name}={json.dumps(settings[name])}" for name in whole)
        )


def apply(settings: Mapping[str, object]) -> Restore:
    """Check all of ``settings`` (by full name), set those of the config modules, and return what
    puts back what was before.

    Entries of ``compile.*`` and the stance are checked only: they are the caller's business. torch
    keeps options for each thread: call this, and what it returns, on the thread that compiles.
    Raises UsageError, and then nothing was changed.
    """
    known = {setting.full_name: setting for setting in list_settings()} if settings else {}
    problems = [_problem(known, name, value) for name, value in settings.items()]
    if any(problems):
        raise UsageError("; ".join(filter(None, problems)))
    restores: list[Restore] = []

    def restore() -> None:
        while restores:
            restores.pop()()

    try:
        for name, value in settings.items():
            if known[name].group in MODULES:
                restores.append(_set(known[name], declared(known[name].type, value)))
                _check_taken(known[name], value)
    except BaseException:
        restore()
        raise
    return restore


def _problem(known: Mapping[str, Setting], name: str, value: object) -> str:
    if name in known:
        return problem_of(known[name], value)
    return f"there is no option {name}{_near(known, name)}"


def _near(known: Mapping[str, Setting], name: str) -> str:
    groups = {setting.group for setting in known.values()}
    near = difflib.get_close_matches(name, known, n=3)
    if name.partition(".")[0] not in groups:
        # A name without its group is more likely meant than one that looks alike.
        near = [full for full, setting in known.items() if setting.name == name] or near
    if near:
        return f"; did you mean {one_of(near)}?"
    return (
        f"; write GROUP.NAME with one of the groups {', '.join(sorted(groups))}, as in "
        "inductor.max_fusion_size"
    )


def _set(setting: Setting, value: object) -> Restore:
    try:
        return set_entry(setting.group, setting.name, value)
    except Exception as error:
        raise UsageError(
            f"torch refuses {setting.full_name} = {json.dumps(value, default=repr)}: {error}"
        ) from error


def _check_taken(setting: Setting, value: object) -> None:
    if value_of(setting.group, setting.name) != declared(setting.type, value):
        raise UsageError(
            f"{setting.full_name} cannot be changed: an environment variable, or another "
            "option, decides it in this process; "
            "see where torch's config module declares it, unset that and capture again"
        )
