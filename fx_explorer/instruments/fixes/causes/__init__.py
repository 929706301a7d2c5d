"""The modules here propose fixes for causes of graph breaks. They look at the source itself:
torch's ids of breaks change between releases, and one id (a builtin that acts outside the graph)
has many causes.
"""

from collections.abc import Callable, Iterator

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.branches import fixes_by_cond, fixes_of_branches
from fx_explorer.instruments.fixes.causes.constants import fixes_of_constants
from fx_explorer.instruments.fixes.causes.data_dependent import (
    fixes_of_deciding_scalars,
    fixes_of_scalars,
    fixes_of_unknown_sizes,
)
from fx_explorer.instruments.fixes.causes.empty_selections import fixes_of_empty_selections
from fx_explorer.instruments.fixes.causes.local_classes import fixes_of_local_classes
from fx_explorer.instruments.fixes.causes.loops import fixes_of_generators, fixes_of_while_loops
from fx_explorer.instruments.fixes.causes.not_entered import (
    fixes_by_single_cut,
    fixes_of_backward,
    fixes_of_contexts,
    fixes_of_try_blocks,
    fixes_of_wanted_breaks,
)
from fx_explorer.instruments.fixes.causes.opaque_calls import (
    fixes_by_custom_op,
    fixes_of_numpy_calls,
)
from fx_explorer.instruments.fixes.causes.side_effects import (
    fixes_by_printing_later,
    fixes_of_prints,
    fixes_of_side_effects,
)
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader

Cause = Callable[[SessionReader, DistinctBreak, list[Site]], Iterator[Fix]]
"""A function that yields fixes for a break, given the frames of its stack, innermost first (perhaps
none).
"""

CAUSES: tuple[Cause, ...] = (
    fixes_of_wanted_breaks,
    fixes_of_prints,
    fixes_by_printing_later,
    fixes_of_scalars,
    fixes_of_branches,
    fixes_by_cond,
    fixes_of_while_loops,
    fixes_of_deciding_scalars,
    fixes_of_unknown_sizes,
    fixes_of_empty_selections,
    fixes_of_backward,
    fixes_of_numpy_calls,
    fixes_of_constants,
    fixes_of_local_classes,
    fixes_by_custom_op,
    fixes_of_contexts,
    fixes_of_side_effects,
    fixes_of_try_blocks,
    fixes_of_generators,
    # Last, since it gives up what could be compiled.
    fixes_by_single_cut,
)
"""The causes, in the order in which their fixes are offered."""
