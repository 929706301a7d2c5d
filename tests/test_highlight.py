"""These tests check the colours of text. Pygments, a real parser of these languages, is the second
source.
"""

from __future__ import annotations

import ast
import dis
import io
import json
import keyword
import shlex
import tokenize
import typing

import pytest
from pygments import lex
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Token as PygmentsToken

from benchmarks.synthetic_code import kernel_code
from fx_explorer import errors, highlight
from fx_explorer.highlight import Kind, lines, printable, printable_text

INDUCTOR_OUTPUT = """\
# AOT ID: ['0_inference']
import torch
cpp_fused_0 = async_compile.cpp_pybinding(['const float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void kernel(const float* in_ptr0)
{
    auto tmp0 = static_cast<float>(1.0);  // one
}
''')
triton_poi_0 = async_compile.triton('triton_poi_0', '''
@triton.jit
def triton_poi_0(in_ptr0, xnumel):
    tmp0 = tl.load(in_ptr0 + x0, None)
''', device_str='cuda')
doc = '''not a kernel
return'''
"""


def kinds_of(text: str, language: str) -> list[list[tuple[str, str]]]:
    """Lines of (text, kind), plain text left out."""
    return [[(t, k) for t, k in line if k != "text"] for line in lines(text, language)]


def characters(text: str, language: str) -> list[str]:
    """The kind of every character, newlines left out."""
    return [kind for line in lines(text, language) for piece, kind in line for _ in piece]


def pygments_characters(text: str, lexer: object) -> list[object]:
    return [token for token, piece in lex(text, lexer) for c in piece if c != "\n"]


@pytest.mark.parametrize("module", [ast, dis, typing, io, shlex, tokenize, highlight, errors])
def test_strings_comments_and_keywords_of_real_python_files_are_those_pygments_sees(
    module: object,
) -> None:
    with open(module.__file__, encoding="utf-8") as file:  # type: ignore[attr-defined]
        text = file.read()
    ours = characters(text, "python")
    theirs = pygments_characters(text, PythonLexer(stripnl=False, ensurenl=False))
    assert len(ours) == len(theirs)
    names = {
        "string": PygmentsToken.Literal.String,
        "comment": PygmentsToken.Comment,
        "keyword": PygmentsToken.Keyword,
    }
    for kind, token in names.items():
        wrong = sum(
            (a == kind) != (b in token)
            for a, b in zip(ours, theirs, strict=True)
            if a != "constant"
        )
        # Pygments marks soft keywords, prefixes and interpolations of strings apart; nothing else
        # may differ.
        assert wrong <= 0.02 * len(ours), (kind, wrong, len(ours))


def test_strings_comments_and_types_of_generated_cpp_are_those_pygments_sees() -> None:
    text = kernel_code("cpp_fused_add_0", 20) + "// done\n/* over\n two lines */ int x = 0x10;\n"
    ours = characters(text, "cpp")
    theirs = pygments_characters(text, CppLexer(stripnl=False, ensurenl=False))
    for kind, token in {
        "string": PygmentsToken.Literal.String,
        "comment": PygmentsToken.Comment,
    }.items():
        assert [a == kind for a in ours] == [b in token for b in theirs]


@pytest.mark.parametrize("language", highlight.LANGUAGES)
def test_no_character_is_lost_or_added(language: str) -> None:
    text = (
        INDUCTOR_OUTPUT
        + '\n\nx = \'open\n{"a": [1, 2.5e-3]}\n  12  LOAD_FAST  0 (x)\n漢字 = \'ｗｉｄｅ\'\n"""never closed\n'
    )
    assert "\n".join(
        "".join(t for t, _ in line) for line in lines(text, language)
    ) == text.removesuffix("\n")


def test_the_inside_of_a_kernel_in_output_code_is_coloured_as_code() -> None:
    shown = kinds_of(INDUCTOR_OUTPUT, "python")
    assert ("#include <torch/csrc/inductor/cpp_prefix.h>", "decorator") in shown[3]
    assert ("auto", "type") in shown[6]
    assert ("// one", "comment") in shown[6]
    assert ("def", "keyword") in shown[11]
    assert ("tl", "builtin") in shown[12]
    assert shown[13] == [("'''", "string"), ("'cuda'", "string")]


def test_a_string_of_several_lines_that_is_no_kernel_stays_a_string() -> None:
    shown = kinds_of(INDUCTOR_OUTPUT, "python")
    assert shown[14] == [("'''not a kernel", "string")]
    assert shown[15] == [("return'''", "string")]


def test_quotes_in_comments_and_strings_open_nothing() -> None:
    shown = kinds_of("a = 1  # it's '''\nb = \"'''\"\nreturn\n", "python")
    assert shown[2] == [("return", "keyword")]


def test_every_python_keyword_is_a_keyword_or_constant() -> None:
    for word in keyword.kwlist:
        assert kinds_of(word, "python")[0][0][1] in {"keyword", "constant"}, word


