"""This module records the calls of one graph as they are generated: the nodes that each computes,
and its line (through marks among the wrapper's lines).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from fx_explorer.capture.aot.saved_tensors import StoredOutput, stored_outputs
from fx_explorer.capture.inductor.autotuner_choices import TemplateChoice, choices_for
from fx_explorer.capture.inductor.decisions import add, decisions_of
from fx_explorer.capture.inductor.fusion_decisions import unfused_nodes
from fx_explorer.capture.inductor.gpu_loop_decisions import triton_decisions
from fx_explorer.capture.inductor.kernel_text import (
    NOT_KNOWN,
    CallInProgress,
    CodeMark,
    LineNodes,
    buffers,
    bytes_of_call,
    bytes_of_calls,
    bytes_of_kernel,
    definitions,
    extern_name,
    extern_origins,
    inlined,
    is_for_gpu,
    marked_lines,
    origins,
    runs_of,
    without_kernel,
)
from fx_explorer.capture.inductor.library_calls import library_call
from fx_explorer.capture.inductor.loop_nests import nests_in_order
from fx_explorer.capture.inductor.lowered_kernels import (
    GeneratedCall,
    GeneratedKernel,
    LoweredKernels,
)
from fx_explorer.capture.own_kernels import (
    CopiedKernel,
    calling_nodes,
    copied_lines,
    is_users_kernel,
)
from fx_explorer.capture.torch_flops import flops_of

ItemT = TypeVar("ItemT")

_NOT_A_CALL = ("MemoryPlanningLine", "CommentLine", "AssertSizeStrideLine", "MultiOutputLine")
"""Lines the wrapper writes around a library call (torch/_inductor/codegen/wrapper.py)."""

_CALLS_NOTHING = ("MultiOutput", "AssertScalar")
"""IR nodes that are scheduled like library calls but call nothing: one selects a result of another
node, one checks a size (torch/_inductor/ir.py).
"""

IS_TEMPLATE = "@triton_heuristics.template("
"""Text in the source of every Triton kernel that was made from a template."""

MULTIPLIES = "tl.dot"
"""Text in the source of every Triton kernel that multiplies matrices itself."""


@dataclass
class LoweringInProgress:
    """A graph whose code is being generated. ``outer`` is the graph that contains it."""

    lowering: Any
    outer: LoweringInProgress | None
    notes_library_calls: bool = False
    """Whether each library call is recorded so that it can be repeated alone."""
    result: Any = None
    error: str = ""
    nested: list[LoweringInProgress] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _calls: list[CallInProgress] = field(default_factory=list)
    _defined: dict[str, tuple[list[Any], LineNodes, str]] = field(default_factory=dict)
    """Kernel → the scheduler nodes it was last generated for, the nodes of its lines, its
    source.
    """
    _bytes: dict[str, int] = field(default_factory=dict)
    """Name of a kernel → bytes that one call of it moves."""
    _own: dict[str, object] = field(default_factory=dict)
    """Name of a kernel of the user's → the object that ``@triton.jit`` made of the user's function.
    """
    _extern: tuple[Any, list[CallInProgress]] | None = None
    _line_count: int = 0

    def __post_init__(self) -> None:
        if self.outer:
            self.outer.nested.append(self)

    def whole(self) -> Iterator[LoweringInProgress]:
        """Yield this graph, then those nested in it."""
        yield self
        for inner in self.nested:
            yield from inner.whole()

    # while code is generated

    def define(
        self,
        kernel: str,
        node_schedule: Iterable[Any],
        line_nodes: LineNodes,
        source: str,
        code: object,
    ) -> None:
        """Record the definition of a kernel. ``code`` is Inductor's own object for the kernel, None
        if there is none.
        """
        scheduler_nodes = list(node_schedule)
        self._defined[kernel] = scheduler_nodes, line_nodes, source
        self._bytes[kernel] = self._estimate(bytes_of_kernel, code)
        for decision in triton_decisions(code, scheduler_nodes):
            add(decision)

    def define_users_kernel(self, kernel: str, function: object) -> None:
        self._own[kernel] = function

    def call(self, kernel: str) -> CallInProgress:
        """Record a call of a generated kernel: of the kernel that was just defined; or, for a
        kernel that is user-written or a multi-kernel, for the current node.
        """
        defined = self._defined.get(kernel)
        if defined is None:
            defined = (self._current_nodes(), (), "")
        scheduler_nodes, line_nodes, source = defined
        nodes = self._computed_by(kernel, scheduler_nodes)
        call = CallInProgress(kernel, False, nodes, buffers(scheduler_nodes), line_nodes, source)
        call.estimated_bytes = self._bytes.get(kernel, NOT_KNOWN)
        if kernel not in self._defined:  # the user's own
            call.estimated_bytes = self._estimate(bytes_of_calls, scheduler_nodes)
        # A kernel may stand for a library's nodes (they share a buffer, say) without doing their
        # work.
        multiplied = nodes if MULTIPLIES in source else []
        call.estimated_flops = self._estimate(flops_of, multiplied)
        self._calls.append(call)
        if self._extern:
            self._extern[1].append(call)
        return call

    def _computed_by(self, kernel: str, scheduler_nodes: list[Any]) -> set[torch.fx.Node]:
        """Return the nodes that a kernel computes. A call of a user's kernel is left out: it may be
        among the origins of a generated kernel because it made one of its arguments.
        """
        if kernel in self._own:
            return calling_nodes(scheduler_nodes)
        return {node for node in origins(scheduler_nodes) if not is_users_kernel(node)}

    def _current_nodes(self) -> list[Any]:
        if self._extern:
            scheduler_node = self._extern[0]
        else:
            scheduler_node = getattr(self.lowering.scheduler, "current_node", None)
        if scheduler_node is None:
            return []
        return [scheduler_node]

    @contextlib.contextmanager
    def extern(self, scheduler_node: Any) -> Iterator[list[CallInProgress]]:
        """Generate a library call inside the block; yields the kernel calls that it turns out to
        consist of.
        """
        calls: list[CallInProgress] = []
        self._extern = scheduler_node, calls
        try:
            yield calls
        finally:
            self._extern = None

    def extern_call(
        self, scheduler_node: Any, wrapper_lines: list[Any], first: int, mark: Callable[..., Any]
    ) -> None:
        """Note the library call among ``wrapper_lines[first:]``, which were written for
        ``scheduler_node``.
        """
        ir_node = scheduler_node.node
        if type(ir_node).__name__ in _CALLS_NOTHING:
            return
        at = next((i for i in range(first, len(wrapper_lines)) if _is_call(wrapper_lines[i])), None)
        if at is None:
            return
        nodes = extern_origins(ir_node)
        call = CallInProgress(extern_name(ir_node), True, nodes, buffers([scheduler_node]))
        call.runs = runs_of(ir_node)
        call.estimated_bytes = self._estimate(bytes_of_call, scheduler_node)
        call.estimated_flops = self._estimate(flops_of, nodes)
        self._calls.append(call)
        # Right around the line and nowhere else: the wrapper drops memory lines at its end, and a
        # mark there would keep them.
        wrapper_lines.insert(at + 1, mark(call, is_end=True))
        wrapper_lines.insert(at, mark(call, is_end=False))

    def _estimate(self, estimate: Callable[[Any], int], of: Any) -> int:
        """Return an estimate; -1 where there is none, or where Inductor fails to compute it, which
        is recorded as a problem.
        """
        if of is None or not is_for_gpu(self.lowering):
            return NOT_KNOWN
        try:
            return estimate(of)
        except Exception as error:  # noqa: BLE001 - shown in the session
            self.problems.append(
                f"Inductor could not estimate a kernel ({estimate.__name__}): "
                f"{type(error).__name__}: {error}"
            )
            return NOT_KNOWN

    # when the code is complete

    def place_calls(self) -> None:
        """Read the lines of the calls from the generated text's line map, and remove our marks from
        it.
        """
        code = _python_code(self.result)
        if code is None:
            return
        self._line_count = code.value.count("\n")
        for line, mark in marked_lines(code.line_map):
            if mark.call and mark.is_end:
                mark.call.end_line = line
            elif mark.call:
                mark.call.first_line = line
        code.line_map[:] = [entry for entry in code.line_map if not isinstance(entry[1], CodeMark)]

    def lowered(self) -> LoweredKernels:
        """Return the results of lowering this graph: its kernels with the lines of their calls, the
        nodes without a kernel, and the storages of its outputs.
        """
        # The code of a nested graph stands in that of the outermost one.
        root = self.outer or self
        while root.outer:
            root = root.outer
        code = _python_code(root.result)
        text, shift = "", 0
        if code:
            text = code.value
            # Code for tuning may have been put in front since the calls were placed.
            shift = text.count("\n") - root._line_count
        module = self.lowering.module
        positions = {node: position for position, node in enumerate(module.graph.nodes)}
        operations = getattr(self.lowering, "operations", ())
        add_concatenations(operations, self._calls)
        lines = text.split("\n")
        generated = _kernels(self._calls, positions, text, shift, self.lowering)
        kernels = [self._with_copied(self._with_alone(kernel, lines)) for kernel in generated]
        subgraph, parent = "", None
        if self.outer:
            subgraph, parent = self.lowering.name or "", self.outer.lowering.module
        unlowered: dict[str, str] = {}
        outputs: tuple[StoredOutput, ...] = ()
        if not self.error:
            unlowered = without_kernel(operations, positions, self._calls)
            outputs = stored_outputs(self.lowering)
        return LoweredKernels(
            module=module,
            graph_id=self.lowering.graph_id,
            subgraph=subgraph,
            parent=parent,
            is_backward=bool(self.lowering.is_backward),
            is_inference=bool(self.lowering.is_inference),
            output_code=text,
            kernels=tuple(kernels),
            without_kernel=unlowered,
            error=self.error,
            problems=tuple(self.problems),
            unfused=self._of_scheduler(lambda scheduler: unfused_nodes.get(scheduler, ())),
            nests=self._of_scheduler(nests_in_order),
            decisions=decisions_of(self.lowering),
            outputs=outputs,
        )

    def _of_scheduler(self, noted: Callable[[Any], Sequence[ItemT]]) -> tuple[ItemT, ...]:
        """Return what was noted of the graph's scheduler; nothing where none was made."""
        scheduler = getattr(self.lowering, "scheduler", None)
        if scheduler is None:
            return ()
        return tuple(noted(scheduler))

    def _with_alone(self, kernel: GeneratedKernel, lines: Sequence[str]) -> GeneratedKernel:
        """Return a library call together with a LibraryCall, from which it can be repeated alone.
        Any other kernel, and any call if that was not requested, is returned unchanged.
        """
        if kernel.language != "extern" or not self.notes_library_calls:
            return kernel
        calls = []
        for call in kernel.calls:
            line = lines[call.line - 1] if call.line else ""
            calls.append(replace(call, alone=library_call(line, self.lowering)))
        return replace(kernel, calls=tuple(calls))

    def _with_copied(self, kernel: GeneratedKernel) -> GeneratedKernel:
        """Return a kernel of the user's with the lines from which it was copied. Other kernels are
        returned unchanged.
        """
        is_own = kernel.name in self._own and kernel.source
        if is_own:
            copied = copied_lines(self._own[kernel.name], kernel.source)
        else:
            copied = CopiedKernel()
        self.problems += [f"{kernel.name}: {problem}" for problem in copied.problems]
        return replace(kernel, copied=copied.lines)


