"""Tell what differs in built code by the change from what Inductor alone changes.

Built code may differ from PyTorch's own operators whatever was changed: then the original's built
code differs too. Where a graph is no longer cut, operations are fused that were not, and what is
rounded is rounded in yet another order; an optimizer's steps make that larger. So there are three
comparisons: of the changed program's built code and of the original's with what PyTorch's operators
give, and of both with each other.
"""

from __future__ import annotations

from fx_explorer.worker.verify.comparing import Apart, Comparison, place_of

MOST_BETWEEN = 2.0
"""How much farther the two built codes may be from each other than the original's is from PyTorch's operators, for the
difference to be rounding."""

MOST_ROUNDED = 0.05
"""What rounding makes is at most this part of the largest element, also after some steps of an optimizer."""


def add_differences(comparison: Comparison, built: Comparison, of_original: Comparison, between: Comparison) -> None:
    """Add what differs in the changed program's built code to ``comparison``: as differences what the change makes, as not
    compared what Inductor makes of the original too.

    ``built`` compares the changed program, built, with the original run by PyTorch's operators, ``of_original`` the
    original's own built code, and ``between`` both that are built.
    """
    by_inductor, by_change = ({place_of(told) for told in other.differences} for other in (of_original, between))
    by_inductor_alone = []
    for told in built.differences:
        place = place_of(told)
        if place in by_inductor and place not in by_change:
            by_inductor_alone.append(told)
        elif _is_rounding(built.apart.get(place), of_original.apart.get(place), between.apart.get(place)):
            by_inductor_alone.append(f"{told}, and that of the original by up to {of_original.apart[place].largest:.3g}")
        elif place in by_inductor:
            comparison.differences.append(f"{told}; that of the original differs too, in another way")
        else:
            comparison.differences.append(f"{told}; that of the original does not")
    if by_inductor_alone:
        comparison.is_run_built = False  # the built code was run, but what it computes is not equal
        first, *others = by_inductor_alone
        more = f", and {len(others)} more" if others else ""
        comparison.not_compared.append(f"what Inductor's own code changes, with the original too ({first}{more})")


def _is_rounding(changed: Apart | None, original: Apart | None, between: Apart | None) -> bool:
    if changed is None or original is None:
        return False
    most = MOST_ROUNDED * original.size
    is_between = between is None or between.largest <= MOST_BETWEEN * original.largest
    return is_between and max(changed.largest, original.largest) <= most


def add_failed(comparison: Comparison, failed: str, by_original: str, problem: str) -> None:
    """Add that the changed program's built code failed. ``by_original`` is how the original's did, empty where it ran, and
    ``problem`` why it could not be run.
    """
    if by_original == failed:
        comparison.not_compared.append(f"what the built code computes: {failed}, and so it does with the code of the original")
        return
    of_original = _not_known(by_original or problem) if by_original or problem else "; that of the original does not"
    comparison.differences.append(f"{failed}, in the built code{of_original}")


def add_unknown(comparison: Comparison, built: Comparison, why: str) -> None:
    """Add what differs in the changed program's built code, where nothing is known of the original's."""
    comparison.differences += [f"{told}{_not_known(why)}" for told in built.differences]


def _not_known(why: str) -> str:
    return f" (whether that of the original differs too is not known: {why})"
