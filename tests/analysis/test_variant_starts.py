"""These tests check from where another variant of a compilation can start, and with which changes."""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.other_variants import VariantStart, changes_offered, variant_starts
from fx_explorer.instruments.options.explained_options import SetByHand, without_what_was_set
from fx_explorer.model import GATES
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step


def test_variants_set_out_from_stages_that_left_something(tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        gates = [start.gate for start in variant_starts(reader)]
    assert gates == [
        gate for gate in GATES if gate in ("dynamo", "joint", "partition", "post_grad")
    ]


def test_one_of_several_compiled_regions_can_be_lowered_again_alone(tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for name, subgraph in (("attention", "sub_0"), ("mlp", "sub_1"), ("head", "")):
            writer.add(model.RegionLowering(0, 1, "forward", name, subgraph, 3))
    with SessionReader(tmp_path / "s.fxs") as reader:
        alone = [start for start in variant_starts(reader) if start.region]
    assert [start.words for start in alone] == [
        "[0/0] from the partition · only region attention",
        "[0/0] from the partition · only region mlp",
    ]


def test_what_was_set_at_a_pause_is_left_out_from_there_and_only_of_what_waited_there(
    tmp_path: Path,
) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.Setting(0, "inductor", "max_fusion_size", "int", "64", "32", ""))
    done = [
        SetByHand("joint", "0/0", {"inductor.max_fusion_size": 8}),
        SetByHand("joint", "7/0", {"inductor.max_fusion_size": 4}),
        SetByHand("partition", "0/0", {"inductor.no_such_option": 1}),
        SetByHand("dynamo", "", {"inductor.max_fusion_size": 2}),
    ]
    with SessionReader(tmp_path / "s.fxs") as reader:
        found = list(without_what_was_set(reader, done))
    assert [(one.start.gate, one.settings) for one in found] == [
        ("dynamo", {"inductor.max_fusion_size": 32}),
        ("joint", {"inductor.max_fusion_size": 32}),
    ]
    assert [one.words for one in found] == [
        "without max_fusion_size = 2 · [0/0]",
        "without max_fusion_size = 8 · [0/0]",
    ]


def test_the_backend_is_another_one_only_after_dynamo() -> None:
    offered = [one.settings for one in changes_offered(VariantStart("0/0", "dynamo"))]
    assert {"compile.backend": "eager"} in offered
    assert [one.settings for one in changes_offered(VariantStart("0/0", "joint"))] == [{}, None]
