"""Breaks of one function, recorded in this process, and mends tried by real workers."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
import torch

import fx_explorer
from fx_explorer import mending
from fx_explorer.analysis.breaks.grouped import distinct_breaks
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader

PROGRAMS = Path(__file__).parent / "programs"

INPUTS = "torch.linspace(-1, 1.5, 16).view(4, 4).requires_grad_()"


@dataclass
class Case:
    """One function with its breaks and the mends for them."""

    request: CaptureRequest
    before: mending.Figures
    mends: list[mending.Mend]

    def mend(self, title: str) -> mending.Mend:
        found = [mend for mend in self.mends if mend.title == title]
        assert found, f"there is no {title!r}, only {[mend.title for mend in self.mends]}"
        return found[0]

    def tried(self, mend: mending.Mend, timeout: float = 120) -> mending.Trial:
        return asyncio.run(mending.try_mend(self.request, mend, self.before, timeout=timeout))


@pytest.fixture
def case(tmp_path: Path, warm_workers: None) -> Callable[[str], Case]:
    """``case("values:item")`` → the case of that function of programs/values.py."""
    return lambda name: make_case(name, tmp_path / "session.fxs")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without torch's warnings of what it does not trace, which is what these programs are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mock.patch.dict(os.environ):  # one of them sets a variable, which the workers must not inherit
            yield


def make_case(name: str, session: Path) -> Case:
    module, _, function = name.partition(":")
    program = importlib.import_module(f"tests.mending.programs.{module}")
    torch._dynamo.reset()
    with fx_explorer.record(session, build=False), quiet():
        torch.compile(getattr(program, function), backend="eager")(eval(INPUTS))
    request = CaptureRequest(f"tests.mending.programs.{module}:{function}", "", inputs=INPUTS, backend="eager")
    with SessionReader(session) as reader:
        mends = [mend for one in distinct_breaks(reader) for mend in mending.proposals(reader, one)]
        return Case(request, mending.figures(reader), mends)
