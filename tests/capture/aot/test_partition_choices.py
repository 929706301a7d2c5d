"""These tests check why values are saved or computed again: against the graphs that the partitioner
made, and what the program asks for.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._functorch import partitioners
from torch.utils.checkpoint import checkpoint

from fx_explorer import model
from fx_explorer.capture.aot.partition_choices import MinCut
from fx_explorer.instruments.memory.saved_values import choices, recomputed, why
from fx_explorer.instruments.memory.session_memory import session_memory
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.dropout(F.gelu(self.up(x)), 0.5)).square().mean()


def step(compile_: Compile) -> None:
    compile_(Net())(torch.randn(8, 32)).backward()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    found = record(tmp_path_factory.mktemp("choices") / "s.fxs", step)
    assert not failures(found)
    return found


def calls(reader: SessionReader, stage: model.Stage) -> set[str]:
    (graph,) = reader.rows(model.Graph, stage=stage, parent=0)
    return {node.name for node in reader.nodes(graph) if node.op == "call_function"}


def test_every_saved_tensor_has_a_reason_and_nothing_else_is_called_saved(
    reader: SessionReader,
) -> None:
    saved = {row.name for row in reader.rows(model.SavedTensor) if row.kind != "number"}
    assert {row.name for row in choices(reader).values() if row.choice == "saved"} == saved != set()
    assert all(
        why(row).startswith(("saved ", "saved: "))
        for row in choices(reader).values()
        if row.choice == "saved"
    )


def test_what_both_graphs_compute_is_computed_again(reader: SessionReader) -> None:
    again = {row.name for row in choices(reader).values() if row.choice == "recomputed"}
    assert again == calls(reader, "forward") & calls(reader, "backward") != set()
    assert {one.node.name for one in recomputed(reader)} < again  # without views


def test_weights_are_the_bytes_and_a_tenth_more_for_each_step(reader: SessionReader) -> None:
    weighed = [row for row in choices(reader).values() if row.weight > 0 and row.size_bytes > 0]
    assert len(weighed) > 3
    for row in weighed:
        once = row.size_bytes * 1.1 ** max(1, row.distance)
        assert row.weight in (pytest.approx(once, abs=1.5), pytest.approx(2 * once, abs=3))


def test_a_matrix_multiplication_is_not_computed_twice_and_a_gelu_is(reader: SessionReader) -> None:
    rows = choices(reader).values()
    targets = {
        node.id: node.target for node in reader.by_ids(model.Node, (row.node for row in rows))
    }
    decided = {(targets[row.node], row.choice, row.ground) for row in rows}
    assert ("aten.addmm.default", "saved", "cannot_recompute") in decided
    assert ("aten.erf.default", "recomputed", "cut") in decided


def test_the_view_says_why_below_each_saved_tensor(reader: SessionReader) -> None:
    table = TABLES["memory"](reader)
    texts = [row.detail().text for row in table.rows if row.detail]
    assert all("why        saved" in text or "Recomputed" in text for text in texts)
    assert "are recomputed in the backward instead" in table.notice


def test_a_checkpoint_of_the_program_is_the_reason(tmp_path: Path) -> None:
    network, x = nn.Linear(16, 16), torch.randn(4, 16, requires_grad=True)

    def body(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(network(x)).square()

    def program(compile_: Compile) -> None:
        compile_(lambda x: checkpoint(body, x, use_reentrant=False).sum())(x).backward()

    with record(tmp_path / "s.fxs", program) as reader:
        asked = [row for row in choices(reader).values() if row.ground == "must_recompute"]
        assert asked
        assert {why(row) for row in asked} == {
            "recomputed because the program's checkpoint policy asks for it"
        }


@in_exhaustive_runs
def test_a_budget_of_0_saves_nothing_that_is_computed_and_makes_no_cut(
    tmp_path: Path, reader: SessionReader
) -> None:
    with (
        torch._functorch.config.patch(activation_memory_budget=0.0),
        record(tmp_path / "s.fxs", step) as without,
    ):
        assert {row.ground for row in choices(without).values()} == {"no_cut"}
        assert all("the memory budget is 0" in why(row) for row in choices(without).values())
        assert (
            session_memory(without).step.saved_bytes == 0 < session_memory(reader).step.saved_bytes
        )


def test_a_release_without_the_cut_says_which_view_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = partitioners.solve_min_cut
    monkeypatch.setattr(
        partitioners, "choose_saved_values_set", lambda graph, info, memory_budget=1: info.inputs
    )
    monkeypatch.delattr(partitioners, "solve_min_cut")
    with record(tmp_path / "s.fxs", step) as reader:
        told = [row.message for row in reader.rows(model.Failure)]
    assert any(message.startswith("why values are saved or recomputed: torch ") for message in told)
    assert kept is not None


def test_a_cut_is_told_without_its_edges_of_which_a_model_has_a_hundred_thousand() -> None:
    class NeverRead(dict[str, dict[str, dict[str, object]]]):
        def __repr__(self) -> str:
            raise AssertionError("the edges were made text")

    assert (
        repr(MinCut(NeverRead(), frozenset({"relu"}), {}))
        == "MinCut(saved=frozenset({'relu'}), distances={})"
    )
