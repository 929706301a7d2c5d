"""What the hooks share while a capture runs: the writer, the compilation in progress, and which FX node is which row.

The hooks (dynamo.py, aot.py, inductor.py, trace.py) see torch; this file turns what they see into rows. A fault of ours must
never become a fault of the user's compile: every hook does its recording inside ``noting``.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch._guards import CompileContext

from fx_explorer.capture import graphs
from fx_explorer.capture.sources import Sources
from fx_explorer.errors import SessionWriteError
from fx_explorer.model import (
    STAGES,
    Artifact,
    ArtifactKind,
    CaptureRequest,
    Compilation,
    Direction,
    Failure,
    Graph,
    Notice,
    Stage,
)
from fx_explorer.session import SessionWriter

Notify = Callable[[Notice], None]


@dataclass
class RecordedGraph:
    """A graph that is in the session, with the way from live nodes to rows. Holds the nodes, so their identity stays valid."""

    graph: Graph
    module: torch.fx.GraphModule
    ids: dict[torch.fx.Node, int]
    by_name: dict[str, int]
    nested: dict[str, RecordedGraph] = field(default_factory=dict)

    def find(self, module: torch.fx.GraphModule) -> RecordedGraph | None:
        """This graph or the nested one that was recorded from ``module``."""
        if self.module is module:
            return self
        return next((found for inner in self.nested.values() if (found := inner.find(module))), None)


@dataclass
class Segment:
    """The graphs of one call of the backend: what one Dynamo graph became. Forgotten when the next one of its frame begins."""

    dynamo: RecordedGraph | None = None
    pre_grad: RecordedGraph | None = None
    joint: RecordedGraph | None = None
    aot: dict[Direction, RecordedGraph] = field(default_factory=dict)
    post_grad: dict[Direction, RecordedGraph] = field(default_factory=dict)
    seq_parents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Autograd sequence number → rows of the Dynamo (or pre-grad) nodes it stands for."""

    @property
    def traced(self) -> RecordedGraph | None:
        """The graph AOTAutograd traced."""
        return self.pre_grad or self.dynamo


