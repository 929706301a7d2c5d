"""This module reads what TORCH_LOGS=fusion printed: for any two of the scheduler's nodes that were
not fused Inductor's reason, and which were fused.

The lines are written by ``Scheduler.fuse_nodes``, ``fuse_nodes_once`` and ``WhyNoFuse``
(torch/_inductor/scheduler.py). What counts is what was said last of two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fx_explorer.analysis.documents import Place, lines_of, texts_titled
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.fusion.unfused_reasons import Cause, cause_of_words
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once
from fx_explorer.torch_texts import bounded

PRINTED = "fusion"
"""Title of the texts that TORCH_LOGS=fusion printed."""

Line = tuple[str, int]
"""File and line, from 1."""


@dataclass(frozen=True, slots=True)
class PrintedSchedulerNode:
    """A node of the scheduler, as torch printed it."""

    name: str
    """``op0``; ``op0_op4`` for two that were fused."""
    what: str = ""
    """``Reduction [40] sum of mean``: its kind, what it loops over, the FX nodes it is from."""
    lines: tuple[Line, ...] = ()
    """The user's lines, in order."""


@dataclass(frozen=True, slots=True)
class PrintedPair:
    """Two nodes that were not fused, with Inductor's words."""

    compilation: str
    graph: int
    """Which graph of the compilation it is, from 1, in the order in which they were lowered."""
    first: PrintedSchedulerNode
    second: PrintedSchedulerNode
    reason: str
    place: Place
    """The line of the text that says so."""
    is_exact: bool
    """Whether both nodes are in their final state, after all fusing. Otherwise they are parts of
    such nodes.
    """

    @property
    def cause(self) -> Cause:
        return cause_of_words(self.reason)


@dataclass(frozen=True)
class PrintedFusion:
    """All that was printed about fusing."""

    pairs: tuple[PrintedPair, ...] = ()
    fused: tuple[tuple[str, str, str], ...] = ()
    """(compilation, first node, second node) of each fusion, in their order."""
    alone: tuple[tuple[str, PrintedSchedulerNode], ...] = ()
    """(compilation, node) of those that were fused with nothing, library calls apart."""


_ROUND = re.compile(r"===== attempting fusion \((?P<round>\d+)/")
_CANDIDATES = re.compile(r"fuse_nodes_once, candidates:")
_NODE = re.compile(r"\s+(?P<type>\w*SchedulerNode)\((?:name|nodes)='?(?P<name>\w+)'?\)")
_WHAT = re.compile(r"\), (?P<kind>\w+)\(\['(?P<loops>\[[^\]]*\])'(?:, '(?P<operation>\w+)')?")
_ORIGINS = re.compile(r"origins=OrderedSet\(\[(?P<nodes>[^\]]*)\]\)")
_FRAME = re.compile(r'File "(?P<file>[^"\n]{1,4000})", line (?P<line>\d{1,8})')
_REFUSED = re.compile(r"cannot fuse (?P<first>\w+) with (?P<second>\w+): (?P<reason>.*)")
_SLOWER = re.compile(
    r"cannot fuse \(benchmark\): fusing (?P<first>.{1,500}?) with (?P<second>.{1,500}?) "
    r"cause (?P<times>\S+)x"
)
_FUSED = re.compile(r"fusing (?P<first>\w+) with (?P<second>\w+)$")
_PART = re.compile(r"(?<![a-z])[a-z]+\d+")
_EXTERNAL = ("ExternKernelSchedulerNode", "NopKernelSchedulerNode")


