"""How each language is cut into tokens: one regular expression whose group names are the kinds of highlight.py.

Enough of each grammar to read code by, line by line; not a parser. What spans lines (triple-quoted strings, C comments) is
named in ``blocks`` and found by highlight.py.
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
_PYTHON_BUILTINS = " ".join(name for name in dir(builtins) if name[0].isalpha() and name not in _CONSTANTS.split())
_LIBRARIES = "torch aten prims tl tl_math triton libdevice triton_helpers extern_kernels async_compile ops self cls"
_MADE_NAMES = r"\b(?:buf|arg|tmp|primals_|tangents_|getitem_|in_ptr|out_ptr|in_out_ptr|arg_|s|u|x|r0_)\d+(?:_\d+)*\b"
"""Names that Dynamo, AOTAutograd and Inductor make up; seeing them apart from the user's own helps reading."""

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
    "alignas alignof asm break case catch class const const_cast constexpr continue decltype default delete do dynamic_cast "
    "else enum explicit extern final for friend goto if inline mutable namespace new noexcept operator override private "
    "protected public register reinterpret_cast return sizeof static static_assert static_cast struct switch template this "
    "thread_local throw try typedef typeid typename union using virtual volatile while"
)
_CPP_TYPES = (
    "auto bool char double float half int long short signed unsigned void size_t ssize_t wchar_t bfloat16 "
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

_IR = r"(?P<label>^(?:op|buf)\d+(?:_\w+)*(?=[:.]))|" + _PYTHON

_TRIPLE_QUOTES = {"'''": ("'''", "string"), '"""': ('"""', "string")}

_GRAMMARS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "python": (_PYTHON, _TRIPLE_QUOTES),
    "triton": (_PYTHON, _TRIPLE_QUOTES),
    "cpp": (_CPP, {"/*": ("*/", "comment")}),
    "bytecode": (_BYTECODE, {}),
    "ir": (_IR, {}),
    "json": (_JSON, {}),
    "text": ("", {}),
}

LANGUAGES: tuple[str, ...] = tuple(_GRAMMARS)
"""What has rules; any other language is shown as ``text``."""


@cache
def rules_of(language: str) -> Rules:
    """The rules of ``language``, compiled when they are first needed (2 to 8 ms each)."""
    pattern, blocks = _GRAMMARS.get(language, _GRAMMARS["text"])
    return Rules(re.compile(pattern) if pattern else None, blocks)


EMBEDDED = re.compile(r"\basync_compile\.(?P<call>cpp\w*|triton|cuda|multi_kernel)\(.*$")
"""A call of ``torch/_inductor/async_compile.py`` whose triple-quoted argument is a kernel: code, not a string."""
