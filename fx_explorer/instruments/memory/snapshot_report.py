"""This module says what a CUDA memory snapshot shows, in sentences, tables and JSON: what is held
at the peak, how much of the reserved memory is free, and which allocation failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer.analysis.words import careful_share, counted, listed, size
from fx_explorer.instruments.memory.snapshot_figures import (
    DeviceFigures,
    JoinedLine,
    SnapshotFigures,
    joined_lines,
)
from fx_explorer.output.formats import (
    Block,
    csv_text,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Column, Table
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

SCHEMA = "fx-explorer/memory-snapshot/1"

MOST_ROWS = 20
"""Maximum number of lines that are printed of a device."""

MOST_OPERATIONS = 3

NO_HISTORY = (
    "It has no history: torch.cuda.memory._record_memory_history() was off. The memory held at "
    "the end is known, but not the peak or the allocating lines."
)

NO_LINE = "no line of yours"


def verdict(figures: SnapshotFigures) -> list[str]:
    """Return the sentences about a snapshot, device by device, the most telling first."""
    sentences: list[str] = []
    for device in figures.devices:
        sentences += _of_device(device, figures.file)
    if not figures.devices:
        sentences.append(f"{figures.file} has no memory of any GPU.")
    if figures.settings:
        sentences.append(f"PYTORCH_CUDA_ALLOC_CONF is {figures.settings}.")
    return sentences


def _of_device(device: DeviceFigures, file: str) -> Iterator[str]:
    kinds = [
        f"{kind} {careful_share(size_bytes, device.peak_bytes)}"
        for kind, size_bytes in device.kinds.items()
    ]
    when = "At the peak" if device.events else "At the end"
    of_kinds = f": {listed(kinds, limit=5)}" if kinds else ""
    where = f"on GPU {device.device} in {file}"
    yield f"{when} {size(device.peak_bytes)} are allocated {where}{of_kinds}."
    known = [held for held in device.lines if held.line]
    if known:
        most = known[0]
        yield (
            f"Your line that holds the most at the peak: {in_file(most.file, most.line)} in "
            f"{most.function}, {size(most.size_bytes)} "
            f"({careful_share(most.size_bytes, device.peak_bytes)}) in "
            f"{counted(most.count, 'allocation')} of {most.kind}."
        )
    for failed in device.failed:
        where = f" at {in_file(failed.file, failed.line)}" if failed.line else ""
        yield (
            f"An allocation of {size(failed.wanted)} failed{where}: {size(failed.allocated)} were "
            f"allocated, and the device had {size(failed.device_free)} left."
        )
    yield _reserved(device)
    if not device.events:
        yield NO_HISTORY


def _reserved(device: DeviceFigures) -> str:
    """Return how much of the reserved memory is in use, and how the rest is divided."""
    reserved = device.reserved
    text = (
        f"At the end, {size(reserved.reserved)} are reserved in "
        f"{counted(reserved.segments, 'segment')}, {size(reserved.in_use)} of them in use"
    )
    if not reserved.free:
        return f"{text}."
    between = reserved.free - reserved.returnable
    parts = []
    if between:
        parts.append(f"{size(between)} lie between memory in use (fragmentation)")
    if reserved.returnable:
        parts.append(
            f"{size(reserved.returnable)} are unused segments, which torch.cuda.empty_cache() "
            "gives back"
        )
    return (
        f"{text}. Of the free {size(reserved.free)}, {listed(parts)}; the largest free piece has "
        f"{size(reserved.largest)}."
    )


COLUMNS = (
    Column("your line", narrowing="cut", least=18),
    Column("at the peak", is_number=True),
    Column("share", is_number=True),
    Column("allocations", is_number=True, priority=2),
    Column("allocated by", narrowing="wrapped", least=16),
    Column("operations", narrowing="cut", least=16, priority=1),
    Column("graph", priority=3),
)


def tables(reader: SessionReader, figures: SnapshotFigures, most: int) -> Iterator[Block]:
    """Yield a table for each device: what its lines hold at the peak."""
    for device in figures.devices:
        title = f"held at the peak of GPU {device.device}, by line:"
        if not device.events:
            title = f"held at the end on GPU {device.device}:"
        yield ""
        yield title
        yield line_table(device, joined_lines(reader, device), most)


def line_table(device: DeviceFigures, lines: Sequence[JoinedLine], most: int) -> Table:
    """Return what each line holds at the peak, with the session's operations."""
    rows = [_cells(device, line) for line in lines[:most]]
    more = len(lines) - len(rows) + device.other_lines
    note = f"and {more:,} more" if more else ""
    return Table(COLUMNS, rows, indent=2, note=note)


