"""These tests compare a predicted step with torch's own allocator and hooks while the same code
runs.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile

from fx_explorer import model
from fx_explorer.instruments.memory.session_memory import SessionMemory, session_memory
from fx_explorer.instruments.memory.usage import Usage, bar, timeline, usage
from fx_explorer.instruments.memory.verdict import name_of, verdict
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import source_paths
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs


class Net(nn.Module):
    """Net is a model whose training step can be counted by hand: saved activations, temporaries, a
    gradient as large as its weight.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 256)
        self.norm = nn.LayerNorm(256)
        self.down = nn.Linear(256, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.norm(F.gelu(self.up(x)))).square().mean()


class Counted(NamedTuple):
    """Counted has torch's own counts of a step: allocated bytes beyond those before it, and bytes
    of saved storages.
    """

    peak: int
    saved: int


def most_allocated(step: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = [
        event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    held = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def measure(
    path: Path, network: nn.Module, x: torch.Tensor, step: Callable[[Any], object]
) -> tuple[Counted, SessionReader]:
    """Capture a step that is built, and count what the built code allocates when it is called
    again.
    """
    saved: dict[int, int] = {}
    found: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def program(compile_: Compile) -> None:
        compiled = compile_(network)
        for _ in range(2):
            step(compiled)
            network.zero_grad()
        found.append(most_allocated(lambda: step(compiled)))

    reader = record(path, program, build=True)
    torch._dynamo.reset()
    with (
        warnings.catch_warnings(),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        warnings.simplefilter("ignore")  # torch's own, while compiling
        torch.compile(network)(x)
    torch._dynamo.reset()
    there = {
        one.untyped_storage().data_ptr() for one in (*network.parameters(), *network.buffers(), x)
    }
    return Counted(
        found[0], sum(size for pointer, size in saved.items() if pointer not in there)
    ), reader


class Predicted(NamedTuple):
    counted: Counted
    reader: SessionReader
    memory: SessionMemory
    used: Usage


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    torch.manual_seed(0)
    network, x = Net(), torch.randn(64, 32)
    counted, reader = measure(
        tmp_path_factory.mktemp("step") / "s.fxs",
        network,
        x,
        lambda compiled: compiled(x).backward(),
    )
    assert not failures(reader)
    memory = session_memory(reader)
    return Predicted(counted, reader, memory, usage(memory.step))


def test_the_peak_is_what_the_allocator_counts(step: Predicted) -> None:
    beyond = step.used.peak.total_bytes - step.used.begin_bytes
    assert beyond == pytest.approx(step.counted.peak, rel=0.01)
    assert not step.memory.unread
    assert step.used.unknown == 0


def test_saved_bytes_are_those_of_the_hooks(step: Predicted) -> None:
    assert step.memory.step.saved_bytes == step.counted.saved > 0


def test_what_is_there_before_the_step_has_the_users_names(step: Predicted) -> None:
    before = {
        one.name: one.size_bytes
        for one in step.memory.step.held
        if one.kind in ("parameter", "buffer", "input")
    }
    network = Net()
    sizes = {name: one.untyped_storage().nbytes() for name, one in network.named_parameters()}
    assert before == {**sizes, "x": 64 * 32 * 4}
    assert step.used.begin_bytes == sum(before.values())


def test_every_gradient_is_held_at_the_end_under_its_parameters_name(step: Predicted) -> None:
    at_end = {
        name_of(one): one.size_bytes
        for one in step.used.held_at(step.memory.step.end - 1)
        if one.kind == "gradient"
    }
    sizes = {
        f"gradient of {name}": one.untyped_storage().nbytes()
        for name, one in Net().named_parameters()
    }
    assert {name: size for name, size in at_end.items() if name in sizes} == sizes


def test_saved_activations_come_from_lines_of_the_user(step: Predicted) -> None:
    saved = [one for one in step.memory.step.held if one.kind == "activation"]
    paths = source_paths(step.reader)
    assert {paths[one.node.file] for one in saved if one.node} == {__file__}
    assert all(one.node is not None for one in saved)
    assert {one.node.module for one in saved if one.node} <= {"up", "norm", "down", ""}


def test_nothing_saved_outlives_the_backward(step: Predicted) -> None:
    assert not [
        one for one in step.used.held_at(step.memory.step.end - 1) if one.kind == "activation"
    ]


def test_the_timeline_has_every_kernel_call_and_keeps_the_peak_when_it_is_short(
    step: Predicted,
) -> None:
    whole, short = timeline(step.used), timeline(step.used, 3)
    calls = [moment.call.name for moment in step.memory.step.moments]
    assert sum(row.calls for row in whole) == sum(row.calls for row in short) == len(calls)
    assert max(row.point.total_bytes for row in short) == max(
        row.point.total_bytes for row in whole
    )
    drawn = [bar(row.point, step.used.peak.total_bytes, 20) for row in whole]
    assert all(
        len(one) == round(20 * row.point.total_bytes / step.used.peak.total_bytes)
        for one, row in zip(drawn, whole, strict=True)
    )


def test_the_answer_is_the_first_sentence(step: Predicted) -> None:
    first, made_up, *_ = verdict(step.memory, step.used, source_paths(step.reader))
    assert first.startswith("A training step needs ")
    assert "in the backward of test_step.py:" in first
    assert "parameters" in made_up


class Cut(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.gelu(self.up(x))
        torch._dynamo.graph_break()
        return self.down(self.norm(h)).square().mean()


@in_exhaustive_runs
def test_a_value_that_crosses_a_break_is_counted_once(tmp_path: Path) -> None:
    network, x = Cut(), torch.randn(64, 32)
    counted, reader = measure(
        tmp_path / "s.fxs", network, x, lambda compiled: compiled(x).backward()
    )
    memory = session_memory(reader)
    used = usage(memory.step)
    assert memory.step.saved_bytes == counted.saved
    assert used.peak.total_bytes - used.begin_bytes == pytest.approx(counted.peak, rel=0.1)
    assert any(
        "each graph runs once in a step" in sentence
        for sentence in verdict(memory, used, source_paths(reader))
    )


def test_a_backend_without_output_code_is_told_and_not_guessed(tmp_path: Path) -> None:
    network, x = Net(), torch.randn(4, 32)
    reader = record(
        tmp_path / "s.fxs", lambda compile_: compile_(network)(x).backward(), backend="aot_eager"
    )
    memory = session_memory(reader)
    assert not memory.is_known
    assert [one.direction for one in memory.unread] == ["forward", "backward"]
    assert "no output code was made" in memory.unread[0].reason


# what library calls take while they work


def with_workspaces(
    path: Path, step: Predicted, size_bytes: int, problem: str = ""
) -> SessionReader:
    """A copy of the session, in which each library call was seen to take so much on a GPU."""
    copied = path / "workspaces.fxs"
    with sqlite3.connect(step.reader.path) as original, sqlite3.connect(copied) as copy:
        original.backup(copy)
    library = {kernel.id for kernel in step.reader.rows(model.Kernel, language="extern")}
    calls = [call.id for call in step.reader.rows(model.KernelCall) if call.kernel in library]
    with SessionWriter(copied) as writer:
        writer.add_all(model.LibraryWorkspace(0, call, size_bytes, problem) for call in calls)
    return SessionReader(copied)


@pytest.mark.parametrize("size_bytes", [0, 1000, 10_000_000])
def test_a_workspace_is_held_while_its_call_works_and_no_longer(
    tmp_path: Path, step: Predicted, size_bytes: int
) -> None:
    used = usage(session_memory(with_workspaces(tmp_path, step, size_bytes)).step)
    calls = [
        moment for moment in used.step.moments if moment.call.name.startswith("extern_kernels")
    ]
    assert calls
    for at in range(used.step.end):
        is_call = any(moment.at == at for moment in calls)
        taken = [one.size_bytes for one in used.held_at(at) if one.kind == "workspace"]
        assert taken == ([size_bytes] if is_call and size_bytes else [])
    during = max(sum(one.size_bytes for one in step.used.held_at(moment.at)) for moment in calls)
    assert used.peak.total_bytes == max(step.used.peak.total_bytes, during + size_bytes)


def test_a_workspace_has_the_name_of_its_operator_and_is_told(
    tmp_path: Path, step: Predicted
) -> None:
    reader = with_workspaces(tmp_path, step, 10_000_000)
    memory = session_memory(reader)
    told = verdict(memory, usage(memory.step), source_paths(reader))
    assert {name_of(one) for one in memory.step.held if one.kind == "workspace"} <= {
        "workspace of addmm",
        "workspace of mm",
    }
    assert "temporary memory of a library call" in told[1]
    assert told[-1].startswith("Not counted: workspaces that cuBLAS never frees")
    assert verdict(step.memory, step.used, source_paths(step.reader))[-1].startswith(
        "Not counted: temporary memory of libraries"
    )


def test_calls_that_could_not_be_made_alone_are_told_and_count_nothing(
    tmp_path: Path, step: Predicted
) -> None:
    reader = with_workspaces(tmp_path, step, -1, "OutOfMemoryError: CUDA out of memory")
    memory = session_memory(reader)
    used = usage(memory.step)
    assert used.peak.total_bytes == step.used.peak.total_bytes
    calls = sum(moment.call.name.startswith("extern_kernels") for moment in used.step.moments)
    (told,) = [
        one
        for one in verdict(memory, used, source_paths(reader))
        if "is not known" in one and "workspace" in one
    ]
    assert f"The workspace of {calls} library calls is not known" in told
    assert "OutOfMemoryError: CUDA out of memory" in told
