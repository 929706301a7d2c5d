"""What the instructions of one Triton line ask of the scheduler and of the registers, added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.assembly.control_words import control_words
from fx_explorer.instruments.kernels.assembly.live_registers import live_registers


@dataclass(frozen=True, slots=True)
class LineCost:
    """Of a line: each instruction counts once, however often it runs."""

    instructions: int
    stall_cycles: int
    """Least cycles between the issue of its instructions and of those after them, without what they
    wait for.
    """
    waiting: int
    """Instructions that wait for a barrier."""
    most_live: int
    """The most registers of a thread that are live at one of them; 0 where it is not known."""

    @property
    def words(self) -> str:
        told = [
            counted(self.instructions, "instruction"),
            f"stalls of {counted(self.stall_cycles, 'cycle')} in all",
            f"{self.waiting} of them wait for a barrier"
            if self.waiting
            else "none waits for a barrier",
        ]
        return ", ".join(told + [f"up to {self.most_live} registers live"] * bool(self.most_live))


def line_cost(sass: str, lines: Iterable[int]) -> LineCost | None:
    """Add up the instructions on these lines (from 1) of a SASS text; None where it has no control
    words there.
    """
    words, live = control_words(sass), live_registers(sass)
    found = [(words[line], live.get(line, 0)) for line in lines if line in words]
    if not found:
        return None
    return LineCost(
        len(found),
        sum(word.stall for word, _ in found),
        sum(bool(word.waits_for) for word, _ in found),
        max(count for _, count in found),
    )
