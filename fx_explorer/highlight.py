"""This module splits a text into lines of ``(text, kind)`` that are safe to show, for colouring
code on the screen and in reports.

Kinds say what a piece of text is (``keyword``, ``string``, …), never how it looks. Lines are cut
one at a time by one regular expression a language, whose group names are the kinds: 5 µs a line,
where Pygments takes 80 and must start at the top of the file. That is enough of each grammar to
read code by; it is no parser. What spans lines (triple-quoted strings, C comments) is named in
``blocks`` and found beforehand.
"""

from __future__ import annotations

import builtins
import keyword
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple, overload

__all__ = ["LANGUAGES", "Kind", "Line", "Lines", "Token", "lines", "printable", "printable_text"]


class Rules(NamedTuple):
    """The rules for colouring the code of one language."""

    pattern: re.Pattern[str] | None
    """Matches tokens; a match without a group is a plain name that must not be cut in two."""
    blocks: dict[str, tuple[str, str]]
    """Opener of a token of several lines → (its end, its kind)."""


def _any_of(words: str) -> str:
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
_MADE_NAMES = (
    r"\b(?:buf|arg|tmp|primals_|tangents_|getitem_|in_ptr|out_ptr|in_out_ptr|arg_|s|u|x"
    r"|r0_)\d+(?:_\d+)*\b"
)
"""Matches names that Dynamo, AOTAutograd and Inductor generate, so that they differ in colour from
the user's own.
"""

_PYTHON = (
    r"(?P<comment>#.*)"
    r"|(?P<string>\b[rRbBuUfF]{1,2}(?:'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?)|'(?:\\."
    r"|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<decorator>^\s*@[A-Za-z_][\w.]*)"
    rf"|(?P<constant>{_any_of(_CONSTANTS)})"
    r"|(?P<type>(?<=\bclass )\w+)"
    rf"|(?P<keyword>{_any_of(_PYTHON_KEYWORDS)})"
    rf"|(?P<variable>{_MADE_NAMES})"
    rf"|(?P<builtin>(?<!\.){_any_of(_LIBRARIES)}|(?<![.\w])(?:{_any_of(_PYTHON_BUILTINS)}))"
    r"|(?P<function>\b[A-Za-z_]\w*(?=\()|(?<=\bdef )\w+)"
    r"|(?P<number>\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+"
    r"|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?[jJ]?)|(?<!\w)\.\d+(?:[eE][+-]?\d+)?)"
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
    rf"|(?P<constant>{_any_of('true false nullptr NULL')})"
    rf"|(?P<keyword>{_any_of(_CPP_KEYWORDS)})"
    rf"|(?P<type>{_any_of(_CPP_TYPES)})"
    rf"|(?P<variable>{_MADE_NAMES})"
    r"|(?P<function>\b[A-Za-z_]\w*(?=\(|<[\w:, ]*>\())"
    r"|(?P<number>(?:\b0[xX][\da-fA-F']+|\b\d[\d']*(?:\.\d*)?(?:[eE][+-]?\d+)?"
    r"|(?<!\w)\.\d+(?:[eE][+-]?\d+)?)[fFuUlLzZ]*)"
    r"|(?:[^\W\d]\w*)"
)

_BYTECODE = (
    r"(?P<offset>^\s*(?:\d+|--)(?:\s+\d+)?(?=\s)|(?<=>>)\s+\d+)"
    r"|(?P<label>>>|-->|\bto L?\d+\b|\bL\d+\b:?|[│├┼┬┴╭╰─▸]+)"
    r"|(?P<comment>^\s*(?:Disassembly|ExceptionTable).*|#\s.*)"
    r"|(?P<string>\(.*\)\s*$|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<variable>\b__(?:compiled_fn|resume_at|import|builtins_dict)_\w+|\b(?:graph_out"
    r"|tmp)_\d+\b)"
    rf"|(?P<constant>{_any_of('True False None NULL')})"
    r"|(?P<keyword>\b[A-Z_]*(?:JUMP|FOR_ITER|RETURN|RAISE|YIELD)[A-Z_0-9]*\b)"
    r"|(?P<builtin>\b(?:PRE)?CALL[A-Z_]*\b)"
    r"|(?P<function>\b[A-Z][A-Z0-9_]{2,}\b)"
    r"|(?P<number>\b\d+\b)"
)

_JSON = (
    r"(?P<label>\"(?:\\.|[^\"\\])*\"(?=\s*:))"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    rf"|(?P<constant>{_any_of('true false null')})"
    r"|(?P<number>-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
)

