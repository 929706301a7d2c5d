"""This module states a backend's support in sentences: how much it supports, who reported that, and
why an operator splits a segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fx_explorer.analysis.words import careful_share, counted, listed, operation, size
from fx_explorer.instruments.backends.amounts import Amount, Summary, reports_in_use, summaries_of
from fx_explorer.instruments.backends.support import (
    GraphSupport,
    OperatorRow,
    OutOfTurn,
    Split,
    operator_rows,
)
from fx_explorer.model import Compilation, Outcome, SupportReport
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import latest_reports

FLOPS_COUNTED = (
    "FLOPs are counted by torch's own formulas: matrix multiplications, convolutions and "
    "attention. Bytes are the elements that each operator reads and writes when it runs alone; a "
    "view moves none. ~ marks a dynamic size; the figure is for the captured call."
)

NO_BACKEND = (
    "No graph went to a backend that could be asked: Inductor supports every operator. Name "
    "another backend with --backend NAME or --backend FILE.py:FUNCTION."
)


def why_unknown(reader: SessionReader) -> str:
    """Return why a session has no graph with a backend's answer about its support."""
    if reader.meta("outcome"):
        outcome = Outcome.from_json(reader.meta("outcome"))
    else:
        outcome = None
    backend = str((reader.meta("request") or {}).get("backend", ""))
    if outcome is None or outcome.went_well or backend in ("", "inductor"):
        return NO_BACKEND
    return (
        f"The operators that {backend} supports are not known: the capture ended before the "
        f"backend finished a graph ({outcome.message})."
    )


def verdict(backends: Sequence[Summary], graphs: Sequence[GraphSupport]) -> list[str]:
    """Return sentences on how much each backend supports, who reported that, and oddities in the
    answers.
    """
    sentences: list[str] = []
    for backend in backends:
        sentences += short_verdict(backend)
        sentences += _more(
            backend, [graph for graph in graphs if graph.report.backend == backend.backend]
        )
    return sentences


def of_other_variants(reader: SessionReader) -> list[str]:
    """Return sentences on the unused variants: for each that another backend compiled, how much of
    its graph that backend supports.
    """
    used = {(report.compilation, report.backend) for report in reports_in_use(reader)}
    unused = (row for row in reader.rows(Compilation) if not row.in_use)
    rows = {row.id: row for row in unused}
    by_variant: dict[int, list[SupportReport]] = defaultdict(list)
    for report in latest_reports(reader):
        if report.compilation in rows and (report.compilation, report.backend) not in used:
            by_variant[report.compilation].append(report)
    sentences = []
    for variant, reports in by_variant.items():
        name = rows[variant].name
        for summary in summaries_of(reader, reports):
            answer = " ".join(short_verdict(summary))
            sentences.append(f"Not in use, [{name}]: {answer}")
    return sentences


def short_verdict(summary: Summary) -> list[str]:
    """Return how much a backend supports, and how much is in segments."""
    return [_how_much(summary), *_segments(summary)]


def _more(summary: Summary, graphs: Sequence[GraphSupport]) -> list[str]:
    if summary.is_said:
        sentences = _costliest(operator_rows(graphs), summary.whole)
    else:
        sentences = []
    sentences += dict.fromkeys(who_says(graph) for graph in graphs)
    sentences += dict.fromkeys(note for graph in graphs for note in graph.report.notes)
    if any(graph.is_circular for graph in graphs):
        sentences.append(
            "Segments depend on each other in a cycle, so no order of them is correct; the "
            "graph's own order is shown."
        )
    return [*sentences, *_not_counted(summary.whole)]


def _how_much(summary: Summary) -> str:
    whole = summary.whole
    calls = f"{counted(whole.count, 'operator')} in {counted(summary.graphs, 'graph')}"
    if not summary.is_said:
        return (
            f"{summary.backend} does not say which operators it supports: {calls}, "
            f"{operations(whole.flops)}, {size(whole.size_bytes)}."
        )
    if summary.unknown.count:
        not_known = f" For {counted(summary.unknown.count, 'operator')} this is not known."
    else:
        not_known = ""
    return (
        f"{summary.backend} supports {summary.supported.count:,} of {calls}: "
        f"{_shares(summary.supported, whole)}.{not_known}"
    )


def _shares(part: Amount, whole: Amount) -> str:
    which = "known FLOPs" if whole.without_flops else "FLOPs"
    if whole.flops:
        flops = f"{careful_share(part.flops, whole.flops)} of the {which}, "
    else:
        flops = ""
    return f"{flops}{careful_share(part.size_bytes, whole.size_bytes)} of the bytes"


def _segments(summary: Summary) -> list[str]:
    inside, rest = summary.in_segments, summary.whole.count - summary.in_segments.count
    if summary.segments is None:
        return []
    if not summary.segments:
        return ["There is no segment: PyTorch runs everything."]
    if rest:
        runs_the_rest = f" PyTorch runs the other {rest:,}."
    else:
        runs_the_rest = " Nothing falls back to PyTorch."
    are = "is" if inside.count == 1 else "are"
    where = f"{counted(inside.count, 'operator')} {are} in {counted(summary.segments, 'segment')}"
    return [f"{where}: {_shares(inside, summary.whole)}.{runs_the_rest}"]


