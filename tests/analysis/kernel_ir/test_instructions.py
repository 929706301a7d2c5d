"""These tests check the instruction mix by a second count with grep."""

from __future__ import annotations

import re

import pytest

from fx_explorer.instruments.kernels.instructions import describe_mix, instructions, mix
from fx_explorer.model import Level
from tests.analysis.kernel_ir.samples import NAMES, sample


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_of_the_samples_has_a_kind(name: str) -> None:
    for level, text in sample(name).levels.items():
        assert "other" not in mix(instructions(level, text)).names


@pytest.mark.parametrize(
    ("name", "level", "kind", "pattern"),
    [
        ("h100_matmul", "ptx", "tensor core", r"wgmma\.mma_async"),
        ("h100_matmul", "sass", "tensor core", r"HGMMA"),
        ("h100_matmul", "sass", "async copy", r"LDGSTS"),
        ("h100_matmul", "ptx", "async copy", r"cp\.async\.c[ga]"),
        ("a100_matmul", "ptx", "tensor core", r"mma\.sync"),
        ("a100_matmul", "sass", "tensor core", r"\bHMMA"),
        ("mi300x_matmul", "amdgcn", "tensor core", r"\tv_mfma"),
        ("h100_softmax", "ptx", "barrier", r"bar\.sync"),
        ("h100_softmax", "sass", "global store", r"\bSTG"),
        ("mi300x_softmax", "amdgcn", "global load", r"\tbuffer_load"),
    ],
)
def test_a_kind_is_as_frequent_as_its_names(
    name: str, level: Level, kind: str, pattern: str
) -> None:
    text = sample(name).levels[level]
    found = mix(instructions(level, text))
    assert {key: count for key, count in found.by_kind.items() if key == kind} == {
        kind: len(re.findall(pattern, text))
    }


def test_a_softmax_uses_no_tensor_core_and_spills_nothing() -> None:
    one = sample("h100_softmax")
    for level in ("ptx", "sass"):
        found = mix(instructions(level, one.levels[level]))  # type: ignore[arg-type]
        assert not {"tensor core", "spill", "fp16"} & set(found.by_kind)
    assert "0 bytes spill stores" in one.fields["ptxas"]


def test_loads_are_counted_by_width() -> None:
    one = sample("h100_softmax")
    assert mix(instructions("ptx", one.levels["ptx"])).by_width[("global load", 128)] == 2
    assert mix(instructions("sass", one.levels["sass"])).by_width[("global load", 128)] == 2
    lines = [
        "\tld.global.b16 \t%rs1, [%rd1];",
        "\tld.global.v2.b64 \t{%rd2, %rd3}, [%rd1];",
        "\tst.local.b32 \t[%rd1], %r1;",
    ]
    assert mix(instructions("ptx", "\n".join(lines))).by_width == {
        ("global load", 128): 1,
        ("global load", 16): 1,
        ("spill", 32): 1,
    }


def test_tma_is_an_async_copy_and_its_wait_a_barrier() -> None:
    names = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "cp.async.bulk.wait_group.read",
    )
    kinds = [one.kind for one in instructions("ptx", "\n".join(f"\t{name} 0;" for name in names))]
    assert kinds == ["async copy", "barrier"]


def test_the_mix_is_said_in_words() -> None:
    words = describe_mix(mix(instructions("sass", sample("a100_matmul").levels["sass"])))
    assert words == "440 instructions: 64 tensor core, global loads of 128 bits"
    assert instructions("ttir", "anything") == []