_IR = r"(?P<label>^(?:op|buf)\d+(?:_\w+)?(?=[:.]))|" + _PYTHON

# below a kernel (model.Level); what moves memory or feeds the matrix units stands out

_MLIR = (
    r"(?P<comment>//.*)"
    r"|(?P<variable>%[\w$.#-]+)"
    r"|(?P<label>[#^][A-Za-z_]\w*)"
    r"|(?P<type>!\w+(?:\.\w+)*|\b(?:tensor|vector|memref|index|none|bf16|tf32|[su]?i\d+"
    r"|f\d\w*)\b|(?<=\d)x(?:bf16|tf32|[su]?i\d+|f\d\w*)\b)"
    r"|(?P<decorator>\bloc(?=\()|@[\w$.]+)"
    rf"|(?P<constant>{_any_of('true false dense unit unknown')})"
    r"|(?P<builtin>\b(?:tt|ttg|ttng|amdg|amdgpu)\.(?:load|store|descriptor_\w+|async_\w+"
    r"|local_\w+|buffer_\w+|dot\w*|warp_group_dot\w*|tc_gen5_mma\w*)\b)"
    r"|(?P<keyword>\b(?:scf|cf|llvm)\.\w+|\b(?:tt|func)\.(?:func|return|call)\b|\b(?:module"
    r"|attributes|public|private|to|step|iter_args|else|callsite|fused|at)\b)"
    r"|(?P<function>\"[a-z_]\w*\.[\w.]+\"(?=\()|\b[a-z_]\w*\.[a-z_][\w.]*)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<number>(?<![\w.])-?\d+\.\d+(?:[eE][+-]?\d+)?|\b0x[\da-fA-F]+|\b\d+(?:x\d+)*(?=x)"
    r"|(?<![\w.])-?\d+\b)"
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
    rf"|(?P<builtin>@llvm\.(?:nvvm|amdgcn)\.[\w.]+|{_any_of('load store atomicrmw cmpxchg fence')})"
    r"|(?P<decorator>@(?:\"[^\"]*\"|[-\w$.]+)|![\w.]+|#\d+)"
    r"|(?P<type>\b(?:void|half|bfloat|float|double|fp128|ptr|label|metadata|token|i\d+)\b)"
    rf"|(?P<constant>{_any_of('true false null undef poison none zeroinitializer')})"
    rf"|(?P<keyword>{_any_of(_LLVM_KEYWORDS)})"
    r"|(?P<number>(?<![\w.])-?\d+\.\d+(?:[eE][+-]?\d+)?|\b0x[\da-fA-F]+|(?<![\w.])-?\d+\b)"
    rf"|(?P<function>{_any_of(_LLVM_INSTRUCTIONS)})"
    r"|(?:[^\W\d][\w.]*)"
)

_PTX_NAME = r"(?:^\s*(?:\{\s*)?|(?<=%p\d )|(?<=%p\d\d )|(?<=%p\d\d\d ))"
_PTX = (
    r"(?P<comment>//.*|/\*.*?\*/)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"?)"
    r"|(?P<label>^\$?[\w$]+:|\$L_\w+)"
    r"|(?P<decorator>(?<![\w.])\.[a-z]\w*)"
    rf"|(?P<builtin>{_PTX_NAME}(?:ld|st|cp|atom|red|mma|wgmma|wmma|tcgen05|ldmatrix|stmatrix"
    rf"|prefetch)\.[\w.:]+)"
    rf"|(?P<keyword>@!?%p\d+|{_PTX_NAME}(?:bra|ret|exit|call|trap|bar|barrier|mbarrier|fence"
    rf"|membar|brx)\b[\w.:]*)"
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
    r"|(?P<builtin>\b(?:LD[GSLC]?|ST[GSL]?|LDSM|STSM|LDGSTS|ATOM\w*|RED\w*|UTMA\w+|UBLK\w+|LDTM"
    r"|STTM|[HIQDBO]MMA|[HIQ]GMMA|UTC\w*MMA)\b(?:\.\w+)*)"
    r"|(?P<keyword>@!?U?P[\dT]\b|\b(?:BRA|EXIT|RET|CALL|BSSY|BSYNC|BREAK|BAR|B2R|SYNCS"
    r"|WARPSYNC|DEPBAR|LDGDEPBAR|MEMBAR|FENCE|WARPGROUP\w*|NOP|YIELD|JMP|BRX)\b(?:\.\w+)*)"
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
    r"|(?P<builtin>\b(?:(?:global|buffer|flat|scratch|s_buffer)_(?:load|store|atomic)\w*"
    r"|ds_(?:read|write|load|store)\w*|s_load\w*|v_s?mfma\w*|v_wmma\w*)\b)"
    r"|(?P<keyword>\b(?:s_c?branch\w*|s_endpgm|s_barrier|s_waitcnt\w*|s_setpc\w*|s_nop)\b)"
    r"|(?P<function>\b(?:[sv]|ds|buffer|global|flat|scratch)_[a-z\d_]+\b)"
    r"|(?P<variable>\b[sva]\d+\b|\b[sva]\[\d+:\d+\]"
    r"|\b(?:vcc|exec|flat_scratch)(?:_lo|_hi)?\b|\b(?:scc|m0)\b)"
    rf"|(?P<constant>{_any_of('off lds offen idxen glc slc nt sc0 sc1')})"
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
"""Languages with rules for colouring; any other language is shown as ``text``."""


