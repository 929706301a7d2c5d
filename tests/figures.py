"""This module has figures of an invented session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fx_explorer.analysis.whole_session import SessionFigures

NOTHING = SessionFigures(
    compilations=0,
    compiled=0,
    eager_functions=0,
    recompiles=0,
    graphs=0,
    operations=0,
    graph_breaks=0,
    graph_break_hits=0,
    guards=0,
    free_sizes=0,
    fixed_sizes=0,
    kernels=0,
    compile_s=0.0,
    skipped_records=0,
)


def figures(**known: Any) -> SessionFigures:
    """Return figures with the given values; all others are 0."""
    return replace(NOTHING, **known)
