"""``dynamic=None``, ``True``, ``False`` and ``mark_dynamic`` on the same program, each captured by a worker of its own.

Nothing is built. Whether other inputs need a compilation more is what the guards of the finished capture say: they are
asked (``what_if``), the program is not run again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fx_explorer import model
from fx_explorer.client.capture import Capture
from fx_explorer.client.temporary_capture import temporary_capture
from fx_explorer.errors import UsageError
from fx_explorer.model import TWICE_THE_BATCH, CaptureRequest, Command, Outcome
from fx_explorer.session import SessionReader
from fx_explorer.session.counting import check_count

TIMEOUT_S = 300.0

A_SCRIPT = (
    "Dynamic shapes are tried on a function or module with inputs. This is a script, which compiles and calls by itself: "
    "give FILE.py:OBJECT, and its inputs with --inputs 'torch.randn(2, 8)'."
)

Way = Literal["dynamic=None", "dynamic=True", "dynamic=False", "mark_dynamic"]

WAYS: tuple[Way, ...] = ("dynamic=None", "dynamic=True", "dynamic=False", "mark_dynamic")
"""``None`` is torch's default: fixed at first, dynamic when a size has changed. ``mark_dynamic``: the default, with those
dimensions marked that differ in the other inputs."""

_DYNAMIC: dict[Way, bool | None] = {"dynamic=True": True, "dynamic=False": False}

_SIZE = re.compile(r"(?P<source>.+)\.size\(\)\[(?P<dimension>\d+)\]$")

Told = Callable[[Way, str], object]
"""Hears what the worker of a way is doing."""


@dataclass(frozen=True, slots=True)
class DynamicTrial:
    way: Way
    outcome: Outcome
    compilations: int
    recompiles: int
    graphs: int
    guards: int
    symbols: int
    """Sizes and numbers that stay free."""
    specialized: int
    """Those that were dynamic and became a constant."""
    kernels: int
    compile_s: float
    others: Literal["", "used again", "compiled again"]
    """What becomes of the other inputs; empty when it is not known, ``reason`` says why."""
    reason: str
    """The check that fails, in torch's words."""
    free_sizes: tuple[tuple[str, int], ...]
    """Of inputs: (source in torch's words, dimension)."""

    @property
    def is_whole(self) -> bool:
        """Whether the program came to its end."""
        return self.outcome.kind == "finished"


async def try_dynamic(
    request: CaptureRequest,
    others: str = "",
    tell: Told = lambda way, activity: None,
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> AsyncIterator[DynamicTrial]:
    """One after the other, as they are done. ``others``: an expression as ``--inputs`` takes it; empty: twice the batch.

    Whoever stops listening in the middle of one ends its worker. Raises UsageError for a script, as soon as it begins, and
    SessionWriteError when there is no room for a session.
    """
    for way in WAYS:
        tell(way, "starting Python")
        yield await _try(_request(request, way, others), way, others, tell, python, timeout_s)


def _request(request: CaptureRequest, way: Way, others: str) -> CaptureRequest:
    marked = (others or TWICE_THE_BATCH) if way == "mark_dynamic" else ""
    return replace(
        request, session="", dynamic=_DYNAMIC.get(way), mark_against=marked, pause="", stay=True, build=False, verify=False
    )


async def _try(request: CaptureRequest, way: Way, others: str, tell: Told, python: str, timeout_s: float) -> DynamicTrial:
    async with temporary_capture(request, python, timeout_s) as capture:
        said = await _asked(capture, others, lambda activity: tell(way, activity))
        outcome = await capture.cancel()
        return await asyncio.to_thread(_read, capture.session_path, way, outcome, said)


async def _asked(capture: Capture, others: str, tell: Callable[[str], object]) -> str:
    """Ask when everything is compiled; returns why there is no answer, if there is none."""
    async for notice in capture.notices():
        if notice.kind == "worker":
            tell(notice.text)
            if await asyncio.to_thread(_is_script, capture.session_path):
                raise UsageError(A_SCRIPT)
        if notice.kind == "gate" and notice.state == "begin":
            capture.send(Command("what_if", expression=others))
        if notice.kind in ("done", "refused"):
            return notice.text if notice.kind == "refused" else ""
    return "the program did not come to its end"


def _is_script(session: Path) -> bool:
    with SessionReader(session) as reader:
        return reader.is_of_a_script()


def _read(session: Path, way: Way, outcome: Outcome, said: str) -> DynamicTrial:
    """In a thread: whoever waits may have a screen to paint."""
    with SessionReader(session) as reader:
        return _result(reader, way, outcome, said)


def _result(reader: SessionReader, way: Way, outcome: Outcome, said: str) -> DynamicTrial:
    symbols = [row for row in reader.rows(model.Symbol) if row.final_range]
    answers = reader.rows(model.GuardAnswer)
    rejected = next((one for one in answers if one.answer == "rejected"), None)
    taken = any(one.answer == "accepted" for one in answers)
    compiled = [row for row in reader.rows(model.Compilation) if row.status in ("ok", "broke")]
    return DynamicTrial(
        way,
        outcome,
        compilations=len(compiled),
        recompiles=sum(row.recompile > 0 for row in compiled),
        graphs=reader.count(model.Graph, stage="dynamo", parent=0),
        guards=check_count(reader),
        symbols=sum(not row.became for row in symbols),
        specialized=sum(bool(row.became) for row in symbols),
        kernels=sum(not kernel.runs for kernel in reader.rows(model.Kernel)),
        compile_s=sum(row.duration_s for row in compiled),
        others="used again" if taken else "compiled again" if rejected else "",
        reason="" if taken else said or (rejected.reason if rejected else ""),
        free_sizes=tuple(dict.fromkeys(size for row in symbols if not row.became for size in _sizes(row))),
    )


def _sizes(symbol: model.Symbol) -> list[tuple[str, int]]:
    """Of which inputs a symbol is a size; a number that is an input by itself is none."""
    found = (_SIZE.match(source) for source in symbol.sources or (symbol.source,))
    return [(one["source"], int(one["dimension"])) for one in found if one]
