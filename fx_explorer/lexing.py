"""How each language is cut into tokens: one regular expression whose group names are the kinds of
highlight.py.

Enough of each grammar to read code by, line by line; not a parser. What spans lines (triple-quoted
strings, C comments) is named in ``blocks`` and found by highlight.py.
"""

from __future__ import annotations

import builtins
import keyword
import re
from functools import cache
from typing import NamedTuple


class Rules(NamedTuple):
    """One language."""

    pattern: re.Pattern[str] | None
    """Matches tokens; a match without a group is a plain name that must not be cut in two."""
    blocks: dict[str, tuple[str, str]]
    """What opens a stretch of several lines → (what closes it, its kind)."""


def _words(words: str) -> str:
    return r"\b(?:" + "|".join(words.split()) + r")\b"


_CONSTANTS = "True False None"
_PYTHON_KEYWORDS = " ".join(word for word in keyword.kwlist if word not in _CONSTANTS.split())
_PYTHON_BUILTINS = " ".join(
    name for name in dir(builtins) if name[0].isalpha() and name not in _CONSTANTS.split()
)
_LIBRARIES = (
    "torch aten prims tl tl_math triton libdevice triton_helpers extern_kernels "
    "async_compile ops self cls"
)
_MADE_NAMES = r"\b(?:buf|arg|tmp|primals_|tangents_|getitem_|in_ptr|out_ptr|in_out_ptr|arg_|s|u|x|r0_)\d+(?:_\d+)*\b"
"""Names that Dynamo, AOTAutograd and Inductor make up; seeing them apart from the user's own helps
reading.
"""

_PYTHON = (
    r"(?P<comment>#.*)"
    r"|(?P<string>\b[rRbBuUfF]{1,2}(?:'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?)|'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<decorator>^\s*@[A-Za-z_][\w.]*)"
    rf"|(?P<constant>{_words(_CONSTANTS)})"
    r"|(?P<type>(?<=\bclass )\w+)"
    rf"|(?P<keyword>{_words(_PYTHON_KEYWORDS)})"
    rf"|(?P<variable>{_MADE_NAMES})"
    rf"|(?P<builtin>(?<!\.){_words(_LIBRARIES)}|(?<![.\w])(?:{_words(_PYTHON_BUILTINS)}))"
    r"|(?P<function>\b[A-Za-z_]\w*(?=\()|(?<=\bdef )\w+)"
    r"|(?P<number>\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?[jJ]?)|(?<!\w)\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?:[^\W\d]\w*)"
)

_CPP_KEYWORDS = (
    "alignas alignof asm break case catch class const const_cast constexpr continue decltype "
    "default delete do dynamic_cast else enum explicit extern final for friend goto if inline "
    "mutable namespace new noexcept operator override private protected public register "
    "reinterpret_cast return sizeof static static_assert static_cast struct switch template this "
    "thread_local throw try typedef typeid typename union using virtual volatile while"
)
_CPP_TYPES = (
    "auto bool char double float half int long short signed unsigned void size_t ssize_t "
    "wchar_t bfloat16 "
    r"u?int\d+_t c10::\w+ at::vec::\w+ at::\w+ std::\w+"
)
_CPP = (
    r"(?P<comment>//.*|/\*.*?\*/)"
    r"|(?P<decorator>^\s*#\s*\w+.*)"
    r"|(?P<string>\b(?:L|u8|u|U|R)?\"(?:\\.|[^\"\\])*\"?|\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])+')"
    rf"|(?P<constant>{_words('true false nullptr NULL')})"
    rf"|(?P<keyword>{_words(_CPP_KEYWORDS)})"
    rf"|(?P<type>{_words(_CPP_TYPES)})"
    rf"|(?P<variable>{_MADE_NAMES})"
    r"|(?P<function>\b[A-Za-z_]\w*(?=\(|<[\w:, ]*>\())"
    r"|(?P<number>(?:\b0[xX][\da-fA-F']+|\b\d[\d']*(?:\.\d*)?(?:[eE][+-]?\d+)?|(?<!\w)\.\d+(?:[eE][+-]?\d+)?)[fFuUlLzZ]*)"
    r"|(?:[^\W\d]\w*)"
)

_BYTECODE = (
    r"(?P<offset>^\s*(?:\d+|--)(?:\s+\d+)?(?=\s)|(?<=>>)\s+\d+)"
    r"|(?P<label>>>|-->|\bto L?\d+\b|\bL\d+\b:?|[│├┼┬┴╭╰─▸]+)"
    r"|(?P<comment>^\s*(?:Disassembly|ExceptionTable).*|#\s.*)"
    r"|(?P<string>\(.*\)\s*$|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<variable>\b__(?:compiled_fn|resume_at|import|builtins_dict)_\w+|\b(?:graph_out|tmp)_\d+\b)"
    rf"|(?P<constant>{_words('True False None NULL')})"
    r"|(?P<keyword>\b[A-Z_]*(?:JUMP|FOR_ITER|RETURN|RAISE|YIELD)[A-Z_0-9]*\b)"
    r"|(?P<builtin>\b(?:PRE)?CALL[A-Z_]*\b)"
    r"|(?P<function>\b[A-Z][A-Z0-9_]{2,}\b)"
    r"|(?P<number>\b\d+\b)"
)

