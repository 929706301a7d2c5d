"""These tests check the links between lines of every level and lines of the Triton source, in both
directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from fx_explorer.analysis import kernel_lines
from fx_explorer.analysis.kernel_documents import lines_of_level
from fx_explorer.analysis.kernel_lines import KernelFile, LineMap, inverted
from tests.analysis.kernel_ir.samples import NAMES, sample


def share_mapped(lines: LineMap, instructions: Iterable[int]) -> float:
    """Return the share of these lines that lead to a line of the Triton source; 1 when there are no
    lines.
    """
    wanted = list(instructions)
    return sum(line in lines for line in wanted) / len(wanted) if wanted else 1.0


@pytest.mark.parametrize("name", NAMES)
def test_nine_of_ten_machine_instructions_lead_to_a_line(name: str) -> None:
    one = sample(name)
    level = "ptx" if "ptx" in one.levels else "amdgcn"
    assert share_mapped(one.lines(level), kernel_lines.instruction_lines(one.levels[level])) >= 0.9
    if "sass" in one.levels:
        assert (
            share_mapped(one.lines("sass"), kernel_lines.sass_instruction_lines(one.levels["sass"]))
            >= 0.9
        )


@pytest.mark.parametrize("name", NAMES)
def test_every_line_that_is_named_holds_a_statement(name: str) -> None:
    one = sample(name)
    code = one.source.split("\n")
    for level in one.levels:
        for line in inverted(one.lines(level)):
            assert re.search(r"=|tl\.|for |def ", code[line - 1]), (level, line, code[line - 1])


def test_the_product_of_matrices_is_the_same_line_at_every_level() -> None:
    one = sample("h100_matmul")
    for level, operation in (
        ("ttir", "tt.dot"),
        ("ttgir", "warp_group_dot"),
        ("ptx", "wgmma.mma_async"),
        ("sass", "HGMMA"),
    ):
        assert any(operation in line for line in one.made_of(level, "tl.dot(")), level
    assert any("mfma" in line for line in sample("mi300x_matmul").made_of("amdgcn", "tl.dot("))


def test_a_helper_that_was_inlined_counts_for_the_line_that_called_it() -> None:
    one = sample("h100_softmax")
    for code in ("triton_helpers.max2(", "tl.sum("):
        assert any('"tt.reduce"' in line for line in one.made_of("ttgir", code))
        assert any("shfl.sync" in line for line in one.made_of("ptx", code))
        assert any("SHFL" in line for line in one.made_of("sass", code))
        assert any("shfl" in line for line in one.made_of("llir", code))
    assert "SHFL" in " ".join(one.made_of("sass", "triton_helpers.max2("))
    assert "FSETP" not in " ".join(one.made_of("sass", "tl.sum("))


@pytest.mark.parametrize("name", ["h100_softmax", "h100_matmul"])
def test_ptx_names_the_lines_that_llvm_ir_does(name: str) -> None:
    one = sample(name)
    assert set(inverted(one.lines("ptx"))) <= set(inverted(one.lines("llir")))


def test_the_loop_begins_where_its_end_says() -> None:
    one = sample("h100_matmul")
    assert any("scf.for" in line for line in one.made_of("ttir", "for k_idx in range("))


def test_two_operations_made_into_one_lead_to_both_lines() -> None:
    text = """#loc = loc("/cache/k.py":3:0)
    %0 = arith.addf %a, %b : f32 loc(#loc7)
    %1 = arith.addf %a, %b : f32 loc("/cache/k.py":9:1)
#loc5 = loc("x"(#loc1))
#loc1 = loc("/cache/k.py":5:2)
#loc2 = loc("/cache/k.py":8:2)
#loc7 = loc(fused[#loc5, #loc2])
"""
    assert lines_of_level("ttir", text, KernelFile("k.py")) == {2: (5, 8), 3: (9,)}


def test_a_definition_in_a_circle_and_another_file_lead_nowhere() -> None:
    text = '%0 = a loc(#loc1)\n%1 = b loc(#loc2)\n#loc1 = loc("n"(#loc1))\n#loc2 = loc("/python/helper.py":5:2)\n'
    assert lines_of_level("ttgir", text, KernelFile("k.py")) == {}


def test_a_chain_of_inlined_calls_is_followed_to_the_kernel() -> None:
    """As Triton 3.9 writes it: each directive has one step."""
    text = """\t.file\t1 "/cache/k.py"
\t.file\t2 "/python/helper.py"
\t.loc\t2 317 12, function_name $L__info_string0, inlined_at 1 48 13 // helper.py:317:12
\tshfl.sync.bfly.b32 \t%r97, %r96, 16, 31, -1;
\t.loc\t2 255 12, function_name $L__info_string0, inlined_at 2 317 12 // helper.py:255:12
\tmax.NaN.f32 \t%r98, %r96, %r97;
\t.loc\t2 317 12, function_name $L__info_string0, inlined_at 1 53 13 // helper.py:317:12
\tbar.sync \t0;
\t.loc\t2 255 12, function_name $L__info_string0, inlined_at 2 317 12 // helper.py:255:12
\tadd.f32 \t%r98, %r96, %r97;
"""
    assert lines_of_level("ptx", text, KernelFile("k.py")) == {
        4: (48,),
        6: (48,),
        8: (53,),
        10: (53,),
    }


def test_sass_with_a_chain_leads_to_its_last_place() -> None:
    text = """\t//## File "/python/helper.py", line 255 inlined at "/python/helper.py", line 317
\t//## File "/python/helper.py", line 317 inlined at "/cache/k.py", line 48
\t//## File "/cache/k.py", line 48
        /*0a90*/                   FMNMX.NAN R14, R14, R15, !PT ;
"""
    assert lines_of_level("sass", text, KernelFile("k.py"), "") == {4: (48,)}


def test_sass_of_a_helper_with_two_callers_leads_to_both() -> None:
    ptx = """\t.file\t1 "/cache/k.py"
\t.file\t2 "/python/h.py"
\t.loc\t2 9 1  // h.py:9:1 @[ k.py:4:2 ]
\t.loc\t2 9 1  // h.py:9:1 @[ k.py:7:2 ]
"""
    sass = (
        '\t//## File "/python/h.py", line 9\n        /*0000*/                   FADD R1, R2, R3 ;\n'
    )
    assert lines_of_level("sass", sass, KernelFile("k.py"), ptx) == {2: (4, 7)}


def test_what_the_compiler_calls_its_own_belongs_to_no_line() -> None:
    text = '\t.file\t1 "/cache/k.py"\n\t.loc\t1 0 0  // k.py:0\n\tadd.f32 %r1, %r2, %r3;\n'
    assert lines_of_level("ptx", text, KernelFile("k.py")) == {}
    assert lines_of_level("ptx", "", KernelFile("k.py")) == {}
