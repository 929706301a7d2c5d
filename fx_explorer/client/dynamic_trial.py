"""``dynamic=None``, ``True``, ``False`` and ``mark_dynamic`` on the same program, each captured by a worker of its own.

Nothing is built. Whether other inputs need a compilation more is what the guards of the finished capture say: they are
asked (``what_if``), the program is not run again.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.client.capture import Capture
from fx_explorer.model import TWICE_THE_BATCH, CaptureRequest, Command, Outcome
from fx_explorer.session import SessionReader

TIMEOUT_S = 300.0

Way = Literal["dynamic=None", "dynamic=True", "dynamic=False", "mark_dynamic"]

WAYS: tuple[Way, ...] = ("dynamic=None", "dynamic=True", "dynamic=False", "mark_dynamic")
"""``None`` is torch's default: fixed at first, dynamic when a size has changed. ``mark_dynamic``: the default, with those
dimensions marked that differ in the other inputs."""

_DYNAMIC: dict[Way, bool | None] = {"dynamic=True": True, "dynamic=False": False}


@dataclass(frozen=True, slots=True)
class DynamicTrial:
    way: Way
    outcome: Outcome
    compilations: int
    recompiles: int
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


async def try_dynamic(
    request: CaptureRequest, others: str = "", python: str = sys.executable, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[DynamicTrial]:
    """One after the other, as they are done. ``others``: an expression as ``--inputs`` takes it; empty: twice the batch."""
    for way in WAYS:
        yield await _try(_request(request, way, others), way, others, python, timeout_s)


def _request(request: CaptureRequest, way: Way, others: str) -> CaptureRequest:
    marked = (others or TWICE_THE_BATCH) if way == "mark_dynamic" else ""
    return replace(request, dynamic=_DYNAMIC.get(way), mark_against=marked, pause="", stay=True, build=False)


async def _try(request: CaptureRequest, way: Way, others: str, python: str, timeout_s: float) -> DynamicTrial:
    capture = Capture(request, python, timeout_s)
    try:
        await capture.start()
        said = await _asked(capture, others)
        outcome = await capture.cancel()
        with SessionReader(capture.session_path) as reader:
            return _result(reader, way, outcome, said)
    finally:
        capture.discard()


async def _asked(capture: Capture, others: str) -> str:
    """Ask when everything is compiled; returns why there is no answer, if there is none."""
    async for notice in capture.notices():
        if notice.kind == "gate" and notice.state == "begin":
            capture.send(Command("what_if", expression=others))
        if notice.kind in ("done", "refused"):
            return notice.text if notice.kind == "refused" else ""
    return "the program did not come to its end"


def _result(reader: SessionReader, way: Way, outcome: Outcome, said: str) -> DynamicTrial:
    symbols = [row for row in reader.rows(model.Symbol) if row.final_range]
    answers = reader.rows(model.GuardAnswer)
    rejected = next((one for one in answers if one.answer == "rejected"), None)
    taken = any(one.answer == "accepted" for one in answers)
    compiled = [row for row in reader.rows(model.Compilation) if row.status in ("ok", "broke")]
    return DynamicTrial(
        way,
        outcome,
        len(compiled),
        sum(row.recompile > 0 for row in compiled),
        reader.count(model.Guard),
        sum(not row.became for row in symbols),
        sum(bool(row.became) for row in symbols),
        reader.count(model.Kernel),
        sum(row.duration_s for row in compiled),
        "used again" if taken else "compiled again" if rejected else "",
        "" if taken else said or (rejected.reason if rejected else ""),
    )
