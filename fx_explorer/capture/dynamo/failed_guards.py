"""This module records the value that a failed guard checked, while the program runs, before torch
recompiles.

Hook: ``get_guard_fail_reason`` (torch/_dynamo/guards.py), which torch calls for each compiled code
of a function that did not fit, while the locals of the call are at hand. torch's own text has the
guard, and the new value only of some.

Of a dict torch asks for the number of entries (``len(L['d']) != 2``, for ``**kwargs`` that are
handed on ``len(L['kwargs']) == 2``) and for each key (``list(dict.keys(L['d']))[1] == 'b'``,
``DICT_KEYS_MATCH`` and ``MAPPING_KEYS_CHECK`` in torch/_dynamo/guards.py). The one that fails first
names at most one of them, so the keys are compared here.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fx_explorer.capture.recording.described import described
from fx_explorer.capture.recording.live_guards import leaves
from fx_explorer.capture.recording.noting import FailedGuard, GuardedValue
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import dynamo_guards
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.reports import version_of, what_failed


def recompile_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Note which guard failed, and the value it looked at, whenever torch looks for a compiled code
    that fits.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def get_guard_fail_reason(
            manager: Any, code: Any, f_locals: dict[str, Any], *args: Any
        ) -> Any:
            reason = original(manager, code, f_locals, *args)
            with recording.noting_guards("what changed before a recompile", "dynamo"):
                name = recording.compilation_name()
                if name:  # none: a stance asks, under which nothing is compiled
                    if code is not None:  # None: torch has thrown that version away
                        recording.recompiles.functions[name] = code
                        receiver = recording.live_guards.receiver(code, f_locals)
                        recording.recompiles.receivers[name] = receiver
                    failed = recording.recompiles.failed_guards.setdefault(name, {})
                    count_failed(failed, str(reason), lambda: guarded_value(manager, f_locals))
            return reason

        return get_guard_fail_reason

    return patched(dynamo_guards, "get_guard_fail_reason", make)


def count_failed(
    failed: dict[str, FailedGuard], reason: str, look: Callable[[], GuardedValue]
) -> None:
    """Note a failed guard. All n compilations of a function fail before the next one is made, so a
    value is looked at once per recompile.
    """
    about = what_failed(reason)
    if about in failed:
        failed[about].times += 1
        if version_of(reason) > version_of(failed[about].reason):
            failed[about].reason = reason
    elif len(failed) < MOST_KEPT:
        failed[about] = FailedGuard(reason, look())
    elif OTHERS in failed:
        failed[OTHERS].times += 1
    else:
        failed[OTHERS] = FailedGuard(OTHERS, GuardedValue())


MOST_KEPT = 16
"""Maximum number of different guards that are recorded for one recompile. Of further ones only the
number is kept.
"""

OTHERS = ": other objects, of which only the number is kept"
"""The text that replaces torch's for all guards beyond that limit."""


def guarded_value(manager: Any, f_locals: dict[str, Any]) -> GuardedValue:
    """Evaluate the expression that torch's own check evaluates. Everything is empty when no guard
    of this code fails.
    """
    if isinstance(manager, dynamo_guards.DeletedGuardManagerWrapper):
        return GuardedValue()
    scope = GuardScope(manager, f_locals)
    parts = manager.check_verbose(f_locals).verbose_code_parts
    if len(parts) == 1:
        failed = parts[0]
    else:
        failed = next((part for part in parts if scope.fails(part)), "")
    if failed.startswith("GLOBAL_STATE"):
        return _global_state(failed)
    mapping = dict_of(failed)
    value = scope.value(mapping).value if mapping else None
    if isinstance(value, dict | types.MappingProxyType):
        return keys_change(mapping, value, _conditions(manager), described)
    gone = _GONE_ATTRIBUTE.match(bounded(failed))
    if gone:
        return GuardedValue(_owner(scope, gone["source"]))
    source = tensor_source(failed)
    if source:
        return GuardedValue(source, new=_tensor_value(failed, scope.value(source)))
    expressions = looked_at(failed)
    values = [scope.value(expression) for expression in expressions]
    if len(expressions) == 1:
        return GuardedValue(
            expressions[0], _matched_object(manager, expressions[0], failed), values[0].described
        )
    known = []
    for name, looked_up in zip(expressions, values, strict=True):
        if looked_up.is_known:
            known.append(f"{name} = {looked_up.described}")
    return GuardedValue(", ".join(expressions), new=", ".join(known))


