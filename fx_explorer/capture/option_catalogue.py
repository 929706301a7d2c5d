"""This module lists the options of the compiler: their types, their values, and torch's own
documentation.

The words come from the comments in the config modules' own source. What torch.compile takes comes
from its docstring.

torch makes the entries of a config module in torch/utils/_config_module.py
(``install_config_module``, ``_ConfigEntry``); they are read and set here. The source has the
comments above and beside an entry, and types that torch does not keep. Nothing of it is run: the
file is read and parsed once. Lines between two statements are comments or empty, so only the lines
of a statement itself need a tokenizer.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import json
import os
import re
import sys
import tokenize
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.recording.stage_events import REGIONAL
from fx_explorer.capture.torch_compat.private_names import (
    dynamo_config,
    functorch_config,
    inductor,
    inductor_config,
)
from fx_explorer.capture.torch_compat.versions import (
    compile_parameters,
    override_of,
    require,
    stances,
)
from fx_explorer.model import CACHE_OPTIONS, CONSOLE, STANCE, CaptureRequest, Setting, SettingGroup
from fx_explorer.model.setting_values import (
    choices_of,
    first_sentence,
    fits,
    is_plain,
    plain_type,
)
from fx_explorer.session import SessionWriter

_written: weakref.WeakSet[SessionWriter] = weakref.WeakSet()


def in_force(request: CaptureRequest | None = None) -> dict[str, object]:
    """Return the present value of every option, by full name, and of the arguments in ``request``.
    It takes about 2 ms. Call it before the recorder turns torch's caches off, which the user has
    not done.
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


def options_of_console(request: CaptureRequest) -> tuple[str, ...]:
    """Return the options that a capture documents, and whose values it records for each compile:
    those of the caches only where it leaves the caches as the program has them.
    """
    return CONSOLE + CACHE_OPTIONS if request.use_caches else CONSOLE


def list_settings(
    values: Mapping[str, object] | None = None,
    only: Collection[str] | None = None,
    with_help: Collection[str] | None = None,
) -> list[Setting]:
    """List every option, with its value in ``values`` (by full name), else its present value;
    ``only`` limits the list to these. Those in ``with_help`` have the whole of torch's
    documentation, others the first sentence; None: all have it. The first call reads the sources of
    the config modules (0.07 s), and makes torch load its backends if no compile has done so
    (0.2 s).
    """
    now = {**in_force(), **(values or {})}
    settings = _compile_settings(now)
    for group in MODULES:
        for name in names(group):
            full_name = f"{group}.{name}"
            if only is not None and full_name not in only:
                continue
            setting = _setting(group, name, now)
            if with_help is not None and full_name not in with_help:
                setting = replace(setting, help=first_sentence(setting.help), choices=())
            settings.append(setting)
    return settings


def add_catalogue(
    writer: SessionWriter,
    values: Mapping[str, object] | None = None,
    with_help: Collection[str] | None = None,
) -> None:
    """Write the catalogue of options, once for each session. ``values`` are those in force when the
    capture began; see ``list_settings`` for ``with_help``.
    """
    if writer not in _written:
        _written.add(writer)
        writer.add_all(list_settings(values, with_help=with_help))


def _setting(group: SettingGroup, name: str, values: Mapping[str, object]) -> Setting:
    described = _described(group, name)
    full_name = f"{group}.{name}"
    if full_name not in values:
        return described
    return replace(described, value=as_json(values[full_name]))


@cache
def _described(group: SettingGroup, name: str) -> Setting:
    """Describe an option with its default as its value. Torch does not change this while a process
    runs, and stepping lists the options again for each variant.
    """
    default, source = default_of(group, name), documented(group, name)
    type_text = _type_of(entry(group, name), source, default)
    return Setting(
        id=0,
        group=group,
        name=name,
        type=type_text,
        default=as_json(default),
        value=as_json(default),
        help=_help(entry(group, name), source),
        choices=choices_of(type_text),
    )