def _kernels(
    calls: Sequence[CallInProgress],
    positions: dict[torch.fx.Node, int],
    text: str,
    shift: int,
    lowering: Any,
) -> Iterator[GeneratedKernel]:
    """Yield the kernels. All calls of a generated kernel belong to one kernel; each library call is
    a kernel of its own.
    """
    defined = definitions(text)
    lines = text.split("\n")
    groups: dict[object, list[CallInProgress]] = {}
    for position, call in enumerate(calls):
        key = position if call.is_extern else call.kernel
        groups.setdefault(key, []).append(call)
    node_names = {node.name for node in positions}
    for group in groups.values():
        generated = [_call(call, positions, node_names, lines, shift, lowering) for call in group]
        name = group[0].kernel
        first = group[0]
        if first.is_extern:
            kernel = GeneratedKernel(
                name, "extern", "", generated[0].line, tuple(generated), runs=first.runs
            )
        else:
            definition = defined.get(name) or inlined(name, first.source, text)
            kernel = GeneratedKernel(
                name,
                definition.language,
                definition.source,
                definition.first_line,
                tuple(generated),
            )
        yield replace(
            kernel, estimated_bytes=first.estimated_bytes, estimated_flops=first.estimated_flops
        )


def _call(
    call: CallInProgress,
    positions: dict[torch.fx.Node, int],
    node_names: set[str],
    lines: list[str],
    shift: int,
    lowering: Any,
) -> GeneratedCall:
    nodes = sorted((node for node in call.nodes if node in positions), key=positions.__getitem__)
    choices: tuple[TemplateChoice, ...] = ()
    if call.is_extern or IS_TEMPLATE in call.source:
        choices = choices_for(lowering, nodes, call.kernel, call.source)
    return GeneratedCall(
        _line(call, lines, shift),
        tuple(node.name for node in nodes),
        tuple((line, name) for line, name in call.line_nodes if name in node_names),
        choices,
        frozenset(call.buffers),
    )


