"""Shows what is read of a log: its progress, and its first words, before the app is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fx_explorer.analysis.words import breaks_hit, counted, first_line, size
from fx_explorer.command_line.narration import LiveLine
from fx_explorer.errors import SessionError
from fx_explorer.readers.torch_trace.growing import Progress, in_words
from fx_explorer.readers.torch_trace.opened import BLOCK, opened
from fx_explorer.readers.torch_trace.places import is_torch
from fx_explorer.readers.torch_trace.records import Damage, Record, records
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts.reports import BreakReport, parse_break


class LogProgress(LiveLine):
    """Shows on the line what is read of a log."""

    def tell(self, progress: Progress) -> None:
        if self.is_due:
            self.show(in_words(progress))


# The first words, for the moment until the app is there: importing Textual and painting its first
# frame takes longer than looking at a megabyte of the log.

MOST_BREAKS = 5


def first_words(log: Path) -> list[str]:
    """Return how large a log is, when it begins, and which compilations, graph breaks and
    recompiles its first megabyte has.

    Nothing is said of what is no file, since it could be read only once, and of what cannot be
    read: who reads the log says why.
    """
    if not log.is_file():
        return []
    try:
        with opened(log, Damage()) as beginning:
            block = _first(beginning.blocks, BLOCK)
    except SessionError:
        return []
    found = [record for record in records([block], Damage()) if record is not None]
    is_whole = len(block) < BLOCK
    if not is_whole:
        found = found[:-1]  # it may continue behind the block
    return [
        _about(found, beginning.size),
        *(_held(found, "It has" if is_whole else "Its first megabyte has") if found else ()),
    ]


def _first(blocks: Iterable[bytes], size_bytes: int) -> bytes:
    """Return the beginning of what comes in blocks of any size."""
    found = bytearray()
    for block in blocks:
        found += block
        if len(found) >= size_bytes:
            break
    return bytes(found[:size_bytes])


def _about(found: list[Record], size_bytes: int) -> str:
    """Return ``42 MB, of rank 0, begins at 03:15:04``."""
    parts = [size(size_bytes)]
    if found:
        minutes, seconds = divmod(int(found[0].seconds), 60)
        parts += [f"of rank {found[0].rank}"] if found[0].rank >= 0 else []
        parts.append(f"begins at {minutes // 60:02}:{minutes % 60:02}:{seconds:02}")
    return ", ".join(parts)


def _held(found: list[Record], what: str) -> Iterator[str]:
    """Yield how many compilations, breaks and recompiles there are, and where the first breaks are."""
    compilations = {record.compilation for record in found if record.kind == "dynamo_start"} - {""}
    recompiled = {record.compilation for record in found if record.name == "recompile_reasons"}
    reports = [
        parse_break(record.payload)
        for record in found
        if record.name == "dynamo_graph_break_reason"
    ]
    breaks = [report for report in reports if not report.is_given_up]
    first: dict[str, BreakReport] = {}
    for report in breaks:
        first.setdefault(_place(report), report)
    text = breaks_hit(len(first), len(breaks)) if breaks else "no graph break"
    yield (
        f"{what} {counted(len(compilations), 'compilation')}, "
        f"{counted(len(recompiled), 'recompile')}, {text}"
    )
    yield from (
        f"  ✗ {place}  {first_line(report.reason)}"
        for place, report in list(first.items())[:MOST_BREAKS]
    )


def _place(report: BreakReport) -> str:
    """Return the user's line of a break: that which called torch, for one within it."""
    outside = [(frame.file, frame.line) for frame in report.frames if not is_torch(frame.file)]
    return in_file(
        *(outside[-1] if outside and is_torch(report.file) else (report.file, report.line))
    )
