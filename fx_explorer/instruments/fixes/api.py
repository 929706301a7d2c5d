"""Fixes of graph breaks: concrete changes of the user's source or of torch's options, tried before
they are offered as good.

``proposals`` lists them for a break, ``try_fix`` has a worker try one, ``accept`` writes one to the
user's file; ``offer`` is all that a session has for one break. Source is read and changed by its
syntax tree (libcst); nothing of the user's, and no torch, is imported here.
"""

from fx_explorer.instruments.fixes.dynamic_marks import try_any
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import (
    FixOffer,
    TryFix,
    all_proposals,
    offer,
    proposals,
    why_none,
)
from fx_explorer.instruments.fixes.together import (
    Together,
    accept,
    is_whole,
    next_to_try,
    together,
    unknown_yet,
    why_not_accepted,
)
from fx_explorer.instruments.fixes.trial import Trial, Verdict, try_fix

__all__ = [
    "Fix",
    "FixOffer",
    "Together",
    "Trial",
    "TryFix",
    "Verdict",
    "accept",
    "all_proposals",
    "is_whole",
    "next_to_try",
    "offer",
    "proposals",
    "together",
    "try_any",
    "try_fix",
    "unknown_yet",
    "why_none",
    "why_not_accepted",
]
