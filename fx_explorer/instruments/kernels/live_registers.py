"""This module reads from SASS the cost of each instruction besides its work: how many registers of
a thread are live there, and how long its control word makes the scheduler wait.

Liveness is computed over the control flow graph from the text: what an instruction reads and writes
follows from its name and its operands. nvdisasm computes the same (``-life-range-mode count``), but
not of the code that an older ptxas has written, and not together with source lines. Tests hold the
two together, instruction by instruction. A text with an instruction whose registers are not known
here has no answer: a wrong number would be worse. Where two instructions under opposite predicates
write one register, nvdisasm knows that it is always written; here it counts as live before them,
too.

Since Volta an instruction is a word of 128 bits, and 21 of them (bits 105 to 125) are its control
word. Its fields are those that maxas found on Maxwell (wiki, "Control Codes"), where CuAssembler
(UserGuide.md) has them on Volta, Turing and Ampere: stall 4 bits, yield 1, write barrier 3, read
barrier 3, wait mask 6, reuse 4. NVIDIA documents none of it. That they are at the same place on
Ada, Hopper and Blackwell is tested: the bits for reuse say what nvdisasm writes as ``.reuse``, and
nothing waits for a barrier that nothing sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.assembly_text import parts_of
from fx_explorer.torch_texts import bounded

Registers = int
"""A set of registers, as a number with a bit for each: sets of numbers would take half of the
time.
"""

STACK_POINTER: Registers = 1 << 1
"""The register with the stack pointer, which the calling convention keeps live to the end."""

_OPERANDS = re.compile(r",\s*(?![^\[]*\])(?![^{]*\})")
_REGISTER = re.compile(r"(?<![\w.])[-|~!]{0,8}R(?P<number>\d+)(?P<wide>\.64|\.U32)?\b")
_ONE_OF_A_PAIR = re.compile(r"\.F32(?!x2)\b")
_GLOBAL = re.compile(r"(?:LDG?|STG?|ATOMG?|REDG?)\.E\b")
_PREDICATE = re.compile(r"^!?U?P[\dT]$")
_LABEL = re.compile(r"^\s*(?P<name>[\w.$]+):")
_TARGET = re.compile(r"`\((?P<name>[^)]*)\)")


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_NO_RESULT = _names(
    "ST STG STS STL STSM RED REDG LDGSTS LDGDEPBAR BAR DEPBAR MEMBAR ERRBAR CGAERRBAR CCTL FENCE "
    "WARPSYNC WARPGROUP NOP EXIT BRA BSSY BSYNC YIELD NANOSLEEP ACQBULK PREEXIT R2UR R2P ISETP "
    "FSETP HSETP2 PSETP PLOP3 FCHK VOTEU CREDUX S2UR ULDC LDCU"
)
"""Instructions that write no register of the thread: they store, jump, wait, or write predicates
and uniform registers.
"""

_ONE_RESULT = _names(
    "MOV SEL FSEL PRMT LOP3 SHF SGXT LEA IADD3 IADD FHADD IMAD IMNMX VIMNMX VIADD IABS POPC FLO "
    "BREV FADD FMUL FFMA FMNMX FMNMX3 FRND MUFU F2FP F2I I2F I2FP HADD2 HMUL2 HFMA2 HMNMX2 HSET2 "
    "S2R LDC LDG LDS LDL ATOMG ATOMS SHFL VOTE REDUX P2R CS2R"
)
"""Instructions that write one register, or as many as their modifiers say. With the prefix U they
write uniform registers.
"""

_PAIRED = _names("FADD2 FMUL2 FFMA2")
"""Instructions whose operands are pairs of registers, unless an operand is marked ``.F32``."""

_MATRIX_REGISTERS = {
    ("HMMA", "16816", "F32"): (4, 4, 2, 4),
    ("HMMA", "16816", "F16"): (2, 4, 2, 2),
    ("HMMA", "1688", "TF32"): (4, 4, 2, 4),
    ("IMMA", "16832", ""): (4, 4, 2, 4),
    ("QMMA", "16832", "F32"): (4, 4, 2, 4),
}
"""(matrix instruction, shape, result) → registers of a thread in the result, the two factors and
the summand.
"""

_GMMA = re.compile(r"^[HQI]GMMA\.64x(\d+)x\d+\.(F32|F16)")
_LOADED = {"64": 2, "128": 4}


class _Flow(NamedTuple):
    """The registers that one instruction reads and writes, and the instructions that may follow
    it.
    """

    reads: Registers
    writes: Registers
    is_sure: bool
    """Whether it always writes its result: an instruction with a predicate may not."""
    follows: Sequence[int]


@lru_cache(maxsize=8)
def live_registers(sass: str) -> dict[int, int]:
    """Return line (from 1) → number of live registers: those that it reads or writes, and those
    written before and needed after it. Empty for a text with an unknown instruction.
    """
    lines = sass.split("\n")
    at: list[int] = []
    labels: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if parts_of("sass", line):
            at.append(number)
        elif match := _LABEL.match(line):
            labels[match["name"]] = len(at)
    flows = [_flow(lines[number - 1], place, len(at), labels) for place, number in enumerate(at)]
    known = [flow for flow in flows if flow]
    if len(known) < len(flows):
        return {}
    before, after = _live(known)
    return {
        number: (before[i] | after[i] | known[i].writes).bit_count() for i, number in enumerate(at)
    }


def _live(flows: Sequence[_Flow]) -> tuple[list[Registers], list[Registers]]:
    """Return the registers that are live before and after each instruction, as a fixed point of the
    flow analysis.
    """
    before, after = [0] * len(flows), [0] * len(flows)
    changes = True
    while changes:
        changes = False
        for i in range(len(flows) - 1, -1, -1):
            flow = flows[i]
            after[i] = 0
            for follows in flow.follows:
                after[i] |= before[follows]
            live = flow.reads | after[i]
            if flow.is_sure:
                live = flow.reads | (after[i] & ~flow.writes)
            if live != before[i]:
                before[i], changes = live, True
    return before, after


def _flow(line: str, place: int, count: int, labels: dict[str, int]) -> _Flow | None:
    """Return the registers and successors of an instruction; None for an unknown instruction."""
    parts = parts_of("sass", line)
    assert parts is not None
    guard, name = line[slice(*parts.guard)], line[slice(*parts.name)]
    if parts.operands[1]:
        operands = [operand.strip() for operand in _OPERANDS.split(line[slice(*parts.operands)])]
    else:
        operands = []
    is_sure = guard in ("", "@PT", "@UPT")
    registers = _registers(name, operands)
    if registers is None:
        return None
    reads, writes = registers
    opcode = name.partition(".")[0]
    following = [place + 1] if place + 1 < count else []
    if opcode == "BRA":
        target = _TARGET.search(bounded(line))
        if target is None or target["name"] not in labels:
            return None
        to = labels[target["name"]]
        is_conditional = not is_sure or any(_PREDICATE.match(operand) for operand in operands)
        if not is_conditional:
            following = []
        if to < count:
            following = [to, *following]
    elif opcode == "EXIT" and is_sure:
        following = []
    if opcode == "EXIT" or following == [place]:
        reads |= STACK_POINTER
    return _Flow(reads, writes, is_sure, following)


def _registers(name: str, operands: list[str]) -> tuple[Registers, Registers] | None:
    """Return the registers that are read and written; None for an unknown instruction."""
    opcode, *modifiers = name.split(".")
    is_uniform = opcode.startswith("U") and opcode[1:] in _ONE_RESULT | _NO_RESULT
    if opcode in _NO_RESULT or is_uniform:
        return _read(name, operands, _stored(opcode, modifiers)), 0
    if registers := _matrix(name, opcode, modifiers, operands):
        return registers
    width, others = _widths(opcode, modifiers)
    if not width or not operands:
        return None
    result = 1 if _PREDICATE.match(operands[0]) and len(operands) > 1 else 0
    reads = [operand for i, operand in enumerate(operands) if i != result]
    written = _REGISTER.match(operands[result])
    writes = _block(int(written["number"]), width) if written else 0
    return _read(name, reads, others), writes


def _widths(opcode: str, modifiers: Sequence[str]) -> tuple[int, Sequence[int]]:
    """Return the number of registers of the result, and of each operand that is read (the last
    number applies to all further operands). 0 for an unknown number.
    """
    if opcode in _PAIRED:
        return 2, (2,)
    if opcode == "LDSM":
        return _matrix_count(modifiers), (1,)
    if opcode not in _ONE_RESULT or "F64" in modifiers:
        return 0, ()
    if opcode == "IMAD" and "WIDE" in modifiers:
        return 2, (1, 1, 2)
    if opcode == "CS2R":
        width = 1 if "32" in modifiers else 2
        return width, (1,)
    if opcode in ("IADD", "MOV", "SEL") and "64" in modifiers:
        return 2, (2,)
    width = _loaded_width(modifiers)
    if opcode.startswith("ATOM"):
        return width, (1, width)
    return width, (1,)


def _stored(opcode: str, modifiers: Sequence[str]) -> Sequence[int]:
    """Return the number of registers of each operand of a store: first of the address, which states
    the number itself, then of the value.
    """
    if opcode == "ISETP" and modifiers and {"S64", "U64"} & {*modifiers}:
        return (2,)
    if opcode == "STSM":
        return 1, _matrix_count(modifiers)
    if opcode.startswith(("ST", "RED")):
        return 1, _loaded_width(modifiers)
    return 1, 1


def _matrix_count(modifiers: Sequence[str]) -> int:
    """Return how many 8 × 8 matrices an instruction moves: a thread has a register of each."""
    return next((int(modifier) for modifier in modifiers if modifier in ("1", "2", "4")), 1)


def _loaded_width(modifiers: Sequence[str]) -> int:
    """Return how many registers are loaded or stored: 2 for ``.64``, 4 for ``.128``."""
    return next((_LOADED[modifier] for modifier in modifiers if modifier in _LOADED), 1)


def _matrix(
    name: str, opcode: str, modifiers: Sequence[str], operands: list[str]
) -> tuple[Registers, Registers] | None:
    """Return the registers of a tensor core instruction; None for any other."""
    widths: Sequence[int]
    if grouped := _GMMA.match(name):
        columns_a_register = 2 if grouped[2] == "F32" else 4
        widths = _grouped_widths(int(grouped[1]) // columns_a_register, operands)
    else:
        widths = _matrix_widths(opcode, modifiers)
    if not widths:
        return None
    written = _REGISTER.match(operands[0])
    writes = _block(int(written["number"]), widths[0]) if written else 0
    return _read(name, operands[1:], widths[1:]), writes


def _grouped_widths(result: int, operands: Sequence[str]) -> list[int]:
    """Return the numbers of registers of the result and of each operand, for an instruction of a
    warp group. An operand equal to the result is the summand.
    """
    widths = [result]
    for operand in operands[1:]:
        width = result if operand == operands[0] else 4
        widths.append(width)
    return widths


def _matrix_widths(opcode: str, modifiers: Sequence[str]) -> Sequence[int]:
    """Return the numbers of registers of the result and of each operand; empty if they are
    unknown.
    """
    if "SP" in modifiers:
        return ()
    shape = modifiers[0] if modifiers else ""
    types = ("TF32",) if "TF32" in modifiers else ("F32", "F16", "")
    for name in types:
        widths = _MATRIX_REGISTERS.get((opcode, shape, name))
        if widths and name in (*modifiers, ""):
            return widths
    return ()


def _read(name: str, operands: Sequence[str], widths: Sequence[int]) -> Registers:
    """Return the registers that the operands name. A register in an address is a pair if it is
    marked ``.64``; in addresses of global memory, also without a mark.
    """
    registers = 0
    is_global = _GLOBAL.match(name) is not None
    for i, operand in enumerate(operands):
        is_one_of_a_pair = _ONE_OF_A_PAIR.search(operand) is not None
        if widths and not is_one_of_a_pair:
            width = widths[min(i, len(widths) - 1)]
        else:
            width = 1
        for register in _REGISTER.finditer(operand):
            is_address = "[" in operand
            is_pair = register["wide"] == ".64" or (
                is_address and is_global and not register["wide"]
            )
            if is_pair:
                count = 2
            elif is_address:
                count = 1
            else:
                count = width
            registers |= _block(int(register["number"]), count)
    return registers


def _block(first: int, count: int) -> Registers:
    return (1 << count) - 1 << first


FIRST_ARCHITECTURE = 70
"""Compute capability of Volta. Before it, one word in four held the control bits of the other
three.
"""

KNOWN_ARCHITECTURES = (70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
"""Architectures whose layout is known or was tested; those of one generation share it."""

BARRIERS = 6
NO_BARRIER = 7

_ARCHITECTURE = re.compile(r"EF_CUDA_SM(\d{1,4})|^[^\S\n]*\.target\s+sm_(\d{1,4})", re.MULTILINE)
_LOW = re.compile(r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/.*/\* 0x(?P<low>[0-9a-f]{16}) \*/$")
_HIGH = re.compile(r"^\s+/\* 0x(?P<high>[0-9a-f]{16}) \*/$")

_FIELDS_FROM = 105 - 64
"""The first bit of the control word in the upper half of the instruction."""


@dataclass(frozen=True, slots=True)
class Control:
    """The decoded control word of one instruction: barriers, stall cycles and the yield flag."""

    address: str
    """The instruction's address in hexadecimal digits, as nvdisasm writes it."""
    stall: int
    """Minimum number of cycles until the next instruction of the warp may be issued."""
    yields: bool
    """Whether the scheduler should prefer another warp next."""
    write_barrier: int | None
    """The barrier that is released when the result is written; None where no later instruction
    waits for it in this way.
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
        waits_for=tuple(barrier for barrier in range(BARRIERS) if word >> 11 + barrier & 1),
        reuse=word >> 17 & 0xF,
    )


def _barrier(bits: int) -> int | None:
    if bits & NO_BARRIER == NO_BARRIER:
        return None
    return bits & NO_BARRIER


def architecture_of(sass: str) -> int:
    """Return 90 for sm_90; 0 where the text does not say it."""
    match = _ARCHITECTURE.search(sass)
    return int(match[1] or match[2]) if match else 0


@lru_cache(maxsize=8)
def is_known(sass: str) -> bool:
    """Return whether the control words of a text's architecture are known."""
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
    """Return the control word of the instruction on a line, which is in the line after it; None
    where there is none. Check ``is_known`` first.
    """
    low = _LOW.match(line)
    high = _HIGH.match(following) if low else None
    if low and high:
        return decoded(low["address"], int(high["high"], 16))
    return None


