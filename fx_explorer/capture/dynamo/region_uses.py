"""This module records how often Dynamo reused what it had traced of a nested compile region
(``torch.compiler.nested_compile_region``), and why it traced the region again.

Dynamo looks for an earlier trace that holds for a call, and keeps the new one where it may be used
again (torch/_dynamo/variables/invoke_subgraph.py, "Note: [invoke_subgraph subgraph reuse]"). Why
not, it says in the log ``hierarchical_compile`` only. Hooks: ``_call_function`` of
``InvokeSubgraphHigherOrderVariable``, which treats one call, and the logger's ``debug``, whose
templates are read. Values in a message are written where they are Python's own, so that no code of
the program's makes a text.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.dynamo.backend_calls import seen_backend_calls
from fx_explorer.capture.dynamo.source_names import name_of_source
from fx_explorer.capture.recording.function_names import qualified_name
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import invoke_subgraph
from fx_explorer.model.rows.values import RegionOutcome, RegionUse

_WHAT = "how often nested compile regions are reused"

_ATTRIBUTE = "fx_explorer_region_calls"
"""Attribute of Dynamo's output graph: the calls of one attempt at a frame."""

_OF_REUSE = "subgraph_reuse: "
_FAILED = "reuse failed --"
_NOT_KEPT = (
    "not eligible -- ",
    "mutated sources detected",
    "cannot build condition",
    "unsupported",
)

OTHER_VALUE = "an argument has another value"
"""The reason where an earlier trace was looked at, and torch logs none: a number or a symbolic size
among the arguments differs (``is_reusable``).
"""


@dataclass
class _RegionCall:
    function: str
    outcome: RegionOutcome = "traced"
    is_looked_up: bool = False
    reason: str = ""
    not_kept: str = ""


@dataclass
class _Running(threading.local):
    """The calls of regions that Dynamo treats in this thread, innermost last."""

    calls: list[_RegionCall] = field(default_factory=list)


@contextlib.contextmanager
def region_use_hook(recording: Recording) -> Iterator[None]:
    """Record, for each graph of Dynamo's, how its calls of nested compile regions were treated."""
    running = _Running()
    variable = invoke_subgraph.InvokeSubgraphHigherOrderVariable

    def make_call(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def _call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
            call = _RegionCall("")
            with recording.noting(_WHAT, "dynamo"):
                call.function = _function_name(args[0])
                tx.output.__dict__.setdefault(_ATTRIBUTE, []).append(call)
            running.calls.append(call)
            try:
                return original(self, tx, args, kwargs)
            finally:
                running.calls.pop()

        return _call_function

    def make_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def find_reuse(*args: Any, **kwargs: Any) -> Any:
            match = original(*args, **kwargs)
            if running.calls:
                running.calls[-1].is_looked_up = True
                if match is not None:
                    running.calls[-1].outcome = "reused"
            return match

        return find_reuse

    def make_debug(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def debug(message: Any, *args: Any, **kwargs: Any) -> Any:
            if running.calls and type(message) is str and message.startswith(_OF_REUSE):
                with recording.noting(_WHAT, "dynamo"):
                    _note(running.calls[-1], message.removeprefix(_OF_REUSE), args)
            return original(message, *args, **kwargs)

        return debug

    def add(output_graph: Any, module: torch.fx.GraphModule) -> None:
        with recording.noting(_WHAT, "dynamo"):
            calls = output_graph.__dict__.pop(_ATTRIBUTE, [])
            recording.writer.add_all(_rows(recording.compilation_id(), calls))

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(variable, "_call_function", make_call))
        stack.enter_context(patched(invoke_subgraph, "find_reuse_match", make_lookup))
        stack.enter_context(patched(invoke_subgraph, "find_reuse_entry_by_key", make_lookup))
        stack.enter_context(patched(invoke_subgraph.hc_log, "debug", make_debug))
        stack.enter_context(seen_backend_calls(before=add))
        yield


def _function_name(variable: Any) -> str:
    code = invoke_subgraph.get_fn_code(variable)
    return qualified_name(code) if code is not None else ""


def _note(call: _RegionCall, message: str, args: tuple[object, ...]) -> None:
    """Keep the reason in a message. Of several earlier traces the last one that was looked at
    counts, and of the reasons not to keep a trace the first.
    """
    if message.startswith(_FAILED):
        call.reason = _reason(message.removeprefix(_FAILED), args)
    elif message.startswith("mutated sources detected") and not call.is_looked_up:
        call.reason = call.reason or _mutated(args)
    elif message.startswith(_NOT_KEPT):
        text = _mutated(args) if message.startswith("mutated") else _filled(message, args)
        call.not_kept = call.not_kept or text.removeprefix("not eligible -- ")


def _reason(message: str, args: tuple[object, ...]) -> str:
    if "guard type: %s" not in message:
        return _filled(message, args)
    kind, name = args[0], args[2]
    text = f"guard {_plain(kind)} on {_plain(name)} fails"
    if "expected" in message:
        text += f": expected {_plain(args[3])}, got {_plain(args[4])}"
    return text


def _mutated(args: tuple[object, ...]) -> str:
    (sources,) = args
    names = sorted(map(name_of_source, sources))  # type: ignore[call-overload]
    return f"it reads something that the function changed: {', '.join(names)}"


def _filled(message: str, args: tuple[object, ...]) -> str:
    """Return the first line of a message with its values."""
    template = message.partition("\n")[0].strip()
    count = template.count("%s") + template.count("%d")
    values = tuple(map(_plain, args[:count]))
    # What follows ``%s`` at the end of the line is a stack.
    return (template.replace("%d", "%s") % values).partition("\n")[0].strip()


def _plain(value: object) -> str:
    kind = type(value)
    if kind is str or value is None or kind in (bool, int, float):
        return str(value)
    if kind in (types.FunctionType, types.BuiltinFunctionType, type):
        return str(value.__name__)  # type: ignore[attr-defined]
    if issubclass(kind, enum.Enum):
        return str(value._value_)  # type: ignore[attr-defined]
    if kind is list:
        return ", ".join(map(_plain, value))  # type: ignore[call-overload]
    return f"a {kind.__name__}"


def _rows(compilation: int, calls: list[_RegionCall]) -> Iterator[RegionUse]:
    """Yield a row for the calls that were treated alike, in the order of the first of each."""
    counts: Counter[tuple[str, RegionOutcome, str, str]] = Counter()
    for call in calls:
        reason = call.reason
        if call.outcome == "reused":
            reason = ""
        elif call.is_looked_up and not reason:
            reason = OTHER_VALUE
        counts[call.function, call.outcome, reason, call.not_kept] += 1
    for (function, outcome, reason, not_kept), number in counts.items():
        yield RegionUse(0, compilation, function, outcome, number, reason, not_kept)