def _line(call: CallInProgress, lines: list[str], shift: int) -> int:
    """Return the line of the call among those written for it. A device guard or a stream may be
    fetched before it.
    """
    if not call.first_line:
        return 0
    first, end = call.first_line + shift, max(call.end_line, call.first_line + 1) + shift
    named = (at for at in range(first, end) if at <= len(lines) and call.kernel in lines[at - 1])
    return next(named, first)


def add_concatenations(operations: Iterable[Any], calls: Sequence[CallInProgress]) -> None:
    """Give the nodes of concatenations to the calls that compute their inputs. They have no kernel:
    those calls write the inputs into place (ConcatKernel, ir.py).
    """
    writers: dict[str, list[CallInProgress]] = {}
    for call in calls:
        for name in call.buffers:
            writers.setdefault(name, []).append(call)
    for operation in operations:
        if type(operation).__name__ != "ConcatKernel":
            continue
        computing: list[CallInProgress] = []
        for part in operation.inputs:
            computing += writers.get(part.get_name(), ())
        for call in computing:
            call.nodes |= extern_origins(operation)
        writers[operation.get_name()] = computing


def _is_call(line: object) -> bool:
    if isinstance(line, str):
        text = line.strip()
        return "(" in text and not text.startswith(("#", "//", "assert_", "del "))
    names = {base.__name__ for base in type(line).__mro__}
    return "WrapperLine" in names and names.isdisjoint(_NOT_A_CALL)


def _python_code(result: Any) -> Any:
    """Return the wrapper's ``ValueWithLineMap``; None without one (code generation failed, or the
    FX wrapper).
    """
    code = result[0] if isinstance(result, tuple) and result else None
    if hasattr(code, "value") and hasattr(code, "line_map"):
        return code
    return None
