"""These tests try fixes of scripts in real workers: the parts that two runs of a script have in
common are compared, and listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.analysis.whole_session import session_figures
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.measure.reachable import ReachedValues
from fx_explorer.instruments.fixes.measure.script_comparing import compared
from fx_explorer.instruments.fixes.measure.script_results import MOST_CALLS
from fx_explorer.instruments.fixes.offers import proposals
from fx_explorer.instruments.fixes.trial import Trial, try_fix
from fx_explorer.session import SessionReader
from tests.exhaustive import in_exhaustive_runs

OUT = "move the print out of the compiled code"
AFTER = "let torch do the print after the graph"
AT_CALLER = "print where the compiled code is called"

TRAINING = """
import sys
import torch

model = torch.nn.Linear(4, 4)

@torch.compile(backend="eager")
def loss_of(x):
    y = model(x)
    print("mean", y.mean())
    return y.pow(2).sum()

for _ in range(2):
    loss = loss_of(torch.randn(3, 4))
    loss.backward()
sys.exit(3)
"""

IN_A_FUNCTION = """
import torch

@torch.compile(backend="eager")
def f(x):
    y = x + 1
    print(y.{method}())
    return y * 2

def main():
    {use}

main()
"""


ROUNDED_LESS = """
import torch

@torch.compile
def f(x):
    y = (x + 1000) - 1000
    print("shape", y.shape)
    return y * 2

last = f(torch.linspace(0, 1, 64, dtype=torch.float16))
"""
"""Inductor rounds to 16 bits once, PyTorch's operators do after each operation."""


IN_MAIN = """
import torch

def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step(x, counts):
        n = counts.sum(dtype=torch.int32).item()
        (model(x).pow(2).mean() * (n * n / 1e9)).backward()

    for _ in range(2):
        step(torch.ones(3, 4), torch.full((16,), 3000, dtype=torch.int32))
        opt.step()
        opt.zero_grad()
    print("trained")

main()
"""
"""In a tensor, ``n * n`` overflows. Nothing is returned, nothing is global, and the gradients are
gone at the end.
"""


SMALL_STEPS = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(6, 6)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        y = self.lin(x)
        old = self.scale.item()
        self.scale.mul_(3)
        return y * old

model = Scaled()
net = torch.compile(model)
opt = torch.optim.SGD(model.parameters(), lr=1e-7)
for _ in range(2):
    net(torch.randn(4, 6)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
"""
"""torch 2.13 reads the number anew in the backward, when it has been changed. What the optimizer
makes of such a gradient is less than what rounding may make.
"""


TIMED = """
import time
import torch

model = torch.nn.Linear(4, 4)

@torch.compile(backend="eager")
def f(x):
    y = model(x).relu()
    print("inside")
    return y.sum()

began = time.perf_counter()
for step in range(2):
    last = f(torch.ones(2, 4)).item()
    print(f"step {step} sum {last:.3f} took {time.perf_counter() - began:.6f} s")
elapsed = time.perf_counter() - began
"""


THROWN_AWAY = """
import io
import torch

def run(scale):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def loss_of(x, counts):
        n = counts.sum(dtype=torch.int32).item()
        return model(x).pow(2).mean() * (n * n / 1e9)

    {train}
    torch.save({{"model": model.state_dict(), "scale": scale}}, io.BytesIO())
    del model, opt, loss_of

run(3000)
run(1)
"""
"""In a tensor, ``n * n`` overflows in the first run. Nothing of it is left at the end."""

TRAIN = (
    "loss_of(torch.ones(3, 4), torch.full((16,), scale, dtype=torch.int32)).backward(); opt.step()"
)


PRINTS_NORMS = """
import torch

weight = torch.ones(3, requires_grad=True)
weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))

@torch.compile
def step(x):
    loss = (weight * x).pow(2).sum()
    loss.backward()
    return loss.detach()

for _ in range(2):
    weight.grad = None
    step(torch.ones(3))
    print(f"norm {weight.grad.norm().item():.4f}")
weight.grad = None
"""


LOGS = """
import logging
import torch

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("train")

@torch.compile(backend="eager")
def f(x):
    y = x.relu()
    log.info("seen")
    return y + 1

out = f(torch.ones(3))
"""


OF_A_MODULE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x).relu()
        print("between", x.shape)
        return self.second(x)

net = Net()
out = torch.compile(net, backend="eager")(torch.ones(3, 4))
out.sum().backward()
"""


def tried(session: Path, title: str) -> Trial:
    with SessionReader(session) as reader:
        assert len(distinct_breaks(reader)) == 1
    return tried_one_of_several(session, title)


def tried_one_of_several(session: Path, title: str) -> Trial:
    with SessionReader(session) as reader:
        fixes = (fix for hit in distinct_breaks(reader) for fix in proposals(reader, hit))
        fix = next(fix for fix in fixes if fix.title == title)
        request, before = reader.request(), session_figures(reader)
    assert request is not None
    return asyncio.run(try_fix(request, fix, before))


