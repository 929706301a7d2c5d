"""This module reads the graphs that torch prints into a log, one for each stage, and links them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import lru_cache
from itertools import count
from typing import TypeAlias

from fx_explorer.model import (
    AFTER_PASSES,
    Direction,
    Frame,
    Graph,
    Link,
    Node,
    Stage,
    is_bucket_label,
)
from fx_explorer.model.rows.graph import How
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.printed_saved_tensors import AotGraph, saved_tensors
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.readers.torch_trace.replaced_nodes import replaced_nodes
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.printed_graph import PrintedGraph, PrintedNode, read_graphs
from fx_explorer.torch_texts.torch_names import computes_nothing

STAGE_OF: dict[str, tuple[Stage, Direction, str]] = {
    "dynamo_output_graph": ("dynamo", "", ""),
    "after_pre_grad_graph": ("pre_grad", "", ""),
    "aot_joint_graph": ("joint", "", ""),
    "after_joint_graph": ("joint", "", AFTER_PASSES),
    "aot_forward_graph": ("forward", "forward", ""),
    "aot_backward_graph": ("backward", "backward", ""),
    "aot_inference_graph": ("forward", "inference", ""),
    "inductor_post_grad_graph": ("post_grad", "", ""),
    "inductor_pre_grad_graph": ("pre_grad", "", ""),
    "after_post_grad_graph": ("post_grad", "", ""),
}
"""Record → stage, direction and name of its graph. Which direction a graph after Inductor's passes
has follows from its inputs.
"""


_AOT_INPUT = re.compile(
    r'^[ \t]*(?P<name>\w+): "[^"\n]*",?  # PlainAOTInput\(idx=(?P<index>\d{1,9})\)[ \t]*$',
    re.MULTILINE,
)
"""Matches torch's comment on an input of AOTAutograd's graphs, from 2.11 on
(torch/_functorch/_aot_autograd/descriptors.py).
"""


LinkValues: TypeAlias = tuple[int, int, How]
"""The fields of a ``Link``."""

_computes_nothing = lru_cache(maxsize=4_096)(computes_nothing)

MOST_AT_HAND = 64
"""Maximum number of compilations whose nodes' names are cached if a log is decoded in its own
order: a large one has 8,000.
"""


@dataclass(slots=True)
class GraphsOfCompilation:
    """The nodes of the last graphs of one compilation, by stage and direction: name → id."""

    by_stage: dict[tuple[Stage, Direction], dict[str, int]] = field(default_factory=dict)
    printed: dict[tuple[Stage, Direction], PrintedGraph] = field(default_factory=dict)
    """The same graphs, as they were read."""
    traced_inputs: tuple[int, ...] = ()
    """The inputs of the graph that AOTAutograd traces, in order."""
    traced_names: tuple[str, ...] = ()
    """Their names."""
    forward: AotGraph | None = None
    """The forward graph that waits for its backward."""
    inputs: dict[Direction, tuple[str, ...]] = field(default_factory=dict)
    """The inputs of AOTAutograd's graphs."""
    post_grad_records: dict[Direction, str] = field(default_factory=dict)
    """Which of torch's two records gave the graph after Inductor's passes."""
    buckets: dict[str, GraphsOfCompilation] = field(default_factory=dict)
    """The same for each bucket into which DDPOptimizer split Dynamo's graph."""
    bucket: str = ""
    """Name of the bucket of the last records; empty without buckets."""

    def keep(
        self, stage: Stage, direction: Direction, graph: PrintedGraph, ids: dict[str, int]
    ) -> None:
        self.by_stage[stage, direction] = ids
        self.printed[stage, direction] = graph

    def go_to(self, bucket: str) -> None:
        """Assign the records that follow to this bucket of Dynamo's graph."""
        self.bucket = bucket
        whole: tuple[Stage, Direction] = ("dynamo", "")
        self.buckets.setdefault(bucket, GraphsOfCompilation({whole: self.by_stage.get(whole, {})}))

    def go_to_backward(self, inputs: tuple[str, ...]) -> None:
        """Change to the bucket whose backward has these inputs, or most of them, and was not
        lowered yet; among several to the last, since backwards run from the last bucket to the
        first. A backward is compiled when it first runs, and its record names no bucket.
        """
        waiting = []
        for name, bucket in reversed(self.buckets.items()):
            if ("post_grad", "backward") not in bucket.by_stage:
                waiting.append(name)

        def differing(name: str) -> int:
            return len(set(inputs) ^ set(self.buckets[name].inputs.get("backward", ())))

        self.bucket = min(waiting or self.buckets, key=differing, default="")

    @property
    def at_hand(self) -> GraphsOfCompilation:
        """Return the graphs of the bucket of the last records; all without buckets."""
        return self.buckets.get(self.bucket, self)