@cache
def rules_of(language: str) -> Rules:
    """Return the rules of ``language``, compiled when they are first needed (2 to 8 ms each)."""
    pattern, blocks = _GRAMMARS.get(language, _GRAMMARS["text"])
    compiled = re.compile(pattern) if pattern else None
    return Rules(compiled, blocks)


EMBEDDED = re.compile(r"\basync_compile\.(?P<call>cpp\w*|triton|cuda|multi_kernel)\(.*$")
"""A call of ``torch/_inductor/async_compile.py`` whose triple-quoted argument is a kernel: code,
not a string.
"""


Kind = Literal[
    "text",
    "keyword",
    "constant",
    "builtin",
    "function",
    "type",
    "variable",
    "string",
    "number",
    "comment",
    "decorator",
    "label",
    "offset",
]
"""Kind of a token. ``variable``: names the compiler made (``buf0``, ``tmp3``, ``primals_1``).
``decorator``: also C++ preprocessor lines. ``label``: JSON keys, IR buffers, jump targets.
``offset``: numbers that count lines or bytes in a bytecode listing.
"""

Token = tuple[str, Kind]
Line = Sequence[Token]


TAB_SIZE = 4
LONGEST_COLOURED = 4_000
"""Maximum number of characters of a line that is coloured. Longer lines are not read, so that a
page costs the same everywhere.
"""

