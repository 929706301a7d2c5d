"""These tests check differences in built code: whether the change makes them, or Inductor, for
which the original is built too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.fixes.measure import inductors_own, near
from fx_explorer.instruments.fixes.measure.comparing import Comparison
from fx_explorer.instruments.fixes.measure.near import Distance
from fx_explorer.instruments.fixes.measure.outside import OutsideEffects
from fx_explorer.instruments.fixes.measure.programs import why_not_built
from fx_explorer.instruments.fixes.measure.verifying import CallsOfTheOriginal, add_built, compared
from fx_explorer.model import CaptureRequest
from fx_explorer.program.equal_results import Precision, is_within_tolerance
from tests.fixing.observed import header, observed

ORIGINAL = "def f(x): return x * 2"
OTHER = "def f(x): return x * 3"
THIRD, SLIGHTLY_MORE = "def f(x): return x * 4", "def f(x): return x * 2.5"
ROUNDED, ROUNDED_TOO, FARTHER = (
    f"def f(x): return x * {factor}" for factor in (2.0015, 2.002, 2.02)
)
FAILED = {"failed": "it raises CppCompileError: no"}

TOLD = [
    (
        OTHER,
        OTHER,
        "",
        (
            "facts that compiling changes in the original too (the output, with the example inputs in "
            "the built"
        ),
    ),
    (
        OTHER,
        ORIGINAL,
        "with the example inputs in the built code: differs by up to 2; the original's does not",
        "",
    ),
    (
        OTHER,
        THIRD,
        "",
        "by up to 2, and the original's by up to 4 of 4, so the effect of the change on it is unknown",
    ),
    (
        THIRD,
        SLIGHTLY_MORE,
        "differs by up to 4; the original's also differs by up to 1, but differently",
        "",
    ),
    (ROUNDED_TOO, ROUNDED, "", "differs by up to 0.004, and the original's by up to 0.003"),
    (
        FARTHER,
        ROUNDED,
        "differs by up to 0.04; the original's also differs by up to 0.003, but differently",
        "",
    ),
    (ROUNDED_TOO, ORIGINAL, "differs by up to 0.004; the original's does not", ""),
    (
        OTHER,
        {"problem": "no compiler"},
        "(whether the original's differs too is not known: no compiler)",
        "",
    ),
    (OTHER, FAILED, "is not known: it raises CppCompileError: no)", ""),
    (
        FAILED,
        FAILED,
        "",
        "it raises CppCompileError: no, as in the original",
    ),
    (
        FAILED,
        ORIGINAL,
        "it raises CppCompileError: no, in the built code; the original's does not",
        "",
    ),
    (
        FAILED,
        {"problem": "it took long"},
        "(whether the original's differs too is not known: it took",
        "",
    ),
]


def run(folder: Path, program: str | dict[str, str]) -> dict[str, Any]:
    return (
        dict(program)
        if isinstance(program, dict)
        else observed(folder / "program.py", header(program), "torch.arange(3.0)")
    )


@pytest.mark.parametrize(("built", "built_original", "different", "left_out"), TOLD)
def test_a_difference_is_laid_to_the_change_where_the_original_does_not_have_it(
    tmp_path: Path,
    built: str | dict[str, str],
    built_original: str | dict[str, str],
    different: str,
    left_out: str,
) -> None:
    before = {**run(tmp_path, ORIGINAL), "hidden": [], "not reached": []}
    original = CallsOfTheOriginal(before, before["words"])
    comparison = original.compared(before["seen"], before["names"])
    add_built(
        comparison,
        original,
        run(tmp_path, built),
        before["words"],
        lambda: run(tmp_path, built_original),
    )
    assert bool(comparison.differences) == bool(different)
    assert different in "".join(comparison.differences[:1])
    assert bool(comparison.not_compared) == bool(left_out)
    assert left_out in "".join(comparison.not_compared[:1])
    assert not (comparison.is_run_built and left_out), "it would be said to be equal"


def test_small_numbers_in_built_code_are_held_against_their_size(tmp_path: Path) -> None:
    small = run(tmp_path, "def f(x): return x * 2e-3")
    before = {**small, "hidden": [], "not reached": []}
    for factor, is_near in (("2.0001e-3", True), ("2.05e-3", False)):
        changed = run(tmp_path, f"def f(x): return x * {factor}")
        found = compared(before, changed["seen"], before["names"], before["words"], is_built=True)
        assert (
            "the output, with the example inputs in the built code: " in "".join(found.differences)
        ) != is_near


def test_the_original_is_built_only_where_there_is_a_difference(tmp_path: Path) -> None:
    before = {**run(tmp_path, ORIGINAL), "hidden": [], "not reached": []}
    original = CallsOfTheOriginal(before, before["words"])
    comparison = original.compared(before["seen"], before["names"])
    add_built(
        comparison,
        original,
        run(tmp_path, ORIGINAL),
        before["words"],
        lambda: pytest.fail("it was built"),
    )
    assert (comparison.differences, comparison.not_compared, comparison.is_run_built) == (
        [],
        [],
        True,
    )


def test_for_a_gpu_that_is_not_here_the_reason_names_it() -> None:
    request = CaptureRequest("model.py", "", gpu=find_gpu("h100"))
    assert why_not_built(request) == "it is for a GPU that is not here (NVIDIA H100 SXM 80 GB)"


def test_bytecode_that_an_import_writes_is_not_the_programs_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_by_it.py").write_text("open(__file__ + '.txt', 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found: list[str] = []
    program = tmp_path / "program.py"
    with OutsideEffects().recorded(found):
        exec(compile("import imported_by_it", str(program), "exec"), {})
    sys.modules.pop("imported_by_it")
    assert os.listdir(tmp_path / "__pycache__"), "there is nothing to be heard"
    assert len(found) == 1, found
    assert found[0].startswith("opens ")
    assert "__pycache__" not in found[0]


WAS, IS = "eager calls 2", "eager calls 0"


@pytest.mark.parametrize(
    ("captured", "of_original", "between", "left"),
    [
        (([WAS], [IS]), ([WAS], [IS]), ([], []), ([], [])),
        (([WAS, "step 1"], [IS, "step 2"]), ([WAS], [IS]), ([], []), (["step 1"], ["step 2"])),
        (([WAS], [IS]), ([WAS, "x"], [IS, "y"]), (["y"], ["x"]), ([], [])),
        (
            ([WAS], ["eager calls 1"]),
            ([WAS], [IS]),
            ([IS], ["eager calls 1"]),
            ([WAS], ["eager calls 1"]),
        ),
        (([WAS], []), ([], []), ([], []), ([WAS], [])),
        (([WAS], []), ([WAS], []), ([], []), ([WAS], [])),
    ],
)
def test_lines_are_laid_to_the_change_where_the_compiled_original_prints_others(
    captured: tuple[list[str], list[str]],
    of_original: tuple[list[str], list[str]],
    between: tuple[list[str], list[str]],
    left: tuple[list[str], list[str]],
) -> None:
    found, by_original, both = (
        Comparison(lost=list(lost), new=list(new)) for lost, new in (captured, of_original, between)
    )
    inductors_own.explain(found, by_original, both)
    assert (found.lost, found.new) == left
    assert bool(found.not_compared) == (left != captured)


def test_a_number_that_is_off_by_more_than_rounding_makes_is_not_looked_for_in_the_original() -> (
    None
):
    off = Comparison(
        differences=["the output: differs by up to 3"],
        apart={"the output: differs by up to 3": Distance(3.0, 4.0)},
    )
    assert not inductors_own.may_be_compilings(off)
    assert not inductors_own.may_be_compilings(Comparison(lost=["a line"]))
    assert inductors_own.may_be_compilings(Comparison(lost=["a line"], new=["another"]))
    assert inductors_own.may_be_compilings(Comparison(differences=["global calls: was 2 and is 0"]))


def test_built_code_of_16_bits_may_round_in_other_places() -> None:
    """A fused kernel rounds once where eager mode rounds after each operation."""
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(4096, generator=generator) * 1e-3
    noise = torch.randn(4096, generator=generator) * 5e-6
    eager, fused = exact.bfloat16(), (exact + noise).bfloat16()
    assert not is_within_tolerance(fused, eager)
    narrow = torch.finfo(torch.bfloat16).eps / 2
    wide = exact + noise  # a result in float32 that was computed in 16 bits
    assert near.are_tensors_near(eager, fused, Precision(narrow), is_built=True)
    assert near.are_tensors_near(exact, wide, Precision(narrow), is_built=True)
    assert not near.are_tensors_near(exact, wide, is_built=True)
    assert not near.are_tensors_near(
        eager, (exact * 1.1).bfloat16(), Precision(narrow), is_built=True
    )
    assert not near.are_tensors_near(
        eager, exact.flip(0).bfloat16(), Precision(narrow), is_built=True
    )
    assert not near.are_tensors_near(exact, exact + noise * 200, Precision(narrow), is_built=True)


def test_the_coarsest_numbers_of_a_program_are_known(tmp_path: Path) -> None:
    for dtype, rounding in (("float32", 2.0**-24), ("bfloat16", 2.0**-8)):
        program = f"import torch\ndef f(x): return (x.to(torch.{dtype}) * 2, x * 2)"
        before = {**run(tmp_path, program), "hidden": [], "not reached": []}
        found = compared(before, before["seen"], before["names"], before["words"], is_built=True)
        assert found.rounding == rounding


def test_what_compilers_set_in_the_environment_is_no_effect(tmp_path: Path) -> None:
    before = {**run(tmp_path, ORIGINAL), "hidden": [], "not reached": []}
    sets = 'def f(x):\n    import os\n    os.environ["{}"] = "1"\n    return x * 2'
    for name, is_an_effect in (("TRITON_PTXAS_PATH", False), ("TRITON_OTHER", True)):
        changed = run(tmp_path, sets.format(name))
        os.environ.pop(name, None)
        found = compared(before, changed["seen"], before["names"], before["words"], is_built=True)
        assert (f"os.environ['{name}'] is new" in "".join(found.differences)) == is_an_effect
