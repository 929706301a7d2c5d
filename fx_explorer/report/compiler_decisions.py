"""This module writes what the compiler decided for the JSON report: kernels that were not fused,
Inductor's passes, decompositions, and side effects.

Each has the figures of the whole, and the first rows: ``report --section`` and ``ask`` give all of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import document_of
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.instruments.decisions.figures import explained_decisions
from fx_explorer.instruments.decisions.report import decisions_of_report
from fx_explorer.instruments.fusion.figures import distinct_pairs, unfused_pairs
from fx_explorer.instruments.fusion.loop_nest_reasons import unmerged_pairs
from fx_explorer.instruments.fusion.report import nest_pairs_of_report, pairs_of_report
from fx_explorer.instruments.passes.figures import GraphPasses, PassStep, passes_by_graph
from fx_explorer.instruments.side_effects import side_effect_json
from fx_explorer.instruments.values.report import collectives_json, values_json
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import targets_of_nodes

Json = dict[str, object]

MOST_ROWS = 100
"""Maximum number of rows of each kind."""

MOST_PAIRS = 40
"""Maximum number of pairs of kernels; each takes about 700 characters."""

MOST_PASSES = 40
"""Maximum number of passes that are listed of one graph, those that changed most."""


def _counted_rows(rows: Sequence[Json], most: int = MOST_ROWS, **figures: object) -> Json:
    return {"count": len(rows), **figures, "rows": list(rows[:most])}


def fusion_of_report(reader: SessionReader) -> Json:
    """Return the pairs of kernels that were not fused, those of repeated layers once."""
    pairs = unfused_pairs(reader)
    rows = pairs_of_report(reader, pairs)
    generated = [pair for pair, _ in distinct_pairs(pairs) if not pair.is_of_library]
    nests = nest_pairs_of_report(unmerged_pairs(reader))
    return _counted_rows(
        rows,
        MOST_PAIRS,
        pairs=len(pairs),
        of_generated_kernels=len(generated),
        loop_nests=_counted_rows(nests, MOST_PAIRS),
    )


def passes_of_report(reader: SessionReader) -> Json:
    """Return what Inductor's passes did to each graph; ``ask passes`` has each node."""
    graphs = passes_by_graph(reader)
    steps = sum(len(passes.steps) for passes in graphs)
    idle = sum(len(passes.without_effect) for passes in graphs)
    changed = [passes for passes in graphs if passes.steps]
    rows = [_passes_of_graph(reader, passes) for passes in changed[:MOST_ROWS]]
    return {"count": len(changed), "with_effect": steps, "without_effect": idle, "rows": rows}


def _passes_of_graph(reader: SessionReader, passes: GraphPasses) -> Json:
    document = document_of(reader, "graph", passes.graph.id)
    most = sorted(passes.steps, key=lambda step: -len(step.changes))[:MOST_PASSES]
    kept = {step.row.position for step in most}
    return {
        "graph": document.full_title,
        "stage": passes.graph.stage,
        "direction": passes.graph.direction or None,
        "seconds": round(passes.duration_s, 6),
        "with_effect": len(passes.steps),
        "without_effect": len(passes.without_effect),
        "passes": [_pass(step) for step in passes.steps if step.row.position in kept],
    }


def _pass(step: PassStep) -> Json:
    """Return a pass with what it did, and those inside it; ``patterns`` are its own alone."""
    patterns = Counter(change.pattern for change in step.changes if change.pattern)
    return {
        "pass": step.row.name,
        "depth": step.depth,
        "made": step.row.made,
        "removed": step.row.erased,
        "changed": step.row.changed,
        "patterns": dict(patterns.most_common()),
        "seconds": round(step.row.duration_s, 6),
    }


def decompositions_of_report(reader: SessionReader) -> Json:
    """Return the operators that AOTAutograd took apart, and into how many nodes of which kinds."""
    used = graphs_in_use(reader)
    rows: dict[tuple[str, str], Json] = {}
    made: dict[tuple[str, str], Counter[str]] = {}
    decomposed_nodes = reader.rows(model.Decomposed)
    targets = targets_of_nodes(reader, [row.node for row in decomposed_nodes])
    for decomposed in decomposed_nodes:
        graph, target = targets.get(decomposed.node, (0, ""))
        if not graph or (used is not None and graph not in used):
            continue
        key = decomposed.operator, decomposed.function
        made.setdefault(key, Counter())[target] += 1
        rows.setdefault(key, _decomposition(decomposed))
    for key, counts in made.items():
        rows[key] |= {"nodes": counts.total(), "made": dict(counts.most_common())}
    most_first = sorted(rows, key=lambda key: -made[key].total())
    return _counted_rows([rows[key] for key in most_first])


def _decomposition(decomposed: model.Decomposed) -> Json:
    return {
        "operator": decomposed.operator,
        "function": decomposed.function or None,
        "file": decomposed.file or None,
        "line": decomposed.line or None,
    }


def decisions_of_whole_report(reader: SessionReader) -> Json:
    """Return the decisions about kernels, those of repeated layers once."""
    decisions = [each for each in explained_decisions(reader) if not each.is_elsewhere]
    return _counted_rows(decisions_of_report(decisions))


def values_of_report(reader: SessionReader) -> Json:
    """Return what AOTAutograd knows of inputs and outputs that are out of the ordinary."""
    return _counted_rows(values_json(reader))


def collectives_of_report(reader: SessionReader) -> Json:
    """Return the collectives of the graphs, in their order."""
    return _counted_rows(collectives_json(reader))


def side_effects_of_report(reader: SessionReader) -> Json:
    """Return what compiled code changes after its graphs."""
    return _counted_rows(side_effect_json(reader))