_JSON = (
    r"(?P<label>\"(?:\\.|[^\"\\])*\"(?=\s*:))"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    rf"|(?P<constant>{_words('true false null')})"
    r"|(?P<number>-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
)

_IR = r"(?P<label>^(?:op|buf)\d+(?:_\w+)?(?=[:.]))|" + _PYTHON

# below a kernel (model.Level); what moves memory or feeds the matrix units stands out

_MLIR = (
    r"(?P<comment>//.*)"
    r"|(?P<variable>%[\w$.#-]+)"
    r"|(?P<label>[#^][A-Za-z_]\w*)"
    r"|(?P<type>!\w+(?:\.\w+)*|\b(?:tensor|vector|memref|index|none|bf16|tf32|[su]?i\d+|f\d\w*)\b|(?<=\d)x(?:bf16|tf32|[su]?i\d+|f\d\w*)\b)"
    r"|(?P<decorator>\bloc(?=\()|@[\w$.]+)"
    rf"|(?P<constant>{_words('true false dense unit unknown')})"
    r"|(?P<builtin>\b(?:tt|ttg|ttng|amdg|amdgpu)\.(?:load|store|descriptor_\w+|async_\w+|local_\w+|buffer_\w+|dot\w*|warp_group_dot\w*|tc_gen5_mma\w*)\b)"
    r"|(?P<keyword>\b(?:scf|cf|llvm)\.\w+|\b(?:tt|func)\.(?:func|return|call)\b|\b(?:module|attributes|public|private|to|step|iter_args|else|callsite|fused|at)\b)"
    r"|(?P<function>\"[a-z_]\w*\.[\w.]+\"(?=\()|\b[a-z_]\w*\.[a-z_][\w.]*)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<number>(?<![\w.])-?\d+\.\d+(?:[eE][+-]?\d+)?|\b0x[\da-fA-F]+|\b\d+(?:x\d+)*(?=x)|(?<![\w.])-?\d+\b)"
    r"|(?:[^\W\d]\w*)"
)

_LLVM_KEYWORDS = (
    "acq_rel acquire addrspace align alignstack alwaysinline asm attributes atomic br catch cc "
    "comdat constant convergent declare define distinct dso_local exact external fast fastcc "
    "global inbounds inreg internal invoke monotonic nnan nonnull noundef nounwind nsw nuw nneg "
    "private ptx_kernel amdgpu_kernel readnone readonly release ret samesign section seq_cst "
    "sideeffect source_filename switch syncscope tail target datalayout triple to unnamed_addr "
    "local_unnamed_addr unreachable volatile willreturn x disjoint contract"
)
_LLVM_INSTRUCTIONS = (
    "add addrspacecast alloca and ashr bitcast call extractelement extractvalue fadd fcmp fdiv "
    "fmul fneg fpext fptosi fptoui fptrunc freeze frem fsub getelementptr icmp insertelement "
    "insertvalue inttoptr lshr mul or phi ptrtoint sdiv select sext shl shufflevector sitofp srem "
    "sub trunc udiv uitofp urem xor zext"
)
_LLVM = (
    r"(?P<comment>;.*)"
    r"|(?P<label>^[-\w$.]+:)"
    r"|(?P<string>\bc?\"[^\"]*\"?|\"[^\"]*\"?)"
    r"|(?P<variable>%(?:\"[^\"]*\"|[-\w$.]+))"
    rf"|(?P<builtin>@llvm\.(?:nvvm|amdgcn)\.[\w.]+|{_words('load store atomicrmw cmpxchg fence')})"
    r"|(?P<decorator>@(?:\"[^\"]*\"|[-\w$.]+)|![\w.]+|#\d+)"
    r"|(?P<type>\b(?:void|half|bfloat|float|double|fp128|ptr|label|metadata|token|i\d+)\b)"
    rf"|(?P<constant>{_words('true false null undef poison none zeroinitializer')})"
    rf"|(?P<keyword>{_words(_LLVM_KEYWORDS)})"
    r"|(?P<number>(?<![\w.])-?\d+\.\d+(?:[eE][+-]?\d+)?|\b0x[\da-fA-F]+|(?<![\w.])-?\d+\b)"
    rf"|(?P<function>{_words(_LLVM_INSTRUCTIONS)})"
    r"|(?:[^\W\d][\w.]*)"
)

