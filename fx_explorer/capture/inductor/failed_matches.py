"""This module says how far a pattern of Inductor's matched, and which check failed, with what the
pattern has there and what the graph has.

A pattern is a tree of ``PatternExpr`` (torch/_inductor/pattern_matcher.py). Torch matches it from
its last operator to its inputs, and stops at the first part that does not match: a ``FailedMatch``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.inductor.refused_checks import value_text
from fx_explorer.capture.recording.fx_graphs import qualified_name
from fx_explorer.capture.torch_compat.private_names import (
    OpOverload,
    OpOverloadPacket,
    inductor_patterns,
)
from fx_explorer.model import FailedCheck

Part = tuple[Any, Any, Any]
"""Torch's MatchContext, the part of a pattern, and the node or value that it is tried at."""


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """Why a pattern is not applied; the fields are those of a NearMatch."""

    check: FailedCheck
    matched: tuple[str, ...]
    at: str = ""
    input_of: str = ""
    expected: str = ""
    found: str = ""
    is_specific: bool = False
    check_file: str = ""
    check_line: int = 0
    failed: Any = field(default=None, compare=False)
    """Torch's FailedMatch; None without one."""

    @property
    def is_of_structure(self) -> bool:
        """Return whether the pattern itself did not match, before any check of it was asked."""
        return not self.is_specific and self.check in _OF_STRUCTURE


_OF_STRUCTURE = ("operator", "inputs", "users", "value", "same node", "other")


@dataclass(frozen=True, slots=True)
class _FailedPart:
    """A part of a pattern that did not match."""

    part: Part
    failed: Any
    """Torch's FailedMatch."""
    matched: tuple[str, ...]
    input_of: str
    """Name of the node that it was to be an input of; empty for the last operator."""
    same: tuple[Any, ...]
    """What the same part, or parts of the same name, matched before."""


class MatchLog:
    """How the parts of one pattern matched, where it was tried at one node."""

    def __init__(self) -> None:
        self.has_matched = False
        self._stack: list[Part] = []
        self._nearest: _FailedPart | None = None
        self._noted: Any = None

    def enter(self, context: Any, pattern: Any, node: Any) -> None:
        self._stack.append((context, pattern, node))

    def leave(self) -> None:
        self._stack.pop()

    def note_failure(self, failed: Any) -> None:
        """Note that the innermost part did not match: the failure of a part is that of the whole,
        unless torch tries it elsewhere. The one before which most nodes matched is kept.
        """
        if failed is self._noted:
            return
        self._noted = failed
        matched = self._matched()
        if self._nearest is None or len(matched) > len(self._nearest.matched):
            around = [node for _, pattern, node in self._stack[:-1] if is_operator(pattern)]
            input_of = around[-1].name if around else ""
            part = self._stack[-1]
            self._nearest = _FailedPart(part, failed, matched, input_of, self._same(part))

    def failure(self, *, is_specific: bool = False) -> MatchFailure | None:
        """Return what failed; None where all matched."""
        if self.has_matched or self._nearest is None:
            return None
        return _describe(self._nearest, is_specific=is_specific)

    def _matched(self) -> tuple[str, ...]:
        """Return the names of the nodes that matched, or whose operator did so far."""
        names: dict[str, None] = {}
        for _, pattern, node in self._stack[:-1]:
            if is_operator(pattern):
                names[node.name] = None
        for context in {id(context): context for context, _, _ in self._stack}.values():
            for pattern, node in context.pattern_to_node.items():
                if is_operator(pattern) and isinstance(node, torch.fx.Node):
                    names[node.name] = None
        return tuple(names)

    def _same(self, part: Part) -> tuple[Any, ...]:
        context, pattern, _ = part
        name = getattr(pattern, "name", None)
        nodes = []
        for other, node in context.pattern_to_node.items():
            if other is pattern or (name and getattr(other, "name", None) == name):
                nodes.append(node)
        return tuple(nodes)


def is_operator(pattern: Any) -> bool:
    """Return whether a part of a pattern is a node that calls an operator."""
    return isinstance(pattern, inductor_patterns._TargetExpr)


def _describe(part: _FailedPart, *, is_specific: bool) -> MatchFailure:
    _, pattern, node = part.part
    says = part.failed.format_string
    at = node.name if isinstance(node, torch.fx.Node) and not says.startswith("no anchor") else ""
    check, expected, found = _both_values(part, pattern, node, says)
    return MatchFailure(
        check,
        part.matched,
        at,
        part.input_of,
        expected,
        found,
        is_specific,
        failed=part.failed,
    )