def _cells(device: DeviceFigures, line: JoinedLine) -> list[str]:
    held = line.held
    return [
        in_file(held.file, held.line) if held.line else NO_LINE,
        size(held.size_bytes),
        careful_share(held.size_bytes, device.peak_bytes),
        f"{held.count:,}",
        held.kind,
        listed(line.operations, limit=MOST_OPERATIONS),
        ", ".join(line.graphs),
    ]


def snapshot_text(reader: SessionReader, figures: SnapshotFigures, width: int | None = None) -> str:
    """Return the sentences and the tables in columns."""
    return text_of([*verdict(figures), *tables(reader, figures, MOST_ROWS)], width)


def snapshot_markdown(reader: SessionReader, figures: SnapshotFigures) -> str:
    """Return the sentences as a list, and the tables."""
    lines = markdown_list(verdict(figures))
    for block in tables(reader, figures, MOST_ROWS):
        lines += markdown_table(block) if isinstance(block, Table) else [str(block)]
    return "\n".join(lines) + "\n"


def snapshot_object(reader: SessionReader, figures: SnapshotFigures) -> dict[str, object]:
    """Return everything as JSON objects."""
    return {
        "schema": SCHEMA,
        "file": figures.file,
        "verdict": verdict(figures),
        "devices": [_device_object(reader, device) for device in figures.devices],
    }


def snapshot_json(reader: SessionReader, figures: SnapshotFigures) -> str:
    return json_text(snapshot_object(reader, figures))


def _device_object(reader: SessionReader, device: DeviceFigures) -> dict[str, object]:
    reserved = device.reserved
    return {
        "device": device.device,
        "peak_bytes": device.peak_bytes,
        "end_bytes": device.end_bytes,
        "events": device.events,
        "kinds": device.kinds,
        "lines": [_line_object(line) for line in joined_lines(reader, device)],
        "reserved_bytes": reserved.reserved,
        "segments": reserved.segments,
        "free_bytes": reserved.free,
        "returnable_bytes": reserved.returnable,
        "largest_free_bytes": reserved.largest,
        "failed": [
            {
                "wanted_bytes": failed.wanted,
                "device_free_bytes": failed.device_free,
                "allocated_bytes": failed.allocated,
                "file": failed.file or None,
                "line": failed.line or None,
            }
            for failed in device.failed
        ],
    }


def _line_object(line: JoinedLine) -> dict[str, object]:
    held = line.held
    return {
        "file": held.file or None,
        "line": held.line or None,
        "function": held.function or None,
        "kind": held.kind,
        "bytes": held.size_bytes,
        "allocations": held.count,
        "operations": list(line.operations),
        "modules": list(line.modules),
        "graphs": list(line.graphs),
    }


def snapshot_csv(reader: SessionReader, figures: SnapshotFigures) -> str:
    """Return a line for each line of the peak, of every device."""
    names = ["device", "file", "line", "kind", "bytes", "allocations", "operations"]
    rows = []
    for device in figures.devices:
        for line in joined_lines(reader, device):
            held = line.held
            place = (held.file, held.line or "")
            counts = (held.size_bytes, held.count)
            rows.append((device.device, *place, held.kind, *counts, " ".join(line.operations)))
    return csv_text(names, rows)


FORMATS = {"json": snapshot_json, "csv": snapshot_csv, "markdown": snapshot_markdown}
"""Format → the function that writes it, with all rows in JSON and CSV."""
