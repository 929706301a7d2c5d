"""These tests check which lines of a level are shown: no instruction is lost, and lines that only
give locations are left out.
"""

from __future__ import annotations

import re

import pytest

from fx_explorer.analysis.kernel_lines import instruction_lines, sass_instruction_lines
from fx_explorer.instruments.kernels.assembly_text import code_lines, without_margin
from tests.analysis.kernel_ir.samples import NAMES, sample


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_and_every_line_with_a_link_is_shown(name: str) -> None:
    one = sample(name)
    for level, text in one.levels.items():
        shown = {line + 1 for line in code_lines(level, text)}
        instructions = sass_instruction_lines(text) if level == "sass" else instruction_lines(text)
        assert set(instructions) <= shown or level not in ("ptx", "sass", "amdgcn"), level
        assert set(one.lines(level)) <= shown, level


@pytest.mark.parametrize("name", NAMES)
def test_places_and_tables_of_debuggers_are_left_out(name: str) -> None:
    noise = re.compile(
        r"^#loc|^![0-9]+ = !DI|^\s*\.loc\s|^\s*//## File|DW_AT|\.debug_|^\s*\.file\s"
    )
    for level, text in sample(name).levels.items():
        lines = text.split("\n")
        assert [lines[i] for i in code_lines(level, text) if noise.search(lines[i])] == [], level


def test_empty_lines_follow_each_other_no_more() -> None:
    assert code_lines("ptx", "a\n\n\n\nb\n//\n\nc\n") == [0, 1, 4, 5, 7]
    assert code_lines("sass", "") == []


def test_the_margin_of_sass_goes_and_predicates_stay_aligned() -> None:
    text = sample("h100_softmax").levels["sass"]
    short = without_margin("sass", text)
    assert len(short.split("\n")) == len(text.split("\n"))
    assert "/*0130*/    @P1 LDG.E.EF.128" in short
    assert "/*0000*/        LDC R1" in short
    assert without_margin("ptx", text) == text
