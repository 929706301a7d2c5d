"""These tests check regions with the backend regional_inductor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.traceback import annotate

from fx_explorer.capture.recording.stage_events import NOTHING_ANNOTATED
from fx_explorer.model import Artifact, Compilation, Failure, Graph, Kernel, Node, RegionLowering
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.capture.recorded import record
from tests.exhaustive import in_exhaustive_runs


class Neighbours(torch.nn.Module):
    """Two regions side by side, annotated with strings only; torch alone would merge them. And one
    that needs no gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with annotate({"compile_with_inductor": "up"}):
            y = torch.nn.functional.silu(self.up(x))
        with annotate({"compile_with_inductor": "down"}):
            y = self.down(y).tanh()
        with annotate(
            {
                "compile_with_inductor": {
                    "inductor_region": "mask",
                    "inductor_configs": {"max_fusion_size": 7},
                }
            }
        ):
            offset = x.detach().sin() * 2
        return torch.cos(y) + offset


class Trained:
    """Trained has one training step under the recorder, and the same step run in eager mode."""

    def __init__(self, path: Path) -> None:
        torch.manual_seed(0)
        model, x = Neighbours(), torch.randn(4, 8)
        self.reader: SessionReader = record(
            path, lambda compile: self._step(compile(model), x), backend="regional_inductor"
        )
        self.gradient = model.up.weight.grad
        model.zero_grad()
        model(x).sum().backward()
        self.expected = model.up.weight.grad

    @staticmethod
    def _step(compiled: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
        compiled(x).sum().backward()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    done = Trained(tmp_path_factory.mktemp("regional") / "s.fxs")
    yield done
    done.reader.close()


def test_the_backend_is_there_only_while_a_capture_runs(trained: Trained) -> None:
    assert "regional_inductor" not in torch._dynamo.list_backends(exclude_tags=())
    assert not [row for row in trained.reader.rows(Failure) if row.kind != "unavailable"], (
        "what a release lacks is said, no fault"
    )


def test_a_training_step_has_the_gradients_of_eager(trained: Trained) -> None:
    assert trained.gradient is not None
    assert torch.equal(trained.gradient, trained.expected)


def test_neighbouring_regions_stay_apart_in_both_directions(trained: Trained) -> None:
    lowered = {
        (row.name, row.direction) for row in trained.reader.rows(RegionLowering) if row.subgraph
    }
    assert lowered == {
        ("up", "forward"),
        ("down", "forward"),
        ("mask", "forward"),
        ("up", "backward"),
        ("down", "backward"),
    }


def test_a_region_without_gradient_says_why_it_has_no_backward(trained: Trained) -> None:
    (row,) = [row for row in trained.reader.rows(RegionLowering) if not row.subgraph]
    assert (row.name, row.direction, row.nodes) == ("mask", "backward", 0)
    assert "backward" in row.reason


def test_a_region_keeps_its_own_configs(trained: Trained) -> None:
    configs = {
        row.name: row.configs
        for row in trained.reader.rows(RegionLowering)
        if row.direction == "forward"
    }
    assert configs == {"up": None, "down": None, "mask": {"max_fusion_size": 7}}


def test_touching_regions_get_each_its_own_configs(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with annotate(
            {"compile_with_inductor": {"inductor_configs": {"debug_index_asserts": True}}}
        ):
            x = x[1:].sin()
        with annotate(
            {
                "compile_with_inductor": {
                    "inductor_region": "second",
                    "inductor_configs": {"cpp.simdlen": 1},
                }
            }
        ):
            x = x.cos()
        with annotate({"compile_with_inductor": "third"}):
            return x.tan()

    reader = record(
        tmp_path / "s.fxs",
        lambda compile: compile(model)(torch.ones(65)),
        backend="regional_inductor",
    )
    lowered = {row.name: row for row in reader.rows(RegionLowering)}
    expected = {"": {"debug_index_asserts": True}, "second": {"cpp.simdlen": 1}, "third": None}
    assert {name: row.configs for name, row in lowered.items()} == expected
    code = {
        name: reader.text(
            reader.get(Artifact, reader.rows(Kernel, subgraph=row.subgraph)[0].artifact).text
        )
        for name, row in lowered.items()
    }
    vectorised = {name: "at::vec::Vectorized" in text for name, text in code.items()}
    assert vectorised == {"": True, "second": False, "third": True}, (
        "only the second one's configs forbid it"
    )
    reader.close()


def test_every_region_took_time_and_has_kernels_of_its_own(trained: Trained) -> None:
    kernels = {(kernel.direction, kernel.subgraph) for kernel in trained.reader.rows(Kernel)}
    lowered = [row for row in trained.reader.rows(RegionLowering) if row.subgraph]
    assert kernels == {(row.direction, row.subgraph) for row in lowered}
    assert all(row.duration_s > 0 and row.nodes > 0 for row in lowered)


def test_there_is_one_forward_and_one_backward_graph_of_the_whole(trained: Trained) -> None:
    rows = trained.reader.rows(Graph)
    whole = [(row.stage, row.direction) for row in rows if not row.name]
    assert whole == [
        ("dynamo", ""),
        ("joint", ""),
        ("forward", "forward"),
        ("backward", "backward"),
    ]
    stages = {row.id: row.stage for row in rows}
    assert {(row.stage, stages[row.parent]) for row in rows if row.name} == {
        ("post_grad", "forward"),
        ("post_grad", "backward"),
    }


def test_every_call_in_a_region_is_linked_to_the_graph_it_was_cut_from(trained: Trained) -> None:
    unlinked = trained.reader.query(
        "SELECT node.name FROM node JOIN graph ON graph.id = node.graph LEFT JOIN link ON link.child = node.id "
        "LEFT JOIN node AS p ON p.id = link.parent WHERE graph.stage = 'post_grad' AND node.op = 'call_function' "
        "AND (p.graph IS NULL OR p.graph != graph.parent)"
    )
    assert unlinked == []


def test_a_kernel_computes_nodes_of_its_region_only(trained: Trained) -> None:
    names = {(row.direction, row.subgraph): row.name for row in trained.reader.rows(RegionLowering)}
    found = trained.reader.query(
        "SELECT kernel.direction, kernel.subgraph, node.annotations FROM line_node JOIN node ON node.id = line_node.node "
        "JOIN kernel ON kernel.artifact = line_node.artifact WHERE node.annotations IS NOT NULL"
    )
    assert found
    for direction, subgraph, annotated in found:
        assert f'"{names[direction, subgraph]}"' in annotated


@in_exhaustive_runs
def test_inference_is_compiled_by_region_too(tmp_path: Path) -> None:
    def program(compile: Callable[[Any], Any]) -> None:
        with torch.no_grad():
            compile(Neighbours())(torch.ones(4, 8))

    reader = record(tmp_path / "s.fxs", program, backend="regional_inductor")
    assert {(row.name, row.direction) for row in reader.rows(RegionLowering)} == {
        ("up", "inference"),
        ("down", "inference"),
        ("mask", "inference"),
    }
    assert {kernel.direction for kernel in reader.rows(Kernel)} == {"inference"}
    reader.close()


def test_a_config_that_inductor_does_not_have_fails_with_the_region_named_in_torchs_words(
    tmp_path: Path,
) -> None:
    def marked(x: torch.Tensor) -> torch.Tensor:
        with annotate({"compile_with_inductor": {"inductor_configs": {"no_such_thing": 1}}}):
            return x.sin()

    with pytest.raises(Exception, match="no_such_thing"):
        record(
            tmp_path / "s.fxs",
            lambda compile: compile(marked)(torch.ones(3)),
            backend="regional_inductor",
        )


def test_annotations_reach_the_session_as_the_user_wrote_them(trained: Trained) -> None:
    nodes = [node for node in trained.reader.rows(Node) if node.annotations]
    dynamo = next(row.id for row in trained.reader.rows(Graph) if row.stage == "dynamo")
    assert {"compile_with_inductor": "up"} in [
        node.annotations for node in nodes if node.graph == dynamo
    ]


# what may be annotated in unusual ways


def test_annotating_nothing_is_said(tmp_path: Path) -> None:
    model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    reader = record(
        tmp_path / "s.fxs", lambda compile: compile(model)(x), backend="regional_inductor"
    )
    assert not reader.rows(RegionLowering)
    (compilation,) = reader.rows(Compilation)
    assert (compilation.status, compilation.missing_stages or {}) == (
        "ok",
        dict.fromkeys(
            ("pre_grad", "post_grad", "schedule", "output_code", "kernel"), NOTHING_ANNOTATED
        ),
    )
    (fact,) = [fact for fact in overview(reader) if fact.view == "regions"]
    assert (
        fact.severity,
        "no operation is annotated" in fact.text,
        "annotate(" in fact.detail,
    ) == ("problem", True, True)
    reader.close()


class Nested(torch.nn.Module):
    """A region inside another, twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            with annotate({"compile_with_inductor": "outer"}):
                x = x.sin()
                with annotate({"compile_with_inductor": "inner"}):
                    x = x.cos()
                x = x.tan()
            x = x + 1
        return x


def test_an_inner_region_is_its_own_and_a_repeated_one_is_compiled_at_each_place(
    tmp_path: Path,
) -> None:
    """The innermost annotation counts, as torch's own loggers say; nothing is computed twice."""
    reader = record(
        tmp_path / "s.fxs",
        lambda compile: compile(Nested())(torch.ones(8)),
        backend="regional_inductor",
    )
    rows = reader.rows(RegionLowering)
    assert sorted((row.name, row.nodes) for row in rows) == [("inner", 1)] * 2 + [("outer", 1)] * 4
    assert len({row.subgraph for row in rows}) == 6
    computed = reader.query(
        "SELECT kernel.subgraph, node.target FROM line_node JOIN node ON node.id = line_node.node "
        "JOIN kernel ON kernel.artifact = line_node.artifact WHERE line_node.line = 0"
    )
    names = {row.subgraph: row.name for row in rows}
    found = sorted((names[subgraph], target.split(".")[1]) for subgraph, target in computed)
    assert found == sorted([("outer", "sin"), ("inner", "cos"), ("outer", "tan")] * 2)
    reader.close()
