"""This module lists the options of the compiler: their types, their values, and what they do in
torch's own words.

The words come from the comments in the config modules' own source (config_entries.py). What
torch.compile takes comes from its docstring.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Collection, Mapping
from typing import Any

import torch

from fx_explorer.capture.options.config_entries import (
    MODULES,
    SettingHelp,
    default_of,
    documented,
    entry,
    names,
    value_of,
)
from fx_explorer.capture.recording.stages import REGIONAL
from fx_explorer.capture.torch_compat.versions import compile_parameters, stances
from fx_explorer.model import STANCE, CaptureRequest, Setting, SettingGroup
from fx_explorer.model.setting_types import choices_of, fits, is_plain, plain_type
from fx_explorer.session import SessionWriter

_written: weakref.WeakSet[SessionWriter] = weakref.WeakSet()


def in_force(request: CaptureRequest | None = None) -> dict[str, object]:
    """Return the value of every option now, by full name, and of what ``request`` gives to
    torch.compile. It takes some 2 ms. Ask before the recorder turns torch's caches off, which is
    none of the user's doing.
    """
    now: dict[str, object] = {}
    for group in MODULES:
        for name in names(group):
            now[f"{group}.{name}"] = value_of(group, name)
    if not request:
        return now
    for name, value in request.options.items():
        now[f"inductor.{name.replace('-', '_')}"] = value
    now["compile.backend"] = request.backend
    now["compile.mode"] = request.mode or None
    now["compile.dynamic"] = request.dynamic
    for name, value in request.compile_arguments.items():
        now[f"compile.{name}"] = value
    if request.options:
        now["compile.options"] = dict(request.options)
    if request.stance_wanted:
        now[STANCE] = request.stance_wanted
    return now


def list_settings(
    values: Mapping[str, object] | None = None, only: Collection[str] | None = None
) -> list[Setting]:
    """List every option, with the value it has in ``values`` (by full name), else now; ``only``
    limits the list to these. The first call reads the sources of the config modules, and has torch
    load its backends if no compile has yet (0.2 s).
    """
    now = {**in_force(), **(values or {})}
    settings = _compile_settings(now)
    for group in MODULES:
        for name in names(group):
            if only is None or f"{group}.{name}" in only:
                settings.append(_setting(group, name, now))
    return settings


def add_catalogue(
    writer: SessionWriter,
    values: Mapping[str, object] | None = None,
    only: Collection[str] | None = None,
) -> None:
    """Write the catalogue, once for each session. ``values``: in force when the capture began;
    ``only``: no others.
    """
    if writer not in _written:
        _written.add(writer)
        writer.add_all(list_settings(values, only))


def _setting(group: SettingGroup, name: str, values: Mapping[str, object]) -> Setting:
    default, source = default_of(group, name), documented(group, name)
    value = values.get(f"{group}.{name}", default)
    type_text = _type_of(entry(group, name), source, default)
    return Setting(
        id=0,
        group=group,
        name=name,
        type=type_text,
        default=as_json(default),
        value=as_json(value),
        help=_help(entry(group, name), source),
        choices=choices_of(type_text),
    )


def _type_of(entry: Any, source: SettingHelp, default: object) -> str:
    """Return the plain part of the declared type, together with the default's own type where the
    default does not fit: torch does not hold the two together.
    """
    declared = _annotation(entry.value_type)
    if entry.value_type in (type(None), object, list, tuple, dict):
        # Taken from the default, as the entry (or the class it is inherited from) has no annotation
        # at run time.
        declared = source.annotation or (source.guess if default is None else declared)
    type_text = plain_type(declared)
    if type_text and not fits(type_text, default):
        if not is_plain(default):
            return ""
        return plain_type(f"{type_text} | {_annotation(type(default))}")
    return type_text


def _annotation(value_type: object) -> str:
    if type(value_type) is type:
        return value_type.__name__
    return str(value_type)


def _help(entry: Any, source: SettingHelp) -> str:
    parts = [source.help]
    if alias := getattr(entry, "alias", None):
        parts.append(f"Another name of {alias}.")
    if getattr(entry, "deprecated", False):
        parts.append(f"Deprecated: {entry.deprecation_message or 'it will be removed'}.")
    return "\n".join(filter(None, parts))


def as_json(value: object) -> str:
    """Return the value as JSON. What is no plain data is named, not printed: a printed object may
    be anything.
    """
    if is_plain(value):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    if isinstance(value, set | frozenset | list | tuple):
        return json.dumps(sorted(map(_name, value)), ensure_ascii=False)
    return json.dumps(_name(value), ensure_ascii=False)


def _name(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", type(value).__qualname__))


# torch.compile's own arguments


_ARGUMENT_TYPES = {
    "backend": "str",
    "mode": "str | None",
    "options": "dict[str, Any] | None",
    "dynamic": "bool | None",
    "fullgraph": "bool",
    "disable": "bool",
    "recompile_limit": "int | None",
    "isolate_recompiles": "bool",
}
"""The arguments that can be given as plain data and decide what is compiled."""


def _compile_settings(values: Mapping[str, object]) -> list[Setting]:
    """Return the arguments that the release has, and the stance."""
    defaults = compile_parameters()
    choices = {
        "mode": tuple(map(json.dumps, (None, *torch._inductor.list_mode_options()))),
        # Without tags to leave out: those for debugging, such as aot_eager, are of use here.
        "backend": tuple(map(json.dumps, sorted({*torch._dynamo.list_backends(()), REGIONAL}))),
    }
    settings = []
    for name, type_text in _ARGUMENT_TYPES.items():
        if name in defaults:
            of_name = choices.get(name) or choices_of(type_text)
            settings.append(_compile_setting(name, type_text, of_name, defaults[name], values))
    return [*settings, _stance_setting(values)]


def _compile_setting(
    name: str,
    type_text: str,
    choices: tuple[str, ...],
    default: object,
    values: Mapping[str, object],
) -> Setting:
    value = values.get(f"compile.{name}", default)
    return Setting(
        0,
        "compile",
        name,
        type_text,
        as_json(default),
        as_json(value),
        _argument_help(name),
        choices,
    )


def _stance_setting(values: Mapping[str, object]) -> Setting:
    choices = tuple(map(json.dumps, stances()))
    return Setting(
        0,
        "compiler",
        "stance",
        "str",
        '"default"',
        as_json(values.get(STANCE, "default")),
        _stance_help(),
        choices,
    )


def _stance_help() -> str:
    """Return the help of stances: from “The stance to set the compiler to” to the next argument."""
    documentation = torch.compiler.set_stance.__doc__ or ""
    match = re.search(r"( +)stance: (.*?)\n\s*\n+\1\w+:", documentation, re.DOTALL)
    if not match:
        return ""
    return "\n".join(line.strip() for line in match[2].splitlines()).strip()


def _argument_help(name: str) -> str:
    """Return what torch.compile's docstring says of an argument: from ``name (type): …`` to the
    next one at the same depth.
    """
    match = re.search(
        rf"^( +){name} \((?:.*?)\): *(.*\n(?:\1 +.*\n|\s*\n)*)",
        torch.compile.__doc__ or "",
        re.MULTILINE,
    )
    lines = match[2].splitlines() if match else []
    return "\n".join(line.strip() for line in lines).strip()