class GraphRecords:
    """Makes rows of graphs, nodes and links."""

    def __init__(self, writer: SessionWriter, compilations: Compilations, places: Places) -> None:
        self._writer = writer
        self._compilations = compilations
        self._places = places
        self._graphs: OrderedDict[int, GraphsOfCompilation] = OrderedDict()
        self.unread_lines = 0
        """Lines of graphs that could not be read."""
        self._last_frame: Frame | None = None
        self._last_place = 0, 0, 0

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return dict.fromkeys(STAGE_OF, self._graph)

    def of(self, compilation: int) -> GraphsOfCompilation:
        """Return the graphs of a compilation, or of the bucket of it that was read last."""
        return self._whole(compilation).at_hand

    def bucket(self, compilation: int) -> str:
        """Return the name of the bucket of the last records; empty without buckets."""
        return self._whole(compilation).bucket

    def _whole(self, compilation: int) -> GraphsOfCompilation:
        graphs_of_compilation = self._graphs.setdefault(compilation, GraphsOfCompilation())
        self._graphs.move_to_end(compilation)
        while len(self._graphs) > MOST_AT_HAND:
            self._graphs.popitem(last=False)
        return graphs_of_compilation

    def forget(self, compilation: int) -> None:
        """Forget the node names of a compilation without further records."""
        self._graphs.pop(compilation, None)

    def _graph(self, record: Record) -> None:
        stage, direction, name = STAGE_OF[record.name]
        compilation = self._compilation_of(record, stage)
        graphs = record.parse(read_graphs)
        if not graphs:
            raise ValueError("a graph without a class")
        graph, whole = graphs[0], self._whole(compilation)
        inputs = _inputs(graph)
        part = record.subgraph or self._compilations.parts.get(compilation, "")
        if is_bucket_label(part):
            whole.go_to(part)
        elif stage == "post_grad":
            whole.go_to_backward(inputs)
        known = whole.at_hand
        if stage == "post_grad":
            direction = _closest(inputs, known.inputs)
            if known.post_grad_records.setdefault(direction, record.name) != record.name:
                title = "After the post-grad passes"
                self._compilations.add_artifact(
                    record, "listing", stage, title, "python", record.payload, direction
                )
                return
        elif stage in ("forward", "backward"):
            known.inputs[direction] = inputs
        state = self._compilations.state(record)
        if state:
            state.seen.add(stage)
        if stage in ("dynamo", "forward"):
            self._name_after_lines(record, graph)
        row = Graph(0, compilation, stage, direction, name, label=whole.bucket)
        placed = self._add_graph(graph, row, is_backward=direction == "backward")
        ids = dict(zip(graph.column("name"), count(placed.first_node), strict=False))
        if name:
            return
        known.keep(stage, direction, graph, ids)
        if stage in ("forward", "backward"):
            self._follow_saved(known, AotGraph(placed, graph, ids, record.payload))
        self._writer.add_values(Link, self._links(known, stage, direction, graph, ids))
        if whole.bucket or not part:  # not of a region, which has inputs of its own
            self._link_inputs(known, stage, record.payload, {name: ids[name] for name in inputs})

    def _follow_saved(self, known: GraphsOfCompilation, read: AotGraph) -> None:
        """Add what the last forward saves for a backward, once that is read."""
        if read.row.stage == "forward":
            known.forward = read
            return
        forward, known.forward = known.forward, None
        if forward is None:
            return
        if forward.row.direction == "inference":  # without its joint graph it looks like one
            self._writer.update(replace(forward.row, direction="forward"))
            known.by_stage["forward", "forward"] = known.by_stage.pop(("forward", "inference"))
            known.printed["forward", "forward"] = known.printed.pop(("forward", "inference"))
            known.inputs["forward"] = known.inputs.pop("inference")
        compilation = read.row.compilation
        hints = self._compilations.hints(compilation)
        inputs = {name: read.ids[name] for name in known.inputs["backward"]}
        saved = saved_tensors(forward, inputs, compilation, hints, known.traced_names)
        self._writer.add_all(saved)

    def _compilation_of(self, record: Record, stage: Stage) -> int:
        """Return the compilation of a graph, which may begin with this graph."""
        if stage == "dynamo":
            before = self._compilations.id(record)
            self._compilations.graph_of_attempt(record)
            self._graphs.pop(before, None)
        if not record.compilation:
            self._begin_without_frame(record, stage)
        return self._compilations.id(record)

    def _name_after_lines(self, record: Record, graph: PrintedGraph) -> None:
        first = next(filter(None, graph.column("frame")), None)
        if first is not None:
            self._compilations.name_after(record, self._places.user_frame((first,)))

    def _link_inputs(
        self, known: GraphsOfCompilation, stage: Stage, text: str, inputs: dict[str, int]
    ) -> None:
        """Link the inputs of the graph that AOTAutograd traced (joint or inference) to the inputs
        of the graph it was given.
        """
        if stage in ("dynamo", "pre_grad"):
            known.traced_inputs = tuple(inputs.values())
            known.traced_names = tuple(inputs)
        elif stage == "joint" or (stage == "forward" and ("joint", "") not in known.by_stage):
            self._writer.add_values(Link, _links_of_inputs(text, known.traced_inputs, inputs))

    def add_printed(self, graph: PrintedGraph, row: Graph) -> int:
        """Add a graph that no other is linked to, with those nested in it, and return its id."""
        return self._add_graph(graph, row, is_backward=False).id

    def _begin_without_frame(self, record: Record, stage: Stage) -> None:
        """Find or make the compilation of a graph without a frame. After the passes of one, a graph
        of an earlier stage belongs to the next.
        """
        state = self._compilations.begin_without_frame(record)
        if "post_grad" in state.seen and stage in ("pre_grad", "joint", "forward"):
            self._compilations.end_without_frame()
            self._compilations.begin_without_frame(record)

    def _add_graph(self, graph: PrintedGraph, row: Graph, is_backward: bool) -> Graph:
        self.unread_lines += graph.unread
        calls = sum(op.startswith("call_") for op in graph.column("op"))
        placed = self._writer.add_graph_of_columns(
            Graph(
                0,
                row.compilation,
                row.stage,
                row.direction,
                row.name,
                row.parent,
                call_count=calls,
                label=row.label,
            ),
            self._columns(graph, is_backward=is_backward),
            graph.edges(),
        )
        for child in graph.children:
            inner = f"{row.name}.{child.name}".strip(".")
            self._add_graph(
                child,
                Graph(0, row.compilation, row.stage, row.direction, inner, placed.id),
                is_backward,
            )
        return placed

    def _columns(self, graph: PrintedGraph, *, is_backward: bool) -> list[Sequence[object]]:
        """Return a column for each field of ``Node``."""
        by_name: dict[str, Sequence[object]] = {}
        for name in PrintedNode._fields:
            by_name[name] = graph.column(name)
        length = len(by_name["name"])
        if not length:
            return [()] * len(fields(Node))
        places = map(self._place, graph.column("frame"))
        by_name["stack"], by_name["file"], by_name["line"] = zip(*places, strict=True)
        by_name["is_backward"] = [is_backward] * length
        by_name["is_view"] = [*map(_computes_nothing, graph.column("op"), graph.column("target"))]
        children = {child.name for child in graph.children}
        if children:
            by_name["subgraph_names"] = _called_graphs(graph, children)
        columns: list[Sequence[object]] = []
        for field_of_node in fields(Node):
            filled_in = 0 if field_of_node.default is MISSING else field_of_node.default
            columns.append(by_name.get(field_of_node.name) or [filled_in] * length)
        return columns

    def _place(self, frame: Frame | None) -> tuple[int, int, int]:
        """Return the stack, the file and the line of a frame, which many nodes have in turn."""
        if frame is None:
            return 0, 0, 0
        if frame is not self._last_frame:
            self._last_frame = frame
            stack, file = self._places.stack((frame,)), self._places.file(frame.file)
            self._last_place = stack, file, frame.line
        return self._last_place

    def _links(
        self,
        known: GraphsOfCompilation,
        stage: Stage,
        direction: Direction,
        graph: PrintedGraph,
        ids: dict[str, int],
    ) -> Iterator[LinkValues]:
        """Yield the links by equal names: a graph after passes was copied from the one before, and
        so was a graph that AOTAutograd split off the joint one. A node that a pass made is linked
        to those in whose place it is.
        """
        earlier: tuple[tuple[Stage, Direction], ...] = ()
        if stage == "pre_grad":
            earlier = (("dynamo", ""),)
        elif stage in ("forward", "backward") and direction != "inference":
            earlier = (("joint", ""),)
        elif stage == "post_grad" and direction == "backward":
            earlier = (("backward", direction),)
        elif stage == "post_grad":
            earlier = (("forward", direction),)
        for key in earlier:
            parents = known.by_stage.get(key, {})
            for name, node in ids.items():
                if name in parents and name != "output":
                    yield node, parents[name], "name"
            before = known.printed.get(key)
            if before is None:
                continue
            for name, replaced in replaced_nodes(before, graph).items():
                for replaced_name in replaced:
                    yield ids[name], parents[replaced_name], "replaced"


