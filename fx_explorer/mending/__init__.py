"""Mends of graph breaks: concrete changes of the user's source or of torch's options, tried before they are offered as good.

``proposals`` lists them for a break, ``try_mend`` has a worker try one, ``accept`` writes one to the user's file; ``offer`` is
all that a session has for one break. Source is read and changed by its syntax tree (libcst); nothing of the user's, and no
torch, is imported here.
"""

from fx_explorer.mending.accepting import accept
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.offers import Offer, TryMend, offer
from fx_explorer.mending.proposals import proposals, why_none
from fx_explorer.mending.trial import Figures, Trial, Verdict, figures, request_of, try_mend

__all__ = [
    "Figures",
    "Mend",
    "Offer",
    "Trial",
    "TryMend",
    "Verdict",
    "accept",
    "figures",
    "offer",
    "proposals",
    "request_of",
    "try_mend",
    "why_none",
]