class Recording:
    """One capture in progress."""

    def __init__(self, writer: SessionWriter, request: CaptureRequest, notify: Notify) -> None:
        self.writer = writer
        self.request = request
        self.notify = notify
        self.sources = Sources(writer)
        self.started = time.time()
        self.compilations: dict[str, Compilation] = {}
        self.segments: dict[str, Segment] = {}
        self.seen_stages: dict[str, set[Stage]] = {}
        self.backends: dict[str, str] = {}
        """Backend in use, by compilation."""
        self.broke: dict[str, bool] = {}
        """Compilations that ended at a graph break."""
        self.guard_trees: dict[str, str] = {}
        self.output_codes: set[int] = set()
        """Text ids of the output codes that were lowered here."""
        self.cache_events: dict[str, list[str]] = {}
        self._local = threading.local()
        self._broken = False

    # which compilation, which direction

    def compilation_name(self) -> str:
        """Name of the compilation torch is in, ``0/0``; empty outside any."""
        compile_id = CompileContext.current_compile_id()
        return "" if compile_id is None else str(compile_id)

    def compilation_id(self, name: str | None = None) -> int:
        """Row of the compilation (default: the current one), added when torch has not announced it."""
        name = self.compilation_name() if name is None else name
        if not name:
            return 0
        if name not in self.compilations:
            self.add_compilation(name, Compilation(0, name, *_frame_numbers(name), "", "", 0))
        return self.compilations[name].id

    def add_compilation(self, name: str, row: Compilation) -> None:
        row = replace(row, start_s=self.elapsed())
        self.compilations[name] = replace(row, id=self.writer.add(row))
        self.notify(Notice("compilation", compilation=name))

    def change_compilation(self, name: str, **changes: object) -> None:
        self.compilation_id(name)
        row = replace(self.compilations[name], **changes)  # type: ignore[arg-type]
        self.compilations[name] = row
        self.writer.update(row)
        self.notify(Notice("compilation", compilation=name))

    def compile_failed(self, name: str, error: BaseException) -> None:
        """The compiler raised in this compilation; what was captured before stays."""
        message = " ".join(f"{type(error).__name__}: {error}".split("\n\nSet TORCHDYNAMO_VERBOSE")[0].split())
        self.add_failure("compiler", self.stage, error, message)
        self.change_compilation(name, status="failed", error=message)

    @property
    def stage(self) -> Stage | None:
        """The last stage that the current compilation reached."""
        seen = self.seen_stages.get(self.compilation_name(), set())
        return next((stage for stage in reversed(STAGES) if stage in seen), None)

    def segment(self) -> Segment:
        return self.segments.setdefault(self.compilation_name(), Segment())

    @property
    def direction(self) -> Direction:
        """Direction of the graph that is being compiled in this thread."""
        return getattr(self._local, "direction", "")

    @contextlib.contextmanager
    def compiling(self, direction: Direction) -> Iterator[None]:
        before = self.direction
        self._local.direction = direction
        try:
            yield
        finally:
            self._local.direction = before

    def elapsed(self) -> float:
        return time.time() - self.started

    # adding

    def add_graph(
        self, module: torch.fx.GraphModule, stage: Stage, direction: Direction = "", *, name: str = "", parent: int = 0
    ) -> RecordedGraph:
        """Store a graph and, as graphs of their own, the nested graphs of its higher-order ops."""
        live = list(module.graph.nodes)
        rows = [graphs.node_row(node, self.sources) for node in live]
        calls = sum(node.op in graphs.CALLS for node in live)
        graph = Graph(0, self.compilation_id(), stage, direction, name, parent, call_count=calls)
        placed = self.writer.add_graph(graph, rows, graphs.edges(module.graph))
        ids = {node: placed.first_node + i for i, node in enumerate(live)}
        recorded = RecordedGraph(placed, module, ids, {node.name: row for node, row in ids.items()})
        for inner_name, inner in graphs.nested_graphs(module):
            full_name = f"{name}.{inner_name}" if name else inner_name
            recorded.nested[inner_name] = self.add_graph(inner, stage, direction, name=full_name, parent=placed.id)
        self.saw(stage)
        return recorded

    def add_artifact(
        self, kind: ArtifactKind, stage: Stage, text: str, *, title: str, language: str, direction: Direction = ""
    ) -> int:
        lines = text.removesuffix("\n").count("\n") + 1
        row = Artifact(0, self.compilation_id(), kind, stage, direction, title, language, self.writer.text(text), lines)
        artifact = self.writer.add(row)
        self.saw(stage)
        return artifact

    def saw(self, stage: Stage) -> None:
        """Something of ``stage`` is in the file for the current compilation."""
        name = self.compilation_name()
        self.seen_stages.setdefault(name, set()).add(stage)
        self.notify(Notice("artifact", stage=stage, compilation=name))

    # faults

    @contextlib.contextmanager
    def noting(self, what: str, stage: Stage | None = None) -> Iterator[None]:
        """Recording ``what`` may fail without harm to the compile: the fault is stored and shown as such."""
        try:
            yield
        except SessionWriteError as error:
            if not self._broken:
                self._broken = True
                self.notify(Notice("note", text=f"recording stopped: {error}"))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here is ours, and is shown in the session
            self.add_failure("recorder", stage, error, f"could not record {what}: {error}")

    def add_failure(self, where: str, stage: Stage | None, error: BaseException, message: str) -> None:
        text = "".join(traceback.format_exception(error))
        with contextlib.suppress(SessionWriteError):  # reported by noting() at the first failed write
            row = Failure(0, self.compilation_id(), where, stage, type(error).__name__, message, self.writer.text(text))
            self.writer.add(row)
        self.notify(Notice("note", text=message, stage=stage))

    def unavailable(self, view: str, reason: str) -> None:
        """A hook this torch release does not offer: the view stays empty and says why."""
        self.writer.add(Failure(0, 0, "recorder", None, "unavailable", f"{view}: {reason}"))


def _frame_numbers(name: str) -> tuple[int, int]:
    """(frame, recompile) of ``0/1`` or ``!2/0/1``; (-1, 0) for a bare compiled-autograd id."""
    numbers = [part for part in name.split("/") if part.isdigit()]
    return (int(numbers[-2]), int(numbers[-1])) if len(numbers) >= 2 else (-1, 0)
