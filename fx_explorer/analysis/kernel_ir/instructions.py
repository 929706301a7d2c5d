"""The kinds of instructions that a kernel consists of: how often each is in its code, not how often
it runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fx_explorer.analysis.kernel_ir.assembly_lines import instruction_lines
from fx_explorer.analysis.kernel_ir.instruction_kinds import KINDS, Kind, kind_of
from fx_explorer.model import Level
from fx_explorer.torch_texts import bounded

COUNTED_ONCE = "Counted as written: an instruction in a loop counts once, however often it runs."


class GpuInstruction(NamedTuple):
    line: int
    """Line of the text, from 1."""
    name: str
    """The name with its modifiers, without predicate and operands: ``ld.global.v4.b32``,
    ``LDG.E.128``, ``buffer_load_dwordx4``.
    """
    kind: Kind
    bits: int
    """Bits that a thread loads or stores at once; 0 for an instruction that does neither."""


@dataclass(frozen=True, slots=True)
class InstructionMix:
    total: int
    by_kind: dict[Kind, int]
    """Most frequent first; kinds that do not occur are left out."""
    by_width: dict[tuple[Kind, int], int]
    """(kind such as ``global load``, bits) → how many, widest first."""
    names: dict[Kind, tuple[str, ...]]
    """The instructions of each kind by name, most frequent first."""


_SASS_NAME = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P[\dT]\w*\s+)?([A-Z][\w.]*)")
_NAME = re.compile(r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.:]*)")
_PTX_WIDTH = re.compile(r"(?:\.v(\d))?\.[bfsu](\d+)$")
_PTX_MATRICES = re.compile(r"\.x(\d)\.")
_DWORDS = re.compile(r"_dword(?:x(\d))?(?:_|$)")
_MEMORY = ("global load", "global store", "shared load", "shared store", "spill", "async copy")
_SASS_WIDTHS = {"128": 128, "64": 64, "U8": 8, "S8": 8, "U16": 16, "S16": 16, "256": 256}


def instructions(level: Level, text: str) -> list[GpuInstruction]:
    """List the instructions of a PTX, SASS or AMDGCN text; empty for other levels."""
    if level not in _BITS:
        return []
    return [_instruction(level, line, name, whole) for line, name, whole in _named(level, text)]


def _instruction(level: Level, line: int, name: str, whole: str) -> GpuInstruction:
    kind = kind_of(level, name, whole)
    return GpuInstruction(line, name, kind, _BITS[level](name, whole) if kind in _MEMORY else 0)


def _named(level: Level, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and whole text of every instruction."""
    lines = text.split("\n")
    pattern = _SASS_NAME if level == "sass" else _NAME
    for number in range(1, len(lines) + 1) if level == "sass" else instruction_lines(text):
        if found := pattern.match(bounded(lines[number - 1])):
            yield number, found[1], lines[number - 1]


# how much a thread's part of one instruction loads or stores


def _ptx_bits(name: str, whole: str) -> int:
    if name.startswith(("ldmatrix", "stmatrix")):  # each thread holds 32 bits of every 8 × 8 matrix
        return 32 * int((_PTX_MATRICES.search(name) or ["", "1"])[1])
    if name.startswith("cp.async.bulk"):  # one thread moves a whole tile
        return 0
    if name.startswith("cp."):
        sizes = re.findall(r",\s*(?:0x)?(\d+)\s*[,;]", whole)
        return 8 * int(sizes[0], 16 if "0x" in whole else 10) if sizes else 0
    found = _PTX_WIDTH.search(name)
    return int(found[1] or 1) * int(found[2]) if found else 0


def _sass_bits(name: str, _: str) -> int:
    modifiers = name.split(".")[1:]
    if name.startswith(("LDSM", "STSM")):
        return 32 * next((int(one) for one in modifiers if one in ("1", "2", "4")), 1)
    if name.startswith(("UTMA", "UBLK")):
        return 0
    return next((_SASS_WIDTHS[one] for one in modifiers if one in _SASS_WIDTHS), 32)


def _amd_bits(name: str, _: str) -> int:
    if dwords := _DWORDS.search(name):
        return 32 * int(dwords[1] or 1)
    found = re.search(r"_[ub](\d+)", name)
    pair = 2 if re.search(r"ds_(read|write|load|store)2", name) else 1
    if "ubyte" in name or "sbyte" in name or name.endswith("_byte"):
        return 8
    return pair * int(found[1]) if found else 16 if "short" in name else 32


_BITS: dict[Level, Callable[[str, str], int]] = {
    "ptx": _ptx_bits,
    "sass": _sass_bits,
    "amdgcn": _amd_bits,
}


def mix(found: Iterable[GpuInstruction]) -> InstructionMix:
    every = list(found)
    kinds = Counter(one.kind for one in every)
    widths = Counter((one.kind, one.bits) for one in every if one.bits)
    names = {kind: Counter(one.name for one in every if one.kind == kind) for kind in kinds}
    return InstructionMix(
        len(every),
        dict(kinds.most_common()),
        dict(sorted(widths.items(), key=lambda item: (KINDS.index(item[0][0]), -item[0][1]))),
        {kind: tuple(name for name, _ in counted.most_common()) for kind, counted in names.items()},
    )


def mix_in_words(found: InstructionMix) -> str:
    """Return ``424 instructions: 64 tensor core, 16 async copy, global loads of 128 bits``. PTX
    does not have spills yet.
    """
    notable = [
        f"{found.by_kind[kind]} {kind}"
        for kind in ("tensor core", "async copy")
        if kind in found.by_kind
    ]
    loads = [bits for kind, bits in found.by_width if kind == "global load"]
    if loads:
        notable.append(f"global loads of {' and '.join(map(str, loads))} bits")
    if spills := found.by_kind.get("spill", 0):
        notable.append(f"{spills} to spill registers")
    return f"{found.total:,} instructions" + (f": {', '.join(notable)}" if notable else "")
