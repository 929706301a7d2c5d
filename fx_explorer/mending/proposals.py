"""All mends that are known for a break, the most promising first. Pure: nothing is run, nothing is written."""

from __future__ import annotations

import libcst as cst

from fx_explorer.analysis.breaks import DistinctBreak
from fx_explorer.mending.causes import CAUSES
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.sites import sites
from fx_explorer.session import SessionReader


def proposals(reader: SessionReader, one_break: DistinctBreak) -> list[Mend]:
    """Each mend once. None for a cause that nobody knows a mend for; ``sites.obstacle`` says when the source is why."""
    stack = sites(reader, one_break)
    return _distinct([mend for cause in CAUSES for mend in cause(reader, one_break, stack) if _can_be_tried(mend)])


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
