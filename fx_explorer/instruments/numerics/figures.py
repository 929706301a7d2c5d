"""This module keeps what ``numerics`` learned in a session, and reads it from there."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.errors import NotASessionError
from fx_explorer.model import CaptureRequest, Numerics, Outcome
from fx_explorer.model.numerics import META
from fx_explorer.session import SessionReader, SessionWriter


def begin_session(writer: SessionWriter, request: CaptureRequest) -> None:
    """Write the entries that every session needs."""
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with writer.transaction():
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("request", asdict(request))
        writer.set_meta("started", started)
        writer.set_meta("target", {"name": Path(request.target).name, "kind": "numerics"})
        writer.set_meta("outcome", asdict(Outcome("finished")))


def add_numerics(session: Path, numerics: Numerics) -> None:
    """Add what was learned to a session; it takes the place of what was there. Raises
    SessionWriteError.
    """
    with SessionWriter(session) as writer:
        writer.set_meta(META, numerics.to_json())


def numerics_of(reader: SessionReader) -> Numerics | None:
    """Return what the session has; None without any. Raises NotASessionError for an entry that is
    damaged.
    """
    stored = reader.meta(META)
    if stored is None:
        return None
    try:
        return Numerics.from_json(stored)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotASessionError(f"its numerics cannot be read: {str(error)[:200]}") from error
