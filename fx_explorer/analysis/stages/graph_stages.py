"""What the stages from graph to graph did: passes, AOTAutograd's tracing, the partitioner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.stages.graph_pairs import GraphPair, graph_pair
from fx_explorer.analysis.stages.work import AlignedRow, Fate, StagePoint, StageWork
from fx_explorer.analysis.variants.lineage import saving_variant
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.stages import PlainNode

BEFORE_AND_AFTER = ("before", "after")

Judge = Callable[[PlainNode, GraphPair], Fate]


def passes_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell what passes that edit a graph did."""
    pair = graph_pair(reader, point.before, point.after)
    return _work(point, pair, _after_passes, _passes_words)


def tracing_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell what AOTAutograd made of the graph that it traced."""
    pair = graph_pair(reader, point.before, point.after)
    return _work(point, pair, _after_tracing, _tracing_words)


def _work(
    point: StagePoint, pair: GraphPair, judge: Judge, words: Callable[[Counter[Fate], int, int, GraphPair], str]
) -> StageWork:
    fates: dict[int, Fate] = {node.id: judge(node, pair) if node.is_operation else "input" for node in pair.after}
    counts = Counter[Fate](fate for fate in fates.values() if fate != "input")
    counts["removed"] = sum(node.is_operation and not _operations_made(node, pair) for node in pair.before)
    before, after = (sum(node.is_operation for node in side) for side in (pair.before, pair.after))
    sentence = f"{point.title}: {became(before, after)}: {words(counts, before, after, pair)}."
    return StageWork(point, BEFORE_AND_AFTER, before, after, +counts, sentence, list(_rows(pair, fates)))


def became(before: int, after: int) -> str:
    """Return ``3 operations became 34``."""
    return f"{counted(before, 'operation')} became {after:,}"


def _operations_made(node: PlainNode, pair: GraphPair) -> list[int]:
    return [child for child in pair.children.get(node.id, ()) if pair.nodes[child].is_operation]


def _after_passes(node: PlainNode, pair: GraphPair) -> Fate:
    parents = pair.operations_before(node)
    if not parents:
        return "made"
    if len(parents) > 1:
        return "fused"
    if len(_operations_made(pair.nodes[parents[0]], pair)) > 1:
        return "decomposed"
    return "changed" if node.id in pair.differing else "kept"


def _after_tracing(node: PlainNode, pair: GraphPair) -> Fate:
    if node.is_backward:
        return "backward"
    parents = pair.operations_before(node)
    if not parents:
        return "made"
    of_forward = [child for child in _operations_made(pair.nodes[parents[0]], pair) if not pair.nodes[child].is_backward]
    if len(of_forward) < 2:
        return "kept"
    return "view" if node.is_view else "decomposed"


def _passes_words(counts: Counter[Fate], before: int, after: int, pair: GraphPair) -> str:
    if counts["kept"] == before == after:
        return "nothing was changed"
    joined = sum(1 for node in pair.before if node.is_operation and _is_joined(node, pair))
    parts = [
        (counts["kept"], f"{counts['kept']:,} kept"),
        (counts["changed"], f"{counts['changed']:,} changed"),
        (counts["fused"], f"{joined:,} fused into {counts['fused']:,}"),
        (counts["decomposed"], f"{counts['decomposed']:,} by decomposition"),
        (counts["made"], f"{counts['made']:,} made"),
        (counts["removed"], f"{counts['removed']:,} removed"),
    ]
    return listed((words for number, words in parts if number), len(parts))


def _is_joined(node: PlainNode, pair: GraphPair) -> bool:
    return any(len(pair.operations_before(pair.nodes[child])) > 1 for child in _operations_made(node, pair))


def _tracing_words(counts: Counter[Fate], before: int, after: int, pair: GraphPair) -> str:
    parts = [
        (counts["kept"], f"{counts['kept']:,} one for one"),
        (counts["decomposed"], f"{counts['decomposed']:,} by decomposition"),
        (counts["view"], counted(counts["view"], "view")),
        (counts["backward"], f"{counts['backward']:,} for the backward"),
        (counts["made"], f"{counts['made']:,} of no known origin"),
    ]
    words = listed((words for number, words in parts if number), len(parts)) or "nothing is left"
    return f"{words}; {counts['removed']:,} of the {before:,} left no trace" if counts["removed"] else words


def _rows(pair: GraphPair, fates: dict[int, Fate]) -> Iterator[AlignedRow]:
    """Put each node after beside the first node before that it came from, in the order before. What
    has no origin stands where it stands after. Operations of the backward come last, in their order.
    """
    keyed: list[tuple[int, int, AlignedRow]] = []
    at, shown = -1, set()
    backward = []
    for order, node in enumerate(pair.after):
        parents = sorted(pair.parents.get(node.id, ()), key=pair.position.__getitem__)
        fate = fates[node.id]
        if fate == "backward":
            backward.append(AlignedRow(fate, (parents[0] if parents else None, node.id)))
            continue
        at = pair.position[parents[0]] if parents else at
        keyed.append((at, order, AlignedRow(fate, (parents[0] if parents else None, node.id))))
        shown.update(parents[:1])
    for position, node in enumerate(pair.before):
        if node.id not in shown:
            fate, note = _unshown(node, pair, fates)
            keyed.append((position, -1, AlignedRow(fate, (node.id, None), note)))
    last: int | None = None
    for _, _, row in sorted(keyed, key=lambda one: one[:2]):
        # The parent of several is written once.
        first = row.cells[0] if isinstance(row.cells[0], int) else None
        yield row._replace(cells=(None, row.cells[1])) if first is not None and first == last else row
        last = first if first is not None else last
    yield from backward


def _unshown(node: PlainNode, pair: GraphPair, fates: dict[int, Fate]) -> tuple[Fate, str]:
    made = pair.children.get(node.id, [])
    if not node.is_operation:
        return "input", ""
    if not made:
        return "removed", "nothing comes of it"
    if all(fates[child] == "backward" for child in made):
        return "removed", "in the backward only"
    return "fused", "with the one above or below"


def partition_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell into which of the two directions each operation of the joint graph went."""
    sides = [[one for one in point.after if (one.stage == "backward") is is_backward] for is_backward in (False, True)]
    forward, backward = (graph_pair(reader, point.before, side) for side in sides)
    rows, counts = [], Counter[Fate]()
    for node in forward.before:
        found = [
            _operations_made(node, pair) if node.is_operation else pair.children.get(node.id, [])
            for pair in (forward, backward)
        ]
        fate: Fate = "input"
        if node.is_operation:
            fate = "both" if all(found) else "forward" if found[0] else "backward" if found[1] else "removed"
            counts[fate] += 1
        cells = (node.id, *(ids[0] if ids else None for ids in found))
        rows.append(AlignedRow(fate, cells, PARTED.get(fate, "")))
    for side, pair in enumerate((forward, backward)):
        made = [node.id for node in pair.after if node.is_operation and not pair.operations_before(node)]
        counts["made"] += len(made)
        rows += [AlignedRow("made", (None, *(one if side == i else None for i in range(2)))) for one in made]
    sizes = [sum(node.is_operation for node in pair.after) for pair in (forward, backward)]
    before = sum(node.is_operation for node in forward.before)
    sentence = f"{point.title}: {_parted(reader, point, before, sizes, counts)}."
    return StageWork(point, ("joint", "forward", "backward"), before, sum(sizes), +counts, sentence, rows)


PARTED: dict[Fate, str] = {"both": "computed again", "removed": "not needed"}


def _parted(reader: SessionReader, point: StagePoint, before: int, sizes: Sequence[int], counts: Counter[Fate]) -> str:
    variant = reader.get(model.Compilation, point.compilation)
    saved = reader.count(model.SavedTensor, compilation=saving_variant(reader, variant).id)
    parts = [
        (counts["both"], f"{counts['both']:,} in both, so computed again"),
        (counts["removed"], f"{counts['removed']:,} removed"),
        (counts["made"], f"{counts['made']:,} made"),
        (saved, f"{counted(saved, 'value')} kept for the backward"),
    ]
    told = listed((words for number, words in parts if number), len(parts))
    went = f"{counted(before, 'operation')} became {sizes[0]:,} in the forward and {sizes[1]:,} in the backward"
    return f"{went}: {told}" if told else went
