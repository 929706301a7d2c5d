"""This module describes Inductor's own stages: lowering, fusion, and generating kernels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.documents import Document, lines_of
from fx_explorer.analysis.lineage import kernels_of_variant
from fx_explorer.analysis.stage_data import Fate, StagePoint, StageWork
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import PlainNode, nodes_of_lines, plain_operations
from fx_explorer.session.queries.kernels import kernel_nodes

STEP = re.compile(r"( *)(\w+): (.*)")
"""Matches the line of an operation in the listing of the IR. Operations inside a fused one are
indented.
"""

JOINED = re.compile(r", \d+ operations in one kernel$")

LOOPS = ("pointwise", "reduction", "scatter", "scan", "sort")
"""Suffixes of the kinds of scheduler nodes that are loops over elements."""

OF_A_CALL = "output of a call"
"""Kind of a scheduler node that selects one of several outputs of a library call."""


class IrStep(NamedTuple):
    """One scheduler node of the IR: a loop, a library call, or several fused ones."""

    document: int
    line: int
    """Line of the listing at which it begins, from 1."""
    kind: str
    members: tuple[str, ...]
    """The names of the operations in it; only its own if it was not fused."""


def ir_steps(reader: SessionReader, documents: Sequence[Document]) -> list[IrStep]:
    """Return the scheduler nodes of these listings, in their order."""
    steps: list[IrStep] = []
    for document in documents:
        for number, line in enumerate(lines_of(reader, document), 1):
            match = STEP.fullmatch(line)
            if match is None:
                continue
            indent, name, rest = match.groups()
            members = () if JOINED.search(rest) else (name,)
            if not indent:
                kind = rest.partition(" → ")[0].partition(",")[0]
                steps.append(IrStep(document.id, number, kind, members))
            elif members and steps:
                steps[-1] = steps[-1]._replace(members=(*steps[-1].members, *members))
    return steps


def lowering_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of lowering: the loops and library calls of each operation of the post-grad
    graph.
    """
    steps = ir_steps(reader, point.after)
    heads = {(step.document, step.line): i for i, step in enumerate(steps)}
    into: dict[int, set[int]] = {}
    for document in point.after:
        for line, node in nodes_of_lines(reader, document.id):
            if (document.id, line) in heads:
                into.setdefault(node, set()).add(heads[document.id, line])
    what = "no step"
    if steps:
        kinds = Counter(describe_kind(step.kind) for step in steps)
        amounts = [counted(number, kind) for kind, number in kinds.most_common()]
        what = f"{counted(len(steps), 'step')} ({listed(amounts, 5)})"
    return _gathered(reader, point, into, len(steps), what)


def describe_kind(kind: str) -> str:
    """Return the kind of a scheduler node: ``pointwise loop``, ``library call``, ``other step``."""
    if "." in kind:
        return "library call"
    if kind.endswith(LOOPS):
        return f"{kind} loop"
    if kind == "multi output":
        return OF_A_CALL
    return "other step"


def kernels_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of the stage that generates kernels: which kernel computes which
    operations.
    """
    variant = reader.get(model.Compilation, point.compilation)
    written = [kernel for kernel in kernels_of_variant(reader, variant) if not kernel.runs]
    kernels = [kernel for kernel in written if kernel.direction == point.direction]
    computed: dict[int, list[int]] = {}
    for owner in {kernel.compilation for kernel in kernels}:
        computed |= kernel_nodes(reader, owner)
    into: dict[int, set[int]] = {}
    for kernel in kernels:
        for node in computed.get(kernel.id, ()):
            into.setdefault(node, set()).add(kernel.id)
    calls = sum(kernel.language == "extern" for kernel in kernels)
    parts = [(len(kernels) - calls, "generated kernel"), (calls, "library call")]
    what = listed([counted(number, noun) for number, noun in parts if number]) or "no kernel"
    return _gathered(reader, point, into, len(kernels), what)


def _gathered(
    reader: SessionReader, point: StagePoint, into: Mapping[int, set[int]], after: int, what: str
) -> StageWork:
    """Return the StageWork for operations that go into nodes of the scheduler, or into kernels.
    ``into`` maps an operation to these places.
    """
    nodes = plain_operations(reader, (document.id for document in point.before))
    fates = _gathered_fates(nodes, into)
    counts = Counter(fates.values())
    sentence = f"{point.title}: {counted(len(nodes), 'operation')} became {what}"
    amounts = _amounts(counts)
    if amounts:
        sentence += f": {listed(amounts, len(amounts))}"
    return StageWork(point, len(nodes), after, counts, {}, f"{sentence}.", fates)


def _amounts(counts: Counter[Fate]) -> list[str]:
    """Return a phrase for each fate that any operation had, with the number of operations."""
    amounts = []
    fused, kept, several = counts["fused"], counts["kept"], counts["several"]
    views, unknown = counts["view"], counts["removed"]
    if fused:
        amounts.append(f"{fused:,} {_verb(fused, 'share')} one with others")
    if kept:
        have = "has one to itself" if kept == 1 else "have one to themselves"
        amounts.append(f"{kept:,} {have}")
    if several:
        amounts.append(f"{several:,} {_be(several)} computed in several")
    if views:
        amounts.append(f"{counted(views, 'view or selection')} {_verb(views, 'take')} no work")
    if unknown:
        amounts.append(f"{unknown:,} {_be(unknown)} in none that is known")
    return amounts


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _gathered_fates(nodes: Iterable[PlainNode], into: Mapping[int, set[int]]) -> dict[int, Fate]:
    """Return the fate of each operation. Views are among a loop's origins, but compute nothing:
    they do not count, and do not make other nodes of the loop count as fused.
    """
    working = [node.id for node in nodes if not node.is_view]
    sizes: Counter[int] = Counter()
    for node in working:
        sizes.update(into.get(node, ()))
    fates: dict[int, Fate] = {node.id: "view" for node in nodes if node.is_view}
    for node in working:
        homes = into.get(node, set())
        if len(homes) == 1:
            fates[node] = "fused" if sizes[next(iter(homes))] > 1 else "kept"
        else:
            fates[node] = "several" if homes else "removed"
    return fates


def fusion_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of fusion: which loops were joined."""
    before, after = ir_steps(reader, point.before), ir_steps(reader, point.after)
    old: set[str] = set()
    new: set[str] = set()
    for step in before:
        old.update(step.members)
    for step in after:
        new.update(step.members)
    joined = [step for step in after if len(step.members) > 1]
    counts = Counter[Fate](
        fused=sum(len(step.members) for step in joined),
        kept=sum(len(step.members) == 1 and step.members[0] in old for step in after),
        made=len(new - old),
        removed=len(old - new),
    )
    parts = [
        (counts["fused"], f"{counts['fused']:,} fused into {len(joined):,}"),
        (counts["kept"], f"{counts['kept']:,} alone"),
        (counts["made"], f"{counts['made']:,} made"),
        (counts["removed"], f"{counts['removed']:,} removed"),
    ]
    if not joined and not counts["made"] and not counts["removed"]:
        text = f"{point.title} joined nothing: {counted(len(before), 'step')}."
        return StageWork(point, len(before), len(after), {}, {}, text)
    text = listed([words for number, words in parts if number], len(parts))
    sentence = f"{point.title}: {counted(len(before), 'step')} became {len(after):,}: {text}."
    return StageWork(point, len(before), len(after), {}, {}, sentence)
