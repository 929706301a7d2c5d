"""This module computes where compile time went: stage by stage, and as nested frames: threads,
functions, torch's timed phases, and in these the user's modules and lines.

Every instant is counted once, and time that no span covers is reported as such. A frame is as long
as what was timed; its own part, which is in none of its children, ends it. So the self times of all
frames add up to the whole. torch names its phases after its functions; what they are in the user's
words stands here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.analysis.naming import function_of
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compile_seconds, other_variants, source_paths

STAGE_IN_WORDS: dict[str, str] = {
    "dynamo": "reading the Python code (Dynamo)",
    "pre_grad": "passes before autograd",
    "joint": "tracing forward and backward (AOTAutograd)",
    "forward": "the forward graph (AOTAutograd)",
    "backward": "the backward graph (AOTAutograd)",
    "backend": "the backend's own work",
    "post_grad": "passes on the final graphs",
    "schedule": "lowering and fusing (Inductor)",
    "output_code": "writing code (Inductor)",
    "kernel": "building kernels",
    "cache": "loading from torch's cache",
    "": "elsewhere",
}

FROM_CACHE = "cache"
"""Key for stages whose work came from a cache."""

LOADING = frozenset({"AOTAutogradCache.inductor_load", "PyCodeCache.load_by_key_path"})

_OUTER_EVENTS_OF_A_HIT = {
    "aotautograd_cache": frozenset({"backend_compile"}),
    "fx_graph_cache": frozenset({"inductor_compile", "fx_codegen_and_compile"}),
}
"""Cache → the enclosing events that consist only of the look-up and loading after a hit in that
cache.
"""

BACKEND_CALL = "backend_compile"
"""Event of ``dynamo_timed`` around the call of a backend, Inductor or another."""

STAGE_OF_OUTER_EVENT: dict[str, model.Stage] = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    BACKEND_CALL: "pre_grad",
    "create_aot_dispatcher_function": "joint",
    "inductor_compile": "post_grad",
    "fx_codegen_and_compile": "post_grad",
    "GraphLowering.compile_to_fn": "output_code",
}
"""Events of ``dynamo_timed`` that enclose a stage. Their own time outside of the stages (set-up,
copies of graphs, fake tensor propagation) counts for that stage. They do not show that a stage has
begun.
"""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds by stage, which add up to ``total_s`` with ``unaccounted_s``."""

    by_stage: dict[str, float]
    """Seconds by stage, in order. Key ``""`` has the time that belongs to no known stage."""
    total_s: float
    unaccounted_s: float
    """Seconds inside a compilation, but in no span."""


def stage_times(reader: SessionReader, compilation: int | None = None) -> StageTimes:
    """Return the times of one compilation or variant. For all compilations together, the time of
    further variants is left out.
    """
    wanted = {} if compilation is None else {"compilation": compilation}
    variants = set() if compilation is not None else other_variants(reader)
    spans = [span for span in reader.rows(model.Span, **wanted) if span.compilation not in variants]
    exclusive = exclusive_seconds(spans, _loading_events(reader, wanted))
    by_stage: dict[str, float] = {}
    for stage in (*model.STAGES, FROM_CACHE, ""):
        if stage in exclusive:
            by_stage[stage] = exclusive[stage]
    # Of a compilation without an end torch has written no time, only that of the phases that were
    # over.
    total = max(compile_seconds(reader, compilation), sum(by_stage.values()))
    return StageTimes(by_stage, total, total - sum(by_stage.values()))


def _loading_events(reader: SessionReader, wanted: Mapping[str, int]) -> dict[int, frozenset[str]]:
    """Return compilation → events that only loaded results there, because one of torch's caches had
    them. ``wanted`` selects compilations.
    """
    found: dict[int, frozenset[str]] = {}
    for row in reader.rows(model.Metric, name="cache_event", **wanted):
        event = json.loads(row.value)
        for cache, names in _OUTER_EVENTS_OF_A_HIT.items():
            if event == f"{cache}_hit":
                found[row.compilation] = found.get(row.compilation, LOADING) | names
    return found


