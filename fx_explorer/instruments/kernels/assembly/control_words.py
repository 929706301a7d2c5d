"""This module reads what a SASS instruction tells the scheduler: how long to stall, and which
barriers it sets and waits for; and adds up what the instructions of one Triton line ask of the
scheduler and of the registers.

Since Volta an instruction is a word of 128 bits, and 21 of them (bits 105 to 125) are its control
word. Its fields are those that maxas found on Maxwell (wiki, "Control Codes"), where CuAssembler
(UserGuide.md) has them on Volta, Turing and Ampere: stall 4 bits, yield 1, write barrier 3, read
barrier 3, wait mask 6, reuse 4. NVIDIA documents none of it. That they are at the same place on
Ada, Hopper and Blackwell is tested: the bits for reuse say what nvdisasm writes as ``.reuse``, and
nothing waits for a barrier that nothing sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.assembly.live_registers import live_registers

FIRST_ARCHITECTURE = 70
"""Volta. Before it, one word in four held the control of the other three."""

KNOWN_ARCHITECTURES = (70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
"""Architectures for which the layout is known or was tested: those of a generation share it."""

NO_BARRIER = 7

_ARCHITECTURE = re.compile(r"EF_CUDA_SM(\d{1,4})|^[^\S\n]*\.target\s+sm_(\d{1,4})", re.MULTILINE)
_LOW = re.compile(r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/.*/\* 0x(?P<low>[0-9a-f]{16}) \*/$")
_HIGH = re.compile(r"^\s+/\* 0x(?P<high>[0-9a-f]{16}) \*/$")

_FIELDS_FROM = 105 - 64
"""The first bit of the control word in the upper half of the instruction."""


@dataclass(frozen=True, slots=True)
class Control:
    """The control word of one instruction."""

    address: str
    """In hexadecimal digits, as nvdisasm writes it."""
    stall: int
    """Cycles after which the next instruction of the warp may be issued at the earliest."""
    yields: bool
    """Whether the scheduler is told to prefer another warp next."""
    write_barrier: int | None
    """The barrier that is released when the result is written; None where no later one waits for it
    so.
    """
    read_barrier: int | None
    """The barrier that is released when the operands are read."""
    waits_for: tuple[int, ...]
    """Barriers that must be released before it is issued."""
    reuse: int
    """A bit for each operand that stays in the operand cache for the next instruction."""


def decoded(address: str, high: int) -> Control:
    """Decode the upper half of an instruction of 128 bits."""
    word = high >> _FIELDS_FROM
    return Control(
        address,
        stall=word & 0xF,
        yields=not word >> 4 & 1,  # the bit says to stay with this warp
        write_barrier=_barrier(word >> 5),
        read_barrier=_barrier(word >> 8),
        waits_for=tuple(barrier for barrier in range(6) if word >> 11 + barrier & 1),
        reuse=word >> 17 & 0xF,
    )


def _barrier(bits: int) -> int | None:
    return None if bits & NO_BARRIER == NO_BARRIER else bits & NO_BARRIER


def architecture_of(sass: str) -> int:
    """Return 90 for sm_90; 0 where the text does not say it."""
    match = _ARCHITECTURE.search(sass)
    return int(match[1] or match[2]) if match else 0


@lru_cache(maxsize=8)
def is_known(sass: str) -> bool:
    """Return whether a text is of an architecture whose control words are known."""
    return architecture_of(sass) in KNOWN_ARCHITECTURES


@lru_cache(maxsize=8)
def control_words(sass: str) -> dict[int, Control]:
    """Return line (from 1) → its control word, of a text with the encodings (``nvdisasm -hex``).
    Empty for a text without them, and for an architecture whose encoding is not known. Takes 2 ms
    per 1,000 instructions.
    """
    if not is_known(sass):
        return {}
    pairs = enumerate(pairwise(sass.split("\n")), 1)
    return {
        number: word for number, (line, following) in pairs if (word := control_of(line, following))
    }


def control_of(line: str, following: str) -> Control | None:
    """Return the control word of the instruction on a line, which the line after it holds; None
    where they hold none. Ask ``is_known`` first.
    """
    low = _LOW.match(line)
    high = _HIGH.match(following) if low else None
    return decoded(low["address"], int(high["high"], 16)) if low and high else None


def control_text(control: Control) -> str:
    """Return the control word as CuAssembler writes it: ``B01----:R-:W2:Y:S04``."""
    waits = "".join(str(barrier) if barrier in control.waits_for else "-" for barrier in range(6))
    read, write = (
        ("-" if barrier is None else str(barrier))
        for barrier in (control.read_barrier, control.write_barrier)
    )
    return f"B{waits}:R{read}:W{write}:{'Y' if control.yields else '-'}:S{control.stall:02}"


def control_in_words(control: Control) -> list[str]:
    """Say what the control word asks for, most important first."""
    barriers = " and ".join(map(str, control.waits_for))
    if barriers:
        parts = [f"waits for barrier{'s' if len(control.waits_for) > 1 else ''} {barriers}"]
    else:
        parts = []
    if control.write_barrier is not None:
        parts.append(f"sets barrier {control.write_barrier} until its result is there")
    if control.read_barrier is not None:
        parts.append(f"sets barrier {control.read_barrier} until its operands are read")
    parts.append(f"stalls {control.stall} cycle{'' if control.stall == 1 else 's'}")
    return parts + ["yields to another warp"] * control.yields


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
        parts = [
            counted(self.instructions, "instruction"),
            f"stalls of {counted(self.stall_cycles, 'cycle')} in all",
            f"{self.waiting} of them wait for a barrier"
            if self.waiting
            else "none waits for a barrier",
        ]
        return ", ".join(parts + [f"up to {self.most_live} registers live"] * bool(self.most_live))


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
