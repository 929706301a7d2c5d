"""The colours of a ledger's flame chart that is no widget: dark letters can be read on each of
them, whatever lies behind the chart.
"""

from __future__ import annotations

from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.instruments.ledger.figures import LedgerFigures
from fx_explorer.instruments.ledger.table import NOT_ACCOUNTED

COLOURS: dict[str, str] = {
    "call": "#b4bac6",
    "part": "#c3c8d2",
    "function": "#d2d6de",
    "code": "#e1e4ea",
    # The program's own operators are green.
    "kernel": "#93d36f",
    "library": "#62c298",
    "graph": "#45b3a4",
    # What torch.compile does around graphs is violet, what the generated code does around kernels
    # blue.
    "entry": "#cbb8e8",
    "guards": "#b49be0",
    "bytecode": "#ddcdf4",
    "wrapper": "#a699dc",
    "checks": "#84b1e2",
    "buffers": "#a9cbec",
    "launch": "#cbe1f5",
    # Python is orange, the backward's engine and what belongs to training pink.
    "break": "#fbaa5f",
    "python": "#ffca93",
    "autograd": "#f19cb4",
    "loss": "#f8c0d0",
    "gradients": "#e487a3",
    "wait": "#efd25c",
    "rest": "#f4f1e6",
}

_HOLDS_STEPS: dict[str, str] = {
    "call": "the call",
    "part": "parts of the call",
    "function": "compiled functions",
    "code": "generated code of graphs",
    "rest": NOT_ACCOUNTED,
}


def kinds_in(root: FlameFrame) -> list[str]:
    """Return the kinds that the chart has, for its legend."""
    found = {frame.kind for frame in root.frames()}
    return [kind for kind in COLOURS if kind in found]


def kind_in_words(figures: LedgerFigures, kind: str) -> str:
    return _HOLDS_STEPS.get(kind) or figures.in_words(kind)  # type: ignore[arg-type]
