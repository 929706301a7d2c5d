"""This module counts the instructions of a kernel by kind (in its code, not how often they run),
and explains what one instruction does.

Names are those of the PTX ISA, of nvdisasm (CUDA Binary Utilities, instruction set reference) and
of LLVM's AMDGPU backend. What is explained in words stands in the data files of ``opcodes/``, with
only those modifiers whose words hold wherever they stand; any other instruction is said not to be
known.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from fx_explorer.analysis.kernel_lines import instruction_lines
from fx_explorer.analysis.words import counted
from fx_explorer.model import Level
from fx_explorer.torch_texts import bounded

# Kinds of instructions: the first pattern that matches the beginning of a name counts.

Kind = Literal[
    "tensor core",
    "async copy",
    "global load",
    "global store",
    "shared load",
    "shared store",
    "spill",
    "atomic",
    "barrier",
    "shuffle",
    "special function",
    "fp64",
    "fp32",
    "fp16",
    "conversion",
    "integer",
    "move",
    "control",
    "other",
]
"""Kinds of instructions. ``tensor core``: matrix units (AMD: MFMA). ``async copy``: copies from
memory to shared memory that run beside other work (cp.async, TMA). ``spill``: registers that did
not fit, in local memory (AMD: scratch). ``special function``: exp2, log2, rsqrt, sine and others.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

_PTX: tuple[tuple[Kind, str], ...] = (
    ("tensor core", r"wgmma\.mma_async|mma\.|wmma\.mma|tcgen05\.mma"),
    (
        "barrier",
        r"bar\.|barrier|mbarrier|fence|membar|wgmma\.|cp\.async\.(wait|commit|bulk\.(wait|commit))|"
        r"tcgen05\.(wait|fence|commit)",
    ),
    ("barrier", r"griddepcontrol|cp\.async\.mbarrier"),
    ("async copy", r"cp\."),
    ("global load", r"ld\.global|ldu|tcgen05\.ld"),
    ("global store", r"st\.global"),
    ("shared load", r"ld\.shared|ldmatrix"),
    ("shared store", r"st\.shared|stmatrix"),
    ("spill", r"(ld|st)\.local"),
    ("atomic", r"atom|red\."),
    ("shuffle", r"shfl|vote|match|redux|elect"),
    ("conversion", r"cvt"),
    ("special function", r"(ex2|lg2|sin|cos|tanh|rsqrt|sqrt|rcp|div\.(full|approx|rn)\.f)"),
    ("control", r"bra|ret|exit|call|trap|brx|setmaxnreg|nanosleep"),
    ("move", r"mov|ld\.param|cvta|createpolicy|prmt|selp|isspacep|mapa|prefetch"),
    ("fp64", r"\w[\w.]*\.f64"),
    ("fp16", r"\w[\w.]*\.b?f16(x2)?$"),
    ("fp32", r"\w[\w.]*\.f32"),
    (
        "integer",
        r"(add|sub|mul|mad|mad24|div|rem|abs|neg|min|max|and|or|xor|not|cnot|sh[lr]|"
        r"shf|setp|set|bf[ei]|popc|clz|brev|lop3|addc|subc|bfind|sad|dp[24]a|slct)\b",
    ),
)

