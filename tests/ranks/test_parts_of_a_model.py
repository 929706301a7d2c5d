"""These tests check that ranks with different parts of a model may differ, and that a rank that
differs from its equals is reported.

tests/data/ranks_gloo holds logs of two processes on the CPU (torch 2.13,
``python -m benchmarks.ranks_on_gpus --keep``), without the records that no rank is compared by.
``*_none`` are jobs as they should be; in ``pipeline_branch`` rank 1 takes a branch that its stage
does not explain.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fx_explorer.instruments.ranks.compared import ComparedRanks, compare
from fx_explorer.instruments.ranks.sentences import headline
from fx_explorer.instruments.ranks.summary import unnumbered, without_identities
from tests.ranks.logs_of_ranks import DATA, H200, as_rank, text_of, with_texts, write_rank

GLOO = DATA / "ranks_gloo"


def ranks(*given: Path) -> ComparedRanks:
    return compare(given)


@pytest.mark.parametrize("job", ["tp_none", "pipeline_none"])
def test_ranks_that_did_what_they_should_do_not_diverge(job: str) -> None:
    assert ranks(GLOO / job).first is None


def test_the_logs_of_tensor_parallel_ranks_have_ids_in_names_that_differ() -> None:
    one, two = (
        set(re.findall(rb"__dtensor_spec_\d+", text_of(GLOO / "tp_none" / f"rank_{rank}.log.gz")))
        for rank in (0, 1)
    )
    assert one
    assert two
    assert not one & two


def test_stages_of_a_pipeline_are_named_as_parts_of_the_model() -> None:
    found = ranks(GLOO / "pipeline_none")
    assert headline(found).startswith("No rank diverges: the 2 ranks have 2 parts of the model")
    assert {one.aspect for one in found.findings} == {"parts"}
    assert len(found.groups) == 2


def test_a_branch_that_no_stage_explains_is_found_beside_the_parts() -> None:
    first = ranks(GLOO / "pipeline_branch").first
    assert first is not None
    assert first.words.startswith("rank 1 took a different branch at ranks_on_gpus.py:68")
    assert "its graph has softmax" in first.words


def stages(folder: Path, count: int) -> dict[int, bytes]:
    """Return the logs of a job with ``count`` ranks for each of two stages, and write them."""
    logs = {}
    for rank in range(2 * count):
        log = text_of(GLOO / "pipeline_none" / f"rank_{rank // count}.log.gz")
        logs[rank] = as_rank(log, rank)
        write_rank(folder, rank, logs[rank])
    return logs


def test_a_rank_is_held_against_those_of_its_own_stage(tmp_path: Path) -> None:
    logs = stages(tmp_path, 3)
    assert ranks(tmp_path).first is None
    odd = with_texts(logs[4], b"torch.relu(", b"torch.tanh(", b"dynamo_output_graph")
    write_rank(tmp_path, 4, odd)
    found = ranks(tmp_path)
    assert found.differing == (4,)
    assert found.first is not None
    assert found.first.others == (3, 5)
    assert "tanh" in found.first.words


def test_another_module_is_a_divergence_where_the_ranks_share_one_model(tmp_path: Path) -> None:
    log = text_of(GLOO / "tp_none" / "rank_0.log.gz")
    for rank in (0, 1):
        write_rank(tmp_path, rank, as_rank(log, rank))
    changed = with_texts(log, b"_modules_first_", b"_modules_other_", b"dynamo_output_graph")
    write_rank(tmp_path, 1, as_rank(changed.replace(b"relu", b"tanh"), 1))
    found = ranks(tmp_path)
    assert found.first is not None
    assert found.first.aspect == "graph"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("__dtensor_spec_139998860332224", "__dtensor_spec_94028123456789"),
        ("G['__optimizer_139998860332224_c0'].lr", "G['__optimizer_140543333494400_c0'].lr"),
        ("torch_obj_9804352", "torch_obj_10728640"),
        ("___check_obj_id(L['f'], 7654)", "___check_obj_id(L['f'], 98765432)"),
        ("<weakref at 0x7f01; to 'Linear' at 0x7fab12345678>",) * 2,
        (
            "__compiled_fn_1_6e0f2f34_5ac1_4b0e_8d9e_0123456789ab",
            "__compiled_fn_1_00000000_1111_2222_3333_444444444444",
        ),
        ("weights_0x7fd65ce4b1d0_c1", "weights_0x7fd65ce4ffff_c1"),
    ],
)
def test_an_identity_is_left_out_of_any_name(one: str, two: str) -> None:
    assert unnumbered(one) == unnumbered(two)
    assert without_identities(one) == without_identities(two)


@pytest.mark.parametrize(
    "text",
    [
        "tensor 'x' size mismatch at index 1. expected 128256, actual 131072",
        "L['self'].layers_12.weight",
        "L_self_modules_blocks_modules_1_parameters_weight_",
    ],
)
def test_a_size_and_a_number_of_a_module_are_no_identity(text: str) -> None:
    assert without_identities(text) == text


def test_a_rank_that_failed_comes_first_though_the_other_has_no_end(tmp_path: Path) -> None:
    for rank in (0, 1):
        log = text_of(H200 / "h200_ranks_diverge" / f"rank_{rank}.log.gz")
        if rank == 0:  # torchrun ended it while it compiled
            log = log[: log.index(b'{"compilation_metrics"')].rpartition(b"\n")[0] + b"\n"
        write_rank(tmp_path, rank, log)
    first_line = headline(ranks(tmp_path))
    assert first_line.startswith("Rank 1 failed to compile f() at ranks_zoo.py:27 in AOTAutograd")
    assert "rank 0 was still compiling it" in first_line
