"""All fixes that are known for a break, the likeliest to hold first. Pure: nothing is run, nothing is
written.
"""

from __future__ import annotations

import libcst as cst

from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.fixing.causes import CAUSES, loops
from fx_explorer.fixing.fix import Fix, distinct
from fx_explorer.fixing.likelihood import ordered
from fx_explorer.fixing.sites import obstacle, sites
from fx_explorer.session import SessionReader


def proposals(reader: SessionReader, one_break: DistinctBreak) -> list[Fix]:
    """Return each fix once, those first that are likely to hold (likelihood.py). It is empty for a cause
    that nobody knows a fix for; ``why_none`` says what is in the way.
    """
    stack = sites(reader, one_break)
    return ordered(
        distinct(
            fix for cause in CAUSES for fix in cause(reader, one_break, stack) if _can_be_tried(fix)
        )
    )


def why_none(reader: SessionReader, one_break: DistinctBreak) -> str:
    """Say why there is no edit, where that is known; empty otherwise."""
    return obstacle(reader, one_break) or loops.why_not(sites(reader, one_break))


def _can_be_tried(fix: Fix) -> bool:
    """Return whether the edited text parses. An edit can go wrong in a layout that nobody thought
    of: better none than one that does not parse.
    """
    # An option edits no file, so there is nothing to parse.
    if fix.settings:
        return True
    try:
        for edit in fix.edits:
            cst.parse_module(edit.after)
    except cst.ParserSyntaxError:
        return False
    # An edit that changes nothing would cost a trial and could not be good.
    return any(edit.after != edit.before for edit in fix.edits)
