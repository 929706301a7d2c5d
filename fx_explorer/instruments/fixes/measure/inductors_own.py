"""This module separates differences that the change makes from those that compiling alone makes,
Inductor above all.

Built code may differ from PyTorch's own operators whatever was changed: then the original's built
code differs too. Where a graph no longer breaks, other operations are fused, and rounding happens
in another order; an optimizer's steps make that larger. So there are three comparisons: of the
changed program's built code and of the original's with what PyTorch's operators give, and of both
with each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fx_explorer.instruments.fixes.measure.comparing import IN_BUILT_CODE, Comparison
from fx_explorer.instruments.fixes.measure.near import Distance

MOST_FARTHER = 2.0
"""Factor that limits two distances: from the changed program's built code to PyTorch's operators,
and to the original's built code. Up to this many times the original's own distance, a difference is
not blamed on the change.
"""

MOST_ALIKE = 0.1
"""Largest distance between the results of two built programs that still counts as the same
difference, as a share of Inductor's difference from the original.
"""

MOST_ROUNDED = 0.05
"""Rounding errors are seldom more than this part of the largest element, even after some steps of
an optimizer.
"""


def may_be_compilings(captured: Comparison) -> bool:
    """Return whether compiling alone may explain the differences: numbers differ by no more than
    rounding, and each missing printed line has a changed one in its place.

    A program sees that it is compiled: in ``torch.compiler.is_compiling()``, or in the text of an
    exception that it catches.
    """
    apart = [captured.apart.get(captured.place_of(text)) for text in captured.differences]
    are_near = all(
        distance is None or distance.largest <= MOST_ROUNDED * distance.size for distance in apart
    )
    return are_near and (bool(apart) or bool(captured.lost and captured.new))


def explain(captured: Comparison, of_original: Comparison, between: Comparison) -> None:
    """Remove the differences of the captured run that compiling the original makes too."""
    comparison = replace(captured)
    captured.differences = []
    add_differences(captured, comparison, of_original, between)
    _explain_prints(captured, of_original)


def _explain_prints(captured: Comparison, of_original: Comparison) -> None:
    """Remove the missing lines that the original does not print either when it is compiled, if both
    print the same lines instead.
    """
    lost, new = (
        Counter(captured.lost) & Counter(of_original.lost),
        Counter(captured.new) & Counter(of_original.new),
    )
    if lost and new:
        captured.lost, captured.new = _without(captured.lost, lost), _without(captured.new, new)
        text = f"{next(iter(new))!r} in place of {next(iter(lost))!r}"
        captured.not_compared.append(f"output that compiling changes, in the original too ({text})")


def _without(lines: list[str], others: Counter[str]) -> list[str]:
    return list((Counter(lines) - others).elements())


def add_differences(
    comparison: Comparison, built: Comparison, of_original: Comparison, between: Comparison
) -> None:
    """Add what differs in the changed program's built code to ``comparison``. What the change makes
    becomes a difference; what Inductor makes of the original too becomes ``not_compared``.

    ``built`` compares the changed program, built, with the original run by PyTorch's operators,
    ``of_original`` the original's own built code, and ``between`` both that are built.
    """
    by_inductor = {of_original.place_of(text) for text in of_original.differences}
    by_change = {between.place_of(text) for text in between.differences}
    by_inductor_alone = []
    for text in built.differences:
        place = built.place_of(text)
        if place in comparison.by_compiling and place not in by_change:
            comparison.is_run_built = False
            continue
        changed, original, apart = (
            other.apart.get(place) for other in (built, of_original, between)
        )
        figure = f" by up to {original.largest:.3g}" if original else " too"
        if place in by_inductor and place not in by_change:
            by_inductor_alone.append(f"{text}, and the original's{figure}")
            comparison.by_compiling.add(place)
        elif changed and original and _is_as_far(changed, original, apart):
            by_inductor_alone.append(f"{text}, and the original's{figure}{_part(original, apart)}")
        elif place in by_inductor:
            comparison.differences.append(
                f"{text}; the original's also differs{figure}, but differently"
            )
        else:
            comparison.differences.append(f"{text}; the original's does not")
    if by_inductor_alone:
        comparison.is_run_built = False  # the built code was run, but what it computes is not equal
        first, *others = by_inductor_alone
        more = f", and {len(others)} more" if others else ""
        comparison.not_compared.append(
            f"facts that compiling changes in the original too ({first}{more})"
        )


def add_prints(comparison: Comparison, built: Comparison, of_original: Comparison) -> None:
    """Add the lines that differ between the changed program's built code and PyTorch's operators,
    unless printed lines differ already.
    """
    if built.prints_equal or not comparison.prints_equal:
        return
    if not of_original.prints_equal:
        comparison.not_compared.append(
            "the output of the built code, which also differs for the original's built code"
        )
        return
    if built.lost:
        text = f"no longer prints {built.lost[0]!r}"
    else:
        text = f"prints {built.new[0]!r} in addition"
    comparison.differences.append(f"it {text}{IN_BUILT_CODE}; the original's does not differ")


def _is_as_far(changed: Distance, original: Distance, between: Distance | None) -> bool:
    """Return whether the changed program's built code is, within a factor, no farther from the
    others than the original's built code is from PyTorch's operators.
    """
    largest_between = between.largest if between else 0.0
    farthest = max(changed.largest, largest_between)
    return farthest <= MOST_FARTHER * original.largest


def _is_alike(original: Distance, between: Distance | None) -> bool:
    return between is None or between.largest <= MOST_ALIKE * original.largest


def _part(original: Distance, between: Distance | None) -> str:
    """Return a remark if the original changes by more than rounding when it is built, and the
    changed program changes differently; else an empty string.
    """
    if original.largest <= MOST_ROUNDED * original.size or _is_alike(original, between):
        return ""
    return f" of {original.size:.3g}, so the effect of the change on it is unknown"


def add_failed(comparison: Comparison, failed: str, by_original: str, problem: str) -> None:
    """Add that the changed program's built code failed. ``by_original`` says how the original's
    failed (empty where it ran), and ``problem`` why it could not be run.
    """
    if by_original == failed:
        comparison.not_compared.append(
            f"the results of the built code: {failed}, as in the original"
        )
        return
    if by_original or problem:
        of_original = _not_known(by_original or problem)
    else:
        of_original = "; the original's does not"
    comparison.differences.append(f"{failed}, in the built code{of_original}")


def add_unknown(comparison: Comparison, built: Comparison, why: str) -> None:
    """Add the differences of the changed program's built code when nothing is known about the
    original's.
    """
    comparison.differences += [f"{text}{_not_known(why)}" for text in built.differences]


def _not_known(why: str) -> str:
    return f" (whether the original's differs too is not known: {why})"
