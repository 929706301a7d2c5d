"""These tests check the decoding of SASS control words for each architecture: nvdisasm's own words
are the second source.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from fx_explorer.analysis.kernel_lines import sass_instruction_lines
from fx_explorer.instruments.kernels.assembly_text import code_lines, without_encoding
from fx_explorer.instruments.kernels.live_registers import (
    control_text,
    control_words,
    decoded,
    describe_control,
)
from tests.analysis.kernel_ir.samples import DATA, sample

ENCODED: dict[str, Any] = json.loads(gzip.decompress((DATA / "encoded.json.gz").read_bytes()))


@pytest.mark.parametrize("name", ENCODED)
def test_the_bits_for_reuse_are_what_nvdisasm_writes_as_reuse(name: str) -> None:
    text = ENCODED[name]["sass"]
    lines = text.split("\n")
    words = control_words(text)
    assert set(words) == set(sass_instruction_lines(text))
    assert any(word.reuse for word in words.values())
    assert [
        lines[at - 1]
        for at, word in words.items()
        if bool(word.reuse) != (".reuse" in lines[at - 1])
    ] == []


@pytest.mark.parametrize("name", ENCODED)
def test_what_takes_an_unknown_time_sets_a_barrier_that_is_waited_for(name: str) -> None:
    """Special functions and special registers take an unknown time, so whoever needs the result
    waits for a barrier.
    """
    text = ENCODED[name]["sass"]
    lines = text.split("\n")
    words = control_words(text)
    late = [at for at in words if any(f" {opcode}" in lines[at - 1] for opcode in ("MUFU", "S2R "))]
    assert late
    assert [lines[at - 1] for at in late if words[at].write_barrier is None] == []
    sets = {
        one
        for word in words.values()
        for one in (word.write_barrier, word.read_barrier)
        if one is not None
    }
    waits = {barrier for word in words.values() for barrier in word.waits_for}
    assert waits
    assert waits <= sets


def test_arithmetic_of_a_known_time_sets_no_barrier() -> None:
    added = []
    for text in (one["sass"] for one in ENCODED.values()):
        lines = text.split("\n")
        words = control_words(text).items()
        added += [
            word
            for at, word in words
            if any(f" {one} " in lines[at - 1] for one in ("IADD3", "LEA", "SEL"))
        ]
    assert len(added) > 100
    assert {word.write_barrier for word in added} == {None}


def test_a_word_reads_as_cuassembler_writes_it() -> None:
    # LDC R1, c[0x0][0x28] and what waits for it, of the softmax for sm_90: 0x000e220000000800,
    # 0x002fc800000006ff
    assert control_text(decoded("0000", 0x000E220000000800)) == "B------:R-:W0:-:S01"
    waiting = decoded("0060", 0x002FC800000006FF)
    assert control_text(waiting) == "B-1----:R-:W-:Y:S04"
    assert describe_control(waiting) == [
        "waits for barrier 1",
        "stalls 4 cycles",
        "yields to another warp",
    ]


def test_a_text_without_its_encoding_or_of_an_old_architecture_has_no_control_words() -> None:
    assert control_words(sample("h100_softmax").levels["sass"]) == {}
    old = ENCODED["softmax_sm_90a"]["sass"].replace("sm_90a", "sm_61")
    assert control_words(old) == {}


def test_lines_that_are_encoding_only_are_not_shown_and_not_printed() -> None:
    text = ENCODED["softmax_sm_90a"]["sass"]
    lines = text.split("\n")
    shown = [lines[at] for at in code_lines("sass", text)]
    assert [line for line in shown if line.strip().startswith("/* 0x")] == []
    printed = without_encoding("sass", text)
    assert "/* 0x" not in printed
    assert len(sass_instruction_lines(printed)) == len(sass_instruction_lines(text))
