"""These tests compare the predicted tensors that cross graph breaks with torch's own allocator
while the same code runs.

The networks are matrix products alone, which libraries compute: no kernel is built.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.instruments.memory.saved_values import computed_total
from fx_explorer.instruments.memory.session_memory import session_memory
from fx_explorer.instruments.memory.usage import usage
from fx_explorer.instruments.memory.verdict import verdict
from fx_explorer.session.queries.compilations import source_paths
from tests.analysis.memory.test_step import most_allocated
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs, one_of

ROWS = 64


class Cut(nn.Module):
    """Cut is a model with a small product on each side of two breaks, and a large product before
    them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Parameter(torch.randn(32, 2048), requires_grad=False)
        self.small = nn.Parameter(torch.randn(32, 32))
        self.last = nn.Parameter(torch.randn(32, 256))
        self.narrow = nn.Parameter(torch.randn(2048, 32), requires_grad=False)
        """Without a gradient, as ``large`` is: what is multiplied with them is not saved."""
        self.seen: object = None

    def rest(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x @ self.last


class Kept(Cut):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        large = x @ self.large
        torch._dynamo.graph_break()
        return self.rest(x @ self.small), large


class KeptOnTheModule(Cut):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        self.seen = [x @ self.large]
        torch._dynamo.graph_break()
        return (self.rest(x @ self.small),)


class KeptByAView(Cut):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        self.note(x @ self.large)
        return (self.rest(x @ self.small),)

    @torch.compiler.disable
    def note(self, large: torch.Tensor) -> None:
        self.seen = large.detach()[:, :1]


class Dropped(Cut):
    """Dropped is a model in which the large product is neither needed nor held after the break."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        self.note(x @ self.large)
        return (self.rest(x @ self.small),)

    @torch.compiler.disable
    def note(self, large: torch.Tensor) -> None:
        self.seen = large.shape


class HandedOver(Cut):
    """The second graph takes the large product. Python has given it to the rest of the function,
    and holds it until that has ended.
    """

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        large = x @ self.large
        torch._dynamo.graph_break()
        return (self.rest(large @ self.narrow),)


class Layer(nn.Module):
    """A break in each: all layers run the code, and the graphs, of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(32, 512) / 8)
        self.down = nn.Parameter(torch.randn(512, 32) / 8)

    def forward(self, x: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        wide = (x @ encoded) @ self.up
        torch._dynamo.graph_break()
        return wide @ self.down


class Layers(Cut):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(4)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        for layer in self.layers:
            x = layer(x, self.small)
        return (self.rest(x),)


class EncoderAndDecoder(Layers):
    """EncoderAndDecoder is a model in which each layer takes the first graph's result, and the
    gradients are added up.
    """

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        encoded = x.t() @ (x @ self.small)
        torch._dynamo.graph_break()
        for layer in self.layers:
            x = layer(x, encoded)
        return (self.rest(x),)


class SharedLayer(Layers):
    """SharedLayer calls one module several times: each further gradient of its parameters is added
    to the first.
    """

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        for _ in range(4):
            x = self.layers[0](x, self.small)
        return (self.rest(x),)


class UncompiledBetween(Layers):
    """UncompiledBetween has an uncompiled operator that keeps its factors and has its own
    parameter.
    """

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        x = self.uncompiled(self.layers[0](x, self.small))
        return (self.rest(self.layers[1](x, self.small)),)

    @torch.compiler.disable
    def uncompiled(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.layers[2].up) @ self.layers[2].down


CUT = [Kept, KeptOnTheModule, KeptByAView, Dropped, HandedOver]

REPEATED = [Layers, EncoderAndDecoder, SharedLayer, UncompiledBetween]
"""Networks that call a graph several times in a step."""


def step(network: Any, x: torch.Tensor) -> None:
    results = network(x)
    results[0].backward(torch.ones(ROWS, 256))


def step_of_a_loss(network: Any, x: torch.Tensor) -> None:
    """Go backward from a number, so that the caller holds no gradient meanwhile."""
    network(x)[0].sum().backward()


def measured(network: Cut, x: torch.Tensor, step: Callable[..., None] = step) -> int:
    """Return the bytes that a compiled step allocates without fx-explorer, beyond those allocated
    before it.
    """
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while compiling
        compiled = torch.compile(network)
        for _ in range(2):
            step(compiled, x)
            network.zero_grad()
            network.seen = None
        found = most_allocated(lambda: step(compiled, x))
    torch._dynamo.reset()
    return found


@pytest.mark.parametrize("kind", one_of(3, CUT), ids=lambda kind: kind.__name__)
def test_the_peak_of_a_step_with_breaks_is_what_the_allocator_counts(
    tmp_path: Path, kind: type[Cut]
) -> None:
    network, x = kind(), torch.randn(ROWS, 32)
    reader = record(tmp_path / "s.fxs", lambda compile_: step(compile_(network), x))
    assert not failures(reader)
    used = usage(session_memory(reader).step)
    assert used.peak.total_bytes - used.begin_bytes == pytest.approx(measured(kind(), x), rel=0.01)
    whole = session_memory(reader).step
    assert computed_total(reader).size_bytes == whole.saved_bytes - whole.crossing_bytes
    told = verdict(session_memory(reader), used, source_paths(reader))
    assert any(
        "as long as your code held them in the recorded step" in sentence for sentence in told
    )


@pytest.mark.parametrize("kind", one_of(4, REPEATED), ids=lambda kind: kind.__name__)
def test_a_graph_that_runs_several_times_is_counted_as_often(
    tmp_path: Path, kind: type[Layers]
) -> None:
    network, x = kind(), torch.randn(ROWS, 32)
    reader = record(tmp_path / "s.fxs", lambda compile_: step_of_a_loss(compile_(network), x))
    assert not failures(reader)
    memory = session_memory(reader)
    used = usage(memory.step)
    assert memory.step.calls > memory.graphs
    assert used.peak.total_bytes - used.begin_bytes == pytest.approx(
        measured(kind(), x, step_of_a_loss), rel=0.03
    )
    told = verdict(memory, used, source_paths(reader))
    assert any(f"called {memory.step.calls} times" in sentence for sentence in told)


@in_exhaustive_runs
def test_the_step_of_a_script_is_its_last_with_a_new_graph_that_trains(tmp_path: Path) -> None:
    network = Layers()

    def program(compile_: Compile) -> None:
        compiled = compile_(network)
        for rows in (8, 16, 16):
            compiled(torch.randn(rows, 32))[0].sum().backward()
        with torch.no_grad():
            compiled(torch.randn(16, 32))

    rows = record(tmp_path / "s.fxs", program).rows(model.GraphCall)
    trained = {row.forward for row in rows if row.is_whole}
    assert trained == {1, 2}  # the third has no new graph, and the last has no backward
    by_forward = [{row.position for row in rows if row.forward == one} for one in trained]
    assert by_forward[0] == by_forward[1]


def test_what_is_kept_dropped_and_saved_between_graphs_is_told_apart(tmp_path: Path) -> None:
    @torch.compiler.disable
    def uncompiled(large: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (large @ weight).sum()  # saves what it multiplies, for the gradient of the weight

    kept = []

    def program(compile_: Compile) -> None:
        weight = torch.randn(2048, 1, requires_grad=True)

        @compile_
        def function(x: torch.Tensor, large: torch.Tensor) -> torch.Tensor:
            first, second = x @ large, x @ (large + 1)
            kept.append(second)
            total = uncompiled(first, weight)
            return (x @ large[:, :8]).sum() + total

        function(torch.randn(ROWS, 32), torch.randn(32, 2048, requires_grad=True)).backward()

    rows = record(tmp_path / "s.fxs", program).rows(model.ReturnedStorage)
    large = [
        (row.is_saved_between, row.at_end) for row in rows if row.size_bytes == ROWS * 2048 * 4
    ]
    assert sorted(large) == [(False, "held"), (True, "dropped")]
