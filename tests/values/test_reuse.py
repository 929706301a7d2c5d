"""These tests check how often compiled code and nested regions are used again: against a counter in
a run without a recorder, and against torch's log of reuse.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.analysis.compiled_calls import calls_of_compilations, failed_guards_of
from fx_explorer.analysis.documents import place_of_node
from fx_explorer.analysis.nested_regions import (
    describe_region,
    nested_regions,
    why_traced_again,
)
from fx_explorer.capture.torch_compat.versions import release
from fx_explorer.instruments.regions import regions_table
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.inspect import entries
from tests.capture.recorded import Compile, failures, record

NESTED = "nested_compile_region"
"""What the view of regions has as the key of a nested region."""


def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


CALLS = [(4, 2), (4, 2), (4, 3), (4, 2), (4, 3), (4, 3), (4, 3)]
"""(Size, factor) of each call."""


def call_scaled(compile_it: Compile) -> None:
    compiled = compile_it(scaled)
    for size, factor in CALLS:
        compiled(torch.ones(size), factor)


def bare_calls(program: Any) -> list[int]:
    """Return how often each graph is called, in the order in which they are compiled, in a run
    without a recorder.
    """
    counts: Counter[int] = Counter()
    made = 0

    def backend(module: torch.fx.GraphModule, inputs: object) -> Any:
        nonlocal made
        number, made = made, made + 1
        counts[number] = 0

        def run(*arguments: Any) -> Any:
            counts[number] += 1
            return module(*arguments)

        return run

    torch._dynamo.reset()
    program(lambda function: torch.compile(function, backend=backend))
    torch._dynamo.reset()
    return [counts[number] for number in range(made)]


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_calls_are_those_of_a_bare_run(tmp_path: Path, backend: str) -> None:
    with record(tmp_path / "calls.fxs", call_scaled, backend=backend) as reader:
        assert failures(reader) == []
        calls = calls_of_compilations(reader)
        counted = [calls[row.id] for row in reader.rows(model.Compilation)]
        assert counted == bare_calls(call_scaled)
        assert sum(counted) == len(CALLS)
        [_, second] = reader.rows(model.Compilation)
        [guard] = failed_guards_of(reader)[second.id]
        assert guard.startswith("0/0: ")
        assert "factor" in guard


# Nested compile regions.


class Block(nn.Module):
    def __init__(self, activation: Any = torch.relu) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.activation = activation

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.activation(self.linear(x))
        return result


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        others = [Block(), Block(torch.tanh), Block()]
        self.blocks = nn.ModuleList([Block(), *others])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def call_model(compile_it: Compile) -> None:
    compile_it(Model())(torch.ones(2, 8, requires_grad=True))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("reuse") / "model.fxs"
    with record(path, call_model, backend="aot_eager") as reader:
        yield reader


def logged_hits() -> int:
    """Return how often torch says that it reuses a region, in a run without a recorder."""
    messages: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger = logging.getLogger("torch._dynamo")
    handler = Kept()
    torch._dynamo.reset()
    torch._logging.set_logs(hierarchical_compile=True)
    logger.addHandler(handler)
    try:
        call_model(lambda function: torch.compile(function, backend="aot_eager"))
    finally:
        logger.removeHandler(handler)
        torch._logging.set_logs()
        torch._dynamo.reset()
    return sum("subgraph_reuse: cache hit" in message for message in messages)


@pytest.mark.skipif(release() < (2, 13), reason="torch does not reuse traces of regions")
def test_reuse_is_what_torch_logs(session: SessionReader) -> None:
    assert failures(session) == []
    [region] = nested_regions(session)
    assert region.calls == 4
    assert region.traced + region.reused == region.calls
    assert region.reused == logged_hits() == 2


@pytest.mark.skipif(release() < (2, 13), reason="torch does not reuse traces of regions")
def test_why_it_was_traced_again_is_said_with_the_users_names(session: SessionReader) -> None:
    [region] = nested_regions(session)
    reason = why_traced_again(region)
    assert "self.blocks.2.activation is tanh, and was relu before (guard BUILTIN_MATCH)" in reason
    assert describe_region(region).startswith(
        "The nested region Block.forward is called 4 times, traced twice, reused twice"
    )


@pytest.mark.skipif(release() < (2, 13), reason="torch does not reuse traces of regions")
def test_it_is_in_the_details_of_a_call_and_in_the_view(session: SessionReader) -> None:
    [graph] = [row for row in session.rows(model.Graph, stage="dynamo") if not row.parent]
    calls = [node for node in session.nodes(graph) if node.subgraph_names]
    assert len(calls) == 4
    for call in calls:
        shown = entries(session, place_of_node(session, call))
        [entry] = [entry for entry in shown if entry.label == "region"]
        assert "traced twice, reused twice" in entry.text
    [row] = [row for row in regions_table(session).rows if row.cells[-1] == NESTED]
    assert row.cells[0] == "Block.forward"
    assert "traced 2 ×, reused 2 ×" in row.cells