@pytest.fixture
def script(
    tmp_path: Path, captured: Callable[..., Path], warm_workers: None
) -> Callable[..., Path]:
    """``script(text)`` → the session of the script."""

    def session_of(text: str, exit_code: int = 0) -> Path:
        file = tmp_path / "script.py"
        file.write_text(text)
        return captured(file, exit_code=exit_code)

    return session_of


def test_what_two_runs_of_a_script_have_in_common_is_compared_and_said(
    script: Callable[..., Path],
) -> None:
    trial = tried(script(TRAINING, exit_code=3), AFTER)
    assert trial.verdict == "good"
    assert trial.reason == (
        "1 break → 0; equal: exit status, 2 values that compiled calls return, 2 parameters and "
        "buffers, 6 gradients, 1 global tensor, 2 printed lines; not tried: a call in which a "
        "line after the print raises: nothing is written then"
    )


def test_calls_that_only_one_of_the_runs_makes_are_named(script: Callable[..., Path]) -> None:
    trial = tried(script(TRAINING, exit_code=3), AT_CALLER)
    assert trial.verdict == "good where compared"
    assert trial.reason.endswith(
        "not compared: calls of loss_of, which is compiled only in the original; calls of "
        "loss_of_graph, which is compiled only in the changed script; not tried: a call in which a "
        "line after the print raises: nothing is written then"
    )


def test_a_script_whose_compiled_calls_return_something_else_is_refused(
    script: Callable[..., Path],
) -> None:
    trial = tried(script(IN_A_FUNCTION.format(method="sin_", use="f(torch.ones(2))")), OUT)
    assert trial.verdict == "refused"
    assert trial.reason.startswith(
        "results differ: the output of call 1 of f, with the script's own inputs: differs"
    )


def test_a_script_that_ends_otherwise_is_refused(script: Callable[..., Path]) -> None:
    trial = tried(
        script(
            IN_A_FUNCTION.format(
                method="sin_", use="raise SystemExit(int(f(torch.ones(2))[0] > 3))"
            )
        ),
        OUT,
    )
    assert trial.verdict == "refused"
    assert "the exit status, with the script's own inputs: was 0 and is 1" in str(
        trial.verification
    )


@in_exhaustive_runs
def test_without_results_to_compare_it_is_not_called_good(script: Callable[..., Path]) -> None:
    trial = tried(script(IN_A_FUNCTION.format(method="sin", use="f(torch.ones(2))")), AT_CALLER)
    assert trial.verdict == "not compared"
    assert trial.reason.startswith(
        "1 break → 0; equal: exit status, 1 printed line; not compared: calls of f"
    )
    assert trial.reason.endswith("results were not compared, so check them yourself")


def test_what_lies_in_variables_of_functions_is_compared(script: Callable[..., Path]) -> None:
    trial = tried_one_of_several(script(IN_MAIN), "keep the value in a tensor")
    assert trial.verdict == "refused"
    assert trial.reason.startswith(
        "results differ: main()'s model.weight, with the script's own inputs: differs by up to"
    )


@in_exhaustive_runs
def test_gradients_are_compared_where_they_come_to_be(script: Callable[..., Path]) -> None:
    trial = tried_one_of_several(script(SMALL_STEPS), "put the number into the graph")
    assert trial.verdict == "refused"
    assert "the gradient of global model.lin.weight at call 1 of backward(), with" in trial.reason
    assert "in the built code: differs" in trial.reason


def test_what_a_script_saves_and_throws_away_is_compared(script: Callable[..., Path]) -> None:
    trial = tried_one_of_several(
        script(THROWN_AWAY.format(train=TRAIN)), "keep the value in a tensor"
    )
    assert trial.verdict == "refused"
    assert trial.reason.startswith(
        "results differ: the content that call 1 of torch.save() writes['model']['weight'], with "
        "the script's own inputs"
    )
    assert "the gradient of a tensor [2, 4] at call 1 of backward(), with" in str(
        trial.verification
    )


@in_exhaustive_runs
def test_a_right_fix_of_what_is_thrown_away_is_good(script: Callable[..., Path]) -> None:
    trial = tried_one_of_several(
        script(THROWN_AWAY.format(train=TRAIN)), "put the number into the graph"
    )
    assert trial.verdict == "good", trial.reason
    assert "4 gradients, 4 tensors given to torch.save()" in trial.reason


@in_exhaustive_runs
def test_gradients_of_a_backward_inside_a_graph_are_not_said_to_be_equal(
    script: Callable[..., Path],
) -> None:
    trial = tried_one_of_several(script(PRINTS_NORMS), "trace backward() into the graph")
    assert trial.verdict in ("refused", "good where compared"), trial.reason
    if trial.verdict == "good where compared":  # a release of torch that knows the hook
        assert (
            "gradients at calls of backward(): the original makes 2, the changed script 0"
            in trial.reason
        )
    else:
        assert "it no longer prints" in trial.reason