_UNSAFE = re.compile(
    # C0 and C1 controls, then what reorders or hides text (bidirectional marks, zero-width
    # characters, tags), lone surrogates.
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return ``text`` on one line, with all control and invisible characters made visible.

    Control characters become their pictures (escape is ␛, newline ␊), the rest of the unsafe ones
    their Python escape (``\\x9b``, ``\\u202e``). Tabs become spaces.
    """
    if "\t" in text:
        text = text.expandtabs(TAB_SIZE)
    if _UNSAFE.search(text):
        return _UNSAFE.sub(_visible, text)
    return text


def printable_text(text: str) -> str:
    """Return a text of several lines, safe as ``printable`` makes it, but with newlines."""
    return "\n".join(printable(line.removesuffix("\r")) for line in text.split("\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def lines(text: str, language: str) -> Lines:
    """Return the lines of ``text``, coloured as ``language`` when they are asked for. Unknown
    languages are plain text.
    """
    return Lines(text, language)


class _Enclosed(NamedTuple):
    """A stretch of text that does not follow the rules around it: a string or comment of several
    lines, or embedded code.
    """

    start: int
    stop: int
    rules: Rules | None
    """The rules for its inside; None: all of it is of ``kind``."""
    kind: Kind


class Lines(Sequence[Line]):
    """A text by lines. Opening costs 10 ms per 100,000 lines, a line 5 µs, wherever it is.

    A text that ends with a newline has no empty last line; an empty text has no lines.
    """

    def __init__(self, text: str, language: str = "text") -> None:
        self.text = text
        self.language = language if language in LANGUAGES else "text"
        self._rules = rules_of(self.language)
        self._measure()

    def _measure(self) -> None:
        """Find where lines start and which blocks span several of them."""
        body = self.text.removesuffix("\n")
        lengths = list(map(len, body.split("\n"))) if self.text else []
        self.longest = max(lengths, default=0)
        """Characters in the longest line (tabs count as one)."""
        self._starts = array("Q", accumulate((length + 1 for length in lengths), initial=0))
        self._blocks = list(_find_blocks(self.text, self._rules))
        self._block_starts = [block.start for block in self._blocks]

    def append(self, text: str) -> None:
        """Add ``text`` at the end, where an unfinished last line continues."""
        self.text += text
        self._measure()

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self._line(n) for n in range(*index.indices(len(self)))]
        return self._line(range(len(self))[index])

    def __iter__(self) -> Iterator[Line]:
        return map(self._line, range(len(self)))

    def raw(self, number: int) -> str:
        """Return line ``number`` (from 0) of the original text, including unsafe characters: for
        searching and copying.
        """
        return self.text[self._starts[number] : self._starts[number + 1] - 1].removesuffix("\r")

    def plain(self, number: int) -> str:
        """Return line ``number`` (from 0) as it is shown."""
        return printable(self.raw(number))

    def _line(self, number: int) -> Line:
        start = self._starts[number]
        stop = start + len(self.raw(number))
        if stop - start > LONGEST_COLOURED:
            return [(self.plain(number), "text")]
        tokens: list[Token] = []
        at = start
        for block in self._blocks_between(start, stop):
            tokens += _tokens(self.text[at : block.start], self._rules)
            inside = self.text[max(at, block.start) : min(block.stop, stop)]
            tokens += _tokens(inside, block.rules) if block.rules else [(inside, block.kind)]
            at = min(block.stop, stop)
        tokens += _tokens(self.text[at:stop], self._rules)
        return _safe(tokens)

    def _blocks_between(self, start: int, stop: int) -> Iterator[_Enclosed]:
        index = max(0, bisect_right(self._block_starts, start) - 1)
        while index < len(self._blocks) and self._blocks[index].start < stop:
            if self._blocks[index].stop > start:
                yield self._blocks[index]
            index += 1


def _tokens(text: str, rules: Rules) -> list[Token]:
    """Split a text into tokens by the pattern of its language; the text between tokens is plain."""
    if rules.pattern is None:
        return [(text, "text")] if text else []
    tokens: list[Token] = []
    at = 0
    for match in rules.pattern.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        start, stop = match.span()
        if start > at:
            tokens.append((text[at:start], "text"))
        # group names are kinds; a test holds them to it
        tokens.append((text[start:stop], kind))  # type: ignore[arg-type]
        at = stop
    if at < len(text):
        tokens.append((text[at:], "text"))
    return tokens


def _safe(tokens: list[Token]) -> Line:
    """Make unsafe characters visible; tabs are expanded by the column they are in."""
    if not _UNSAFE.search("".join([text for text, _ in tokens])):
        return tokens
    column = 0
    safe: list[Token] = []
    for text, kind in tokens:
        if "\t" in text:
            shown = printable(" " * (column % TAB_SIZE) + text)[column % TAB_SIZE :]
        else:
            shown = printable(text)
        column += len(shown)
        safe.append((shown, kind))
    return safe


def _find_blocks(text: str, rules: Rules) -> Iterator[_Enclosed]:
    """Yield strings and comments of several lines, in order. One pass by ``str.find`` takes some
    milliseconds for 5 MB.
    """
    at = outside = 0
    following = {opener: text.find(opener) for opener in rules.blocks}
    while True:
        openers = [(place, opener) for opener, place in following.items() if place >= 0]
        if not openers:
            return
        start, opener = min(openers)
        before = text[text.rfind("\n", outside, start) + 1 or outside : start]
        at = start + len(opener)
        if not _hides(before, rules):
            closer, kind = rules.blocks[opener]
            end = text.find(closer, at)
            end = len(text) if end < 0 else end
            at = outside = min(end + len(closer), len(text))
            yield from _block(start, end, at, before, opener, kind)
        for some, place in following.items():
            if 0 <= place < at:
                following[some] = text.find(some, at)


def _block(
    start: int, end: int, stop: int, before: str, opener: str, kind: str
) -> Iterator[_Enclosed]:
    called = EMBEDDED.search(before)
    if called is None:
        yield _Enclosed(start, stop, None, kind)  # type: ignore[arg-type]
        return
    language = "cpp" if called["call"].startswith("cpp") else "triton"
    inside = start + len(opener)
    yield _Enclosed(start, inside, None, "string")
    yield _Enclosed(inside, end, rules_of(language), "text")
    yield _Enclosed(end, stop, None, "string")


def _hides(before: str, rules: Rules) -> bool:
    """Return whether an opener after ``before`` is inside a comment or a string of one line, and so
    opens nothing.
    """
    tokens = _tokens(before, rules)
    if not tokens:
        return False
    text, kind = tokens[-1]
    return kind == "comment" or (
        kind == "string" and (len(text) < 2 or text[-1] != text.lstrip("rRbBuUfF")[0])
    )
