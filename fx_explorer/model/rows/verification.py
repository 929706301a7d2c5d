"""What came of comparing a changed program, compiled, with the original one, run without
torch.compile.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verification:
    """One comparison: the same calls, with the same seeds and the same state, of both programs."""

    id: int
    is_equal: bool
    """Everything but what is printed: outputs, gradients, state, changed inputs, and what was
    raised.
    """
    prints_equal: bool
    calls: tuple[str, ...]
    """The inputs of each call, in words: ``the example inputs``, ``the example inputs negated``
    …
    """
    compared: dict[str, int]
    """Kind of value (``output``, ``gradient`` …) → how many were compared, over all calls."""
    largest_difference: float
    """The largest absolute one between two floating-point values that were compared; infinite where
    only one is finite.
    """
    where: str
    """Where it is: ``gradient of fc1.weight, with the example inputs negated``; empty when there is
    none.
    """
    differences: tuple[str, ...]
    """The first differences, in words; empty when all is equal."""
    lost_lines: tuple[str, ...]
    """Printed or logged by the original alone, the first ones."""
    new_lines: tuple[str, ...]
    """Printed or logged by the changed program alone, the first ones."""
    problem: str = ""
    """Why nothing could be compared; the other fields are then empty."""
    moved_line: str = ""
    """The first one that comes where the original printed another; empty when the order is the
    same, or the lines differ.
    """
    not_compared: tuple[str, ...] = ()
    """What the calls may have done that could not be compared, in words; empty when everything
    was.
    """
    not_tried: tuple[str, ...] = ()
    """Inputs that the programs were not called with, and ways of running that were left out, in
    words.
    """
    other_messages: tuple[str, ...] = ()
    """Exceptions that both programs raise and that have another text in the changed one, or are of
    another type because a check of the graph comes before the operation that fails; in words, the
    first ones.
    """
    is_built: bool = False
    """Whether the changed program's code was built and run, beside the run of its graphs by
    PyTorch's own operators.
    """
