"""These tests check the number of live registers at each instruction against nvdisasm's count."""

from __future__ import annotations

import pytest

from fx_explorer.instruments.kernels.live_registers import control_words, live_registers
from tests.analysis.kernel_ir.samples import sample
from tests.analysis.kernel_ir.test_control_words import ENCODED


@pytest.mark.parametrize("name", ENCODED)
def test_as_many_registers_are_live_at_each_instruction_as_nvdisasm_counts(name: str) -> None:
    text = ENCODED[name]["sass"]
    live = live_registers(text)
    counted = {word.address: live[line] for line, word in control_words(text).items()}
    expected = ENCODED[name]["live"]
    assert len(expected) > 50
    assert {at: counted[at] for at in expected} == expected


@pytest.mark.parametrize("name", ["h100_softmax", "h100_matmul", "a100_matmul"])
def test_no_more_registers_are_live_than_ptxas_allocated(name: str) -> None:
    one = sample(name)
    allocated = int(one.fields["cuobjdump"].partition("REG:")[2].split()[0])
    assert 0 < max(live_registers(one.levels["sass"]).values()) <= allocated


def test_one_unknown_instruction_leaves_the_whole_text_without_an_answer() -> None:
    text = ENCODED["softmax_sm_90a"]["sass"]
    assert live_registers(text.replace("MUFU.RCP R3, R3", "FROBNICATE R3, R3")) == {}
    assert live_registers("") == {}
