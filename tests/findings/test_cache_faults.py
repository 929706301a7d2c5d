"""These tests check what is said of a program that was run with torch's compile caches and
without. ``make exhaustive`` runs the public report whose weights are wrong with caches alone.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest

from fx_explorer.findings.cache_faults import cache_findings, compare_caches, run_built
from fx_explorer.model import CacheComparison, CaptureRequest
from fx_explorer.trials import TrialWorker
from tests.exhaustive import in_exhaustive_runs
from tests.shared_files import CASES

EQUAL = CacheComparison(0, 2, 2, "finished", "finished", (), ())


def test_equal_runs_are_no_finding() -> None:
    assert not list(cache_findings(EQUAL))


def test_other_recompiles_alone_are_a_notice() -> None:
    (finding,) = cache_findings(replace(EQUAL, recompiles_with=1))
    assert finding.severity == "notice"
    assert "With caches: 1 recompile; without: 2." in finding.detail
    assert not finding.remedies


@pytest.mark.parametrize(
    "compared",
    [
        replace(EQUAL, printed_with=("loss 3",), printed_without=("loss 2",)),
        replace(EQUAL, ended_with="ValueError: no"),
    ],
    ids=["prints", "ends"],
)
def test_other_results_are_wrong_and_the_way_out_was_tried(compared: CacheComparison) -> None:
    (finding,) = cache_findings(compared)
    assert finding.urgency == "wrong"
    assert finding.severity == "problem"
    assert finding.remedies[0].state == "tried"


AGAIN = "rest of step was recompiled 2 times: n was 1, 2, 3"


def test_the_value_that_is_compiled_less_often_with_caches_is_named() -> None:
    wrong = replace(EQUAL, recompiles_with=1, printed_with=("3",), printed_without=("2",))
    (finding,) = cache_findings(wrong, [AGAIN])
    assert f"Without caches {AGAIN}." in finding.detail
    (finding,) = cache_findings(replace(wrong, recompiles_with=2), [AGAIN])
    assert AGAIN not in finding.detail


async def compared_with_caches(request: CaptureRequest) -> CacheComparison | None:
    worker = TrialWorker(sys.executable)
    without = await run_built(request, worker, use_caches=False)
    return await compare_caches(request, without, worker)


@in_exhaustive_runs
def test_weights_that_are_wrong_with_caches_alone() -> None:
    request = CaptureRequest(str(CASES / "03_handmade_adam.py"), "", as_script=True)
    compared = asyncio.run(compared_with_caches(request))
    assert compared is not None
    assert compared.recompiles_with < compared.recompiles_without == 5
    (finding,) = cache_findings(compared)
    assert finding.urgency == "wrong"
    assert "max difference 0.0038" in finding.detail