def _inputs(graph: PrintedGraph) -> tuple[str, ...]:
    """Return the names of a graph's inputs."""
    pairs = zip(graph.column("name"), graph.column("op"), strict=True)
    return tuple(name for name, op in pairs if op == "placeholder")


def _links_of_inputs(text: str, traced: Sequence[int], ids: dict[str, int]) -> Iterator[LinkValues]:
    """Yield links from inputs of a graph by AOTAutograd to inputs of the graph it was traced from,
    as torch's comments name them.
    """
    for match in _AOT_INPUT.finditer(text):
        index, node = int(match["index"]), ids.get(match["name"])
        if node is not None and index < len(traced):
            yield node, traced[index], "aot_input"


def _closest(inputs: tuple[str, ...], candidates: dict[Direction, tuple[str, ...]]) -> Direction:
    """Return which of AOTAutograd's graphs has these inputs, or most of them."""
    wanted = set(inputs)

    def distance(direction: Direction) -> int:
        return len(wanted ^ set(candidates[direction]))

    return min(candidates, key=distance, default="")


def _called_graphs(graph: PrintedGraph, children: Collection[str]) -> list[tuple[str, ...]]:
    """Return for each node the nested graphs that it takes, as a higher-order operator does."""
    attributes: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target in children:
            attributes[node.name] = node.target
    called: list[tuple[str, ...]] = []
    for node in graph.nodes:
        names = node.inputs if node.op == "call_function" else ()
        called.append(tuple(attributes[name] for name in names if name in attributes))
    return called