def _conditions(manager: Any) -> Iterator[str]:
    """Yield the conditions of all checks of a tree, without torch's remarks."""
    for leaf in leaves(manager.root):
        for part in leaf.parts:
            yield part.partition("  # ")[0].rstrip()


@dataclass(frozen=True, slots=True)
class _GuardedNow:
    value: Any = None
    is_known: bool = True

    @property
    def described(self) -> str:
        if not self.is_known:
            return ""
        return described(self.value)


_UNKNOWN = _GuardedNow(is_known=False)

_GONE = (AttributeError, LookupError, TypeError, ValueError, NameError, SyntaxError, RuntimeError)
"""Errors of evaluating a guard when the checked object no longer exists, which may be why it fails.
"""


class GuardScope:
    """The names a guard of ``manager`` is evaluated with: as ``get_guard_fail_reason_helper`` makes
    them.
    """

    def __init__(self, manager: Any, f_locals: dict[str, Any]) -> None:
        self._globals = dict(manager.global_scope)
        self._locals = {"L": f_locals, "G": manager.global_scope["G"], **manager.closure_vars}

    def value(self, expression: str) -> _GuardedNow:
        try:
            return _GuardedNow(eval(expression, self._globals, self._locals))
        except _GONE:
            return _UNKNOWN

    def fails(self, part: str) -> bool:
        """Return whether the guard fails. torch checks and reports conditions on sizes together, so
        the guard fails if one condition does.
        """
        guarded = self.value(part)
        return not guarded.is_known or guarded.value is not True


_GONE_ATTRIBUTE = re.compile(
    r"^(?:getattr|GetAttr\w*|get_attr)\b.* failed on source (?P<source>.+?)\s*$"
)
"""Matches the message of GetAttrGuardAccessor::check_verbose_nopybind
(``torch/csrc/dynamo/guards.cpp``).
"""


def _owner(scope: GuardScope, source: str) -> str:
    """Return the object that lacks an attribute. torch 2.11 names the attribute,
    ``L['thing'].flag``, and later releases its owner.
    """
    owner, dot, _ = source.rpartition(".")
    if dot and not scope.value(source).is_known and scope.value(owner).is_known:
        return owner
    return source


_TENSOR = re.compile(r"(?:^tensor|^expected type of) '(?P<source>.+?)' (?:\w|to be)")
"""Matches the message of TensorCheck::check_verbose (``torch/csrc/dynamo/guards.cpp``)."""

_CHECK = re.compile(r"^___check_\w+\((?P<source>.+), \d+\)")
"""Matches a check with a remark, which is no expression as a whole: ``___check_type_id(L['k'],
1404), type=<class 'int'>``.
"""


def tensor_source(part: str) -> str:
    """Return ``L['x']`` for ``tensor 'L['x']' size mismatch …``; empty for other guards."""
    match = _TENSOR.match(part)
    return match["source"] if match else ""


def _tensor_value(part: str, guarded: _GuardedNow) -> str:
    if "dispatch key" in part and isinstance(guarded.value, torch.Tensor):
        return str(guarded.value.device)
    return guarded.described


def looked_at(part: str) -> list[str]:
    """Return the expressions that a guard reads values from: ``L['k']`` for ``L['k'] == 2  # …``;
    both sides of ``L['a'] is L['b']``.
    """
    check = _CHECK.match(part)
    source = check["source"] if check else part.strip()
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError:
        return []
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        tree = tree.operand
    if isinstance(tree, ast.Compare):
        sides = [tree.left, *tree.comparators]
    else:
        sides = [tree]
    reading = [side for side in sides if _reads_the_program(side)]
    if not all(_is_one_value(side) for side in reading):
        sources: list[ast.expr] = []
        for side in reading:
            sources += _sources(side)
        reading = sources
    return list(dict.fromkeys(ast.unparse(node) for node in reading))


def _reads_the_program(node: ast.expr) -> bool:
    return any(isinstance(name, ast.Name) and name.id in ("L", "G") for name in ast.walk(node))


def _is_one_value(node: ast.expr) -> bool:
    """Return whether the expression is a source, or a function of one source (``len(L['xs'])``),
    and not arithmetic with several sizes.
    """
    return isinstance(node, ast.Attribute | ast.Subscript) or (
        isinstance(node, ast.Call) and len(list(_sources(node))) == 1
    )


