"""Finding a generated kernel in the output code.

It stands there as ``name = async_compile.cpp_pybinding([…], r'''…''')``; with Inductor's C++
wrapper a Triton kernel is the same in a text of C++, and a C++ kernel stands there as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fx_explorer.model.rows.kernels import KernelLanguage

_LANGUAGES: dict[str, KernelLanguage] = {
    "cpp": "cpp",
    "cpp_pybinding": "cpp",
    "cuda": "cpp",
    "cutlass": "cpp",
    "rocm": "cpp",
    "xpu": "cpp",
    "triton": "triton",
}
"""Method of ``AsyncCompile`` (torch/_inductor/async_compile.py) that builds a kernel → the language
it is written in.
"""

_DEFINITION = re.compile(
    r"^(?:(\w+) = |static const char\* (\w+)_source = R\"TRITON\(\n)async_compile\.(\w+)\(",
    re.MULTILINE,
)
_QUOTES = "'''"

_PLACEHOLDER = re.compile(r"(?:Placeholder\.)?(?:KERNEL_NAME|DESCRIPTIVE_NAME)")
"""``str`` of a ``Placeholder``, torch/_inductor/utils.py."""

_ESCAPED = re.compile(r"\\([\\'\"])")
"""What Inductor escapes in such a text (torch/_inductor/codegen/wrapper.py,
``define_user_defined_triton_kernel``).
"""


class Definition(NamedTuple):
    language: KernelLanguage
    source: str
    first_line: int
    """Line (from 1) of the output code that holds the first line of ``source``."""


def definitions(output_code: str) -> dict[str, Definition]:
    """Return every kernel that the output code defines, by name. An auto-tuning block in front
    repeats them: the last one counts.
    """
    found: dict[str, Definition] = {}
    line, counted = 1, 0
    for match in _DEFINITION.finditer(output_code):
        opening = output_code.find(_QUOTES, match.end())
        closing = output_code.find(_QUOTES, opening + len(_QUOTES))
        if opening < 0 or closing < 0:
            continue
        start = opening + len(_QUOTES)
        if output_code.startswith("\n", start):
            start += 1
        line += output_code.count("\n", counted, start)
        counted = start
        source = output_code[start:closing]
        is_raw = output_code[opening - 1] == "r"
        language = _LANGUAGES.get(match[3], "python")
        found[match[1] or match[2]] = Definition(
            language, source if is_raw else _unescaped(source), line
        )
    return found


def _unescaped(quoted: str) -> str:
    """Return the source as it is compiled: a kernel of the user's own may have backslashes, and
    quotes of this kind. Line numbers do not change.
    """
    return _ESCAPED.sub(r"\1", quoted)


def inlined(name: str, source: str, output_code: str) -> Definition:
    """Find a kernel that is no string of its own. ``source`` is what was generated, with
    placeholders for its name.
    """
    source = _PLACEHOLDER.sub(name, source)
    source = source.replace("#pragma CMT", "//").lstrip("\n")
    language: KernelLanguage = (
        "triton" if "import triton" in source else "cpp" if 'extern "C"' in source else "python"
    )
    at = output_code.find(source.rstrip()) if source.strip() else -1
    return Definition(language, source, output_code.count("\n", 0, at) + 1 if at >= 0 else 0)
