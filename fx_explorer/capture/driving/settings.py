"""The options of the compiler: what there is, of which type, in torch's own words; checking and setting them.

The config modules and what their entries are: torch/utils/_config_module.py (``install_config_module``, ``_ConfigEntry``). The
words come from the comments in the modules' own source (setting_help.py). What torch.compile takes comes from its docstring.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import re
import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from fx_explorer.capture.driving.setting_help import Entry, entries_of
from fx_explorer.capture.versions import compile_parameters, override_of, part, stances
from fx_explorer.errors import UsageError
from fx_explorer.model import STANCE, WHOLE_CAPTURE, CaptureRequest, Setting, SettingGroup
from fx_explorer.model.setting_values import as_declared, choices_of, fits, is_plain, one_of, plain_type, problem_of
from fx_explorer.session import SessionWriter

MODULES: dict[SettingGroup, Any] = {
    "inductor": torch._inductor.config,
    "dynamo": torch._dynamo.config,
    "functorch": torch._functorch.config,
}

REGIONAL = "regional_inductor"
"""A backend of ours by name: torch/fx/passes/regional_inductor.py."""

_NO_OPTIONS = ("TYPE_CHECKING",)
"""Names that the modules import, and torch takes for entries."""

Restore = Callable[[], None]

_written: weakref.WeakSet[SessionWriter] = weakref.WeakSet()


# what there is


def in_force(request: CaptureRequest | None = None) -> dict[str, object]:
    """The value of every option now, by full name, and of what ``request`` gives to torch.compile. Some 2 ms.

    To be asked before the recorder turns torch's caches off, which is none of the user's doing.
    """
    now = {f"{group}.{name}": _value(module, name) for group, module in MODULES.items() for name in _names(module)}
    if request:
        now |= {f"inductor.{name.replace('-', '_')}": value for name, value in request.options.items()}
        now |= {"compile.backend": request.backend, "compile.mode": request.mode or None, "compile.dynamic": request.dynamic}
        now |= {f"compile.{name}": value for name, value in request.compile_arguments.items()}
        now |= {"compile.options": dict(request.options)} if request.options else {}
        now |= {STANCE: request.stance_wanted} if request.stance_wanted else {}
    return now


def catalogue(values: Mapping[str, object] | None = None, only: Collection[str] | None = None) -> list[Setting]:
    """Every option, with the value it has in ``values`` (by full name), else now. ``only``: no others.

    The first call reads the sources of the config modules, and has torch load its backends if no compile has yet (0.2 s).
    """
    now = {**in_force(), **(values or {})}
    configs = [(group, name) for group in MODULES for name in _names(MODULES[group])]
    wanted = [(group, name) for group, name in configs if only is None or f"{group}.{name}" in only]
    return [*_compile_settings(now), *(_setting(group, name, now) for group, name in wanted)]


def add_catalogue(
    writer: SessionWriter, values: Mapping[str, object] | None = None, only: Collection[str] | None = None
) -> None:
    """Write the catalogue, once for each session. ``values``: in force when the capture began; ``only``: no others."""
    if writer not in _written:
        _written.add(writer)
        writer.add_all(catalogue(values, only))


def _names(module: Any) -> Iterator[str]:
    return (name for name in module._config if name not in _NO_OPTIONS)


def _resolved(module: Any, name: str) -> tuple[Any, str]:
    """The module and name an alias stands for; an entry that is none stands for itself."""
    while alias := getattr(module._config[name], "alias", None):
        module_name, name = alias.rsplit(".", 1)
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
    return module, name


def value_of(group: SettingGroup, name: str) -> object:
    """What is in force now, on this thread."""
    return _value(MODULES[group], name)


def value_set_by_user(group: SettingGroup, name: str) -> bool:
    """Whether something has set it since torch was imported: not the environment, which torch reads as it is imported."""
    module, name = _resolved(MODULES[group], name)
    return override_of(module._config[name]) is not part("torch.utils._config_module", "_UNSET_SENTINEL")


def variable_of(group: SettingGroup, name: str) -> str:
    """The environment variable that is set and that torch reads for this entry; empty: none."""
    named = entries_of(MODULES[group].__name__).get(name, Entry()).variables
    return next((variable for variable in named if variable in os.environ), "")


def _value(module: Any, name: str) -> object:
    """As torch reads it, but without the warning that a deprecated entry gives once: that one is the user's."""
    module, name = _resolved(module, name)
    entry = module._config[name]
    was_warned, entry._deprecation_warned = getattr(entry, "_deprecation_warned", False), True
    try:
        return getattr(module, name)
    except AttributeError:  # deleted, as unittest.mock does in between
        return entry.default
    finally:
        entry._deprecation_warned = was_warned


def _setting(group: SettingGroup, name: str, values: Mapping[str, object]) -> Setting:
    module, resolved_name = _resolved(MODULES[group], name)
    default = module._config[resolved_name].default
    source = entries_of(MODULES[group].__name__).get(name, Entry())
    value = values.get(f"{group}.{name}", default)
    type_text = _type_of(MODULES[group]._config[name], source, default)
    return Setting(
        id=0,
        group=group,
        name=name,
        type=type_text,
        default=as_json(default),
        value=as_json(value),
        help=_help(MODULES[group]._config[name], source),
        choices=choices_of(type_text),
    )


def _type_of(entry: Any, source: Entry, default: object) -> str:
    """The plain part of the declared type, and the default's own: torch does not hold the two together."""
    declared = _annotation(entry.value_type)
    if entry.value_type in (type(None), object, list, tuple, dict):
        # Taken from the default, as the entry (or the class it is inherited from) has no annotation at run time.
        declared = source.annotation or (source.guess if default is None else declared)
    type_text = plain_type(declared)
    if type_text and not fits(type_text, default):
        type_text = plain_type(f"{type_text} | {_annotation(type(default))}") if is_plain(default) else ""
    return type_text