_SASS: tuple[tuple[Kind, str], ...] = (
    ("tensor core", r"[HIQDB]MMA|[HIQ]GMMA|UTC\w*MMA|OMMA"),
    ("async copy", r"LDGSTS|UTMA|UBLKCP|UBLKPF|UBLKRED|UTCCP"),
    (
        "barrier",
        r"BAR|B2R|SYNCS|WARPSYNC|DEPBAR|LDGDEPBAR|LDTM\.WAIT|MEMBAR|FENCE|ERRBAR|WARPGROUP|"
        r"ARRIVES|CCTL|CGAERRBAR|ACQBULK|UCGABAR|ELECT",
    ),
    ("spill", r"LDL|STL"),
    ("global load", r"LDG|LD\b|LDTM"),
    ("global store", r"STG|ST\b|STTM"),
    ("shared load", r"LDS"),
    ("shared store", r"STS"),
    ("atomic", r"ATOM|RED\b|REDG|REDAS"),
    ("shuffle", r"SHFL|VOTE|MATCH|REDUX|CREDUX|R2UR"),
    ("special function", r"MUFU"),
    ("conversion", r"[FI]2[FIP]|F2FP|I2FP|FRND|I2I"),
    (
        "control",
        r"BRA|EXIT|RET|CALL|BSSY|BSYNC|BREAK|JMP|BRX|NOP|YIELD|NANOSLEEP|BPT|USETMAXREG|BMOV|KILL",
    ),
    ("fp64", r"D(ADD|MUL|FMA|SETP|MNMX)"),
    ("fp16", r"H(ADD|MUL|FMA|SETP|SET|MNMX)\w*"),
    ("fp32", r"F(ADD|MUL|FMA|SETP|SET|SEL|MNMX|CHK|SWZADD)\w*"),
    ("move", r"U?MOV|U?SEL|CS2R|S2U?R|U?LDC|ULDC|U?PRMT|P2R|R2P|UMOV|PLOP3|UPLOP3|IMAD\.MOV"),
    (
        "integer",
        r"U?(I|LEA|LOP|SHF|SGXT|VIADD|VIMNMX|POPC|FLO|BREV|BMSK|SHL|SHR|IADD|XMAD|LOP3|VHMNMX"
        r"|PSETP)\w*",
    ),
)

_AMDGCN: tuple[tuple[Kind, str], ...] = (
    ("tensor core", r"v_s?mfma|v_wmma|v_smfmac|v_swmmac"),
    ("spill", r"scratch_"),
    ("atomic", r"(buffer|global|flat|ds)_(atomic|add|sub|max|min|cmpst)_?\w*"),
    (
        "shuffle",
        r"ds_b?permute|ds_swizzle|v_readlane|v_writelane|v_readfirstlane|v_mov_b32_dpp|v_permlane",
    ),
    ("global load", r"(buffer|global|flat|s_buffer)_load"),
    ("global store", r"(buffer|global|flat)_store"),
    ("shared load", r"ds_(read|load)"),
    ("shared store", r"ds_(write|store)"),
    ("barrier", r"s_barrier|s_waitcnt|s_wait_|buffer_(wbl2|inv|gl)|s_sched"),
    (
        "control",
        r"s_c?branch|s_endpgm|s_nop|s_setpc|s_swappc|s_and_saveexec|s_or_saveexec|"
        r"s_andn2_saveexec|s_sleep|s_setprio|s_trap",
    ),
    ("special function", r"v_(exp|log|rcp|rsq|sqrt|sin|cos|div_)\w*f(16|32|64)"),
    ("conversion", r"v_cvt|v_pack|v_perm"),
    ("move", r"[vs]_c?mov|v_cndmask|s_cselect|s_load|s_movk|v_accvgpr|v_swap|s_get"),
    ("fp64", r"v_\w*_f64"),
    ("fp16", r"v_\w*_b?f16"),
    ("fp32", r"v_\w*f32"),
    ("integer", r"[vs]_"),
)

_NAMED: dict[Level, tuple[tuple[Kind, str], ...]] = {"ptx": _PTX, "sass": _SASS, "amdgcn": _AMDGCN}