_PTX_NAME = r"(?:^\s*(?:\{\s*)?|(?<=%p\d )|(?<=%p\d\d )|(?<=%p\d\d\d ))"
_PTX = (
    r"(?P<comment>//.*|/\*.*?\*/)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<label>^\$?[\w$]+:|\$L_\w+)"
    r"|(?P<decorator>(?<![\w.])\.[a-z]\w*)"
    rf"|(?P<builtin>{_PTX_NAME}(?:ld|st|cp|atom|red|mma|wgmma|wmma|tcgen05|ldmatrix|stmatrix|prefetch)\.[\w.:]+)"
    rf"|(?P<keyword>@!?%p\d+|{_PTX_NAME}(?:bra|ret|exit|call|trap|bar|barrier|mbarrier|fence|membar|brx)\b[\w.:]*)"
    rf"|(?P<function>{_PTX_NAME}[a-z]\w*(?:[.:]+\w+)*(?=[\s;]))"
    r"|(?P<variable>%\w+(?:\.\w+)?)"
    r"|(?P<number>\b0[fFdD][\da-fA-F]{8,16}\b|\b0x[\da-fA-F]+|(?<![\w.%])-?\d+(?:\.\d+)?U?\b)"
    r"|(?:[^\W\d][\w$]*)"
)

_SASS = (
    r"(?P<offset>/\*[\da-f]{4,}\*/)"
    r"|(?P<comment>//.*|/\*.*?\*/)"
    r"|(?P<string>\"[^\"]*\"?)"
    r"|(?P<label>^\.?[\w.$]+:|`\([^)]*\))"
    r"|(?P<decorator>^\s*\.[a-z]\w*)"
    r"|(?P<variable>\b(?:U?R(?:\d+|Z)|U?P(?:\d|T)|SR_\w+|SRZ|SB\d|B\d+)\b(?:\.\w+)*)"
    r"|(?P<builtin>\b(?:LD[GSLC]?|ST[GSL]?|LDSM|STSM|LDGSTS|ATOM\w*|RED\w*|UTMA\w+|UBLK\w+|LDTM|STTM|[HIQDBO]MMA|[HIQ]GMMA|UTC\w*MMA)\b(?:\.\w+)*)"
    r"|(?P<keyword>@!?U?P[\dT]\b|\b(?:BRA|EXIT|RET|CALL|BSSY|BSYNC|BREAK|BAR|B2R|SYNCS|WARPSYNC|DEPBAR|LDGDEPBAR|MEMBAR|FENCE|WARPGROUP\w*|NOP|YIELD|JMP|BRX)\b(?:\.\w+)*)"
    r"|(?P<constant>\b(?:cx?(?=\[)|desc|gdesc|INF|QNAN)\b)"
    r"|(?P<function>\b[A-Z][A-Z\d]+\b(?:\.[\w.]+)?)"
    r"|(?P<number>-?\b0x[\da-f]+|(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)"
    r"|(?:[^\W\d]\w*)"
)

_AMDGCN = (
    r"(?P<comment>;.*|//.*|/\*.*?\*/)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<label>^\.?[\w.$]+:|\.LBB\w+)"
    r"|(?P<decorator>^\s*\.[a-z]\w*)"
    r"|(?P<builtin>\b(?:(?:global|buffer|flat|scratch|s_buffer)_(?:load|store|atomic)\w*|ds_(?:read|write|load|store)\w*|s_load\w*|v_s?mfma\w*|v_wmma\w*)\b)"
    r"|(?P<keyword>\b(?:s_c?branch\w*|s_endpgm|s_barrier|s_waitcnt\w*|s_setpc\w*|s_nop)\b)"
    r"|(?P<function>\b(?:[sv]|ds|buffer|global|flat|scratch)_[a-z\d_]+\b)"
    r"|(?P<variable>\b[sva]\d+\b|\b[sva]\[\d+:\d+\]|\b(?:vcc|exec|flat_scratch)(?:_lo|_hi)?\b|\b(?:scc|m0)\b)"
    rf"|(?P<constant>{_words('off lds offen idxen glc slc nt sc0 sc1')})"
    r"|(?P<number>-?\b0x[\da-f]+|(?<![\w.])-?\d+(?:\.\d+)?\b)"
    r"|(?:[^\W\d]\w*)"
)

_TRIPLE_QUOTES = {"'''": ("'''", "string"), '"""': ('"""', "string")}

_GRAMMARS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "python": (_PYTHON, _TRIPLE_QUOTES),
    "triton": (_PYTHON, _TRIPLE_QUOTES),
    "cpp": (_CPP, {"/*": ("*/", "comment")}),
    "bytecode": (_BYTECODE, {}),
    "ir": (_IR, {}),
    "json": (_JSON, {}),
    "ttir": (_MLIR, {}),
    "ttgir": (_MLIR, {}),
    "llir": (_LLVM, {}),
    "ptx": (_PTX, {}),
    "amdgcn": (_AMDGCN, {}),
    "sass": (_SASS, {}),
    "text": ("", {}),
}

LANGUAGES: tuple[str, ...] = tuple(_GRAMMARS)
"""What has rules; any other language is shown as ``text``."""


@cache
def rules_of(language: str) -> Rules:
    """Return the rules of ``language``, compiled when they are first needed (2 to 8 ms each)."""
    pattern, blocks = _GRAMMARS.get(language, _GRAMMARS["text"])
    return Rules(re.compile(pattern) if pattern else None, blocks)


EMBEDDED = re.compile(r"\basync_compile\.(?P<call>cpp\w*|triton|cuda|multi_kernel)\(.*$")
"""A call of ``torch/_inductor/async_compile.py`` whose triple-quoted argument is a kernel: code,
not a string.
"""