def exclusive_seconds(
    spans: Sequence[model.Span], loading: Mapping[int, frozenset[str]] | None = None
) -> dict[str, float]:
    """Return seconds by stage. Each instant belongs to the innermost span around it.

    ``loading`` has the events, by compilation, that loaded what a cache had. A span without a stage
    of its own belongs to the span around it. Clocks are rounded, so a span that ends a little after
    the one around it is cut there.
    """
    seconds: dict[str, float] = {}
    open_spans: list[tuple[float, str]] = []  # (end, stage), outermost first
    now = 0.0

    def advance(until: float) -> None:
        """Move ``now`` to ``until``. The time goes to the innermost open span; spans that end
        before are closed.
        """
        nonlocal now
        while open_spans and now < until:
            end, stage = open_spans[-1]
            step = min(end, until)
            if step > now:
                seconds[stage] = seconds.get(stage, 0.0) + step - now
                now = step
            if end <= now:
                open_spans.pop()
        now = max(now, until)

    for span in sorted(spans, key=lambda s: (s.start_s, -s.duration_s)):
        advance(span.start_s)
        while open_spans and open_spans[-1][0] <= span.start_s:
            open_spans.pop()
        around_end, around_stage = open_spans[-1] if open_spans else (float("inf"), "")
        is_loading = span.name in (loading or {}).get(span.compilation, ())
        is_backends = span.name == BACKEND_CALL and around_stage == "backend"
        outer_stage = around_stage if is_backends else STAGE_OF_OUTER_EVENT.get(span.name)
        stage = FROM_CACHE if is_loading else span.stage or outer_stage or around_stage
        open_spans.append((min(span.start_s + span.duration_s, around_end), stage))
    advance(max((s.start_s + s.duration_s for s in spans), default=0.0))
    return seconds


_WORDS: dict[str, str] = {
    "dynamo": "Dynamo",
    "entire_frame_compile": "compiling the function",
    "_compile.compile_inner": "compiling the function",
    "insert_deferred_runtime_asserts": "checks of sizes in the graph",
    "entire_backward_compile": "compiling the backward",
    "bytecode_tracing": "tracing your Python code",
    "build_guards": "making the guards",
    "gc": "collecting garbage",
    "backend_compile": "the backend",
    "OutputGraph.call_user_compiler": "the backend",
    "_recursive_pre_grad_passes": "passes before autograd",
    "create_aot_dispatcher_function": "AOTAutograd",
    "aot_collect_metadata": "finding outputs and in-place changes",
    "aot_trace_joint_graph": "tracing forward and backward",
    "aot_trace_inference_graph": "tracing the forward",
    "_recursive_joint_graph_passes": "passes on the joint graph (forward and backward)",
    "min_cut_rematerialization_partition": "choosing what is saved for the backward",
    "compile_fx.<locals>.fw_compiler_base": "Inductor, forward",
    "compile_fx.<locals>.fw_compiler_freezing": "Inductor, forward",
    "compile_fx.<locals>.bw_compiler": "Inductor, backward",
    "compile_fx_inner": "Inductor",
    "inductor_compile": "Inductor",
    "fx_codegen_and_compile": "from the graph to code",
    "additional_fake_tensor_prop": "finding shapes and strides",
    "_recursive_post_grad_passes": "passes on the final graph",
    "GraphLowering.run": "lowering",
    "GraphLowering.codegen": "writing the code",
    "GraphLowering.compile_to_fn": "building a function from the code",
    "GraphLowering.compile_to_module": "loading the code",
    "CacheBase.get_system.triton_key": "reading Triton's own files, for its version",
    "code_gen": "writing the code",
    "Scheduler.__init__": "planning kernels",
    "Scheduler.fused_nodes": "fusing",
    "Scheduler.codegen": "writing kernels",
    "PythonWrapperCodegen.generate": "writing the wrapper around kernels",
    "async_compile.wait": "waiting for kernels being built",
    "compile_file": "building a C++ kernel",
    "PyCodeCache.load_by_key_path": "loading the code",
}

_PASS, _ATTEMPT = "pass.", "compile_attempt_"


def describe_phase(name: str) -> str:
    """Return ``lowering`` for ``GraphLowering.run``; torch's own name where we have no words for
    it.
    """
    if name.startswith(_PASS):
        return f"pass {name.removeprefix(_PASS)}"
    attempt = name.removeprefix(_ATTEMPT)
    if attempt.isdecimal() and attempt != name:
        return f"attempt {int(attempt) + 1}"
    return _WORDS.get(name, name)


KINDS_IN_WORDS: dict[str, str] = {
    "call": "everything that was timed",
    "thread": "threads of your program",
    "function": "functions that were compiled",
    "dynamo": "reading your Python code (Dynamo)",
    "pre_grad": "passes before autograd",
    "joint": "tracing forward and backward (AOTAutograd)",
    "forward": "the forward graph (AOTAutograd)",
    "backward": "the backward graph (AOTAutograd)",
    "backend": "the backend's own work",
    "post_grad": "passes on the final graphs (Inductor)",
    "schedule": "lowering and fusing (Inductor)",
    "output_code": "writing code (Inductor)",
    "kernel": "building kernels",
    "other": "elsewhere",
    "module": "your modules",
    "line": "your lines",
}
"""Description of the frames of each kind, in the order of a compilation."""