@dataclass
class _Graph:
    """What was printed of one graph."""

    compilation: str
    number: int
    nodes: dict[str, PrintedSchedulerNode] = field(default_factory=dict)
    external: set[str] = field(default_factory=set)
    last: list[str] = field(default_factory=list)
    """Names of the nodes, as they were listed last."""
    refused: dict[tuple[str, str], tuple[str, Place]] = field(default_factory=dict)
    fused: list[tuple[str, str]] = field(default_factory=list)

    def add(self, line: str, place: Place) -> None:
        node = _NODE.match(line)
        refused = _REFUSED.match(line) or _SLOWER.match(line)
        fused = _FUSED.match(line)
        if _CANDIDATES.match(line):
            self.last.clear()
        elif node:
            self.last.append(node["name"])
            self._add_node(node["name"], node["type"], line)
        elif refused:
            names = refused["first"], refused["second"]
            reason = refused.groupdict().get("reason")
            reason = reason or f"benchmark: {refused.groupdict().get('times')}x slowdown"
            self.refused.pop(names, None)
            self.refused[names] = reason, place
        elif fused:
            self.fused.append((fused["first"], fused["second"]))

    def _add_node(self, name: str, kind: str, line: str) -> None:
        if kind in _EXTERNAL:
            self.external.add(name)
        if name in self.nodes or kind != "SchedulerNode":
            return
        what, origins = _WHAT.search(line), _ORIGINS.search(line)
        words = []
        if what:
            words = [what["kind"], what["loops"], what["operation"] or ""]
        if origins:
            words.append(f"of {origins['nodes']}")
        frames = {(match["file"], int(match["line"])) for match in _FRAME.finditer(line)}
        self.nodes[name] = PrintedSchedulerNode(
            name, " ".join(filter(None, words)), tuple(sorted(frames))
        )

    def node(self, name: str) -> PrintedSchedulerNode:
        """Return a node; of a fused one, with the lines of its parts."""
        if name in self.nodes:
            return self.nodes[name]
        parts = [self.nodes[part] for part in _PART.findall(name) if part in self.nodes]
        lines = sorted({line for part in parts for line in part.lines})
        return PrintedSchedulerNode(name, " · ".join(part.what for part in parts), tuple(lines))

    def pairs(self) -> Iterator[PrintedPair]:
        """Yield the nodes that stayed apart, those first that were nodes to the end."""
        final = {part: name for name in self.last for part in _PART.findall(name)}
        told: set[tuple[str, str]] = set()
        exact: list[tuple[str, str]] = []
        parts: list[tuple[str, str]] = []
        for names in reversed(self.refused):
            ends = tuple(final.get(_first_part(name), name) for name in names)
            if ends[0] == ends[1] or ends in told:  # fused in the end, or said later
                continue
            (exact if ends == names else parts).append(names)
            told.add((ends[0], ends[1]))
        for names in [*reversed(exact), *reversed(parts)]:
            reason, place = self.refused[names]
            first, second = self.node(names[0]), self.node(names[1])
            yield PrintedPair(
                self.compilation, self.number, first, second, reason, place, names in exact
            )

    def alone(self) -> Iterator[PrintedSchedulerNode]:
        for name in self.last:
            if name not in self.external and len(_PART.findall(name)) == 1:
                yield self.node(name)


def _first_part(name: str) -> str:
    match = _PART.search(name)
    return match[0] if match else name


@answered_once
def printed_fusion(reader: SessionReader) -> PrintedFusion:
    """Return what the texts of a log say about fusing; nothing where it has none."""
    graphs: list[_Graph] = []
    for document in texts_titled(reader, PRINTED):
        number = 0
        for position, line in enumerate(lines_of(reader, document)):
            line = bounded(line)
            match = _ROUND.search(line)
            if number == 0 or (match and match["round"] == "1"):
                number += 1
                graphs.append(_Graph(document.owner, number))
            graphs[-1].add(line, Place(document, position))
    pairs: list[PrintedPair] = []
    fused: list[tuple[str, str, str]] = []
    alone: list[tuple[str, PrintedSchedulerNode]] = []
    for graph in graphs:
        pairs += graph.pairs()
        fused += [(graph.compilation, *names) for names in graph.fused]
        alone += [(graph.compilation, node) for node in graph.alone()]
    return PrintedFusion(tuple(pairs), tuple(fused), tuple(alone))


def describe_printed(printed: PrintedFusion) -> str:
    """Return the answer about a log that has what Inductor printed about fusing."""
    pairs = counted(len(printed.pairs), "pair")
    text = f"{pairs} of scheduler nodes were not fused"
    if printed.alone:
        names = listed([node.name for _, node in printed.alone], 6)
        text += f"; never fused: {names}"
    if not printed.pairs:
        return f"{text}."
    first = printed.pairs[0]
    return f"{text}. Of {first.first.name} and {first.second.name} Inductor says: “{first.reason}”."
