"""What Inductor's own stages did: lowering, fusion, and the writing of kernels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.documents import Document, kernel_place, lines_of
from fx_explorer.analysis.stages.work import AlignedRow, Fate, StagePoint, StageWork, TextItem
from fx_explorer.analysis.variants.lineage import documents_of_variant, kernels_of_variant
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.session.queries.stages import PlainNode, nodes_of_lines, plain_nodes, reasons_without_kernel

MEMBER = re.compile(r"    (\w+): ")
"""The line of an operation inside a fused one, in the listing of the IR."""

A_VIEW = "index arithmetic: it moves no data"


class IrStep(NamedTuple):
    """One scheduler node of the IR: a loop, a library call, or several that were fused."""

    item: TextItem
    name: str
    kind: str
    members: tuple[str, ...]
    """The names of the operations in it; its own where it was not fused."""


def ir_steps(reader: SessionReader, documents: Sequence[Document]) -> list[IrStep]:
    """Return the scheduler nodes of these listings, in their order."""
    found: list[IrStep] = []
    for document in documents:
        for number, line in enumerate(lines_of(reader, document)):
            member = MEMBER.match(line)
            if line and line[0] != " " and ": " in line:
                name, _, rest = line.partition(": ")
                kind = rest.partition(" → ")[0].partition(",")[0]
                found.append(IrStep(TextItem(line.partition("  #")[0], document, number), name, kind, (name,)))
            elif member and found:
                members = (*found[-1].members, member[1]) if found[-1].members != (found[-1].name,) else (member[1],)
                found[-1] = found[-1]._replace(members=members)
    return found


def lowering_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell into which loops and library calls the operations of the post-grad graph went."""
    steps = ir_steps(reader, point.after)
    heads = {(step.item.document.id if step.item.document else 0, step.item.line + 1): i for i, step in enumerate(steps)}
    into: dict[int, list[int]] = {}
    for document in point.after:
        for line, node in nodes_of_lines(reader, document.id):
            if (document.id, line) in heads:
                into.setdefault(node, []).append(heads[document.id, line])
    nodes = [node for node in plain_nodes(reader, (one.id for one in point.before)) if node.is_operation]
    kinds = Counter("library call" if "." in step.kind else f"{step.kind} loop" for step in steps)
    what = listed((counted(number, kind) for kind, number in kinds.most_common()), 5)
    return _gathered(reader, point, nodes, into, [step.item for step in steps], f"{counted(len(steps), 'step')} ({what})")


