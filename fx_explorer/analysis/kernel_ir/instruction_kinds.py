"""The kind of each instruction of PTX, SASS and AMDGCN, by its name: the first pattern that matches
its beginning counts.

Names are those of the PTX ISA, of nvdisasm (CUDA Binary Utilities, instruction set reference) and
of LLVM's AMDGPU backend.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from fx_explorer.model import Level
from fx_explorer.torch_texts import bounded

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
"""Kinds of instructions. ``tensor core``: matrix units (AMD: MFMA). ``async copy``: memory → shared
memory beside other work (cp.async, TMA). ``spill``: registers that did not fit, in local memory
(AMD: scratch). ``special function``: exp2, log2, rsqrt, sine and others.
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
        r"U?(I|LEA|LOP|SHF|SGXT|VIADD|VIMNMX|POPC|FLO|BREV|BMSK|SHL|SHR|IADD|XMAD|LOP3|VHMNMX|PSETP)\w*",
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
_RULES = {
    level: [(kind, re.compile(pattern)) for kind, pattern in rules]
    for level, rules in _NAMED.items()
}

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
