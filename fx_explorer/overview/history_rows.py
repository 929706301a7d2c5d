"""This module says what is in the history: for each capture when it ended, what was captured how,
and what came out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import breaks_hit, counted, first_line
from fx_explorer.client.history import KeptCapture
from fx_explorer.session import SessionReader
from fx_explorer.session.damage import why_unreadable

MOST_CHARACTERS = 200
"""Maximum length of a text that is the user's, such as a target."""

ENDINGS = {
    "raised": "the program raised",
    "exited": "the program exited",
    "killed": "the program was killed",
    "timed_out": "timed out",
    "cancelled": "stopped",
    "incomplete": "not complete",
}
"""Kind of an outcome → how the list names it; a program that finished needs no words."""


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A capture of the history, as lists show it."""

    capture: KeptCapture
    target: str
    options: str
    """Options of the capture that differ from the defaults: ``--gpu h100``."""
    figures: dict[str, int]
    """Numbers of graphs, graph breaks, recompiles and kernels; empty if they cannot be read."""
    result: str
    """What came out, in words; for a session that cannot be read, why."""
    ending: str
    """The kind of its outcome; ``interrupted`` without one, ``unreadable`` where it cannot be read.
    """

    @property
    def when(self) -> str:
        """Return the local time at which the capture ended."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.capture.ended_at))

    @property
    def name(self) -> str:
        """Return the target with its options: ``model.py --gpu h100``."""
        return f"{self.target} {self.options}".strip()


def history_row(capture: KeptCapture) -> HistoryRow:
    """Read the outcome of a capture from its session."""
    target = PurePath(capture.target).name or "unknown"
    target = target[:MOST_CHARACTERS]
    try:
        with SessionReader(capture.session) as reader:
            figures = _figures(reader)
            ending = _ending(reader)
            result = _describe(reader, figures, ending)
            return HistoryRow(capture, target, _describe_options(reader), figures, result, ending)
    except Exception as error:
        unreadable = why_unreadable(capture.session, error)
        if unreadable is None:
            raise
        result = first_line(str(unreadable).replace(f"{capture.session} ", "", 1))
        return HistoryRow(capture, target, "", {}, result[:MOST_CHARACTERS], "unreadable")


def _figures(reader: SessionReader) -> dict[str, int]:
    whole = asdict(totals(reader))
    names = ("graphs", "graph_breaks", "recompiles", "kernels")
    return {name: int(whole[name]) for name in names}


def _ending(reader: SessionReader) -> str:
    outcome = reader.meta("outcome")
    if not outcome:
        return "interrupted"
    ended = model.Outcome.from_json(outcome)
    return "finished" if ended.went_well else ended.kind


def _describe(reader: SessionReader, figures: dict[str, int], ending: str) -> str:
    parts = []
    if ending != "finished":
        parts.append(ENDINGS.get(ending, ending))
    if not any(figures.values()):
        parts.append("nothing was compiled")
        return ": ".join(parts)
    amounts = [
        counted(figures["graphs"], "graph"),
        breaks_hit(figures["graph_breaks"], totals(reader).graph_break_hits),
    ]
    if figures["recompiles"]:
        amounts.append(counted(figures["recompiles"], "recompile"))
    amounts.append(counted(figures["kernels"], "kernel"))
    parts.append(", ".join(amounts))
    return ": ".join(parts)


def _describe_options(reader: SessionReader) -> str:
    """Return the options of the command line that change what is compiled."""
    request = reader.request()
    return " ".join(_options(request))[:MOST_CHARACTERS] if request else ""


def _options(request: model.CaptureRequest) -> Iterator[str]:
    if request.gpu:
        yield f"--gpu {request.gpu.name}"
    if request.build and not request.as_script:
        yield "--build"
    if request.backend != "inductor":
        yield f"--backend {request.backend}"
    if request.mode:
        yield f"--mode {request.mode}"
    if request.dynamic is not None:
        yield "--dynamic" if request.dynamic else "--no-dynamic"
    if request.train is False:
        yield "--no-train"
    if request.settings or request.options:
        yield counted(len(request.settings) + len(request.options), "setting")


def row_object(row: HistoryRow) -> dict[str, object]:
    """Return a capture as an object for programs."""
    return {
        "number": row.capture.number,
        "name": row.capture.name,
        "ended": row.when,
        "target": row.target,
        "options": row.options,
        "ending": row.ending,
        "result": row.result,
        **row.figures,
        "size_bytes": row.capture.size_bytes,
    }