def torch_says(failed: Any) -> str:
    """Return the text of a FailedMatch; empty without one."""
    if failed is None:
        return ""
    try:
        return str(failed)
    except (IndexError, KeyError):  # torch's own text does not fit its arguments
        return str(failed.format_string)


def _both_values(
    part: _FailedPart, pattern: Any, node: Any, says: str
) -> tuple[FailedCheck, str, str]:
    """Return the check that failed, what the pattern has there, and what the graph has."""
    if says.startswith(("repeated pattern", "exclusive arg", "kwarg mismatch")):
        return "same node", *_same_values(part, node, says)
    if says.startswith("no anchor"):
        return "operator", _next_output(part), "none that uses the nodes that matched"
    if not is_operator(pattern):
        return "other", repr(pattern), value_text(node)
    if not isinstance(node, torch.fx.Node):
        return "operator", operators_of(pattern), value_text(node)
    target = inductor_patterns.extract_target(node) if node.op == "call_module" else node.target
    if node.op != pattern.op or target not in pattern.fns_set:
        return "operator", operators_of(pattern), operator_of(node)
    if says.startswith("multiple_users"):
        users = [user.name for user in node.users]
        return "users", str(pattern.users), f"{len(users)}: {', '.join(users)}"
    if says.startswith("constant_args"):
        return "value", repr(part.failed.kwargs.get("pattern")), value_text(part.failed.args[1])
    if says.startswith("args_structure"):
        found, expected = part.failed.args[:2]
        return "inputs", str(expected), str(found)
    if says.startswith("function_mismatch"):
        return "inputs", _inputs(pattern.args, pattern.kwargs), _inputs(node.args, node.kwargs)
    return "other", repr(pattern), value_text(node)


def _same_values(part: _FailedPart, node: Any, says: str) -> tuple[str, str]:
    others = [value_text(other) for other in part.same if other is not None]
    if says.startswith("exclusive arg"):
        return f"another value than {value_text(node)}", value_text(node)
    if says.startswith("kwarg mismatch"):
        name = str(part.failed.args[0])
        return f"one value for {name}", "two values"
    return (others[0] if others else "a node that matches"), value_text(node)


def _next_output(part: _FailedPart) -> str:
    """Return the operators of the first output of a pattern that no node matched."""
    context, pattern, _ = part.part
    for output in getattr(pattern, "outputs", ()):
        if is_operator(output) and context.pattern_to_node.get(output) is None:
            return operators_of(output)
    return repr(pattern)


def _inputs(args: Any, kwargs: Any) -> str:
    text = f"{len(args)} inputs" if len(args) != 1 else "1 input"
    return f"{text} and {', '.join(kwargs)}" if kwargs else text


def operator_of(node: torch.fx.Node) -> str:
    """Return what a node calls, or what else it is."""
    if node.op in _NO_CALLS:
        return _NO_CALLS[node.op]
    return _target_name(node.target)


_NO_CALLS = {
    "placeholder": "an input of the graph",
    "get_attr": "a constant of the graph",
    "output": "the output of the graph",
}


@functools.cache
def operators_of(pattern: Any) -> str:
    """Return ``aten.mul.Tensor or aten.div.Tensor``: what the node of a part may call."""
    packets = [target for target in pattern.fns if isinstance(target, OpOverloadPacket)]
    targets = packets or pattern.fns
    return " or ".join(dict.fromkeys(_target_name(target) for target in targets))


def _target_name(target: Any) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload | OpOverloadPacket):
        return str(target)
    return qualified_name(target)


@functools.cache
def operators_in(pattern: Any) -> tuple[Any, ...]:
    """Return the parts of a pattern that are operators, each once, the last operator first."""
    parts: dict[int, Any] = {}
    waiting = [pattern]
    while waiting:
        part = waiting.pop()
        if id(part) in parts:
            continue
        parts[id(part)] = part
        waiting += reversed(parts_of(part))
    return tuple(part for part in parts.values() if is_operator(part))


@functools.cache
def parts_of(pattern: Any) -> tuple[Any, ...]:
    """Return the patterns that a pattern directly consists of."""
    if isinstance(pattern, inductor_patterns.MultiOutputPattern):
        return tuple(output for output in pattern.outputs if output is not None)
    if isinstance(pattern, inductor_patterns.ListOf):
        return (pattern.pattern,)
    if isinstance(pattern, inductor_patterns.RepeatedExpr):
        return (pattern.inner_pattern,)
    parts = getattr(pattern, "flat_args_kwargs", ((),))[0]
    return tuple(part for part in parts if isinstance(part, inductor_patterns.PatternExpr))


def forget_patterns() -> None:
    """Forget what is known of patterns, which may be the program's and large."""
    for known in (operators_in, parts_of, operators_of):
        known.cache_clear()