def _nonzero_shares(part: Amount, whole: Amount) -> str:
    """Return what ``_shares`` returns, without parts that are zero."""
    if part.flops:
        return _shares(part, whole)
    return f"{careful_share(part.size_bytes, whole.size_bytes)} of the bytes"


def _costliest(rows: Iterable[OperatorRow], whole: Amount) -> list[str]:
    """Return a sentence on the unsupported operators that cost most."""
    refused = [
        row for row in rows if row.falls_back and (row.amount.flops or row.amount.size_bytes)
    ]
    if not refused:
        return []
    named = [
        f"{row.operator} ({counted(row.falls_back, 'call')}, {_nonzero_shares(row.amount, whole)})"
        for row in refused
    ]
    cost = "costs" if len(named) == 1 else "cost"
    return [f"Of the unsupported operators, {listed(named)} {cost} most."]


def _not_counted(whole: Amount) -> list[str]:
    parts = []
    if whole.without_flops:
        parts.append(
            f"FLOPs not known for {counted(whole.without_flops, 'operator')}: torch has "
            "no formula. They are left out."
        )
    if whole.without_bytes:
        parts.append(
            f"The bytes of {counted(whole.without_bytes, 'operator')} are not known, and "
            "are left out."
        )
    return parts


def who_says(graph: GraphSupport) -> str:
    """Say how the support is known."""
    report = graph.report
    if report.said_by == "partitioner":
        return (
            f"{report.backend} asked torch's partitioner during the compile: these are its own "
            f"answers ({report.source}) and segments."
        )
    if report.said_by == "declared":
        by_whom = (
            "and torch's partitioner made the segments; the backend itself may split the graph "
            "elsewhere"
        )
        return f"fx-explorer asked {report.source}, {by_whom}."
    return (
        f"{report.backend} neither asks torch's partitioner nor has an operator_support, so "
        "support is unknown."
    )


def operations(flops: int) -> str:
    """Return ``512 FLOP``, ``3.1 kFLOP`` or ``1.2 GFLOP``."""
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if flops >= scale:
            return f"{flops / scale:.1f} {unit}FLOP"
    return f"{flops} FLOP"


# why there is more than one segment


def explain_splits(graph: GraphSupport) -> list[str]:
    """Explain why operators split segments, each operator once with its first place; then list
    supported operators that are in no segment.
    """
    groups: dict[tuple[str, str, str], list[Split]] = defaultdict(list)
    support = {node.node.id: node.row.support for node in graph.nodes}
    for split in graph.splits:
        groups[operation(split.node), split.reason, support[split.node.id]].append(split)
    parts = [_split(*key, splits) for key, splits in groups.items()]
    return [
        *parts,
        *map(_out_of_turn, graph.out_of_turn),
        *_left_out(graph),
        *_why_not_merged(graph),
    ]


def _out_of_turn(turn: OutOfTurn) -> str:
    if turn.reader.position < turn.write.position:
        when, moved = ("before", "earlier")
    else:
        when, moved = ("after", "later")
    reader = f"{operation(turn.reader)} ({turn.reader.name})"
    return (
        f"Results may differ from PyTorch's: {operation(turn.write)} ({turn.write.name}) writes "
        f"into memory that {reader} reads {when} it. Segment {turn.segment} contains only one of "
        f"the two, so the write may run {moved} than the read. torch's partitioner looks at values "
        "only."
    )


def _split(name: str, reason: str, support: str, splits: Sequence[Split]) -> str:
    first = splits[0]
    why = f" ({reason})" if reason else ""
    if support == "unknown":
        is_what = f"Whether {name} is supported is not known{why}, so it counts as unsupported"
    else:
        is_what = f"{name} is not supported{why}"
    need = "needs" if len(first.needed_by) == 1 else "need"
    needs = (
        f"{named_segments(first.needed_by)} {need} its result, which needs "
        f"{named_segments(first.needs)}"
    )
    more = ""
    if len(splits) == 2:
        more = "; 1 more such call is between segments"
    elif len(splits) > 2:
        more = f"; {len(splits) - 1} more such calls are between segments"
    return f"{is_what}, and {needs}{more}."


def named_segments(numbers: Sequence[int]) -> str:
    """Return ``segment 2``, ``segments 1 and 3`` or ``segments 1, 2, 3 and 4 more``."""
    noun = "segment" if len(numbers) == 1 else "segments"
    return f"{noun} {listed(map(str, numbers))}"


def _left_out(graph: GraphSupport) -> list[str]:
    if not graph.report.is_partitioned:
        return []
    alone = [
        node for node in graph.nodes if node.row.support == "supported" and not node.row.segment
    ]
    if not alone:
        return []
    named = listed(dict.fromkeys(operation(node.node) for node in alone))
    are = "is supported and" if len(alone) == 1 else "are supported and"
    if not graph.report.allows_single:
        why = "the partitioner makes no segment of a single operator"
    else:
        why = "no segment took them"
    return [f"{counted(len(alone), 'operator')} {are} in no segment ({named}): {why}."]


def _why_not_merged(graph: GraphSupport) -> list[str]:
    if graph.report.merges_independent or len(graph.segments) < 2:
        return []
    return [
        (
            "The backend puts only operators that need each other into one segment "
            "(skip_horizontal_fusion)."
        )
    ]