def kernels_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell which kernel computes which operations."""
    variant = reader.get(model.Compilation, point.compilation)
    kernels = [one for one in kernels_of_variant(reader, variant) if one.direction == point.direction and not one.runs]
    artifacts = {one.id: one for one in documents_of_variant(reader, variant) if one.kind == "artifact"}
    computed = {
        kernel: nodes
        for owner in {kernel.compilation for kernel in kernels}
        for kernel, nodes in kernel_nodes(reader, owner).items()
    }
    into: dict[int, list[int]] = {}
    for i, kernel in enumerate(kernels):
        for node in computed.get(kernel.id, ()):
            into.setdefault(node, []).append(i)
    items = []
    for kernel in kernels:
        place = kernel_place(kernel, artifacts)
        items.append(TextItem(kernel.name, place.document if place else None, place.line if place else 0))
    nodes = [node for node in plain_nodes(reader, (one.id for one in point.before)) if node.is_operation]
    calls = sum(kernel.language == "extern" for kernel in kernels)
    parts = [(len(kernels) - calls, "generated kernel"), (calls, "library call")]
    what = listed(counted(number, noun) for number, noun in parts if number) or "no kernel"
    return _gathered(reader, point, nodes, into, items, what)


def _gathered(
    reader: SessionReader,
    point: StagePoint,
    nodes: Sequence[PlainNode],
    into: dict[int, list[int]],
    items: Sequence[TextItem],
    what: str,
) -> StageWork:
    """Put the operations of a graph beside what they went into, ``items``."""
    sizes = Counter(where[0] for node in nodes if (where := into.get(node.id)))
    fates: dict[int, Fate] = {node.id: _gathered_fate(into.get(node.id, []), sizes) for node in nodes}
    counts = Counter(fates.values())
    why = reasons_without_kernel(reader, (one.id for one in point.before))
    rows = list(_gathered_rows(nodes, into, items, fates, why))
    shared = sum(size > 1 for size in sizes.values())
    views = sum(node.is_view and fates[node.id] == "removed" for node in nodes)
    gone = counts["removed"] - views
    parts = [
        (counts["fused"], f"{counts['fused']:,} together in {shared:,}"),
        (counts["kept"], f"{counts['kept']:,} alone"),
        (counts["several"], f"{counts['several']:,} computed in several"),
        (views, f"{counted(views, 'view')} that {'moves' if views == 1 else 'move'} no data"),
        (gone, f"{gone:,} that {'needs' if gone == 1 else 'need'} none"),
    ]
    told = listed((words for number, words in parts if number), len(parts))
    sentence = f"{point.title}: {counted(len(nodes), 'operation')} became {what}{f': {told}' if told else ''}."
    return StageWork(point, ("operation", "computed in"), len(nodes), len(items), +counts, sentence, rows)


def _gathered_fate(where: Sequence[int], sizes: Counter[int]) -> Fate:
    if not where:
        return "removed"
    if len(where) > 1:
        return "several"
    return "fused" if sizes[where[0]] > 1 else "kept"


def _gathered_rows(
    nodes: Sequence[PlainNode],
    into: dict[int, list[int]],
    items: Sequence[TextItem],
    fates: dict[int, Fate],
    why: dict[int, str],
) -> Iterator[AlignedRow]:
    """Yield the operations by what they went into, in its order. What is in none stands where it stood."""
    groups: dict[int, list[PlainNode]] = {}
    at = 0
    for node in nodes:
        at = into[node.id][0] if node.id in into else at
        groups.setdefault(at, []).append(node)
    for i, item in enumerate(items):
        is_first = True
        for node in groups.pop(i, []):
            fate = fates[node.id]
            if fate == "removed":
                yield AlignedRow(fate, (node.id, None), why.get(node.id) or (A_VIEW if node.is_view else ""))
                continue
            note = f"and in {listed(_name(items[one]) for one in into[node.id][1:])}" if fate == "several" else ""
            yield AlignedRow(fate, (node.id, item if is_first else None), note)
            is_first = False
        if is_first:
            yield AlignedRow("made", (None, item))
    for rest in groups.values():
        yield from (AlignedRow(fates[node.id], (node.id, None), why.get(node.id, "")) for node in rest)


def _name(item: TextItem) -> str:
    return item.text.partition(":")[0]


def fusion_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell which loops were joined."""
    before, after = ir_steps(reader, point.before), ir_steps(reader, point.after)
    home = {member: i for i, step in enumerate(after) for member in step.members}
    rows: list[AlignedRow] = []
    counts = Counter[Fate]()
    groups: dict[int, list[IrStep]] = {}
    for step in before:
        if step.name in home:
            groups.setdefault(home[step.name], []).append(step)
        else:
            counts["removed"] += 1
            rows.append(AlignedRow("removed", (step.item, None)))
    for i, step in enumerate(after):
        fate: Fate = "made" if i not in groups else "fused" if len(groups[i]) > 1 else "kept"
        counts[fate] += len(groups.get(i, (step,)))
        olds: Sequence[IrStep | None] = groups.get(i) or [None]
        rows += [AlignedRow(fate, (old.item if old else None, None if k else step.item)) for k, old in enumerate(olds)]
    joined = sum(len(group) > 1 for group in groups.values())
    parts = [
        (counts["fused"], f"{counts['fused']:,} fused into {joined:,}"),
        (counts["kept"], f"{counts['kept']:,} alone"),
        (counts["made"], f"{counts['made']:,} made"),
        (counts["removed"], f"{counts['removed']:,} removed"),
    ]
    told = listed((words for number, words in parts if number), len(parts))
    sentence = f"{point.title}: {counted(len(before), 'step')} became {len(after):,}: {told or 'there is nothing to join'}."
    return StageWork(point, ("before fusion", "after fusion"), len(before), len(after), +counts, sentence, rows)
