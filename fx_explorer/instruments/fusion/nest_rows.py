"""Rows of view v y about loop nests that stand in one C++ kernel and were not merged."""

from __future__ import annotations

import re
from functools import partial

from fx_explorer.analysis.documents import place_of_kernel
from fx_explorer.analysis.naming import SizeNames
from fx_explorer.analysis.words import size
from fx_explorer.drawing.view_table import Detail, TableRow, shown_name
from fx_explorer.instruments.fusion.loop_nest_reasons import (
    NestPair,
    describe_nests,
    nests_by_kernel,
)
from fx_explorer.instruments.fusion.pair_words import known_from, row_key, shared_buffers
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

_UNNAMED_SIZE = re.compile(r"(?<![\w.\[/])(?:s|u|zf|zuf|zs)\d+\b(?!/)")
"""Matches a symbol of torch's for a size that no expression of the user's is known for."""


def nest_row(reader: SessionReader, pair: NestPair, *, has_times: bool) -> TableRow:
    lines = [in_file(*line) for nest in (pair.first, pair.second) for line in nest.lines]
    cells = [
        size(pair.pair.saved_bytes),
        pair.cause.kind,
        f"{pair.first.name} in #{pair.first.kernel.id} {shown_name(pair.first.kernel.name)}",
        f"{pair.second.name} in the same kernel",
        " · ".join(dict.fromkeys(lines)),
        "1",
        pair.first.kernel.direction,
    ]
    if has_times:
        cells.insert(1, "")
    return TableRow(
        tuple(cells),
        part=2,
        detail=partial(_nest_detail, reader, pair),
        values={"saves": float(pair.pair.saved_bytes), "times": 1.0},
        find_place=partial(place_of_kernel, reader, pair.second.kernel),
        key=row_key(pair.pair),
    )


def _nest_detail(reader: SessionReader, pair: NestPair) -> Detail:
    return Detail("\n".join(explain_nests(reader, pair)))


def explain_nests(reader: SessionReader, pair: NestPair) -> list[str]:
    """Return the lines that say all about two loop nests of one kernel."""
    row = pair.pair
    compilation = pair.first.kernel.compilation
    sizes = SizeNames(reader, [compilation])
    text = sizes.in_text(compilation, pair.cause.text)
    sentences = [_UNNAMED_SIZE.sub("a size", text)]
    if pair.cause.change:
        sentences.append(f"What may change it: {pair.cause.change}")
    nests = nests_by_kernel(reader).get(pair.first.kernel.id, [])
    sentences.append(f"Merged they would read and write {size(row.saved_bytes)} less.")
    sentences.append(f"{pair.first.kernel.name} has {describe_nests(nests)}.")
    sentences.append(f"torch's own names: {shared_buffers(row)}.")
    if row.state == "outer loop":
        sentences.append(f"Inductor's check {row.check} lets it fuse their outer loops alone.")
    else:
        sentences.append(known_from(row, (pair.first.name, pair.second.name)))
    return sentences
