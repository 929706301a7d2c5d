"""Mends of graph breaks: concrete changes of the user's source or of torch's options, tried before they are offered as good.

``proposals`` lists them for a break, ``try_mend`` has a worker try one, ``accept`` writes one to the user's file; ``offer`` is
all that a session has for one break. Source is read and changed by its syntax tree (libcst); nothing of the user's, and no
torch, is imported here.
"""

from fx_explorer.mending.accepting import accept, accept_all, why_not_accepted
from fx_explorer.mending.marking import try_any
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.offers import Offer, TryMend, all_proposals, offer
from fx_explorer.mending.proposals import proposals, why_none
from fx_explorer.mending.together import Together, is_whole, next_to_try, together, unknown_yet
from fx_explorer.mending.trial import Figures, Trial, Verdict, figures, try_mend

__all__ = [
    "Figures",
    "Mend",
    "Offer",
    "Together",
    "Trial",
    "TryMend",
    "Verdict",
    "accept",
    "accept_all",
    "all_proposals",
    "figures",
    "is_whole",
    "next_to_try",
    "offer",
    "proposals",
    "together",
    "try_any",
    "try_mend",
    "unknown_yet",
    "why_none",
    "why_not_accepted",
]