def _annotation(value_type: object) -> str:
    return value_type.__name__ if type(value_type) is type else str(value_type)


def _help(entry: Any, source: Entry) -> str:
    parts = [source.help]
    if alias := getattr(entry, "alias", None):
        parts.append(f"Another name of {alias}.")
    if getattr(entry, "deprecated", False):
        parts.append(f"Deprecated: {entry.deprecation_message or 'it will be removed'}.")
    return "\n".join(filter(None, parts))


def as_json(value: object) -> str:
    """What is no plain data is named, not printed: a printed object may be anything."""
    if is_plain(value):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    members = sorted(map(_name, value)) if isinstance(value, set | frozenset | list | tuple) else _name(value)
    return json.dumps(members, ensure_ascii=False)


def _name(value: object) -> str:
    return value if isinstance(value, str) else str(getattr(value, "__qualname__", type(value).__qualname__))


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
"""Those that can be given as plain data and decide what is compiled."""


def _compile_settings(values: Mapping[str, object]) -> list[Setting]:
    """The arguments that the release has, and the stance."""
    defaults = compile_parameters()
    choices = {
        "mode": tuple(map(json.dumps, (None, *torch._inductor.list_mode_options()))),
        "backend": tuple(map(json.dumps, sorted({*torch._dynamo.list_backends(()), REGIONAL}))),
    }
    return [
        _compile_setting(name, type_text, choices.get(name) or choices_of(type_text), defaults[name], values)
        for name, type_text in _ARGUMENT_TYPES.items()
        if name in defaults
    ] + [_stance_setting(values)]


def _compile_setting(
    name: str, type_text: str, choices: tuple[str, ...], default: object, values: Mapping[str, object]
) -> Setting:
    value = values.get(f"compile.{name}", default)
    return Setting(0, "compile", name, type_text, as_json(default), as_json(value), _argument_help(name), choices)


def _stance_setting(values: Mapping[str, object]) -> Setting:
    choices = tuple(map(json.dumps, stances()))
    return Setting(0, "compiler", "stance", "str", '"default"', as_json(values.get(STANCE, "default")), _stance_help(), choices)


def _stance_help() -> str:
    """From “The stance to set the compiler to” to the next argument."""
    found = re.search(r"( +)stance: (.*?)\n\s*\n+\1\w+:", torch.compiler.set_stance.__doc__ or "", re.DOTALL)
    return "\n".join(line.strip() for line in found[2].splitlines()).strip() if found else ""


def _argument_help(name: str) -> str:
    """What torch.compile's docstring says of an argument: from ``name (type): …`` to the next one at the same depth."""
    found = re.search(rf"^( +){name} \((?:.*?)\): *(.*\n(?:\1 +.*\n|\s*\n)*)", torch.compile.__doc__ or "", re.MULTILINE)
    lines = found[2].splitlines() if found else []
    return "\n".join(line.strip() for line in lines).strip()


# setting them


def check(settings: Mapping[str, object]) -> None:
    """Raises UsageError for entries that do not exist or have another type."""
    apply(settings)()


def check_at_gate(settings: Mapping[str, object]) -> None:
    """Raises UsageError for what only a whole capture can have."""
    whole = [name for name in settings if name in WHOLE_CAPTURE]
    if whole:
        raise UsageError(
            f"{one_of(whole)} decides whether and how Dynamo is entered, so it cannot be changed at a gate; capture again with "
            + " ".join(f"--setting {name}={json.dumps(settings[name])}" for name in whole)
        )


def apply(settings: Mapping[str, object]) -> Restore:
    """Check all of ``settings`` (by full name), set those of the config modules, and return what puts back what was before.

    Entries of ``compile.*`` and the stance are checked only: they are the caller's business. torch keeps options for each
    thread: call this, and what it returns, on the thread that compiles. Raises UsageError, and then nothing was changed.
    """
    known = {setting.full_name: setting for setting in catalogue()} if settings else {}
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
                restores.append(_set(known[name], as_declared(known[name], value)))
                _check_taken(known[name], value)
    except BaseException:
        restore()
        raise
    return restore


def _problem(known: Mapping[str, Setting], name: str, value: object) -> str:
    return problem_of(known[name], value) if name in known else f"there is no option {name}{_near(known, name)}"


def _near(known: Mapping[str, Setting], name: str) -> str:
    groups = {setting.group for setting in known.values()}
    near = difflib.get_close_matches(name, known, n=3)
    if name.partition(".")[0] not in groups:
        near = [full for full, setting in known.items() if setting.name == name] or near
    if near:
        return f"; did you mean {one_of(near)}?"
    return f"; write GROUP.NAME with one of the groups {', '.join(sorted(groups))}, as in inductor.max_fusion_size"


def _set(setting: Setting, value: object) -> Restore:
    """Set one entry as torch does for itself, so that what is put back is “not set by the user” where it was."""
    module, name = _resolved(MODULES[setting.group], setting.name)
    try:
        return module._make_closure_patcher(**{name: value})()
    except Exception as error:
        raise UsageError(f"torch refuses {setting.full_name} = {json.dumps(value, default=repr)}: {error}") from error


def _check_taken(setting: Setting, value: object) -> None:
    if _value(MODULES[setting.group], setting.name) != as_declared(setting, value):
        raise UsageError(
            f"{setting.full_name} cannot be changed: an environment variable, or another option, decides it in this process; "
            "see where torch's config module declares it, unset that and capture again"
        )
