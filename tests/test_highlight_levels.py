"""These tests check the colours of the levels below a kernel against Pygments, where it has a
lexer, and against known content of the texts.
"""

from __future__ import annotations

import re

import pytest
from pygments import lex
from pygments.lexers import get_lexer_by_name
from pygments.token import Token as PygmentsToken

from fx_explorer.analysis.kernel_lines import instruction_lines, sass_instruction_lines
from fx_explorer.highlight import lines
from tests.analysis.kernel_ir.samples import NAMES, sample

PYGMENTS = {"llir": "llvm", "ptx": "ptx", "amdgcn": "amdgpu"}


def characters(text: str, language: str) -> list[str]:
    """The kind of every character, newlines left out."""
    return [kind for line in lines(text, language) for piece, kind in line for _ in piece]


def tokens(name: str, level: str) -> list[tuple[str, str]]:
    return [
        (text.strip(), kind)
        for line in lines(sample(name).levels[level], level)
        for text, kind in line
    ]  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_comments_strings_and_numbers_are_those_pygments_sees(name: str) -> None:
    for level, lexer in PYGMENTS.items():
        text = sample(name).levels.get(level, "").expandtabs(4)  # type: ignore[call-overload]
        ours = characters(text, level)
        lexed = lex(text, get_lexer_by_name(lexer, stripnl=False, ensurenl=False))
        theirs = [token for token, piece in lexed for c in piece if c != "\n"]
        assert len(ours) == len(theirs)
        kinds = {
            "comment": PygmentsToken.Comment,
            "string": PygmentsToken.String,
            "number": PygmentsToken.Number,
        }
        for kind, token in kinds.items():
            wrong = sum((a == kind) != (b in token) for a, b in zip(ours, theirs, strict=True))
            # Quotes in the comments of LLVM IR, and hexadecimal floats of PTX, are not the same to
            # both.
            assert wrong <= 0.025 * len(ours), (level, kind, wrong, len(ours))


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_of_machine_code_has_a_name_in_colour(name: str) -> None:
    for level in ("ptx", "sass", "amdgcn"):
        text = sample(name).levels.get(level, "")  # type: ignore[call-overload]
        numbers = sass_instruction_lines(text) if level == "sass" else instruction_lines(text)
        shown = lines(text, level)
        without = [
            text.split("\n")[number - 1]
            for number in numbers
            if not {kind for _, kind in shown[number - 1]} & {"function", "builtin", "keyword"}
        ]
        assert without == [], level


def test_what_feeds_the_matrix_units_and_moves_memory_stands_out() -> None:
    matmul = "h100_matmul"
    for level, names in {
        "ttgir": ("ttng.warp_group_dot", "ttg.async_copy_global_to_local", "tt.store"),
        "ptx": ("wgmma.mma_async", "cp.async.cg", "st.global"),
        "sass": ("HGMMA", "LDGSTS", "STG"),
    }.items():
        built_in = {text for text, kind in tokens(matmul, level) if kind == "builtin"}
        for name in names:
            assert any(text.startswith(name) for text in built_in), (level, name)


def test_types_of_tensors_are_types_and_their_shapes_numbers() -> None:
    (line,) = lines("%x = arith.addf %a, %b : tensor<1x1024xf32, #blocked> loc(#loc7)", "ttgir")
    assert [piece for piece in line if piece[1] in ("type", "number")] == [
        ("tensor", "type"),
        ("1x1024", "number"),
        ("xf32", "type"),
    ]


@pytest.mark.parametrize("level", ["ttir", "ttgir", "llir", "ptx", "sass", "amdgcn"])
def test_values_and_registers_are_variables(level: str) -> None:
    name = "mi300x_softmax" if level == "amdgcn" else "h100_softmax"
    variables = {text for text, kind in tokens(name, level) if kind == "variable"}
    pattern = {
        "sass": r"U?(?:R|P)\w+(?:\.\w+)*|SR\w+(?:\.\w+)?|B\d+",
        "amdgcn": r"[sva]\d+|[sva]\[\d+:\d+\]|vcc\w*|exec\w*|scc|m0",
    }
    assert variables
    assert all(re.fullmatch(pattern.get(level, r"%.+"), text) for text in variables), variables