def _compiled(rules: Sequence[tuple[Kind, str]]) -> list[tuple[Kind, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in rules]


_RULES = {level: _compiled(rules) for level, rules in _NAMED.items()}

_CONSTANT = re.compile(r"HFMA2\S* \w+, -RZ, RZ,")
"""Matches how ptxas writes a constant into a register without the integer unit: 0 × 0 +
constant.
"""

_TO_SHARED = re.compile(r"^\s+(?:buffer|global)_load\w* .*\blds\b")


def kind_of(level: Level, name: str, whole: str) -> Kind:
    """Return the kind of ``name``, which has its modifiers; ``whole`` is its line. ``other`` is
    returned for unknown instructions.
    """
    if level == "amdgcn" and _TO_SHARED.match(whole):
        return "async copy"
    if level == "sass" and _CONSTANT.search(bounded(whole)):
        return "move"
    return next((kind for kind, pattern in _RULES[level] if pattern.match(name)), "other")


# The instructions of a text, counted by kind.

COUNTED_ONCE = "Static counts: an instruction in a loop counts once, however often it runs."


class GpuInstruction(NamedTuple):
    line: int
    """Line of the text, from 1."""
    name: str
    """The name with its modifiers, without predicate and operands: ``ld.global.v4.b32``,
    ``LDG.E.128``, ``buffer_load_dwordx4``.
    """
    kind: Kind
    bits: int
    """Bits that a thread loads or stores at once; 0 for other instructions."""


@dataclass(frozen=True, slots=True)
class InstructionMix:
    total: int
    by_kind: dict[Kind, int]
    """Most frequent first; kinds that do not occur are left out."""
    by_width: dict[tuple[Kind, int], int]
    """(kind such as ``global load``, bits) → number of instructions, widest first."""
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
    bits = _BITS[level](name, whole) if kind in _MEMORY else 0
    return GpuInstruction(line, name, kind, bits)


def _named(level: Level, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and whole text of every instruction."""
    lines = text.split("\n")
    numbers: Iterable[int]
    if level == "sass":
        pattern, numbers = _SASS_NAME, range(1, len(lines) + 1)
    else:
        pattern, numbers = _NAME, instruction_lines(text)
    for number in numbers:
        if match := pattern.match(bounded(lines[number - 1])):
            yield number, match[1], lines[number - 1]


# how much a thread's part of one instruction loads or stores


def _ptx_bits(name: str, whole: str) -> int:
    if name.startswith(("ldmatrix", "stmatrix")):  # each thread holds 32 bits of every 8 × 8 matrix
        return 32 * int((_PTX_MATRICES.search(name) or ["", "1"])[1])
    if name.startswith("cp.async.bulk"):  # one thread moves a whole tile
        return 0
    if name.startswith("cp."):
        sizes = re.findall(r",\s*(?:0x)?(\d+)\s*[,;]", whole)
        if not sizes:
            return 0
        base = 16 if "0x" in whole else 10
        return 8 * int(sizes[0], base)
    match = _PTX_WIDTH.search(name)
    return int(match[1] or 1) * int(match[2]) if match else 0


def _sass_bits(name: str, _: str) -> int:
    modifiers = name.split(".")[1:]
    if name.startswith(("LDSM", "STSM")):
        return 32 * next(
            (int(modifier) for modifier in modifiers if modifier in ("1", "2", "4")), 1
        )
    if name.startswith(("UTMA", "UBLK")):
        return 0
    return next((_SASS_WIDTHS[modifier] for modifier in modifiers if modifier in _SASS_WIDTHS), 32)


def _amd_bits(name: str, _: str) -> int:
    if dwords := _DWORDS.search(name):
        return 32 * int(dwords[1] or 1)
    match = re.search(r"_[ub](\d+)", name)
    pair = 2 if re.search(r"ds_(read|write|load|store)2", name) else 1
    if "ubyte" in name or "sbyte" in name or name.endswith("_byte"):
        return 8
    if match:
        return pair * int(match[1])
    if "short" in name:
        return 16
    return 32


_BITS: dict[Level, Callable[[str, str], int]] = {
    "ptx": _ptx_bits,
    "sass": _sass_bits,
    "amdgcn": _amd_bits,
}


def mix(instructions: Iterable[GpuInstruction]) -> InstructionMix:
    """Count instructions by kind, and loads and stores by width too."""
    kinds: Counter[Kind] = Counter()
    widths: Counter[tuple[Kind, int]] = Counter()
    names: dict[Kind, Counter[str]] = {}
    for instruction in instructions:
        kind = instruction.kind
        kinds[kind] += 1
        names.setdefault(kind, Counter())[instruction.name] += 1
        if instruction.bits:
            widths[kind, instruction.bits] += 1
    return InstructionMix(
        kinds.total(),
        dict(kinds.most_common()),
        dict(sorted(widths.items(), key=lambda item: (KINDS.index(item[0][0]), -item[0][1]))),
        {kind: _most_common(counts) for kind, counts in names.items()},
    )


def _most_common(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(name for name, _ in counts.most_common())


def describe_mix(instruction_mix: InstructionMix) -> str:
    """Return ``424 instructions: 64 tensor core, 16 async copy, global loads of 128 bits``. PTX has
    no spills: registers are assigned later.
    """
    counts = instruction_mix.by_kind
    notable = [f"{counts[kind]} {kind}" for kind in ("tensor core", "async copy") if kind in counts]
    loads = [bits for kind, bits in instruction_mix.by_width if kind == "global load"]
    if loads:
        notable.append(f"global loads of {' and '.join(map(str, loads))} bits")
    if spills := counts.get("spill", 0):
        notable.append(f"{spills} to spill registers")
    total = counted(instruction_mix.total, "instruction")
    if notable:
        return f"{total}: {', '.join(notable)}"
    return total


# What an instruction does, in words.


OPCODES = Path(__file__).parent / "opcodes"

EXPLAINED_LEVELS: tuple[Level, ...] = ("ptx", "sass")

NOT_EXPLAINED = "fx-explorer does not know what this instruction does"
UNIFORM = "once for the whole warp, in uniform registers"

_PART = re.compile(r"[.]")


@dataclass(frozen=True, slots=True)
class ExplainedOpcode:
    """The explanation of one instruction name."""

    opcode: str
    """The beginning of the name that the sentence is about: ``ld.global`` of ``ld.global.b32``."""
    sentence: str
    modifiers: tuple[tuple[str, str], ...] = ()
    """(modifier, explanation) for the other parts of the name that are known."""

    @property
    def words(self) -> str:
        """Return the whole explanation in one line: ``Loads from global memory (v4: 4 values at
        once).``.
        """
        text = "; ".join(f"{name}: {words}" for name, words in self.modifiers)
        if text:
            return f"{self.sentence.removesuffix('.')} ({text})."
        return self.sentence


def explained(level: Level, name: str) -> ExplainedOpcode | None:
    """Explain an instruction by its name with its modifiers. None for a name that the level's data
    file lacks, and at levels without one.
    """
    if level not in EXPLAINED_LEVELS:
        return None
    opcodes, words = _data(level)
    parts = _PART.split(name)
    plain = [part.partition("::")[0] for part in parts]  # .shared::cta is shared memory, too
    known = _longest(opcodes, plain)
    is_uniform = not known and level == "sass" and name.startswith("U")
    if is_uniform:
        known = _longest(opcodes, [plain[0][1:], *plain[1:]])
    if not known:
        return None
    modifiers = [(part, words[part]) for part in parts[known:] if part in words]
    opcode = plain[0]
    if is_uniform:
        modifiers.append((parts[0], UNIFORM))
        opcode = opcode.removeprefix("U")
    sentence = opcodes[".".join([opcode, *plain[1:known]])]
    return ExplainedOpcode(".".join(parts[:known]), sentence, tuple(dict(modifiers).items()))


def _longest(opcodes: dict[str, str], parts: list[str]) -> int:
    """Return the number of parts in the longest known beginning of the name; 0 if none is known."""
    return next(
        (count for count in range(len(parts), 0, -1) if ".".join(parts[:count]) in opcodes), 0
    )


@cache
def _data(level: Level) -> tuple[dict[str, str], dict[str, str]]:
    """Read the names and the modifiers of a level."""
    # Python 3.10 has no tomllib; tomli is the same module under its older name.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    tomllib = importlib.import_module(name)
    entries = tomllib.loads((OPCODES / f"{level}.toml").read_text(encoding="utf-8"))
    return entries["opcodes"], entries["modifiers"]
