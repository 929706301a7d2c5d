"""These tests check fixes of programs in 16 bits: rounding is judged by a run in float64, and
cannot hide a change that is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fx_explorer.instruments.bench.measure.calls import convert_network
from fx_explorer.instruments.fixes.measure.comparing import Comparison
from fx_explorer.instruments.fixes.measure.float64_judge import Float64Judge
from fx_explorer.instruments.fixes.trial import Trial, try_fix
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.fixes import after, with_text
from tests.fixing.test_without_compiling import proposed

OUT = "let torch do the print after the graph"

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.down = nn.Linear(32, 32)

    def forward(self, x):
        h = self.norm(x)
        print("normed")
        return self.down(nn.functional.gelu(h))

torch.manual_seed(0)
net = Net().bfloat16()

def step(x):
    return net(x)

def example_inputs():
    return (torch.randn(8, 32, dtype=torch.bfloat16),)
"""

RETURN = "return self.down(nn.functional.gelu(h))"

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture
def tried(tmp_path: Path, captured: Callable[..., Path]) -> Callable[[str, str, str], Trial]:
    """``tried(program, old, new)`` → the trial of its fix, in which ``new`` replaces ``old``."""

    def try_changed(program: str, old: str = "", new: str = "") -> Trial:
        file = tmp_path / "net16.py"
        file.write_text(program)
        request, fix, before = proposed(captured(f"{file}:net", train=False), OUT)
        assert old in after(fix)
        return asyncio.run(try_fix(request, with_text(fix, after(fix).replace(old, new)), before))

    return try_changed


@in_exhaustive_runs
def test_built_code_that_rounds_in_other_places_is_equal(
    tried: Callable[..., Trial],
) -> None:
    """Eager mode loses bits when it writes the sum in bfloat16, and a fused kernel does not."""
    trial = tried(NET.replace(RETURN, "return (h * 0.02 + 8.0) - 8.0"))
    assert trial.verdict == "good", trial.reason
    assert "also with the code built" in trial.reason


@pytest.mark.parametrize(
    ("factor", "reason"),
    with_others(
        [("1.004", "in float64: differs by up to")], [("1.01", "results differ: the output")]
    ),
)
def test_a_wrong_factor_is_refused_though_16_bits_hide_it(
    tried: Callable[..., Trial], factor: str, reason: str
) -> None:
    """The difference is within the tolerance of bfloat16, which is 1.6 %."""
    trial = tried(NET, RETURN, f"{RETURN} * {factor}")
    assert trial.verdict == "refused", trial.reason
    assert reason in trial.reason


@in_exhaustive_runs
def test_a_factor_in_compiled_code_alone_is_refused(tried: Callable[..., Trial]) -> None:
    wrong = f"{RETURN} * (1.02 if torch.compiler.is_compiling() else 1.0)"
    trial = tried(NET, RETURN, wrong)
    assert trial.verdict == "refused", trial.reason


def test_the_verdict_says_where_float64_cannot_run(tried: Callable[..., Trial]) -> None:
    names_its_dtype = "return (self.down(h.to(torch.bfloat16)) * 0.5 + 8.0) - 8.0"
    trial = tried(NET.replace(RETURN, names_its_dtype))
    assert trial.verdict == "good where compared", trial.reason
    assert "rounding, by comparison with a float64 run, the reference of PyTorch's rule (" in (
        trial.reason
    )


def test_complex_parameters_keep_their_imaginary_part() -> None:
    network = torch.nn.Linear(3, 2, dtype=torch.complex64)
    before = network.weight.detach().clone()
    convert_network(network, torch.float64)
    assert network.weight.dtype == torch.complex128
    assert torch.equal(network.weight.detach(), before.to(torch.complex128))


def of_call(output: torch.Tensor) -> dict[str, object]:
    return {"call": "zeros", "values": {"output": {"the output": output}}}


def test_other_random_numbers_are_no_judge() -> None:
    """Dropout in float64 drops other elements: that is not rounding which would excuse a result."""
    eager = torch.ones(64, dtype=torch.bfloat16)
    other = torch.ones(64, dtype=torch.float64).index_fill(0, torch.arange(0, 64, 2), 0.0)
    value = ("zeros", "the output")
    for draws, is_judge in ((True, False), (False, True)):
        judge = Float64Judge.of({"seen": [of_call(other)], "draws random numbers": draws})
        assert (judge.exact(value, eager) is not None) == is_judge


def test_a_number_of_a_program_of_16_bits_is_judged_too() -> None:
    rounding = 2.0**-8
    exact = {value: torch.tensor(2.0001) for value in (("zeros", "global loss"),)}
    comparison = Comparison(is_built=True, rounding=rounding, judge=Float64Judge(exact))
    for changed, is_equal in ((2.004, True), (2.2, False)):
        comparison.differences.clear()
        comparison._inputs = "zeros"
        comparison._add_values(
            {"global": {"global loss": 2.0}}, {"global": {"global loss": changed}}
        )
        assert (not comparison.differences) == is_equal
