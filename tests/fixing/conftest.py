"""These helpers record breaks of one function in this process, and try its fixes in real workers."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
import torch

import fx_explorer
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import proposals
from fx_explorer.instruments.fixes.trial import Trial, try_fix
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker
from tests.shared_files import digest

PROGRAMS = Path(__file__).parent / "programs"

INPUTS = "torch.linspace(-1, 1.5, 16).view(4, 4).requires_grad_()"


@dataclass
class Case:
    """A Case is one function with its breaks and the fixes for them."""

    request: CaptureRequest
    before: SessionFigures
    fixes: list[Fix]

    def fix(self, title: str) -> Fix:
        found = [fix for fix in self.fixes if fix.title == title]
        assert found, f"there is no {title!r}, only {[fix.title for fix in self.fixes]}"
        return found[0]

    def tried(self, fix: Fix, timeout: float = 120) -> Trial:
        worker = TrialWorker(timeout_s=timeout)
        return asyncio.run(try_fix(self.request, fix, self.before, worker=worker))


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """Each case is made once in a process."""
    folder = tmp_path_factory.mktemp("cases")
    return cache(lambda name: make_case(name, folder / f"{digest(name)}.fxs"))


@pytest.fixture
def case(cases: Callable[[str], Case], warm_workers: None) -> Callable[[str], Case]:
    """``case("values:item")`` → the case of that function of programs/values.py."""
    return cases


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore torch's warnings about code that it does not trace, since these programs are about
    such code.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mock.patch.dict(
            os.environ
        ):  # one of them sets a variable, which the workers must not inherit
            yield


def make_case(name: str, session: Path) -> Case:
    module, _, function = name.partition(":")
    program = importlib.import_module(f"tests.fixing.programs.{module}")
    torch._dynamo.reset()
    with fx_explorer.record(session, build=False), quiet():
        torch.compile(getattr(program, function), backend="eager")(eval(INPUTS))
    request = CaptureRequest(
        f"tests.fixing.programs.{module}:{function}", "", inputs=INPUTS, backend="eager"
    )
    with SessionReader(session) as reader:
        fixes = [fix for hit in distinct_breaks(reader) for fix in proposals(reader, hit)]
        return Case(request, session_figures(reader), fixes)