def test_what_a_clock_says_is_not_laid_to_the_fix(script: Callable[..., Path]) -> None:
    trial = tried(script(TIMED), AFTER)
    assert trial.verdict == "good where compared", trial.reason
    assert trial.verification is not None
    left_out = ", ".join(trial.verification.not_compared)
    assert "global began and 1 more value, which differ from run to run" in left_out
    assert "numbers in the line 'step # sum # took # s', which differ from run to run" in left_out
    assert trial.verification.compared["printed line"] == 4


@in_exhaustive_runs
def test_what_a_script_logs_is_heard_as_it_configures_it(script: Callable[..., Path]) -> None:
    trial = tried_one_of_several(script(LOGS), "move the log message out of the compiled code")
    assert trial.verdict == "prints differ", trial.reason
    assert "no longer printed or logged: 'INFO train: seen'" in trial.reason


def run(counts: dict[str, int], values: dict[str, object], problem: str = "") -> dict[str, object]:
    returned = {name: {f"{name} {value}": value for value in [values.get(name)]} for name in counts}
    return {
        "call": "x",
        **vars(ReachedValues()),
        "names": [],
        "printed": [],
        "errors": [],
        "effects": [],
        "hidden": [],
        "not reached": [],
        "raised": "",
        "message": "",
        "returned": returned,
        "identities": {},
        "counts": counts,
        "problem": problem,
        "variables": [],
        "possible variables": [],
        "gradients": {},
        "kept calls": min(sum(counts.values()), MOST_CALLS),
        "backward calls": 0,
        "kept backward calls": 0,
        "saved": 0,
        "kept saved": 0,
    }


def test_a_function_that_is_called_more_often_is_a_difference() -> None:
    assert not compared(run({"f": 2}, {"f": 1}), run({"f": 2}, {"f": 1})).differences
    assert not compared(run({"f": 2}, {}), run({"f": 2}, {})).compared["output"], (
        "what is None is no result"
    )
    found = compared(run({"f": 2}, {"f": 1}), run({"f": 3}, {"f": 1}))
    assert found.differences == ["the number of calls of f, with x: was 2 and is 3"]


def test_what_is_not_kept_is_said() -> None:
    many = run({"f": MOST_CALLS + 1}, {"f": 1})
    assert compared(many, many).not_compared == [
        f"compiled calls after the first {MOST_CALLS} of {MOST_CALLS + 1}"
    ]
    blind = run({}, {}, "torch 9 has no such part")
    assert compared(blind, blind).not_compared == [
        "what compiled calls return (torch 9 has no such part)"
    ]


@in_exhaustive_runs
def test_what_inductor_changes_of_the_original_too_is_not_laid_to_the_fix(
    script: Callable[..., Path],
) -> None:
    trial = tried(script(ROUNDED_LESS), AFTER)
    assert trial.verdict == "good where compared", trial.reason
    assert "facts that compiling changes in the original too (global last" in trial.reason


SEES_THAT_IT_IS_COMPILED = """
import torch

model = torch.nn.Linear(4, 2)
plain_calls = 0

@torch.compile
def f(x):
    global plain_calls
    if not torch.compiler.is_compiling():
        plain_calls += 1
    y = model(x)
    torch._dynamo.graph_break()
    return y.relu()

for _ in range(2):
    out = f(torch.ones(3, 4))
print("plain calls", plain_calls)
"""


@in_exhaustive_runs
def test_what_the_original_does_too_once_it_is_compiled_is_not_laid_to_the_fix(
    script: Callable[..., Path],
) -> None:
    trial = tried(script(SEES_THAT_IT_IS_COMPILED), "remove the line that asks for the break")
    assert trial.verdict == "good where compared", trial.reason
    assert "facts that compiling changes in the original too (global plain_calls" in trial.reason
    assert trial.reason.count("facts that compiling changes") == 1, (
        "the captured run and the built code are told of once"
    )
    assert "'plain calls 0' in place of 'plain calls 2'" in trial.reason


CATCHES = """
import torch

model = torch.nn.Linear(4, 2)

@torch.compile
def loss_of(x):
    y = model(x)
    torch._dynamo.graph_break()
    return y.pow(2).mean()

skipped = []
for width in (4, 5, 4):
    try:
        loss_of(torch.ones(3, width)).backward()
    except RuntimeError as error:
        skipped.append(str(error).splitlines()[0])
        print("skipped:", skipped[-1])
"""


@in_exhaustive_runs
def test_a_failure_of_the_compiler_that_the_original_catches_too_is_not_laid_to_the_fix(
    script: Callable[..., Path],
) -> None:
    trial = tried(script(CATCHES), "remove the line that asks for the break")
    assert trial.verdict in ("prints differ", "good where compared"), trial.reason
    assert "fails" not in trial.reason


@in_exhaustive_runs
def test_a_method_that_the_fix_adds_is_no_difference(script: Callable[..., Path]) -> None:
    trial = tried(script(OF_A_MODULE), AT_CALLER)
    assert trial.verdict == "good", trial.reason
