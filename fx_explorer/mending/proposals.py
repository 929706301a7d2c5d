"""All mends that are known for a break, the most promising first. Pure: nothing is run, nothing is written."""

from __future__ import annotations

import libcst as cst

from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.mending.causes import CAUSES, loops
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.sites import obstacle, sites
from fx_explorer.session import SessionReader


def proposals(reader: SessionReader, one_break: DistinctBreak) -> list[Mend]:
    """Each mend once. None for a cause that nobody knows a mend for; ``why_none`` says what is in the way."""
    stack = sites(reader, one_break)
    return _distinct([mend for cause in CAUSES for mend in cause(reader, one_break, stack) if _can_be_tried(mend)])


def why_none(reader: SessionReader, one_break: DistinctBreak) -> str:
    """What is in the way of an edit, where that is known; empty when nothing is."""
    return obstacle(reader, one_break) or loops.why_not(sites(reader, one_break))


def _can_be_tried(mend: Mend) -> bool:
    """An edit can go wrong in a layout that nobody thought of: better none than one that does not parse."""
    if mend.settings:
        return True
    try:
        cst.parse_module(mend.after)
    except cst.ParserSyntaxError:
        return False
    return mend.after != mend.before


def _distinct(mends: list[Mend]) -> list[Mend]:
    return list({(mend.path, mend.after, str(mend.settings)): mend for mend in reversed(mends)}.values())[::-1]
