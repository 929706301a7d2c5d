"""Counts over rows that mean one thing to everybody: also to `client`, which stands below `analysis`."""

from __future__ import annotations

from fx_explorer.session.reader import SessionReader


def check_count(reader: SessionReader, compilation: int | None = None) -> int:
    """How many checks torch runs for compiled code: the leaves of its guard trees, each once. A guard that Dynamo asked for may
    have several, or none of its own; where the tree is not known (a session of old), the guards are counted."""
    condition, values = ("", ()) if compilation is None else (" WHERE compilation=?", (compilation,))
    checks = "SELECT count(*) FROM (SELECT DISTINCT compilation, kind, source, code FROM guard_check" + condition + ")"
    found = int(reader.query(checks, values)[0][0])
    return found or int(reader.query(f"SELECT count(*) FROM guard{condition}", values)[0][0])
