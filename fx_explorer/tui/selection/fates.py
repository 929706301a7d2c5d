"""How a row of a graph shows what became of its operation in a stage: a sign, a word and a colour, since
colour alone must not carry meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fx_explorer.analysis.stages.work import Fate
from fx_explorer.tui.widgets.row_list import Column


class FateSign(NamedTuple):
    sign: str
    word: str
    kind: str
    """A tone of the theme."""


FATE_SIGNS: Mapping[Fate, FateSign] = {
    "kept": FateSign("=", "kept", "muted"),
    "changed": FateSign("~", "changed", "warning"),
    "replaced": FateSign("≈", "replaced", "warning"),
    "decomposed": FateSign("<", "decomposed", "annotation"),
    "view": FateSign("·", "view", "muted"),
    "fused": FateSign(">", "fused", "type"),
    "several": FateSign("*", "in several", "type"),
    "forward": FateSign("→", "forward", "function"),
    "backward": FateSign("←", "backward", "annotation"),
    "both": FateSign("↔", "in both", "warning"),
    "made": FateSign("+", "made", "good"),
    "removed": FateSign("-", "removed", "bad"),
}

NO_SIGN = FateSign(" ", "", "muted")
"""Of what is no operation."""

FATE_COLUMN = Column("became", min_width=10, max_width=10)
"""Stands after the names."""