def _type_of(entry: Any, source: SettingHelp, default: object) -> str:
    """Return the plain part of the declared type, together with the default's own type if it does
    not fit: torch does not check that.
    """
    declared = _annotation(entry.value_type)
    if entry.value_type in (type(None), object, list, tuple, dict):
        # Taken from the default, as the entry (or the class it is inherited from) has no annotation
        # at run time.
        if default is None:
            declared = source.guess
        declared = source.annotation or declared
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
    """Return the value as JSON. A value that is not plain data is named, not printed, because its
    text may be anything.
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
"""The arguments that can be given as plain data and affect what is compiled."""


def _compile_settings(values: Mapping[str, object]) -> list[Setting]:
    """Return the arguments that the release has, and the stance."""
    defaults = compile_parameters()
    choices = {
        "mode": tuple(map(json.dumps, (None, *inductor.list_mode_options()))),
        # Without tags to leave out: those for debugging, such as aot_eager, are of use here.
        "backend": tuple(map(json.dumps, sorted({*torch.compiler.list_backends(()), REGIONAL}))),
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
    """Return the part of torch.compile's docstring about an argument: from ``name (type): …`` to
    the next one at the same depth.
    """
    match = re.search(
        rf"^( +){name} \((?:.*?)\): *(.*\n(?:\1 +.*\n|\s*\n)*)",
        torch.compile.__doc__ or "",
        re.MULTILINE,
    )
    lines = match[2].splitlines() if match else []
    return "\n".join(line.strip() for line in lines).strip()


# The entries of a config module.


_PRAGMA = re.compile(r"\s*(type: *ignore|noqa|pyrefly:|pyre-|fmt:|pylint:|mypy:|flake8:|usort:)")
_MARKER = re.compile(r"\[?@compile_ignored(: *\w+)?\]? *")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_RULER = re.compile(r"[-=#~ ]{4,}$")


@dataclass(frozen=True, slots=True)
class SettingHelp:
    """One config entry as documented in its source."""

    help: str = ""
    annotation: str = ""
    guess: str = "Any"
    """The type of the value, for an entry without annotation whose value is None."""
    variables: tuple[str, ...] = ()
    """Environment variables that its value is read from."""


@cache
def entries_of(module_name: str) -> dict[str, SettingHelp]:
    """Return the entries of a config module by name (``triton.cudagraphs``); empty when its source
    is not at hand.
    """
    spec = importlib.util.find_spec(module_name)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return {}
    try:
        text = Path(spec.origin).read_text(encoding="utf-8")
        return _ConfigSource(text).entries()
    except (OSError, SyntaxError, ValueError):
        # A torch that comes without sources: options without help.
        return {}


class _ConfigSource:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._body = ast.parse(text).body

    def entries(self) -> dict[str, SettingHelp]:
        return self._in_body(self._body, "", {})

    def _in_body(
        self, body: Sequence[ast.stmt], outer_help: str, before: dict[str, SettingHelp]
    ) -> dict[str, SettingHelp]:
        """Return the entries of a block. A name assigned more than once keeps the first comment and
        the first annotation.
        """
        entries = dict(before)
        for position, statement in enumerate(body):
            if isinstance(statement, ast.ClassDef):
                entries.update(self._in_class(statement, entries))
            elif isinstance(statement, ast.If | ast.Try | ast.With):
                for inner in _blocks(statement):
                    entries = self._in_body(inner, outer_help or self._above(statement), entries)
            elif name := _assigned(statement):
                following = body[position + 1] if position + 1 < len(body) else None
                entry = self._entry(statement, outer_help, following)
                first = entries.get(name, SettingHelp())
                entries[name] = replace(
                    entry,
                    help=first.help or entry.help,
                    annotation=first.annotation or entry.annotation,
                )
        return entries

    def _in_class(
        self, statement: ast.ClassDef, outer: dict[str, SettingHelp]
    ) -> dict[str, SettingHelp]:
        """Return the entries ``triton.…`` of a ``class triton:``, with the entries inherited from a
        class of the same module.
        """
        entries: dict[str, SettingHelp] = {}
        for base in statement.bases:
            prefix = f"{base.id}." if isinstance(base, ast.Name) else "?"
            for name, entry in outer.items():
                if name.startswith(prefix):
                    entries[name.removeprefix(prefix)] = entry
        entries |= self._in_body(statement.body, "", {})
        return {f"{statement.name}.{name}": entry for name, entry in entries.items()}

    def _entry(
        self, statement: ast.stmt, outer_help: str, following: ast.stmt | None
    ) -> SettingHelp:
        if isinstance(statement, ast.AnnAssign):
            annotation = ast.unparse(statement.annotation)
        else:
            annotation = ""
        value = getattr(statement, "value", None)
        help = "\n".join(
            filter(None, (self._above(statement), self._beside(statement), _docstring(following)))
        )
        return SettingHelp(help or outer_help, annotation, _guess(value), _variables(value))

    def _above(self, statement: ast.stmt) -> str:
        """Return the comment lines that end right above ``statement``."""
        first = statement.lineno - 1
        start = first
        while start and self._lines[start - 1].lstrip().startswith("#"):
            start -= 1
        return _prose(self._lines[start:first])

    def _beside(self, statement: ast.stmt) -> str:
        lines = self._lines[statement.lineno - 1 : statement.end_lineno]
        if not any("#" in line for line in lines):
            return ""
        return _prose(list(_comments("\n".join(line.lstrip() for line in lines))))


def _comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _prose(comments: Sequence[str]) -> str:
    """Return comments without their ``#``, without pragmas, and without rulers."""
    bodies = [comment.strip().lstrip("#") for comment in comments]
    bodies = [_MARKER.sub("", body.removeprefix(" ")) for body in bodies if not _PRAGMA.match(body)]
    return "\n".join(body.rstrip() for body in bodies if not _RULER.match(body)).strip()


