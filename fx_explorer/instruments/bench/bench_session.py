"""A session that holds a bench and no capture: made, filled, and put where the user wants it."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.instruments.bench.plan import BenchPlan
from fx_explorer.model import Outcome
from fx_explorer.session import SessionWriter


def begin_session(writer: SessionWriter, plan: BenchPlan) -> None:
    """Write what every session has."""
    with writer.transaction():
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("request", asdict(plan.request))
        writer.set_meta(
            "started", datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        )
        writer.set_meta("target", {"name": Path(plan.request.target).name, "kind": "bench"})


def end_session(writer: SessionWriter, *, was_stopped: bool) -> None:
    """Write how it ended."""
    stopped = Outcome("cancelled", "the bench was stopped; what was measured before is kept")
    writer.set_meta("outcome", asdict(stopped if was_stopped else Outcome("finished")))
