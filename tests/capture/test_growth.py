"""These tests check that a capture of n times as many layers does about n times as much work, and
makes about n times as many rows.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from torch import nn

import fx_explorer
from fx_explorer import model
from fx_explorer.capture import earlier_graph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.session import SessionReader
from fx_explorer.session.schema import TABLES
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs, with_others

OURS = str(Path(fx_explorer.__file__).parent)
TIMES, SLACK = 4, 100
MOST = 1.3
"""Times as much as what grows with the layers: something that is the square would be 4 times that.
"""


class Layer(nn.Module):
    """Its input is used twice, so that gradients are summed; every layer's nodes are from the same
    lines.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(x)) * self.scale


def model_of(layers: int) -> nn.Module:
    return nn.Sequential(*(Layer() for _ in range(layers)))


def captured(
    path: Path, layers: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[SessionReader, Counter[str]]:
    """The session, and how many lines each function of ours ran while something was noted, loops
    and comprehensions counted by their turns.
    """
    ran: Counter[CodeType] = Counter()

    def of_ours(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            ran[frame.f_code] += 1
        return of_ours

    def of_any(frame: FrameType, _event: str, _: object) -> Any:
        return of_ours if frame.f_code.co_filename.startswith(OURS) else None

    def program(compile_: Compile) -> None:
        compile_(model_of(layers))(torch.randn(2, 4)).sum().backward()

    @contextlib.contextmanager
    def noting(self: Recording, *args: Any, **kwargs: Any) -> Iterator[None]:
        with original(self, *args, **kwargs):
            before = sys.gettrace()
            sys.settrace(of_any)
            try:
                yield
            finally:
                sys.settrace(before)

    original = Recording.noting
    with monkeypatch.context() as patch:
        patch.setattr(Recording, "noting", noting)
        reader = record(path, program, backend=backend)
    return reader, Counter(
        {
            f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_name}": n
            for code, n in ran.items()
        }
    )


@pytest.mark.parametrize(
    ("backend", "layers"), with_others([("aot_eager", 6)], [("aot_eager", 8), ("inductor", 4)])
)
def test_work_and_rows_grow_as_the_graph_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, layers: int
) -> None:
    monkeypatch.setattr(earlier_graph, "MOST_OF_A_LINE", 3)  # so that few layers have more
    few, ran_few = captured(tmp_path / "few.fxs", layers, backend, monkeypatch)
    many, ran_many = captured(tmp_path / "many.fxs", layers * TIMES, backend, monkeypatch)
    assert failures(few) == failures(many) == []
    nodes = few.count(model.Node), many.count(model.Node)
    assert nodes[1] > 3 * nodes[0]
    assert too_many(ran_few, ran_many) == {}
    rows_few, rows_many = (
        Counter({kind.__name__: reader.count(kind) for kind in TABLES}) for reader in (few, many)
    )
    assert too_many(rows_few, rows_many) == {}


def too_many(few: Counter[str], many: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return the counts that grew faster than the number of layers."""
    return {
        what: (few[what], count)
        for what, count in many.items()
        if count > MOST * TIMES * few[what] + SLACK
    }


@in_exhaustive_runs
def test_the_sum_of_two_gradients_comes_from_the_layer_whose_gradient_it_adds(
    tmp_path: Path,
) -> None:
    """All layers stand on one line; autograd sums when it leaves the linear layer, the first use of
    its input.
    """

    def program(compile_: Compile) -> None:
        compile_(model_of(5))(torch.randn(2, 4)).sum().backward()

    reader = record(tmp_path / "s.fxs", program, backend="aot_eager")
    sums = reader.query(
        "SELECT total.id, addend.parent, link.parent FROM link JOIN node total ON total.id=link.child "
        "JOIN edge ON edge.consumer=total.id JOIN link addend ON addend.child=edge.producer AND addend.how<>'stack_trace' "
        "JOIN graph ON graph.id=total.graph AND graph.stage='joint' WHERE link.how='stack_trace'"
    )
    assert len({total for total, _, _ in sums}) == 4
    assert all(row == of_the_addend for _, of_the_addend, row in sums)
    assert len({row for _, _, row in sums}) == 4
