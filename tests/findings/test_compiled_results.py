"""These tests check what is said of scripts that print other results with built code than in eager
mode. In an exhaustive run a wrong lowering is planted, and the command finds it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fx_explorer import cli
from fx_explorer.findings import compiled_results
from fx_explorer.findings.cache_faults import BuiltRun
from fx_explorer.findings.compiled_results import (
    BuiltResults,
    built_findings,
    compare_built,
    has_low_precision,
    writes_into_views,
)
from fx_explorer.findings.without_compile import ProgramRun
from fx_explorer.model import CaptureRequest
from fx_explorer.trials import HERE, TrialWorker
from tests.capture.recorded import Compile, record
from tests.exhaustive import in_exhaustive_runs

EAGER = ProgramRun("finished", ("step 1", "loss 2.0"))


def compared(
    monkeypatch: pytest.MonkeyPatch, built: Sequence[str], aot_eager: Sequence[str]
) -> compiled_results.BuiltResults | None:
    async def run_program(request: CaptureRequest, worker: TrialWorker) -> ProgramRun:
        assert request.settings["compile.backend"] == "aot_eager"
        return ProgramRun("finished", tuple(aot_eager))

    monkeypatch.setattr(compiled_results, "run_program", run_program)
    request = CaptureRequest("train.py", "", as_script=True)
    ran = ProgramRun("finished", tuple(built))
    return asyncio.run(compare_built(request, ran, (EAGER, EAGER), HERE))


@pytest.mark.parametrize(
    ("aot_eager", "stage", "backend"),
    [
        (EAGER.printed, "Inductor", "aot_eager"),
        (("step 1", "loss 3.0"), "AOTAutograd", "eager"),
    ],
)
def test_the_stage_that_makes_the_difference_is_named(
    monkeypatch: pytest.MonkeyPatch, aot_eager: Sequence[str], stage: str, backend: str
) -> None:
    results = compared(monkeypatch, ("step 1", "loss 3.0"), aot_eager)
    assert results is not None
    (finding,) = built_findings(results)
    assert finding.text.endswith(f": {stage} causes the difference.")
    assert (finding.severity, finding.urgency) == ("problem", "wrong")
    assert "The compiled program prints “loss 3.0”, eager mode “loss 2.0”." in finding.evidence
    assert [remedy.state for remedy in finding.remedies] == ["tried"]
    assert f'backend="{backend}"' in finding.remedies[0].text


@pytest.mark.parametrize(("cast", "is_fault"), [("loss 2.0", False), ("loss 3.0", True)])
def test_results_that_are_right_with_the_casts_of_eager_mode_are_no_fault(
    monkeypatch: pytest.MonkeyPatch, cast: str, is_fault: bool
) -> None:
    async def run_program(request: CaptureRequest, worker: TrialWorker) -> ProgramRun:
        return EAGER

    async def run_built(
        request: CaptureRequest, worker: TrialWorker, *, use_caches: bool
    ) -> BuiltRun:
        assert request.settings == {"inductor.emulate_precision_casts": True}
        return BuiltRun("finished", 0, ("step 1", cast))

    monkeypatch.setattr(compiled_results, "run_program", run_program)
    monkeypatch.setattr(compiled_results, "run_built", run_built)
    request = CaptureRequest("train.py", "", as_script=True)
    ran = ProgramRun("finished", ("step 1", "loss 3.0"))
    results = asyncio.run(compare_built(request, ran, (EAGER, EAGER), HERE, is_low_precision=True))
    assert results is not None
    (finding,) = built_findings(results)
    assert (finding.severity == "problem") is is_fault
    assert ("emulate_precision_casts" in finding.detail) is not is_fault


@pytest.mark.parametrize(("dtype", "is_low"), [(torch.float16, True), (torch.float32, False)])
def test_which_graphs_compute_with_low_precision(
    dtype: torch.dtype, is_low: bool, tmp_path: Path
) -> None:
    def program(compile_: Compile) -> None:
        compile_(lambda x: x.sin() + 1)(torch.ones(2, dtype=dtype))

    with record(tmp_path / "s.fxs", program, backend="eager") as reader:
        assert has_low_precision(reader) is is_low


@pytest.mark.parametrize(
    "line",
    ["loss 2.001", "loss 2.", "loss  2.0", "loss 2.0, grad_fn=<CompiledFunctionBackward>"],
)
def test_rounding_and_names_are_no_difference(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    assert compared(monkeypatch, ("step 1", line), EAGER.printed) is None


def test_a_small_difference_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    results = compared(monkeypatch, ("step 1", "loss 2.1"), EAGER.printed)
    assert results is not None
    (finding,) = built_findings(results)
    assert finding.severity == "notice"
    assert "Rounding" in finding.explanation


@pytest.mark.parametrize("line", ["loss nan", "loss inf", "lost 2.0", "loss 0.0"])
def test_nan_infinity_and_other_words_are_problems(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    results = compared(monkeypatch, ("step 1", line), EAGER.printed)
    assert results is not None
    (finding,) = built_findings(results)
    assert finding.severity == "problem"


@pytest.mark.parametrize(
    ("line", "again", "is_found"),
    [
        ("compiled [0.0, 2.0]", "compiled [0.0, 2.0]", True),
        ("compiled 12.25", "compiled 12.25", True),
        ("compiled 12.25", "compiled 11.75", False),  # a time
        ("compiled in 12.2 s", "compiled in 12.2 s", False),
        ("compilations 3", "compilations 3", False),
    ],
)
def test_a_line_about_compiling_is_a_result_where_a_second_run_prints_the_same(
    monkeypatch: pytest.MonkeyPatch, line: str, again: str, is_found: bool
) -> None:
    numbers = ("3.5", "1.5")
    eager = ProgramRun("finished", (_with_numbers(line, numbers),))

    async def run_program(request: CaptureRequest, worker: TrialWorker) -> ProgramRun:
        return eager

    async def run_built(
        request: CaptureRequest, worker: TrialWorker, *, use_caches: bool
    ) -> BuiltRun:
        return BuiltRun("finished", 0, (again,))

    monkeypatch.setattr(compiled_results, "run_program", run_program)
    monkeypatch.setattr(compiled_results, "run_built", run_built)
    request = CaptureRequest("train.py", "", as_script=True)
    ran = ProgramRun("finished", (line,))
    results = asyncio.run(compare_built(request, ran, (eager, eager), HERE))
    assert (results is not None) == is_found


def _with_numbers(line: str, numbers: Sequence[str]) -> str:
    """Return a line with other numbers in place of its own."""
    rest = iter(numbers)
    return re.sub(r"\d+(?:\.\d+)?", lambda _: next(rest), line)


WRONG_LOWERING = """
import torch
from torch._inductor.lowering import lowerings