def _sources(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the largest parts of ``node`` that are chains from ``L`` or ``G``:
    ``L['x'].size()[0]``.
    """
    if isinstance(node, ast.expr) and _is_chain(node):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _sources(child)


def _is_chain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in ("L", "G")


_LOCAL = re.compile(r"^L\['(\w+)'\]$")


def _matched_object(manager: Any, source: str, part: str) -> str:
    """Return the object of a local name at the time the code was compiled. torch keeps weak
    references to such objects.
    """
    local = _LOCAL.match(source)
    if not local or not part.startswith("___check_obj_id"):
        return ""
    reference = manager.id_matched_objs.get(local[1])
    if reference is None or reference() is None:
        return ""
    return described(reference())


def _global_state(part: str) -> GuardedValue:
    """Return the old and new grad mode, which is the global state that programs change; empty for
    other state, which torch's text names.
    """
    if "grad_mode" not in part.split():
        return GuardedValue()
    if torch.is_grad_enabled():
        return GuardedValue(old="off", new="on")
    return GuardedValue(old="on", new="off")


# The keys of a dict that are gone, and those that are new.

MOST_NAMED = 8

_OF_A_DICT = re.compile(
    r"^(?:len\((?P<counted>[LG]\[.*)\) [!=]= \d+|.*?list\(dict\.keys\((?P<keyed>[LG]\[.*?\])\)\)"
    r"|list\((?P<mapping>[LG]\[.*\])\.keys\(\)\) == )"
)

_KEY = re.compile(r"^list\(dict\.keys\((?P<source>.+)\)\)\[(?P<position>\d+)\] == (?P<key>.+)$")

_MAPPING = re.compile(r"^list\((?P<source>.+)\.keys\(\)\) == (?P<keys>\[.*\])")

_WRITTEN_KEY = r"'[^']*'|\"[^\"]*\"|-?\d+"


def dict_of(part: str) -> str:
    """Return ``L['d']`` for a guard on its keys; empty for another guard."""
    match = _OF_A_DICT.match(bounded(part))
    if not match:
        return ""
    return next(filter(None, match.groups()), "")


def keys_change(
    source: str, value: object, guards: Iterable[str], describe: Callable[[object], str]
) -> GuardedValue:
    """Return which keys changed; ``guards`` are all guards of the compiled code. Old and new are
    the keys that only one side has, or all of them in their order where both have the same; empty
    if it is not a dict, or if the earlier keys are not known.
    """
    new, asked = _keys(value), list(guards)
    old = _keys_then(source, asked) or _keys_looked_at(source, asked)
    if new is None:
        return GuardedValue(source)
    if old is None:
        return GuardedValue(source)
    now = [describe(key) for key in new]
    then = [describe(key) for key in old]
    gone, added = [key for key in then if key not in now], [key for key in now if key not in then]
    if gone or added:
        return GuardedValue(source, _listed(gone), _listed(added))
    return GuardedValue(source, _listed(then), _listed(now))


def _keys(value: object) -> list[Any] | None:
    """Return the keys without running code of the program's own classes; None for an object that is
    not a plain dict.
    """
    if isinstance(value, types.MappingProxyType):
        return list(value)
    if isinstance(value, dict):
        return list(dict.keys(value))
    return None


def _keys_then(source: str, guards: Iterable[str]) -> list[object] | None:
    """Return the keys that the guards require; None where torch guarded none by its value: the keys
    may be objects.
    """
    keys: dict[int, object] = {}
    for code in guards:
        key, mapping = _KEY.match(bounded(code)), _MAPPING.match(bounded(code))
        if key and key["source"] == source:
            keys[int(key["position"])] = _literal(key["key"])
        elif mapping and mapping["source"] == source:
            return list(_literal(mapping["keys"]))
    if not keys:
        return None
    return [keys[position] for position in sorted(keys)]


def _keys_looked_at(source: str, guards: Iterable[str]) -> list[object] | None:
    """Return the keys of the dict ``source`` that appear in its guards. None when the guard on its
    length counts more keys: torch does not guard values that the code does not use.
    """
    count, keys = 0, dict[object, None]()
    for code in guards:
        length = re.match(rf"len\({re.escape(source)}\) [!=]= (\d+)$", code)
        if length:
            count = int(length[1])
        written = re.findall(rf"{re.escape(source)}\[({_WRITTEN_KEY})\]", code)
        keys |= dict.fromkeys(map(_literal, written))
    return list(keys) if len(keys) == count else None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _listed(keys: list[str]) -> str:
    if len(keys) > MOST_NAMED:
        more = f" and {len(keys) - MOST_NAMED} more"
    else:
        more = ""
    return ", ".join(keys[:MOST_NAMED]) + more
