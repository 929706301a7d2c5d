"""The guards of a call: how many are evaluated in C++ and how many in Python, and the costliest."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.analysis.ledger.figures import LedgerFigures
from fx_explorer.model import Compilation, GuardCheck
from fx_explorer.session import SessionReader

IN_PYTHON = ("LAMBDA_GUARD", "PYTHON_")
"""Beginnings of torch's names for leaves that call Python (torch/csrc/dynamo/guards.cpp); all others
are C++.
"""

SHOWN = 3


@dataclass(frozen=True, slots=True)
class GuardCosts:
    in_cpp: int
    in_python: int
    costliest: tuple[GuardCheck, ...]
    """Those whose single check takes longest, measured while it was compiled."""
    measured_s: float
    """All single checks together; to walk to what they look at is not in it."""


def guard_costs(reader: SessionReader, figures: LedgerFigures) -> GuardCosts:
    """Return the guards of the compilations that a call runs through."""
    names = {entry.step.compilation for entry in figures.entries} - {""}
    wanted = {row.id for row in reader.rows(Compilation) if row.name in names}
    checks = [row for row in reader.rows(GuardCheck) if row.compilation in wanted]
    in_python = sum(row.kind.startswith(IN_PYTHON) for row in checks)
    costly = sorted((row for row in checks if row.cost_ns > 0), key=lambda row: -row.cost_ns)
    measured_s = sum(row.cost_ns for row in costly) / 1e9
    return GuardCosts(len(checks) - in_python, in_python, tuple(costly[:SHOWN]), measured_s)
