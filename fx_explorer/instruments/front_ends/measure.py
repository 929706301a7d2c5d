"""This module keeps the target as it was before the program called it, has each front end trace it,
and records the graph, or the reason for a refusal.

It happens when the program has run, with what the program compiled in the session already. Nothing
of it is recorded as the program's: compiles go aside, what is printed is dropped, and the program's
state is put back.

A module is traced in the mode that it is in; a function that takes its arguments by name is traced
with them as well. Where a front end records user stacks only when it is asked, it is asked: the
nodes are the same.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import FrameType, MethodType, ModuleType
from typing import Any, cast

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.capture.recording import fx_graphs
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.state import Recording, unrecorded
from fx_explorer.capture.torch_compat import private_names
from fx_explorer.model import FRONT_END_CALLS, CaptureRequest, Frame, FrontEnd, FrontEndName, Graph
from fx_explorer.program.calling_again import state_kept
from fx_explorer.program.fresh_inputs import copied
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target

A_SCRIPT = (
    "A script is not one function, so front ends cannot trace it: name the function or the module "
    "and its inputs (file.py:object)."
)

MAX_ERROR = 4_000
"""Maximum number of characters of an error that are kept as its message; the traceback has the
complete text.
"""


def record_front_end(
    recording: Recording, request: CaptureRequest, name: str, kept: KeptTarget | None
) -> None:
    """Write the row of one front end, with its graph if it makes one. Errors of the program are not
    raised.
    """
    began = time.perf_counter()
    row = FrontEnd(0, cast(FrontEndName, name), "refused", is_training=_is_training(kept))
    if kept is None:
        recording.writer.add(replace(row, error=A_SCRIPT))
        return
    remarks = list(kept.remarks)
    try:
        made = _make_graph(recording, request, name, kept, remarks)
    except TookTooLongError:
        limit = f"{request.front_end_limit_s:g} s"
        row = replace(
            row,
            state="timed_out",
            error=f"It had not ended after {limit}. --frontend-limit SECONDS allows more time.",
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # the program and torch may raise anything: it is what is recorded
        row = _refused(recording, row, error)
    else:
        with recording.noting(f"the graph of {FRONT_END_CALLS[name]}"):
            row = _with_graph(recording, row, made)
            remarks += made.remarks
    recording.writer.add(
        replace(row, duration_s=time.perf_counter() - began, remarks=tuple(dict.fromkeys(remarks)))
    )


def _is_training(kept: KeptTarget | None) -> bool:
    network = kept.target.network if kept else None
    return bool(network and network.training)


def _make_graph(
    recording: Recording, request: CaptureRequest, name: str, kept: KeptTarget, remarks: list[str]
) -> FrontEndGraph:
    with contextlib.ExitStack() as stack:
        if not kept.is_copy:
            stack.enter_context(state_kept(kept.target, kept.modules, remarks))
            stack.enter_context(attributes_kept(kept.target.network))
        else:
            # A copy of the model is nobody's, but functions and globals are the program's.
            stack.enter_context(
                state_kept(replace(kept.target, callable=lambda: None), kept.modules, remarks)
            )
        if request.train is False:
            stack.enter_context(torch.no_grad())
        stack.enter_context(unrecorded(recording))
        stack.enter_context(recording.nothing_learnt())
        stack.enter_context(_silence())
        function, arguments = kept.fresh()
        before = _attributes(function)
        with time_limit(request.front_end_limit_s):
            made = FRONT_ENDS[name](function, arguments)
        remarks += _changed(before, _attributes(function))
        return made


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard everything that is printed, warned and logged: the program has written it when it
    ran.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


_PLAIN = (bool, int, float, str, bytes, type(None))


def _attributes(function: Any) -> dict[str, Any]:
    """Return the plain attributes of a module and those in it, by path, with which object each
    tensor is.
    """
    if not isinstance(function, torch.nn.Module):
        return {}
    attributes: dict[str, Any] = {}
    for path, module in function.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            whole_name = f"{path}.{name}".strip(".")
            if isinstance(value, _PLAIN):
                attributes[whole_name] = value
            elif isinstance(value, torch.Tensor):
                attributes[whole_name] = id(value)
    return attributes


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Say which attributes tracing has changed: the model writes to itself, and the graph does
    not.
    """
    names = [name for name in after if name not in before or before[name] != after[name]]
    if not names:
        return []
    return [
        (
            f"Tracing ran code that sets {', '.join(names[:5])}: this happened once, during "
            "tracing, and is not in the graph."
        )
    ]


