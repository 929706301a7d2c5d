"""What Dynamo did: which of the user's lines became which operations."""

from __future__ import annotations

from collections import Counter

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_source
from fx_explorer.analysis.outline import plain_function
from fx_explorer.analysis.stages.work import AlignedRow, Item, StagePoint, StageWork, TextItem
from fx_explorer.analysis.words import counted, in_file
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.stages import source_lines_of_nodes


def dynamo_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell which lines Dynamo traced, and what it wrote down for each."""
    found = source_lines_of_nodes(reader, (one.id for one in point.after))
    lines = _line_texts(reader, {(file, line) for _, file, line in found if file})
    rows, last = [], (-1, -1)
    for node, file, line in found:
        before: Item | None = lines.get((file, line)) if (file, line) != last else None
        rows.append(AlignedRow("made", (before, node)))
        last = (file, line)
    variant = reader.get(model.Compilation, point.compilation)
    function = plain_function(variant.function)
    what = f"{counted(len(lines), 'line')} of {function} became {counted(len(found), 'operation')}"
    breaks = reader.count(model.GraphBreak, compilation=point.compilation)
    cut = f", up to {counted(breaks, 'graph break')}" if breaks else ", without a graph break"
    counts = Counter(row.fate for row in rows)
    sentence = f"{point.title}: {what}{cut}."
    return StageWork(point, ("your line", "operation"), len(lines), len(found), counts, sentence, rows)


def _line_texts(reader: SessionReader, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], TextItem]:
    files = {file.id: file for file in reader.by_ids(model.SourceFile, {file for file, _ in wanted})}
    texts = {number: reader.text(file.text).split("\n") if file.text else [] for number, file in files.items()}
    found = {}
    for number, line in wanted:
        if number not in files:
            continue
        text = texts[number][line - 1].strip() if 0 < line <= len(texts[number]) else ""
        place = place_of_source(reader, number, line)
        shown = f"{in_file(files[number].path, line)}  {text}".rstrip()
        found[number, line] = TextItem(shown, place.document if place else None, place.line if place else 0)
    return found
