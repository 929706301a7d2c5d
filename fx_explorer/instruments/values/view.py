"""Views v h and v j: what is known of a graph's inputs and outputs, and the collectives with what
runs meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_node, place_of_path
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.drawing.view_table import DIRECTION, Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.values.collectives import (
    Collective,
    collectives,
    describe_between,
    describe_collective,
    describe_redistribution,
    needs_collective,
    redistributions,
)
from fx_explorer.instruments.values.figures import SUBCLASS, ValueOfGraph, values_of_graphs
from fx_explorer.session import SessionReader

VALUE_COLUMNS = (
    TableColumn("value", "strong", min_width=16, max_width=44, keeps="end"),
    TableColumn("what it is", min_width=16, max_width=30),
    TableColumn("of", min_width=10, max_width=40, keeps="end", priority=2),
    TableColumn("copied back", is_number=True, min_width=11, priority=1),
    TableColumn("your line", "link", min_width=12, keeps="end", priority=1),
    TableColumn("frame", "annotation", priority=3),
    TableColumn("function", min_width=10, max_width=40, keeps="end", priority=4),
)

NO_VALUE = (
    "No input is changed, and none overlaps another. No output is an input or a view, and every "
    "tensor is a plain torch.Tensor."
)

NO_GRAPH_OF_VALUES = (
    "AOTAutograd traced no graph here, so aliases and changes are not known. It does so with the "
    "backends inductor and aot_eager."
)

VALUES_NOT_IN_LOG = (
    "A log has AOTAutograd's facts about each value only as the text “AOTAutograd's metadata”, if "
    "torch wrote one."
)

COLLECTIVE_COLUMNS = (
    TableColumn("order", is_number=True, min_width=5),
    TableColumn("collective", "strong", min_width=14, max_width=40),
    TableColumn("bytes", is_number=True, min_width=8),
    TableColumn("group", min_width=10, max_width=30),
    TableColumn("runs meanwhile", min_width=20, max_width=80, priority=1),
    TableColumn("your line", "link", min_width=12, keeps="end", priority=1),
    DIRECTION,
    TableColumn("redistributes", "annotation", min_width=12, max_width=60, priority=3),
    TableColumn("frame", "annotation", priority=4),
)

NO_COLLECTIVE = (
    "No graph has a collective. Collectives that a program runs outside of its graphs (DDP, "
    "FSDP2) are not shown here."
)


def values_table(reader: SessionReader) -> ViewTable:
    values = values_of_graphs(reader)
    return ViewTable(
        shows="Inputs that are changed or overlap, outputs that are inputs or views, tensors of "
        "other classes.",
        notice="",
        origin="AOTAutograd's ViewAndMutationMeta, read before it traced each graph",
        columns=VALUE_COLUMNS,
        rows=[_value_row(reader, value) for value in values],
        empty=_why_no_value(reader),
        answer=answer_of_values(values),
    )


def _why_no_value(reader: SessionReader) -> str:
    if is_log(reader):
        return VALUES_NOT_IN_LOG
    if not reader.count(model.GraphValues):
        return NO_GRAPH_OF_VALUES
    return NO_VALUE


def answer_of_values(values: Sequence[ValueOfGraph]) -> str:
    """Return what costs something first, then how many of each there are."""
    if not values:
        return ""
    copied = [value for value in values if value.copied_bytes]
    known = sum(value.copied_bytes for value in copied if value.copied_bytes > 0)
    sentences = []
    if copied:
        names = listed(dict.fromkeys(value.name for value in copied))
        amount = f", {size(known)} at each call" if known else ""
        is_are = "is" if len(copied) == 1 else "are"
        sentences.append(f"{names[:1].upper()}{names[1:]} {is_are} copied back{amount}.")
    counts = Counter(value.how for value in values if not value.copied_bytes)
    parts = [f"{number} {how}" for how, number in counts.most_common()]
    if parts:
        sentences.append(f"{', '.join(parts)}.")
    return " ".join(sentences)


def _value_row(reader: SessionReader, value: ValueOfGraph) -> TableRow:
    copied = ""
    if value.copied_bytes:
        copied = size(value.copied_bytes) if value.copied_bytes > 0 else "not known"
    cells = (
        value.name,
        value.how,
        value.base,
        copied,
        value.at or "not known",
        f"[{value.compilation}]",
        value.function,
    )
    return TableRow(
        cells,
        detail=partial(_value_detail, value),
        values={"copied back": float(value.copied_bytes)},
        version=value.compilation,
        find_place=partial(_place_of_value, reader, value),
    )


def _value_detail(value: ValueOfGraph) -> Detail:
    if value.kind == SUBCLASS:
        return Detail(value.text)
    return Detail(f"{value.text}\ntorch calls it {value.kind}.")


def _place_of_value(reader: SessionReader, value: ValueOfGraph) -> Place | None:
    if value.line:
        return place_of_path(reader, value.file, value.line)
    nodes = reader.by_ids(model.Node, [value.node])
    return place_of_node(reader, nodes[0]) if nodes else None


def collectives_table(reader: SessionReader) -> ViewTable:
    rows = [_collective_row(reader, collective) for collective in collectives(reader)]
    return ViewTable(
        shows="The collectives of the graphs, in order, and the work that runs during each.",
        notice=_without_collectives(reader),
        origin="the FX graphs; the order of generated code, if there is any; process groups from "
        "torch",
        columns=COLLECTIVE_COLUMNS,
        rows=rows,
        empty=NO_COLLECTIVE,
        answer=answer_of_collectives(collectives(reader)),
    )


def answer_of_collectives(every: Sequence[Collective]) -> str:
    """Return how many collectives there are, with what, and how many overlap with nothing."""
    if not every:
        return ""
    kinds = Counter(collective.operator for collective in every)
    parts = [f"{number} × {operator}" for operator, number in kinds.most_common()]
    known = sum(collective.size_bytes for collective in every if collective.size_bytes > 0)
    alone = [collective for collective in every if not _overlaps(collective)]
    text = f"{counted(len(every), 'collective')}, {size(known)} in all: {', '.join(parts)}."
    if not alone:
        return f"{text} Other work runs during each of them."
    if len(every) == 1:
        return f"{text} Nothing runs meanwhile: the graph waits for it at once."
    if len(alone) == len(every):
        return f"{text} Nothing runs meanwhile: the graph waits for each at once."
    return f"{text} The graphs wait for {len(alone)} at once, so nothing runs meanwhile."


def _overlaps(collective: Collective) -> bool:
    return collective.wait is None or bool(collective.between and collective.between.names)


def _without_collectives(reader: SessionReader) -> str:
    """Describe the redistributions of which the last graph has no collective, and why."""
    without = [row for row, members in redistributions(reader) if not members]
    merged = [row for row in without if needs_collective(reader, row)]
    local = [row for row in without if row not in merged]
    sentences = []
    if local:
        sentences.append(f"Without a collective: {_first(local)}.")
    if merged:
        sentences.append(
            "A pass merged it with an equal collective, or removed it: the one of "
            f"{_first(merged)}."
        )
    return " ".join(sentences)


def _first(rows: Sequence[model.Redistribution]) -> str:
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{describe_redistribution(rows[0])}{more}"


def _collective_row(reader: SessionReader, collective: Collective) -> TableRow:
    row = collective.redistribution
    cells = (
        str(collective.order),
        collective.operator,
        size(collective.size_bytes) if collective.size_bytes >= 0 else "",
        collective.group_text,
        describe_between(collective),
        collective.at or "not known",
        collective.direction,
        f"{row.before} → {row.after}" if row else "",
        f"[{collective.compilation}]",
    )
    return TableRow(
        cells,
        detail=partial(_collective_detail, collective),
        values={"bytes": float(collective.size_bytes), "order": float(collective.order)},
        version=collective.compilation,
        find_place=partial(place_of_node, reader, collective.node),
    )


def _collective_detail(collective: Collective) -> Detail:
    lines = [describe_collective(collective)]
    names = collective.between.names if collective.between else ()
    if len(names) > 1:
        lines.append(f"Meanwhile: {listed(names, 40)}.")
    return Detail("\n".join(lines))