MAIN_THREAD = "the main thread"
OF_NONE = "of no function"
WHOLE = "compiling"

PhaseKey = tuple[int, str, float]
"""Compilation, name and beginning of a phase."""


@dataclass(frozen=True, slots=True)
class CompilePart:
    """A CompilePart is a frame of the chart with the phase, compilation or user's line that it
    shows.
    """

    frame: FlameFrame
    span: model.Span | None = None
    """The phase that the frame shows; None for a frame that only contains phases, and for a line.
    """
    compilation: str = ""
    """Name of the compilation that the frame belongs to; empty for none or several."""
    file: int = 0
    """The SourceFile of its line; 0 for none."""


@dataclass(frozen=True, slots=True)
class CompileTime:
    """The compile time of a session as one frame that contains all others."""

    root: FlameFrame
    parts: tuple[CompilePart, ...]
    """One part for each frame, a frame before its children. The first index in a frame's ``steps``
    is its position here.
    """
    has_lines: bool
    """Whether the session has the time of lines."""


@dataclass(eq=False, slots=True)
class _Node:
    """A frame of the chart while the tree is built."""

    name: str
    kind: str
    duration_s: float = 0.0
    span: model.Span | None = None
    compilation: str = ""
    file: int = 0
    line: int = 0
    end_s: float = 0.0
    """End of the phase, for nesting."""
    children: list[_Node] = field(default_factory=list)
    depth: int = 0
    began_s: float = 0.0
    frame: FlameFrame | None = None


def compile_time(reader: SessionReader) -> CompileTime | None:
    """Return where compile time went, without further variants; None where no time was recorded."""
    with reader.snapshot():
        aside = other_variants(reader)
        compilations = {
            row.id: row for row in reader.rows(model.Compilation) if row.id not in aside
        }
        spans = [span for span in reader.rows(model.Span) if span.compilation not in aside]
        lines: dict[PhaseKey, list[model.PhaseLine]] = {}
        for row in reader.rows(model.PhaseLine):
            lines.setdefault((row.compilation, row.phase, row.phase_start_s), []).append(row)
        paths = source_paths(reader)
    tree = _Tree(compilations, lines, paths)
    root = tree.whole(spans)
    if not root.duration_s:
        return None
    order = _placed(root)
    frames = _framed(order, paths)
    parts = (
        CompilePart(frame, node.span, node.compilation, node.file)
        for node, frame in zip(order, frames, strict=True)
    )
    return CompileTime(frames[0], tuple(parts), bool(lines))


class _Tree:
    """Builds the tree of frames out of threads, functions, phases, modules and lines."""

    def __init__(
        self,
        compilations: dict[int, model.Compilation],
        lines: dict[PhaseKey, list[model.PhaseLine]],
        paths: dict[int, str],
    ) -> None:
        self._compilations = compilations
        self._lines = lines
        self._paths = paths
        self._files = {path: file for file, path in paths.items()}
        self._left = dict(compilations)
        """Compilations that have no frame yet."""

    def whole(self, spans: Iterable[model.Span]) -> _Node:
        # The compilations that have no phases are the main thread's.
        of_thread: dict[str, list[model.Span]] = {"": []}
        for span in spans:
            of_thread.setdefault(span.thread, []).append(span)
        threads = []
        for name, spans_of_thread in of_thread.items():
            title = f"thread {name}" if name else MAIN_THREAD
            functions = self._functions(spans_of_thread)
            threads.append(_summed(_Node(title, "thread", children=functions)))
        rest = [self._function(row, []) for row in self._left.values() if row.duration_s > 0]
        main = threads[0]
        main.children += rest
        _summed(main)
        threads = [node for node in threads if node.duration_s]
        if len(threads) > 1:
            inner = threads
        else:
            inner = [child for node in threads for child in node.children]
        return _summed(_Node(WHOLE, "call", children=inner))

    def _functions(self, spans: Iterable[model.Span]) -> list[_Node]:
        """Return a node for each compilation that is timed on a thread."""
        owned: dict[int, list[_Node]] = {}
        for node in self._nested(spans):
            owner = node.span.compilation if node.span else 0
            owned.setdefault(owner, []).append(node)
        functions = []
        for compilation, nodes in owned.items():
            row = self._left.pop(compilation, None)
            known = row or self._compilations.get(compilation)
            # What torch says of the whole function is counted once, on the thread that began it.
            least_s = row.duration_s if row else 0.0
            functions.append(self._function(known, nodes, least_s))
        return functions

    def _function(
        self, row: model.Compilation | None, nodes: list[_Node], least_s: float | None = None
    ) -> _Node:
        if row is None:
            return _summed(_Node(OF_NONE, "function", children=nodes))
        node = _Node(
            f"[{row.name}] {function_of(row)}", "function", compilation=row.name, children=nodes
        )
        node.file, node.line = self._files.get(row.file, 0), row.line
        _summed(node)
        if least_s is None:
            least_s = row.duration_s
        node.duration_s = max(node.duration_s, least_s)
        return node

    def _nested(self, spans: Iterable[model.Span]) -> list[_Node]:
        """Return the outermost phases of one thread, with the phases within them. Clocks are
        rounded, so a phase that ends a little after the enclosing one is cut off there.
        """
        outermost: list[_Node] = []
        running: list[_Node] = []
        for span in sorted(spans, key=lambda span: (span.start_s, -span.duration_s)):
            while running and running[-1].end_s <= span.start_s:
                running.pop()
            around = running[-1] if running else None
            end_s = span.start_s + max(0.0, span.duration_s)
            end_s = min(end_s, around.end_s) if around else end_s
            node = _Node(
                describe_phase(span.name),
                _kind(span, around),
                max(0.0, end_s - span.start_s),
                span,
                end_s=end_s,
            )
            row = self._compilations.get(span.compilation)
            node.compilation = row.name if row else ""
            siblings = around.children if around else outermost
            siblings.append(node)
            running.append(node)
            node.children += self._modules(span)
        return outermost

    def _modules(self, span: model.Span) -> list[_Node]:
        """Return the modules of the lines that a phase was at, and in them the lines."""
        top = _Node("", "module")
        modules = {"": top}
        for row in self._lines.get((span.compilation, span.name, span.start_s), ()):
            where = in_file(self._paths.get(row.file, "?"), row.line)
            line = _Node(where, "line", max(0.0, row.duration_s), file=row.file, line=row.line)
            _module(modules, row.module).children.append(line)
        return _without_single_ones(top).children


