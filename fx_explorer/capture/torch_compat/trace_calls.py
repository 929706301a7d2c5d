"""This module receives the records of torch's structured trace, without switching that trace on.

``trace_structured`` (torch/_logging/_internal.py) evaluates a record, texts of graphs and of the
program's objects included, only where its logger has a handler. A handler of ours would make it do
so inside the compiler, where whatever raises becomes a graph break. So there is none:
``trace_structured`` is heard asking its logger for handlers, and we evaluate the few records that
we read. torch continues with the handlers of the user's (TORCH_TRACE), if there are any. That the
program configures its logging makes no difference either.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fx_explorer.capture.torch_compat.private_names import torch_guards, torch_logging

ARTIFACT = "artifact"


@dataclass(frozen=True, slots=True)
class TraceCall:
    """One call of ``trace_structured``. The record is evaluated only on access, which may raise."""

    name: str
    content: Callable[[], Any]
    """Evaluates torch's metadata of the record."""
    payload: Callable[[], Any]
    """Evaluates torch's payload of the record: a text, or an object to be written as JSON."""
    compile_id: Any

    @property
    def compilation(self) -> str:
        """Return the name of the record's compilation, ``0/0``; empty for none."""
        trace_id = torch_guards.CompileContext.current_trace_id()
        compile_id = trace_id.compile_id if trace_id else self.compile_id
        if compile_id is None:
            return ""
        return str(compile_id)

    @property
    def attempt(self) -> int:
        """Return which attempt of Dynamo's at the frame the record is about, from 0."""
        trace_id = torch_guards.CompileContext.current_trace_id()
        return trace_id.attempt if trace_id else 0

    @property
    def kind(self) -> str:
        """Return the kind of record: its name; for an artifact ``artifact:NAME``."""
        if self.name != ARTIFACT:
            return self.name
        return f"{ARTIFACT}:{self.content()['name']}"


Hear = Callable[[TraceCall], object]

_listeners: list[Hear] = []


@contextlib.contextmanager
def observed_trace_calls(hear: Hear) -> Iterator[None]:
    """Call ``hear`` for every record of torch's structured trace inside the block, on the thread
    that writes it. Raises AttributeError in a torch release whose ``trace_structured`` does not use
    its logger.
    """
    if "handlers" not in torch_logging.trace_structured.__code__.co_names:
        raise AttributeError("trace_structured does not check the handlers of its logger")
    if not _listeners:
        torch_logging.trace_log.__class__ = _asked(type(torch_logging.trace_log))
    _listeners.append(hear)
    try:
        yield
    finally:
        _listeners.remove(hear)
        if not _listeners:
            torch_logging.trace_log.__class__ = type(torch_logging.trace_log).__mro__[1]


def _asked(logger_class: type[logging.Logger]) -> type[logging.Logger]:
    """Return a subclass that differs in ``handlers``: ``trace_structured`` gets a handler that
    receives the record, and all other code the real handlers.
    """
    asking = torch_logging.trace_structured.__code__

    def handlers(logger: logging.Logger) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is asking:
            _tell(frame.f_locals)
        return vars(logger)["handlers"]

    def set_handlers(logger: logging.Logger, value: object) -> None:
        vars(logger)["handlers"] = value

    return type(
        logger_class.__name__, (logger_class,), {"handlers": property(handlers, set_handlers)}
    )


def _tell(arguments: dict[str, Any]) -> None:
    call = TraceCall(
        arguments["name"],
        arguments["metadata_fn"],
        arguments["payload_fn"],
        arguments.get("compile_id"),
    )
    for hear in tuple(_listeners):
        hear(call)
