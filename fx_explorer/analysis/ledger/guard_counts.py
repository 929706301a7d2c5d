"""The guards of a call: how many are evaluated in C++, and how many in Python."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.analysis.ledger.figures import LedgerFigures
from fx_explorer.model import Compilation, GuardCheck
from fx_explorer.session import SessionReader

IN_PYTHON = ("LAMBDA_GUARD", "PYTHON_")
"""Beginnings of torch's names for leaves that call Python (torch/csrc/dynamo/guards.cpp); all others
are C++.
"""


@dataclass(frozen=True, slots=True)
class GuardCounts:
    in_cpp: int
    in_python: int


def guard_counts(reader: SessionReader, figures: LedgerFigures) -> GuardCounts:
    """Return the guards of the compilations that a call runs through."""
    names = {entry.step.compilation for entry in figures.entries} - {""}
    wanted = {row.id for row in reader.rows(Compilation) if row.name in names}
    checks = [row for row in reader.rows(GuardCheck) if row.compilation in wanted]
    in_python = sum(row.kind.startswith(IN_PYTHON) for row in checks)
    return GuardCounts(len(checks) - in_python, in_python)