def _kind(span: model.Span, around: _Node | None) -> str:
    """Return the stage that a phase belongs to: its own, else that of the enclosing phase."""
    stage = span.stage or STAGE_OF_OUTER_EVENT.get(span.name)
    if stage:
        return stage
    return around.kind if around else "other"


def _module(modules: dict[str, _Node], path: str) -> _Node:
    """Return the node of a module, creating it and its enclosing modules if needed."""
    names = path.split(".") if path else []
    known = len(names)
    while ".".join(names[:known]) not in modules:
        known -= 1
    node = modules[".".join(names[:known])]
    for length in range(known + 1, len(names) + 1):
        inner = _Node(".".join(names[:length]), "module")
        node.children.append(inner)
        node = modules[inner.name] = inner
    return node


def _without_single_ones(top: _Node) -> _Node:
    """Skip modules whose only content is another module, and add up the times of the others."""
    order = [top]
    for node in order:
        node.children = [_innermost(child) for child in node.children]
        order += [child for child in node.children if child.kind == "module"]
    for node in reversed(order):
        _summed(node)
    return top


def _innermost(node: _Node) -> _Node:
    while node.kind == "module" and len(node.children) == 1 and node.children[0].kind == "module":
        node = node.children[0]
    return node


def _summed(node: _Node) -> _Node:
    node.duration_s = sum(child.duration_s for child in node.children)
    return node


def _placed(root: _Node) -> list[_Node]:
    """Return all nodes with their depth and beginning set, each before its children. A child that
    would end after its parent ends with it.
    """
    order: list[_Node] = []
    waiting = [root]
    while waiting:  # no recursion: a file may hold phases within phases as deep as it likes
        node = waiting.pop()
        order.append(node)
        at, left = node.began_s, node.duration_s
        for child in node.children:
            child.depth, child.began_s = node.depth + 1, at
            child.duration_s = min(child.duration_s, left)
            at += child.duration_s
            left = max(0.0, left - child.duration_s)
        waiting += reversed(node.children)
    return order


def _framed(order: list[_Node], paths: dict[int, str]) -> list[FlameFrame]:
    """Return the frames of the nodes."""
    for position in reversed(range(len(order))):
        node = order[position]
        children = tuple(_frames_of(node.children))
        stop = children[-1].steps.stop if children else position + 1
        line = (paths[node.file], node.line) if node.file in paths and node.line else None
        ended_s = node.began_s + node.duration_s
        node.frame = FlameFrame(
            node.name,
            node.kind,
            node.depth,
            node.began_s,
            ended_s,
            range(position, stop),
            line,
            children,
        )
    return list(_frames_of(order))


def _frames_of(nodes: Iterable[_Node]) -> Iterator[FlameFrame]:
    return (node.frame for node in nodes if node.frame)
