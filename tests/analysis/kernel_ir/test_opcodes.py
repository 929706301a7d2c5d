"""These tests check the explanations of opcodes: every opcode of the recorded kernels has one, and
an unknown one is called unknown.
"""

from __future__ import annotations

import pytest

from fx_explorer.instruments.kernels.instructions import UNIFORM, explained, instructions
from fx_explorer.model import Level
from tests.analysis.kernel_ir.samples import NAMES, sample
from tests.analysis.kernel_ir.test_control_words import ENCODED


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("mi")])
def test_every_instruction_of_a_kernel_is_explained(name: str) -> None:
    levels: tuple[Level, ...] = ("ptx", "sass")
    for level in levels:
        names = {one.name for one in instructions(level, sample(name).levels[level])}
        assert sorted(one for one in names if explained(level, one) is None) == [], level


@pytest.mark.parametrize("name", ENCODED)
def test_every_instruction_of_every_architecture_is_explained(name: str) -> None:
    names = {one.name for one in instructions("sass", ENCODED[name]["sass"])}
    assert sorted(one for one in names if explained("sass", one) is None) == []


def test_the_longest_beginning_that_is_known_counts_and_the_rest_are_modifiers() -> None:
    found = explained("ptx", "ld.global.L1::evict_last.L2::cache_hint.v4.b32")
    assert found
    assert found.opcode == "ld.global"
    assert [name for name, _ in found.modifiers] == [
        "L1::evict_last",
        "L2::cache_hint",
        "v4",
        "b32",
    ]
    assert found.words.startswith("Loads from global memory (")
    copied = explained("sass", "IMAD.MOV.U32")
    assert copied
    assert (copied.opcode, copied.modifiers) == ("IMAD.MOV", (("U32", "unsigned, 32 bits"),))


def test_shared_memory_of_the_block_is_shared_memory() -> None:
    found = explained("ptx", "st.shared::cta.b32")
    assert found
    assert found.opcode == "st.shared::cta"
    assert "shared memory" in found.sentence


def test_an_instruction_of_the_uniform_datapath_is_explained_by_the_one_without_u() -> None:
    found, plain = explained("sass", "ULOP3.LUT"), explained("sass", "LOP3.LUT")
    assert found
    assert plain
    assert found.sentence == plain.sentence
    assert UNIFORM in dict(found.modifiers).values()


def test_an_unknown_instruction_is_not_explained() -> None:
    assert explained("sass", "FROBNICATE.E") is None
    assert explained("ptx", "frobnicate.b32") is None
    assert explained("ttir", "tt.load") is None