right = lowerings[torch.ops.aten.add.Tensor]
lowerings[torch.ops.aten.add.Tensor] = lambda x, y, **more: right(right(x, y, **more), y)

@torch.compile
def step(x):
    return (x + 3).sum()

print("result", step(torch.ones(4)).item())
"""


@in_exhaustive_runs
def test_a_wrong_lowering_is_found_in_what_a_script_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(WRONG_LOWERING)
    assert cli.main(["diagnose", str(script), "--try"]) == 1
    printed = capsys.readouterr().out
    assert "Inductor causes the difference" in printed.replace("\n", " ").replace("   ", "")


def doubled_columns(table: torch.Tensor) -> torch.Tensor:
    windows = table.unfold(1, 1, 5)
    windows.add_(windows)
    return table


def doubled_copy(table: torch.Tensor) -> torch.Tensor:
    return (table.unfold(1, 1, 5) * 2).add_(1)


@pytest.mark.parametrize(("function", "writes"), [(doubled_columns, True), (doubled_copy, False)])
def test_where_aotautograd_differs_a_write_into_a_view_is_named(
    function: Callable[[torch.Tensor], torch.Tensor], writes: bool, tmp_path: Path
) -> None:
    def program(compile_: Compile) -> None:
        compile_(function)(torch.ones(4, 6))

    reader = record(tmp_path / "s.fxs", program, backend="aot_eager")
    sentences = writes_into_views(reader)
    assert bool(sentences) == writes
    results = BuiltResults((("sum 1.5", "sum 9.5"),), is_right_with_aot_eager=False)
    (finding,) = built_findings(results, sentences)
    assert ("add_ at" in finding.detail) == writes
    assert ("the view that unfold makes: windows.add_(windows)" in finding.detail) == writes
    assert 'backend="eager"' in finding.remedies[0].text
    # Where Inductor differs, its code is the cause and no write.
    (of_inductor,) = built_findings(replace(results, is_right_with_aot_eager=True), sentences)
    assert "the view that" not in of_inductor.detail