def test_bytecode_shows_offsets_opnames_and_arguments() -> None:
    out = io.StringIO()
    dis.dis(compile("for i in x:\n    f(i)\n", "t", "exec"), file=out)
    shown = kinds_of(out.getvalue(), "bytecode")
    opnames = {
        i.opname
        for i in dis.get_instructions(compile("for i in x:\n    f(i)\n", "t", "exec"))
        if i.opname != "CACHE"
    }
    coloured = {
        text for line in shown for text, kind in line if kind in {"function", "keyword", "builtin"}
    }
    assert opnames <= coloured | {"NOP"}
    assert any(kind == "offset" for line in shown for _, kind in line)
    assert ("(x)", "string") in [(text.strip(), kind) for line in shown for text, kind in line]


def test_a_bytecode_listing_shows_arrows_source_lines_and_names_that_dynamo_made_up() -> None:
    jump, source, call, string = kinds_of(
        " 46 │╭┼─ POP_JUMP_IF_FALSE to 50\n    ││  # 31  continue\n"
        " 2     LOAD_GLOBAL     __compiled_fn_2 + NULL  # the compiled graph [0/0]\n"
        " 4     LOAD_CONST      'no # comment'\n",
        "bytecode",
    )
    assert jump == [
        (" 46", "offset"),
        ("│╭┼─", "label"),
        ("POP_JUMP_IF_FALSE", "keyword"),
        ("to 50", "label"),
    ]
    assert source == [("││", "label"), ("# 31  continue", "comment")]
    assert ("__compiled_fn_2", "variable") in call
    assert call[-1] == ("# the compiled graph [0/0]", "comment")
    assert string[-1] == ("'no # comment'", "string")


def test_json_keys_differ_from_strings() -> None:
    shown = kinds_of(json.dumps({"name": "gelu", "n": 3, "ok": True}), "json")[0]
    assert shown[:2] == [('"name"', "label"), ('"gelu"', "string")]
    assert ("3", "number") in shown
    assert ("true", "constant") in shown


def test_inductor_ir_shows_buffers_and_code() -> None:
    shown = kinds_of(
        "op0: SchedulerNode(ComputedBuffer)\nop0.writes = [MemoryDep('buf0', c0, {c0: 64})]", "ir"
    )
    assert shown[0][0] == ("op0", "label")
    assert ("'buf0'", "string") in shown[1]


def test_groups_of_the_rules_are_kinds() -> None:
    kinds = set(typing.get_args(Kind))
    for language in highlight.LANGUAGES:
        pattern = highlight.rules_of(language).pattern
        assert pattern is None or set(pattern.groupindex) <= kinds, language


def test_an_unknown_language_is_plain_text() -> None:
    assert list(lines("return 1", "cobol")) == [[("return 1", "text")]]


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("\n", 1), ("a\n\n", 2), ("a\r\nb", 2)]
)
def test_line_count_is_what_an_editor_shows(text: str, count: int) -> None:
    assert len(lines(text, "python")) == count


def test_only_newlines_end_a_line() -> None:
    assert len(lines("a\x0bb\x0cc\u2028d\x85e\rf", "text")) == 1


def test_text_that_comes_later_is_appended() -> None:
    text = lines("x = '''a\n", "python")
    text.append("b\n")
    text.append("'''\nreturn")
    assert [["".join(t for t, _ in line)] for line in text] == [
        ["x = '''a"],
        ["b"],
        ["'''"],
        ["return"],
    ]
    assert text[1] == [("b", "string")]
    assert text[3] == [("return", "keyword")]


def test_a_huge_line_is_shown_without_colours() -> None:
    huge = lines("x = " + "1, " * 1_000_000, "python")
    assert [kind for _, kind in huge[0]] == ["text"]


# printable


@pytest.mark.parametrize(
    "attack",
    [
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x1b]52;c;ZXZpbA==\x07",
        "\x9b31m",
        "\x90q\x9c",
        "a\x08b",
        "a\rb",
        "\x00",
        "\x7f",
        "\u202eevil",
        "zero\u200bwidth",
        "\u2066isolate",
        "\ufeffbom",
        "\ud800",
        "\U000e0041tag",
        "line\u2028separator",
    ],
)
def test_what_steers_a_terminal_is_shown_not_sent(attack: str) -> None:
    shown = printable(attack)
    assert shown.isprintable()
    shown.encode("utf-8")
    assert shown != attack
    for language in highlight.LANGUAGES:
        for line in lines(f"x = 1 {attack} '{attack}' # {attack}", language):
            assert all(text.isprintable() for text, _ in line), (language, line)


def test_control_characters_keep_their_identity() -> None:
    assert printable("\x1b[0m\n\x9b\u202e") == "␛[0m␊\\x9b\\u202e"


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("def f(x): return x", "漢字 ｗｉｄｅ é ñ 👍", ""):
        assert printable(text) == text


def test_tabs_go_to_the_next_stop_wherever_the_colours_change() -> None:
    source = "a\tif\tx = 'b\tc'\t# d"
    shown = "".join(text for text, _ in lines(source, "python")[0])
    assert shown == source.expandtabs(4) == printable(source)


def test_newlines_stay_in_a_text_of_several_lines() -> None:
    assert printable_text("a\x1b\r\nb") == "a␛\nb"
