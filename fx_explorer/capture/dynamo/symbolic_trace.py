"""This module records what Dynamo does while it traces: each line that it comes to, each call that
it inlines, the nodes and guards that it adds meanwhile, and what it discards to start over.

Hooks, all in torch/_dynamo/symbolic_convert.py and output_graph.py:

- ``InstructionTranslatorBase.run`` is called for each attempt at a function, and for each call that
  is inlined;
- ``starts_line`` is where torch logs ``trace_source``;
- ``update_block_stack`` is called for each instruction, right behind torch's own log of it
  (``trace_bytecode``). It is hooked only where every instruction is asked for;
- ``SubgraphTracer.create_node`` adds a node, ``OutputGraph.compile_subgraph`` ends a graph.

Guards are counted, not observed: a function of ours below ``GuardsSet.add`` would stand in the
stack that torch keeps of each guard.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fx_explorer.capture.dynamo.symbolic_steps import Attempt, CallBeingTraced, Limit
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.function_names import qualified_name
from fx_explorer.capture.recording.fx_graphs import module_path
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import CallEnd, TraceAttempt, TracedCall

MAX_STEPS = 300_000
"""Maximum number of steps of a session. A model of 48 layers has 25,000 by line, and 140,000 by
instruction.
"""

INSTRUCTION_HOOK = "update_block_stack"
"""The method that Dynamo calls for each instruction."""

BY_LINE = "Dynamo's trace, line by line"
BY_INSTRUCTION = "Dynamo's trace, by instruction"


@contextlib.contextmanager
def symbolic_trace_hook(recording: Recording) -> Iterator[None]:
    """Record inside the block what Dynamo does, by line; by instruction where that is asked for."""
    from fx_explorer.capture.torch_compat.private_names import (
        InstructionTranslatorBase,
        OutputGraph,
        SubgraphTracer,
    )

    recorder = _Recorder(recording, Limit(MAX_STEPS))
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(SubgraphTracer, "create_node", recorder.around_node))
        stack.enter_context(patched(OutputGraph, "compile_subgraph", recorder.around_graph))
        stack.enter_context(patched(InstructionTranslatorBase, "starts_line", recorder.around_line))
        if recording.request.record_trace:
            _observe_instructions(stack, recorder, InstructionTranslatorBase)
        stack.enter_context(patched(InstructionTranslatorBase, "run", recorder.around_run))
        yield


def _observe_instructions(
    stack: contextlib.ExitStack, recorder: _Recorder, translators: type
) -> None:
    try:
        stack.enter_context(patched(translators, INSTRUCTION_HOOK, recorder.around_instruction))
    except AttributeError as error:
        recorder.recording.unavailable(BY_INSTRUCTION, one_line(str(error)))
        return
    recorder.has_instructions = True


class _Attempts(threading.local):
    """The attempts that this thread is in, the innermost last: Dynamo may be called while it
    traces.
    """

    def __init__(self) -> None:
        self.open: list[Attempt] = []


class _Recorder:
    """Hears of what Dynamo does, and writes it down."""

    def __init__(self, recording: Recording, limit: Limit) -> None:
        self.recording = recording
        self.has_instructions = False
        self._limit = limit
        self._attempts = _Attempts()
        self._numbers: Counter[tuple[int, str]] = Counter()
        """(session, compilation) → how many attempts it had."""

    # calls

    def around_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(translator: Any) -> Any:
            call = None
            with self.recording.noting(BY_LINE, "dynamo"):
                call = self._begin(translator)
            if call is None:
                return original(translator)
            try:
                result = original(translator)
            except BaseException as error:
                self._end(call, error)
                raise
            self._end(call, None)
            return result

        return run

    def _begin(self, translator: Any) -> CallBeingTraced | None:
        if getattr(translator, "parent", None) is None:
            return self._begin_attempt(translator)
        if not self._attempts.open:
            return None
        return self._begin_call(self._attempts.open[-1], translator)

    def _begin_attempt(self, translator: Any) -> CallBeingTraced | None:
        recording = self.recording
        compilation = recording.compilation_id()
        if not compilation:
            return None
        number = self._numbers[id(recording.writer), recording.compilation_name()] + 1
        self._numbers[id(recording.writer), recording.compilation_name()] = number
        row = TraceAttempt(
            0,
            compilation,
            number,
            qualified_name(translator.f_code),
            has_instructions=self.has_instructions,
        )
        row = replace(row, id=recording.writer.add(row))
        attempt = Attempt(recording.writer, row, translator.output.tracing_context, self._limit)
        call = self._begin_call(attempt, translator)
        self._attempts.open.append(attempt)
        return call

    def _begin_call(self, attempt: Attempt, translator: Any) -> CallBeingTraced:
        code = translator.f_code
        parent = attempt.calls[-1] if attempt.calls else None
        row = TracedCall(
            0,
            attempt.row.id,
            attempt.next_call(),
            parent.row.call if parent else 0,
            parent.translator.lineno if parent else 0,
            qualified_name(code),
            self.recording.sources.file(code.co_filename),
            code.co_firstlineno,
            _module(translator),
        )
        call = CallBeingTraced(row, translator)
        attempt.calls.append(call)
        attempt.add(call, "call", max(translator.lineno, code.co_firstlineno))
        return call

    def _end(self, call: CallBeingTraced, error: BaseException | None) -> None:
        with self.recording.noting(BY_LINE, "dynamo"):
            attempt = self._attempts.open[-1]
            while attempt.calls and attempt.calls[-1] is not call:
                attempt.calls.pop()
            ended, why = _ending(call.translator, error)
            attempt.end_call(call, ended, why)
            if attempt.calls:
                if ended != "discarded":
                    back = attempt.calls[-1]
                    text = why and f"{call.row.function} raised {why}"
                    attempt.add(back, "back", back.translator.lineno, event=text)
            else:
                self._attempts.open.remove(attempt)
                self._end_attempt(attempt, call, error)

    def _end_attempt(
        self, attempt: Attempt, call: CallBeingTraced, error: BaseException | None
    ) -> None:
        from fx_explorer.capture.torch_compat.private_names import RestartAnalysis

        if error is None:
            attempt.finish("traced", "")
            return
        why = _why(error)
        if isinstance(error, RestartAnalysis):
            attempt.add(call, "end", call.translator.lineno, event=f"starts over: {why}")
            attempt.finish("restarted", why)
        else:
            attempt.add(call, "end", call.translator.lineno, event=f"not compiled: {why}")
            attempt.finish("failed", why)

    # lines and instructions

    def around_line(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def starts_line(translator: Any, lineno: int) -> Any:
            before = translator.lineno
            result = original(translator, lineno)
            if translator.lineno != before:
                try:
                    self._at_line(translator)
                except Exception as error:  # noqa: BLE001 - stored: no fault of the compile's
                    self.recording.add_fault(BY_LINE, "dynamo", error)
            return result

        return starts_line

    def _at_line(self, translator: Any) -> None:
        here = self._find(translator)
        if here is None:
            return
        attempt, call = here
        attempt.come_to_line(call)
        if not self.has_instructions:
            attempt.add(call, "line", translator.lineno)

    def around_instruction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def update_block_stack(translator: Any, instruction: Any) -> Any:
            with self.recording.noting(BY_INSTRUCTION, "dynamo"):
                here = self._find(translator)
                if here is not None:
                    attempt, call = here
                    attempt.add_instruction(call, instruction)
            return original(translator, instruction)

        return update_block_stack

    def _find(self, translator: Any) -> tuple[Attempt, CallBeingTraced] | None:
        """Return the attempt and call that a translator belongs to, if it is the one that runs."""
        if not self._attempts.open:
            return None
        attempt = self._attempts.open[-1]
        if not attempt.calls or attempt.calls[-1].translator is not translator:
            return None
        return attempt, attempt.calls[-1]

    # nodes and graphs

    def around_node(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, *args, **kwargs)
            try:
                # A tracer has a weak proxy of its OutputGraph, so the two are not one object.
                context = tracer.output_graph.tracing_context
                if self._attempts.open and self._attempts.open[-1].context is context:
                    self._attempts.open[-1].note_node(node, tracer.parent is not None)
            except Exception as error:  # noqa: BLE001 - stored: no fault of the compile's
                self.recording.add_fault(BY_LINE, "dynamo", error)
            return node

        return create_node

    def around_graph(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_subgraph(
            output_graph: Any, tx: Any, reason: Any, *args: Any, **kwargs: Any
        ) -> Any:
            with self.recording.noting(BY_LINE, "dynamo"):
                here = self._find(tx)
                if here is not None:
                    attempt, call = here
                    attempt.add(call, "graph", tx.lineno, event=_why_graph_ends(reason))
            return original(output_graph, tx, reason, *args, **kwargs)

        return compile_subgraph


def _why_graph_ends(reason: Any) -> str:
    if getattr(reason, "graph_break", False):
        return f"graph break: {_first_line(str(reason.reason))}"
    return "the graph is complete"


def _module(translator: Any) -> str:
    stack = translator.nn_module_stack
    if not stack:
        return ""
    return module_path(str(next(reversed(stack.values()))[0]))


def _ending(translator: Any, error: BaseException | None) -> tuple[CallEnd, str]:
    """Return how a call ended, and in which words."""
    from fx_explorer.capture.torch_compat.private_names import dynamo_exc

    if error is None:
        opcode = getattr(translator.current_instruction, "opname", "")
        return ("yielded" if opcode == "YIELD_VALUE" else "returned"), ""
    if isinstance(error, getattr(dynamo_exc, "ObservedException", ())):
        return "raised", type(error).__name__.removeprefix("Observed")
    return "discarded", _why(error)


def _why(error: BaseException) -> str:
    """Return why Dynamo gave up, from its own exception. An exception of the program's is only
    named: its text is the program's code.
    """
    for name in ("restart_reason", "msg"):
        reason = getattr(error, name, None)
        if type(reason) is str and reason:
            return _first_line(reason)
    return type(error).__name__


_ENDS_SENTENCE = "Graph break encountered:"


def _first_line(text: str) -> str:
    """Return the first line of torch's report. Where Dynamo cannot resume, the cause comes last."""
    _, _, cause = text.partition(_ENDS_SENTENCE)
    lines = (line.strip() for line in (cause or text).splitlines())
    first = next(itertools.dropwhile(lambda line: not line, lines), "")
    return one_line(first)
