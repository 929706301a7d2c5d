"""These tests check that a fixed program also works without torch.compile, as the original does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import proposals
from fx_explorer.instruments.fixes.trial import try_fix
from fx_explorer.model import CaptureRequest
from fx_explorer.program.calling import without_compiling
from fx_explorer.session import SessionReader
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.fixes import after, with_text
from tests.fixing.conftest import Case
from tests.fixing.observed import in_a_child

OUT = "move the print out of the compiled code"
HEAD = "def printed(x):\n    x = x + 1\n"
COMPILING = "torch.compiler.is_compiling()"

SCRIPT = """
import torch

@torch.compile(backend="eager")
def f(x):
    print("mean", x.mean())
    return x * 2

f(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("line", "said"),
    with_others(
        [
            (
                f"{COMPILING} or x.astype(int)",
                "it raises AttributeError: 'Tensor' object has no attribute 'astype', without torch.compile",
            ),
            (
                f"x = x if {COMPILING} else x + 1",
                "the output, with the example inputs, without torch.compile: differs by up to 2",
            ),
        ],
        [
            (
                f"x = x if {COMPILING} else x.double()",
                "its dtype was torch.float32 and is torch.float64",
            ),
            (
                f"x = x if {COMPILING} or x.sum() >= 0 else x * 2",
                "with the example inputs negated, a million times as large, without torch.compile",
            ),
            (
                f"{COMPILING} or print('more')",
                "it prints 'more' in addition, without torch.compile",
            ),
        ],
    ),
)
def test_a_fix_that_only_compiled_code_understands_is_refused(
    case: Callable[[str], Case], line: str, said: str
) -> None:
    found = case("calls:printed")
    fix = found.fix("let torch do the print after the graph")
    assert HEAD in after(fix)
    changed = with_text(
        fix, f"import torch\n{after(fix).replace(HEAD, f'{HEAD}    {line}{chr(10)}')}"
    )
    trial = found.tried(changed)
    assert trial.verdict == "refused"
    assert said in f"{trial.reason} {trial.verification}"


def proposed(session: Path, title: str) -> tuple[CaptureRequest, Fix, SessionFigures]:
    """The request of a session with one graph break, that fix for it, and the session's figures."""
    with SessionReader(session) as reader:
        (one,) = distinct_breaks(reader)
        fix = next(fix for fix in proposals(reader, one) if fix.title == title)
        request = reader.request()
        assert request is not None
        return request, fix, session_figures(reader)


@pytest.mark.usefixtures("warm_workers")
def test_a_script_that_only_compiled_code_understands_is_refused(
    tmp_path: Path, captured: Callable[..., Path]
) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    request, fix, before = proposed(captured(file), "let torch do the print after the graph")
    changed = with_text(
        fix, after(fix).replace("return x * 2", f"return x * (2 if {COMPILING} else 3)")
    )
    assert asyncio.run(try_fix(request, fix, before)).verdict == "good"
    trial = asyncio.run(try_fix(request, changed, before))
    assert trial.verdict == "refused"
    assert (
        "the output of call 1 of f, with the script's own inputs, without torch.compile: differs by up to 1"
        in trial.reason
    )


def gradient_of_cond() -> list[str]:
    without_compiling()
    x = torch.ones(3, requires_grad=True)
    made = torch.compile(lambda x: (str(torch.compiler.is_compiling()), x))(x)
    torch.cond(x.sum() > 0, lambda x: x * 3, lambda x: x * 2, (x,)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return [made[0], str(x.grad.tolist())]


def test_an_operator_that_traces_its_branches_keeps_its_gradient() -> None:
    assert in_a_child(gradient_of_cond) == ["False", "[3.0, 3.0, 3.0]"]


LOOKING_UP = """
import torch

RATES = {1000: 0.1}

@torch.compile(backend="eager")
def f(x):
    return x * RATES.get(x.sum().item(), 0.5)

f(torch.ones(2))
"""


@in_exhaustive_runs
@pytest.mark.usefixtures("warm_workers")
def test_a_script_that_looks_a_number_up_keeps_the_number(
    tmp_path: Path, captured: Callable[..., Path]
) -> None:
    file = tmp_path / "script.py"
    file.write_text(LOOKING_UP)
    request, fix, before = proposed(captured(file), "keep the value in a tensor")
    trial = asyncio.run(try_fix(request, fix, before))
    assert (trial.verdict, trial.reason) == (
        "refused",
        (
            "results differ: a tensor is looked up in a dictionary or a set, which compares by "
            "identity and not by its value"
        ),
    )