def _docstring(statement: ast.stmt | None) -> str:
    """Return the string that stands alone after an assignment and describes it."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value.strip()
    return ""


def _assigned(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return ""
    if not isinstance(target, ast.Name):
        return ""
    return target.id


def _blocks(statement: ast.If | ast.Try | ast.With) -> Iterator[Sequence[ast.stmt]]:
    yield statement.body
    yield getattr(statement, "orelse", [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _variables(value: ast.expr | None) -> tuple[str, ...]:
    """Return the texts that look like an environment variable, anywhere in the expression:
    ``os.environ.get("A_B")``, ``Config(env_name_force="A_B")``.
    """
    if value:
        texts = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    else:
        texts = []
    return tuple(text for text in texts if isinstance(text, str) and _VARIABLE.fullmatch(text))


def _guess(value: ast.expr | None) -> str:
    """Return the possible types of the expression: of an environment variable that may be missing,
    of either side of a condition.
    """
    kinds = set(_kinds(value)) if value else set()
    if not kinds - {"None"}:
        return "Any"
    return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))


def _kinds(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        yield from _kinds(value.body)
        yield from _kinds(value.orelse)
    elif isinstance(value, ast.Constant):
        if value.value is None:
            yield "None"
        else:
            yield type(value.value).__name__
    elif isinstance(value, ast.Call) and ast.unparse(value.func) in ("os.environ.get", "os.getenv"):
        yield "str"
        yield "None"
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == "get_tristate_env":
        yield "bool"
        yield "None"
    else:
        yield "Any"


# The entries: what there is, the value now, and setting it.


MODULES: dict[SettingGroup, Any] = {
    "inductor": inductor_config,
    "dynamo": dynamo_config,
    "functorch": functorch_config,
}

_NO_OPTIONS = ("TYPE_CHECKING",)
"""Names that the modules only import, but that torch takes for entries."""

Restore = Callable[[], None]


def names(group: SettingGroup) -> Iterator[str]:
    return (name for name in MODULES[group]._config if name not in _NO_OPTIONS)


def entry(group: SettingGroup, name: str) -> Any:
    """Return the entry as torch has it: ``value_type``, ``alias``, ``deprecated``."""
    return MODULES[group]._config[name]


def default_of(group: SettingGroup, name: str) -> object:
    module, name = _resolved(group, name)
    return module._config[name].default


def documented(group: SettingGroup, name: str) -> SettingHelp:
    """Return the documentation of an option in the source of torch's module: its comment, its
    annotation, and its environment variables.
    """
    return entries_of(MODULES[group].__name__).get(name, SettingHelp())


def value_of(group: SettingGroup, name: str) -> object:
    """Return the value in force now, on this thread. The warning that torch gives once for a
    deprecated entry is left to the user.
    """
    module, name = _resolved(group, name)
    resolved = module._config[name]
    was_warned, resolved._deprecation_warned = getattr(resolved, "_deprecation_warned", False), True
    try:
        return getattr(module, name)
    except AttributeError:  # deleted, as unittest.mock does in between
        return resolved.default
    finally:
        resolved._deprecation_warned = was_warned


def value_set_by_user(group: SettingGroup, name: str) -> bool:
    """Return whether the option was set after torch was imported. The environment does not count,
    because torch reads it during the import.
    """
    module, name = _resolved(group, name)
    return override_of(module._config[name]) is not require(
        "torch.utils._config_module", "_UNSET_SENTINEL"
    )


def variable_of(group: SettingGroup, name: str) -> str:
    """Return the environment variable that is set and that torch reads for this entry; empty when
    there is none.
    """
    for variable in documented(group, name).variables:
        if variable in os.environ:
            return variable
    return ""


def set_entry(group: SettingGroup, name: str, value: object) -> Restore:
    """Set an option, and return a function that restores it. Both use torch's own patcher, so that
    an option that the user had not set counts as not set afterwards.
    """
    module, name = _resolved(group, name)
    restore: Restore = module._make_closure_patcher(**{name: value})()
    return restore


def is_alias(group: SettingGroup, name: str) -> bool:
    """Return whether the option is another name of one."""
    return getattr(MODULES[group]._config[name], "alias", None) is not None


def _resolved(group: SettingGroup, name: str) -> tuple[Any, str]:
    """Return the module and name that an alias refers to; an entry without an alias refers to
    itself.
    """
    module = MODULES[group]
    while alias := getattr(module._config[name], "alias", None):
        module_name, name = alias.rsplit(".", 1)
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
    return module, name
