"""One file per cause of graph breaks, with the fixes for it. Each looks at the source itself:
torch's ids for breaks change between releases, and one id (a builtin that acts outside the graph)
has many causes.
"""

from collections.abc import Callable, Iterator

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes import (
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
    printing,
    printing_later,
    scalars,
    side_effects,
    single_cut,
    sizes,
)
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader

Cause = Callable[[SessionReader, DistinctBreak, list[Site]], Iterator[Fix]]
"""Given the break and the frames it was in, innermost first; there may be none."""

CAUSES: tuple[Cause, ...] = (
    asked_for.fixes,
    printing.fixes,
    printing_later.fixes,
    scalars.fixes,
    branches.fixes,
    conditionals.fixes,
    loops.fixes,
    sizes.fixes,
    backward.fixes,
    numpy_calls.fixes,
    constants.fixes,
    custom_ops.fixes,
    contexts.fixes,
    side_effects.fixes,
    exceptions.fixes,
    iterating.fixes,
    # Last, since it gives up what could be compiled.
    single_cut.fixes,
)
"""The causes, in the order in which their fixes are offered."""
