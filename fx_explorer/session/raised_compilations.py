"""Compilations that ended in an exception of the compiler's: the program got it, whatever it did
with it, or torch was told to continue without (``suppress_errors``). A function that Dynamo leaves
to Python is none of them.
"""

from __future__ import annotations

import json

from fx_explorer.model import Compilation, Fallback, GraphBreak, Metric
from fx_explorer.session.reader import SessionReader

_MAY_BE_LEFT = ("Unsupported", "UserError")
"""What Dynamo makes a graph break or a fallback of, and an exception with ``fullgraph=True``
(torch's convert_frame.py).
"""


def raised_compilations(reader: SessionReader) -> list[Compilation]:
    """List the compilations that ended in an exception of the compiler's, in the order they were
    compiled. A break or fallback leaves a row of its own; an exception does not.
    """
    failed = [one for one in reader.rows(Compilation) if one.status in ("failed", "skipped")]
    if not failed:
        return []
    told = {row.compilation for row in reader.rows(GraphBreak)} | {
        row.compilation for row in reader.rows(Fallback)
    }
    return [
        one
        for one in failed
        if one.status == "failed"
        or (one.id not in told and _fail_type(reader, one) in _MAY_BE_LEFT)
    ]


def _fail_type(reader: SessionReader, compilation: Compilation) -> str:
    for row in reader.rows(Metric, compilation=compilation.id, name="compilation_metrics"):
        known = json.loads(row.value)
        if isinstance(known, dict) and known.get("fail_type"):
            return str(known["fail_type"])
    return ""
