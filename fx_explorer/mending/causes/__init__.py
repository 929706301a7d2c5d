"""One file a cause of graph breaks, with the mends for it. Each looks at the source itself: torch's ids for breaks change
between releases, and one id (a builtin that acts outside the graph) has many causes."""

from collections.abc import Callable, Iterator

from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.mending.causes import (
    asked_for,
    backward,
    branches,
    conditionals,
    constants,
    contexts,
    custom_ops,
    exceptions,
    iterating,
    loops,
    numpy_calls,
    outward,
    printing,
    printing_later,
    scalars,
    side_effects,
    sizes,
)
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.sites import Site
from fx_explorer.session import SessionReader

Cause = Callable[[SessionReader, DistinctBreak, list[Site]], Iterator[Mend]]
"""Given the break and the frames it was in, innermost first; there may be none."""

CAUSES: tuple[Cause, ...] = (
    asked_for.mends,
    printing.mends,
    printing_later.mends,
    scalars.mends,
    branches.mends,
    conditionals.mends,
    loops.mends,
    sizes.mends,
    backward.mends,
    numpy_calls.mends,
    constants.mends,
    custom_ops.mends,
    contexts.mends,
    side_effects.mends,
    exceptions.mends,
    iterating.mends,
    outward.mends,
)
"""In the order their mends are offered in."""