def _refused(recording: Recording, row: FrontEnd, error: BaseException) -> FrontEnd:
    frames = tuple(
        Frame(frame.filename, frame.lineno or 0, frame.name, frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
    )
    outside = [frame for frame in frames if not recording.sources.is_torch(frame.file)]
    user = recording.sources.user_frame(tuple(outside)) if outside else None
    text = "".join(traceback.format_exception(error))
    message = f"{type(error).__name__}: {error}".strip()[:MAX_ERROR]
    row = replace(
        row, error=message or one_line(repr(error)), traceback=recording.writer.text(text)
    )
    if user is None:
        return row
    recording.sources.file(user.file)
    return replace(row, file=user.file, line=user.line, code=user.code)


def _with_graph(recording: Recording, row: FrontEnd, made: FrontEndGraph) -> FrontEnd:
    graph = _add_graph(recording, made.module, row.name)
    return replace(
        row, state="made", graph=graph, inputs=made.inputs, outputs=made.outputs, ranges=made.ranges
    )


def _add_graph(
    recording: Recording, module: torch.fx.GraphModule, name: str, parent: int = 0
) -> int:
    """Store a graph and those nested in it, and return its id."""
    live = list(module.graph.nodes)
    rows = [_node_row(recording, module, node) for node in live]
    calls = sum(node.op in fx_graphs.CALLS for node in live)
    graph = Graph(0, 0, "front_end", "", name, parent, call_count=calls)
    placed = recording.writer.add_graph(graph, rows, fx_graphs.edges(module.graph))
    for _, inner_name, inner in fx_graphs.nested_graphs(module):
        _add_graph(recording, inner, f"{name}.{inner_name}", placed.id)
    return placed.id


def _node_row(recording: Recording, module: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    row = fx_graphs.node_row(node, recording.sources)
    if node.op != "call_module" or not isinstance(node.target, str):
        return row
    with contextlib.suppress(AttributeError):
        return replace(
            row, module=node.target, module_type=type(module.get_submodule(node.target)).__name__
        )
    return row


# A limit of time for code that nobody can be asked to stop: a front end that traces the user's
# program.


class TookTooLongError(BaseException):
    """Raised when the limit is reached. No ``except Exception`` of the program or of torch catches
    it.
    """


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLongError in the block when it takes longer. A call into C is over first.

    In another thread than the main one there is no limit, since signals are delivered there only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLongError

    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, before)


# Calls of the front ends, each as its documentation makes it. Nothing here records.


@dataclass(frozen=True, slots=True)
class FrontEndGraph:
    """A front end's graph, with remarks that only ``torch.export`` has."""

    module: torch.fx.GraphModule
    inputs: dict[str, object] | None = None
    outputs: dict[str, object] | None = None
    ranges: dict[str, object] | None = None
    remarks: list[str] = field(default_factory=list)


def symbolic_trace(function: Callable[..., Any], arguments: Arguments) -> FrontEndGraph:
    """Return the graph of ``torch.fx.symbolic_trace``. It takes no inputs."""
    tracer = torch.fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(function)
    return FrontEndGraph(torch.fx.GraphModule(tracer.root, graph))


def export(function: Callable[..., Any], arguments: Arguments) -> FrontEndGraph:
    """Return the graph of ``torch.export.export``. It takes modules only, so a function becomes the
    forward of a module.
    """
    remarks = []
    if not isinstance(function, torch.nn.Module):
        function = _Function(function)
        remarks.append(
            "torch.export takes modules only, so the function was made the forward of one."
        )
    program = torch.export.export(function, arguments.args, arguments.kwargs)
    signature = program.graph_signature
    return FrontEndGraph(
        program.graph_module,
        _kinds(signature.input_specs),
        _kinds(signature.output_specs),
        {str(size): str(range_) for size, range_ in program.range_constraints.items()},
        remarks,
    )


def trace_to_aten(function: Callable[..., Any], arguments: Arguments) -> FrontEndGraph:
    """Return the graph of ``make_fx`` for a call with real tensors. It takes positional arguments
    only.
    """
    if "record_stack_traces" in inspect.signature(make_fx).parameters:
        options = {"record_stack_traces": True}
    else:
        options = {}
    if not arguments.keywords and not _has_defaults(function, arguments):
        return FrontEndGraph(make_fx(function, **options)(*arguments.args))
    names, count = tuple(arguments.keywords), len(arguments.args)

    def by_position(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    if names:
        remarks = [
            (f"make_fx takes positional arguments only: {', '.join(names)} became positional.")
        ]
    else:
        remarks = []
    if _has_defaults(function, arguments):
        remarks.append(
            "make_fx needs a value for every argument of a function: omitted ones got their "
            "defaults."
        )
    return FrontEndGraph(
        make_fx(by_position, **options)(*arguments.args, *arguments.keywords.values()),
        remarks=remarks,
    )


def _has_defaults(function: Callable[..., Any], arguments: Arguments) -> bool:
    """Return whether a plain function has arguments that the call leaves to their defaults."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount > len(arguments.args) + len(arguments.keywords)


FRONT_ENDS: dict[str, Callable[[Callable[..., Any], Arguments], FrontEndGraph]] = {
    "symbolic_trace": symbolic_trace,
    "export": export,
    "make_fx": trace_to_aten,
}


class _Function(torch.nn.Module):
    """A module whose forward is a function of the user's."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _kinds(specs: list[Any]) -> dict[str, object]:
    counts: dict[str, object] = {}
    for spec in specs:
        count = counts.get(spec.kind.name, 0)
        counts[spec.kind.name] = count + 1 if isinstance(count, int) else 1
    return counts


# The target as it was before the program called it.


@dataclass(frozen=True, slots=True)
class KeptTarget:
    """A copy of the target and its arguments from before its first call. Each front end gets a copy
    of it.
    """

    target: Target
    modules: list[ModuleType]
    """The user's own modules."""
    is_copy: bool
    """Whether the target could be copied; otherwise its state is restored after each front end."""
    remarks: tuple[str, ...] = ()

    def fresh(self) -> tuple[Callable[..., Any], Arguments]:
        """Return a callable and arguments that no other code uses."""
        function = self.target.callable
        if self.is_copy:
            function = copy.deepcopy(function)
        return function, copied(self.target.arguments)


@contextlib.contextmanager
def attributes_kept(network: torch.nn.Module | None) -> Iterator[None]:
    """Put every attribute, buffer and parameter of a module and those in it back after the block: a
    front end that traces with stand-ins leaves these where the code sets an attribute.
    """
    held: list[dict[str, Any]] = []
    if network is not None:
        for module in network.modules():
            held += [vars(module), module._buffers, module._parameters, module._modules]
    before = [dict(names) for names in held]
    try:
        yield
    finally:
        for names, kept in zip(held, before, strict=True):
            names.clear()
            names.update(kept)


def keep(target: Target, modules: list[ModuleType]) -> KeptTarget:
    """Copy the target before it is called."""
    function, remarks = uncompiled(target.callable)
    arguments = copied(target.arguments)
    try:
        kept, is_copy = copy.deepcopy(function), True
    except Exception as error:  # noqa: BLE001 - told: modules may hold anything
        message = f"{type(error).__name__}: {error}".partition("\n")[0]
        remarks.append(
            f"The target cannot be copied ({message}): the target itself was traced, in its state "
            "after the call."
        )
        kept, is_copy = function, False
    return KeptTarget(Target(target.name, kept, arguments), modules, is_copy, tuple(remarks))


def uncompiled(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[str]]:
    """Return the traceable form of a callable: the original of a compiled one, the module of its
    forward.
    """
    remarks = []
    if isinstance(function, torch.nn.Module) and function._compiled_call_impl is not None:
        plain = copy.copy(function)  # without what compile() put there; the parts are the same
        plain._compiled_call_impl = None
        function = plain
        remarks.append(
            "The module was compiled in place (module.compile()): front ends got it in eager mode."
        )
    elif is_compiled(function):
        original = getattr(function, "_torchdynamo_orig_callable", function)
        if isinstance(function, private_names.OptimizedModule):
            function = function._orig_mod
        else:
            function = original
        remarks.append("The target was already compiled: front ends got the original.")
    owner = getattr(function, "__self__", None)
    if (
        isinstance(function, MethodType)
        and isinstance(owner, torch.nn.Module)
        and function.__name__ == "forward"
    ):
        remarks.append("The target is the forward of a module: front ends got the module.")
        function = owner
    return function, remarks