def control_text(control: Control) -> str:
    """Return the control word as CuAssembler writes it: ``B01----:R-:W2:Y:S04``."""
    waits = ["-"] * BARRIERS
    for barrier in control.waits_for:
        waits[barrier] = str(barrier)
    read = "-" if control.read_barrier is None else str(control.read_barrier)
    write = "-" if control.write_barrier is None else str(control.write_barrier)
    yields = "Y" if control.yields else "-"
    return f"B{''.join(waits)}:R{read}:W{write}:{yields}:S{control.stall:02}"


def describe_control(control: Control) -> list[str]:
    """Describe what the control word requests, most important first."""
    barriers = " and ".join(map(str, control.waits_for))
    parts = []
    if barriers:
        noun = "barriers" if len(control.waits_for) > 1 else "barrier"
        parts.append(f"waits for {noun} {barriers}")
    if control.write_barrier is not None:
        parts.append(f"sets barrier {control.write_barrier} until its result is available")
    if control.read_barrier is not None:
        parts.append(f"sets barrier {control.read_barrier} until its operands are read")
    parts.append(f"stalls {counted(control.stall, 'cycle')}")
    if control.yields:
        parts.append("yields to another warp")
    return parts


@dataclass(frozen=True, slots=True)
class LineCost:
    """Registers and waiting time of the instructions on one line. Each instruction counts once,
    however often it runs.
    """

    instructions: int
    stall_cycles: int
    """Minimum number of cycles between the issue of its instructions and of the next ones, without
    waiting at barriers.
    """
    waiting: int
    """Number of instructions that wait for a barrier."""
    most_live: int
    """The largest number of live registers of a thread at one of them; 0 where it is not known."""

    @property
    def words(self) -> str:
        parts = [
            counted(self.instructions, "instruction"),
            f"stalls of {counted(self.stall_cycles, 'cycle')} in all",
        ]
        if self.waiting:
            parts.append(f"{self.waiting} of them wait for a barrier")
        else:
            parts.append("none waits for a barrier")
        if self.most_live:
            parts.append(f"up to {self.most_live} registers live")
        return ", ".join(parts)


def line_cost(sass: str, lines: Iterable[int]) -> LineCost | None:
    """Add up the instructions on these lines (from 1) of a SASS text; None where the lines have no
    control words.
    """
    words, live = control_words(sass), live_registers(sass)
    instructions = [(words[line], live.get(line, 0)) for line in lines if line in words]
    if not instructions:
        return None
    return LineCost(
        len(instructions),
        sum(word.stall for word, _ in instructions),
        sum(bool(word.waits_for) for word, _ in instructions),
        max(count for _, count in instructions),
    )
