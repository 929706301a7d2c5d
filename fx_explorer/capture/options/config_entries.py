"""This module reads and sets the entries of torch's config modules, and reads what the source of a
config module says of them.

torch makes the entries in torch/utils/_config_module.py (``install_config_module``,
``_ConfigEntry``). The source has the comments above and beside an entry, and types that torch does
not keep. Nothing of it is run: the file is read and parsed once. Lines between two statements are
comments or empty, so only the lines of a statement itself need a tokenizer.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from fx_explorer.capture.torch_compat.versions import override_of, require
from fx_explorer.model import SettingGroup

_PRAGMA = re.compile(r"\s*(type: *ignore|noqa|pyrefly:|pyre-|fmt:|pylint:|mypy:|flake8:|usort:)")
_MARKER = re.compile(r"\[?@compile_ignored(: *\w+)?\]? *")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_RULER = re.compile(r"[-=#~ ]{4,}$")


@dataclass(frozen=True, slots=True)
class SettingHelp:
    """One entry as its source has it."""

    help: str = ""
    annotation: str = ""
    guess: str = "Any"
    """A type read off the value, for an entry without annotation whose value is None."""
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
        """Return the entries of a block. A name assigned more than once keeps the first words and
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
        """Return the entries ``triton.…`` of a ``class triton:``, with what it inherits from a
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
    """Return comments without their ``#``, without what is meant for tools, and without rulers."""
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
    """Return the texts that look like an environment variable, wherever they are:
    ``os.environ.get("A_B")``, ``Config(env_name_force="A_B")``.
    """
    if value:
        texts = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    else:
        texts = []
    return tuple(text for text in texts if isinstance(text, str) and _VARIABLE.fullmatch(text))


def _guess(value: ast.expr | None) -> str:
    """Return the type of what ``value`` may come to: an environment variable that may be missing,
    either side of a condition.
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
        yield "None" if value.value is None else type(value.value).__name__
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
    "inductor": torch._inductor.config,
    "dynamo": torch._dynamo.config,
    "functorch": torch._functorch.config,
}

_NO_OPTIONS = ("TYPE_CHECKING",)
"""Names that the modules import, and torch takes for entries."""

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
    """Return what the source of its module says of it."""
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
    """Return whether something has set it since torch was imported. The environment does not count,
    because torch reads it as it is imported.
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
    """Set one as torch does for itself, so that what is put back is “not set by the user” where it
    was.
    """
    module, name = _resolved(group, name)
    restore: Restore = module._make_closure_patcher(**{name: value})()
    return restore


def _resolved(group: SettingGroup, name: str) -> tuple[Any, str]:
    """Return the module and name an alias stands for; an entry that is none stands for itself."""
    module = MODULES[group]
    while alias := getattr(module._config[name], "alias", None):
        module_name, name = alias.rsplit(".", 1)
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
    return module, name
