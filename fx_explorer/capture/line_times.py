"""This module tells the phase clock which line of the user's Dynamo is tracing, and which node
AOTAutograd is tracing and Inductor is lowering.

``InstructionTranslatorBase.starts_line`` (torch/_dynamo/symbolic_convert.py) is called when Dynamo
comes to another line. It is not called again when a function that was inlined has returned to the
middle of the line that called it: that is seen in the table of opcodes, at ``RETURN_VALUE``. When
the outermost function returns, tracing is over, and what follows is of no line.

``PropagateUnbackedSymInts.run_node`` (torch/fx/experimental/symbolic_shapes.py) calls each node of
Dynamo's graph while AOTAutograd traces it; ``GraphLowering.run_node`` (torch/_inductor/graph.py)
makes Inductor's IR of each node of a final graph. A node is of the line and module that it came
from. The backward that autograd traces by itself is of no line.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.compile_time import TracedModuleLine
from fx_explorer.capture.recording.fx_graphs import module_of, module_path
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Notice, Stage

PROGRESS_S = 0.2
"""Seconds between two notices of where Dynamo is."""

RETURNS = ("RETURN_VALUE", "RETURN_CONST")
"""Opcodes at which a function returns. Python 3.12 and 3.13 have the second one."""


@contextlib.contextmanager
def dynamo_line_hook(recording: Recording) -> Iterator[None]:
    """Tell the clock, inside the block, which line Dynamo is at."""
    from fx_explorer.capture.torch_compat.private_names import (
        InliningInstructionTranslator,
        InstructionTranslator,
        InstructionTranslatorBase,
    )

    lines = _Lines(recording)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(InstructionTranslatorBase, "starts_line", lines.at_starts_line))
        for translator, notify in (
            (InliningInstructionTranslator, lines.returned),
            (InstructionTranslator, lines.ended),
        ):
            for opcode in RETURNS:
                table, number = translator.dispatch_table, dis.opmap.get(opcode)
                stack.enter_context(_notified_first(table, number, notify))
        yield


@contextlib.contextmanager
def _notified_first(
    table: list[Any], opcode: int | None, notify: Callable[[Any], None]
) -> Iterator[None]:
    """Call ``notify`` inside the block before Dynamo handles an opcode. It handles them by a list
    of functions.
    """
    original = table[opcode] if opcode is not None else None
    if opcode is None or original is None:
        yield
        return

    @functools.wraps(original)
    def handle(translator: Any, instruction: Any) -> Any:
        notify(translator)
        return original(translator, instruction)

    table[opcode] = handle
    try:
        yield
    finally:
        if table[opcode] is handle:
            table[opcode] = original


def _nothing() -> None:
    """Return None, like a weak reference to an object that no longer exists."""


class _Lines(threading.local):
    """Has the current line of each function that this thread traces, the outermost function first.

    Dynamo comes to 8,000 lines for a layer of a transformer, so little is done at each line:
    whether a function is the user's, and for which module it runs, is determined when the function
    begins.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._running: list[TracedModuleLine | None] = []
        self._known: Callable[[], Any] = _nothing
        """Returns Dynamo's translator of the function that is being traced; None without one. It is
        a weak reference.
        """
        self._next_notice_s = 0.0
        self._is_torchs = False
        """Whether the function being traced is torch's own. All its time counts for the user's line
        that called it.
        """

    def at_starts_line(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def starts_line(translator: Any, lineno: int) -> Any:
            result = original(translator, lineno)
            try:
                self._came_to(translator)
            except Exception as error:  # noqa: BLE001 - stored: no fault of the compile's
                self._recording.add_fault("the time of a line", "dynamo", error)
            return result

        return starts_line

    def _came_to(self, translator: Any) -> None:
        if self._known() is not translator:
            self._look_at(translator)
        elif self._is_torchs:
            return
        elif before := self._running[-1]:
            self._running[-1] = TracedModuleLine(before.path, translator.lineno, before.module)
        self._turn_clock()
        self._say_where(translator)

    def _say_where(self, translator: Any) -> None:
        """Tell the client the user's line and the operations so far, a few times a second."""
        line = self._running[-1] if self._running else None
        now_s = time.monotonic()
        if line is None or now_s < self._next_notice_s:
            return
        self._next_notice_s = now_s + PROGRESS_S
        operations = len(translator.output.graph.nodes)
        self._recording.notify(
            Notice("line", text=line.path, line=line.line, operations=operations)
        )

    def _look_at(self, translator: Any) -> None:
        with self._recording.noting("the time of a line", "dynamo"):
            depth: int = translator.inline_depth
            del self._running[depth:]
            self._running += [None] * (depth - len(self._running))
            self._running.append(self._line_of(translator))
            self._known = weakref.ref(translator)
            self._is_torchs = self._recording.sources.is_torch(translator.f_code.co_filename)

    def _line_of(self, translator: Any) -> TracedModuleLine | None:
        """Return the innermost line outside torch, and the module that is traced."""
        stack = translator.nn_module_stack
        if stack:
            module = module_path(str(next(reversed(stack.values()))[0]))
        else:
            module = ""
        inlined: Any = translator
        while inlined is not None and self._recording.sources.is_torch(inlined.f_code.co_filename):
            inlined = getattr(inlined, "parent", None)
        if inlined is not None:
            return TracedModuleLine(inlined.f_code.co_filename, inlined.lineno, module)
        return None

    def returned(self, translator: Any) -> None:
        """Note that an inlined function returns to the line that called it."""
        with self._recording.noting("the time of a line", "dynamo"):
            del self._running[translator.inline_depth :]
            self._known = _nothing
            self._turn_clock()

    def ended(self, _: Any) -> None:
        """Note that the outermost function returns."""
        with self._recording.noting("the time of a line", "dynamo"):
            self._running.clear()
            self._known = _nothing
            self._turn_clock()

    def _turn_clock(self) -> None:
        phase = self._running[-1] if self._running else None
        self._recording.phases.turn_to(phase)


# The nodes that AOTAutograd traces and Inductor lowers.


def traced_node_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Tell the clock, inside the block, which node AOTAutograd traces."""
    from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts

    return patched(
        PropagateUnbackedSymInts, "run_node", functools.partial(_observed, recording, "joint")
    )


def lowered_node_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Tell the clock, inside the block, which node Inductor lowers."""
    from fx_explorer.capture.torch_compat.private_names import GraphLowering

    return patched(GraphLowering, "run_node", functools.partial(_observed, recording, "schedule"))


def _observed(
    recording: Recording, stage: Stage, original: Callable[..., Any]
) -> Callable[..., Any]:
    known: dict[tuple[str, str], TracedModuleLine | None] = {}
    """Stack and module → line. The nodes of one line share their stack's text."""
    phases = recording.phases

    @functools.wraps(original)
    def run_node(interpreter: Any, n: torch.fx.Node) -> Any:
        # It runs for thousands of nodes, so Dynamo is kept out of what is new only.
        try:
            key = n.meta.get("stack_trace") or "", module_of(n)[0]
            if key not in known:
                with recording.noting("the time of a node", stage):
                    known[key] = _line_of(recording, *key)
            phases.turn_to(known.get(key))
        except Exception as error:  # noqa: BLE001 - stored: no fault of the compile's
            recording.add_fault("the time of a node", stage, error)
        try:
            return original(interpreter, n)
        finally:
            phases.turn_to(None)

    return run_node


def _line_of(recording: Recording, stack_trace: str, module: str) -> TracedModuleLine | None:
    frame = recording.sources.user_frame(recording.sources.parse(stack_trace))
    if frame is None:
        return None
    return TracedModuleLine(frame.file, frame.line, module)
