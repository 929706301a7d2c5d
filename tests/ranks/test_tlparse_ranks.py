"""These tests repeat the assertions of tlparse's tests on its logs of several ranks
(tests/integration_test.rs).

Left out is what is about the files that tlparse writes: its pages, ``chromium_events.json`` and the
parity of collectives within one rank's own code.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.instruments.ranks.compared import ComparedRanks, compare
from fx_explorer.instruments.ranks.groups import agreement
from fx_explorer.instruments.ranks.rank_finding import Aspect
from fx_explorer.instruments.ranks.reading import Texts, opened
from tests.ranks.logs_of_ranks import TLPARSE


@functools.cache
def of(name: str) -> ComparedRanks:
    return compare([TLPARSE / name])


def copies(folder: Path, *logs: str) -> ComparedRanks:
    for rank, name in enumerate(logs):
        shutil.copy(TLPARSE / name, folder / f"dedicated_log_torch_trace_rank_{rank}.log.gz")
    return compare([folder])


def sets(found: ComparedRanks, aspect: Aspect) -> list[tuple[int, ...]]:
    return agreement(found.summaries)[aspect]


def test_all_ranks_are_read() -> None:
    assert [one.rank for one in of("multi_rank_logs").summaries] == [0, 1, 2, 3]


def test_messy_input_has_two_ranks_and_the_other_files_are_named() -> None:
    found = of("multi_rank_messy_input")
    assert [one.rank for one in found.summaries] == [0, 1]
    assert {one.path.name for one in found.left_out} == {"another.log", "some_other_file.txt"}


def test_diverging_compile_ids_are_found() -> None:
    found = of("multi_rank_logs")
    assert found.differing
    assert len(sets(found, "missing")) > 1


@pytest.mark.parametrize("log", ["simple.log.gz", "cache_hit_miss.log.gz"])
def test_two_ranks_with_equal_logs_do_not_diverge(tmp_path: Path, log: str) -> None:
    assert copies(tmp_path, log, log).first is None


def test_diverging_caches_are_found(tmp_path: Path) -> None:
    assert len(sets(copies(tmp_path, "cache_hit_miss.log.gz", "simple.log.gz"), "cache")) == 2


def test_answers_of_the_caches_make_more_than_two_sets() -> None:
    assert len(sets(of("multi_rank_logs"), "cache")) > 2


def test_the_schedule_of_collectives_of_ranks_0_and_2_is_the_same_and_that_of_1_another() -> None:
    found = of("multi_rank_schedule")
    assert sets(found, "collectives") == [(0, 2), (1,)]
    assert found.differing == (1,)
    lengths = []
    for rank in found.summaries:
        with opened(Path(rank.path)) as reader:
            lengths.append(len(Texts(reader).collectives[1]))
    assert lengths == [6, 4, 6]


def test_ranks_with_the_same_schedule_do_not_diverge(tmp_path: Path) -> None:
    folder = "multi_rank_schedule/dedicated_log_torch_trace_rank_"
    assert copies(tmp_path, f"{folder}0_6u3fubwl.log.gz", f"{folder}2.log.gz").first is None


def test_estimated_run_times_are_read() -> None:
    for rank in of("multi_rank_runtime").summaries[:2]:
        with opened(Path(rank.path)) as reader:
            assert sum(Texts(reader).estimated_ns.values()) > 0


def test_a_rank_whose_log_lacks_a_record_that_others_have_does_not_diverge() -> None:
    found = of("multi_rank_runtime")
    assert (0, 1, 2, 3) in sets(found, "results")
    assert 4 not in found.differing


def test_ranks_5_and_6_have_the_same_sizes_and_types_and_others_than_the_rest() -> None:
    found = of("multi_rank_runtime")
    assert (5, 6) in sets(found, "results")
    assert found.differing == (5, 6)


def test_another_order_of_execution_is_found_and_the_caches_are_consistent() -> None:
    found = of("graph_exec_order_tests")
    assert sets(found, "executed") == [(0,), (1,)]
    assert len(sets(found, "cache")) == 1
    told = next(one.words for one in found.findings if one.aspect == "executed")
    assert told.endswith(
        "the compiled graph that ran as number 1 is [0/0] on rank 1 and [0/1] on rank 0"
    )


def test_a_directory_without_logs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ranks", str(tmp_path)]) == 5
    assert "holds no TORCH_TRACE log and no session" in capsys.readouterr().err
