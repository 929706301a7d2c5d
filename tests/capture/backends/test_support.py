"""These tests compare the recorded support of a backend with torch's partitioner called directly,
torch's FLOP counter, and counts by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes import operator_support as torchs_operator_support
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase, create_op_support
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from fx_explorer import model
from fx_explorer.capture.backends import asking
from fx_explorer.instruments.backends.support import backend_support
from fx_explorer.instruments.backends.verdict import explain_splits
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record

sys.path.insert(0, str(Path(__file__).parents[3] / "sample_models"))
from convnet import ConvNet
from transformer import Transformer

from tests.exhaustive import with_others

aten = torch.ops.aten

TOKENS = (torch.randint(0, 128, (2, 8)), torch.randint(0, 128, (2, 8)))
"""Arguments of the transformer: tokens and labels."""


class Net(nn.Module):
    """Two linear layers, with something between that few backends know."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.special.i0(torch.relu(self.first(x)))).softmax(-1)


def eagerly(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
    return module.forward


def backend_with(operator_support: object) -> Callable[..., Any]:
    """A backend of Dynamo's graphs that declares this."""

    def backend(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        return module.forward

    backend.operator_support = operator_support  # type: ignore[attr-defined]
    return backend


def recorded(
    path: Path, backend: Any, function: Any = None, *inputs: torch.Tensor, grad: bool = False
) -> SessionReader:
    torch.manual_seed(0)
    function, inputs = function or Net(), inputs or (torch.randn(3, 16),)

    def program(compile: object) -> None:
        with torch.set_grad_enabled(grad):
            torch.compile(function, backend=backend)(*inputs)

    return record(path / "s.fxs", program)


def the_report(reader: SessionReader) -> model.SupportReport:
    assert failures(reader) == []
    (report,) = reader.rows(model.SupportReport)
    return report


def said(reader: SessionReader) -> dict[str, model.NodeSupport]:
    """Return the recorded support of each node, by the name of the node."""
    nodes = {node.id: node for node in reader.rows(model.Node)}
    rows = reader.rows(model.NodeSupport)
    return {nodes[row.node].name: row for row in rows if nodes[row.node].op.startswith("call_")}


def segments(reader: SessionReader) -> set[frozenset[str]]:
    found: dict[int, set[str]] = {}
    for name, row in said(reader).items():
        found.setdefault(row.segment, set()).add(name)
    return {frozenset(names) for number, names in found.items() if number}


def operators(partitions: list[Any]) -> set[frozenset[str]]:
    named = ({node.name for node in one.nodes if node.op.startswith("call_")} for one in partitions)
    return {frozenset(names) for names in named if names}


# what the backend itself asks torch's partitioner


def test_what_a_backend_asked_the_partitioner_is_recorded_as_it_was(tmp_path: Path) -> None:
    asked: list[str] = []
    proposed: list[Any] = []

    def supports(submodules: object, node: torch.fx.Node) -> bool:
        asked.append(node.name)
        return node.target in (aten.t.default, aten.addmm.default, aten._softmax.default)

    def partitioning(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        partitioner = CapabilityBasedPartitioner(
            module, create_op_support(supports), allows_single_node_partition=True
        )
        found = partitioner.propose_partitions()
        proposed.append(operators(found))
        return partitioner.fuse_partitions(found).forward

    reader = recorded(tmp_path, aot_autograd(fw_compiler=partitioning))
    report = the_report(reader)
    assert (report.said_by, report.is_partitioned, report.allows_single) == (
        "partitioner",
        True,
        True,
    )
    assert [segments(reader)] == proposed
    assert {name for name, row in said(reader).items() if row.support == "supported"} == {
        "t",
        "addmm",
        "t_1",
        "addmm_1",
        "_softmax",
    }
    assert len(asked) == len(set(asked)), "the backend's own support is asked by the backend alone"
    assert reader.get(model.Graph, report.graph).stage == "forward"


def test_partitions_that_a_backend_changes_are_recorded_as_they_are_fused(tmp_path: Path) -> None:
    def takes(submodules: object, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and node.target is not aten.i0.default

    def partitioning(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        partitioner = CapabilityBasedPartitioner(module, create_op_support(takes))
        found = partitioner.propose_partitions()
        return partitioner.fuse_partitions(
            [one for one in found if any(node.name == "addmm" for node in one.nodes)]
        ).forward

    reader = recorded(tmp_path, aot_autograd(fw_compiler=partitioning))
    assert the_report(reader).said_by == "partitioner"
    assert segments(reader) == {frozenset({"t", "addmm", "relu"})}


def test_a_graph_that_the_backend_traced_for_itself_is_recorded_with_its_nodes(
    tmp_path: Path,
) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    traced: list[list[str]] = []

    def tracing(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graph = make_fx(module, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
        traced.append([node.name for node in graph.graph.nodes if node.op == "call_function"])
        partitioner = CapabilityBasedPartitioner(
            graph, create_op_support(lambda _, node: node.op == "call_function")
        )
        return partitioner.partition_and_fuse().forward

    reader = recorded(tmp_path, tracing)
    assert reader.get(model.Graph, the_report(reader).graph).stage == "backend"
    assert [list(said(reader))] == traced


def test_openvinos_segments_are_those_it_fuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino")
    fused: list[Any] = []
    fuse = CapabilityBasedPartitioner.fuse_partitions

    def noted(self: Any, partitions: Any, *rest: Any, **named: Any) -> Any:
        fused.append(operators(partitions))
        return fuse(self, partitions, *rest, **named)

    monkeypatch.setattr(CapabilityBasedPartitioner, "fuse_partitions", noted)
    reader = recorded(tmp_path, "openvino", Net().eval())
    assert (the_report(reader).said_by, [segments(reader)]) == ("partitioner", fused)
    assert {name for name, row in said(reader).items() if row.support == "falls_back"} == {"i0"}


# what it declares


def linear_layers(submodules: object, node: torch.fx.Node) -> bool:
    return node.target in (torch._C._nn.linear, torch.relu)


class LinearLayers(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return linear_layers(submodules, node)

    def reason(self, submodules: object, node: torch.fx.Node) -> str:
        return f"no {node.name} here"


DECLARED = {
    "an OperatorSupport": LinearLayers(),
    "its class": LinearLayers,
    "a function of two": linear_layers,
    "a function of a node": lambda node: linear_layers({}, node),
    "functions": {torch.nn.functional.linear, torch.relu},
    "names": ["torch.nn.functional.linear", "linear", "relu"],
    "a dict": {"torch._C._nn.linear": None, torch.relu: (None, {})},
}


@pytest.mark.parametrize("form", DECLARED)
def test_every_form_of_declaration_says_the_same(form: str, tmp_path: Path) -> None:
    reader = recorded(tmp_path, backend_with(DECLARED[form]))
    report = the_report(reader)
    assert (report.said_by, report.notes) == ("declared", ())
    supported = {name for name, row in said(reader).items() if row.support == "supported"}
    assert supported == {"linear", "relu", "linear_1"}
    assert segments(reader) == {frozenset({"linear", "relu"})}, "the last one alone is no segment"


def test_the_reason_is_the_backends_own(tmp_path: Path) -> None:
    reader = recorded(tmp_path, backend_with(LinearLayers()))
    assert {name: row.reason for name, row in said(reader).items() if row.reason} == {
        "special_i0": "no special_i0 here",
        "softmax": "no softmax here",
    }


def test_a_name_at_the_top_of_the_file_is_a_declaration_but_not_torchs_module(
    tmp_path: Path,
) -> None:
    scope: dict[str, Any] = {
        "__name__": "mine",
        "__file__": "/somewhere/mine.py",
        "operator_support": {"relu"},
    }
    exec("def backend(module, inputs):\n    return module.forward", scope)
    reader = recorded(tmp_path, scope["backend"])
    assert the_report(reader).source == "operator_support of mine.py, a registry of 1 entry"
    scope["operator_support"] = torchs_operator_support
    again = tmp_path / "again"
    again.mkdir()
    assert the_report(recorded(again, scope["backend"])).said_by == "nobody"


def test_segments_of_a_declaration_are_those_of_torchs_partitioner_called_directly(
    tmp_path: Path,
) -> None:
    unsupported = (aten.convolution.default, aten.gelu.default, aten.native_layer_norm.default)
    support = create_op_support(
        lambda _, node: node.op == "call_function" and node.target not in unsupported
    )
    expected: list[set[frozenset[str]]] = []

    def direct(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        expected.append(operators(CapabilityBasedPartitioner(module, support).propose_partitions()))
        return module.forward

    def backend(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        return module.forward

    declaring = aot_autograd(fw_compiler=backend)
    declaring.operator_support = support
    for i, (network, given) in enumerate(
        [(ConvNet(), (torch.randn(2, 3, 16, 16),)), (Transformer(), TOKENS)]
    ):
        torch._dynamo.reset()
        torch.compile(network, backend=aot_autograd(fw_compiler=direct))(*given)
        folder = tmp_path / str(i)
        folder.mkdir()
        reader = recorded(folder, declaring, network, *given, grad=True)
        found = []
        nodes = {node.id: node for node in reader.rows(model.Node)}
        for report in reader.rows(model.SupportReport):
            members: dict[int, set[str]] = {}
            for row in reader.rows(model.NodeSupport, report=report.id):
                if row.segment:
                    members.setdefault(row.segment, set()).add(nodes[row.node].name)
            found.append({frozenset(names) for names in members.values()})
        assert found[0] == expected[-1], "the forward"
        assert any(found), "there are segments at all"


# nobody says


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_backend_that_does_not_say_has_its_operators_counted(
    backend: str, tmp_path: Path
) -> None:
    reader = recorded(tmp_path, backend)
    assert (the_report(reader).said_by, the_report(reader).is_partitioned) == ("nobody", False)
    rows = said(reader)
    assert {row.support for row in rows.values()} == {"unknown"}
    first, second = [row for row in rows.values() if row.flops]
    # By hand: 2 × rows × inner × columns; x, weight and bias are read, and 3 × 32 and 3 × 4 numbers
    # written.
    assert (first.flops, first.read_bytes, first.written_bytes) == (
        2 * 3 * 16 * 32,
        4 * (3 * 16 + 32 * 16 + 32),
        4 * 3 * 32,
    )
    assert (second.flops, second.read_bytes, second.written_bytes) == (
        2 * 3 * 32 * 4,
        4 * (3 * 32 + 4 * 32 + 4),
        4 * 3 * 4,
    )


def test_inductor_is_not_asked(tmp_path: Path) -> None:
    assert recorded(tmp_path, "inductor").rows(model.SupportReport) == []


@pytest.mark.parametrize(
    ("backend", "network"),
    with_others(
        [("aot_eager", "transformer"), ("eager", "convnet")],
        [("aot_eager", "convnet"), ("eager", "transformer")],
    ),
)
def test_operations_add_up_to_what_torch_counts_of_the_uncompiled_call(
    backend: str, network: str, tmp_path: Path
) -> None:
    is_convnet = network == "convnet"
    built, given = (
        (ConvNet().eval(), (torch.randn(2, 3, 16, 16),)) if is_convnet else (Transformer(), TOKENS)
    )
    # torch has no formula for this operator's name, but one for attention
    # (torch/utils/flop_counter.py).
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    formula = {attention: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=formula) as counter:
        built(*given)
    rows = said(recorded(tmp_path, backend, built, *given))
    assert sum(max(0, row.flops) for row in rows.values()) == counter.get_total_flops() > 0


def test_counting_leaves_the_programs_random_numbers_alone(tmp_path: Path) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x @ x, 0.5) + torch.rand_like(x)

    results: list[torch.Tensor] = []

    def program(compile: object) -> None:
        torch.manual_seed(3)
        results.append(torch.compile(noisy, backend="eager")(torch.ones(4, 4)))

    torch._dynamo.reset()
    program(None)
    record(tmp_path / "s.fxs", program)
    assert torch.equal(*results)


# bad input


def test_names_that_are_no_operator_are_told(tmp_path: Path) -> None:
    reader = recorded(
        tmp_path,
        backend_with({"relu", "aten.addmm", "aten.admm", "aten::relu.nope", "my relu!", 7}),
    )
    assert the_report(reader).notes == (
        "3 names of the registry are not operators of this torch: aten.admm, aten::relu.nope, my relu!.",
        "1 entry of the registry is neither an operator nor a name: 7.",
    )
    assert said(reader)["relu"].support == "supported"


def test_a_support_that_raises_leaves_the_operator_unknown(tmp_path: Path) -> None:
    def picky(node: torch.fx.Node) -> bool:
        if node.name == "relu":
            raise ValueError("no idea")
        if node.name == "softmax":
            sys.exit(3)
        return True

    reader = recorded(tmp_path, backend_with(picky))
    assert {name for name, row in said(reader).items() if row.support == "unknown"} == {
        "relu",
        "softmax",
    }
    assert said(reader)["relu"].reason == "the backend's support raised ValueError: no idea"
    assert the_report(reader).notes == (
        "Asked of 1 operator, it raised ValueError: no idea.",
        "Asked of 1 operator, it raised SystemExit: 3.",
    )


def test_an_answer_that_is_none_leaves_the_operator_unknown(tmp_path: Path) -> None:
    reader = recorded(tmp_path, backend_with(lambda node: "yes" if node.name == "linear" else None))
    assert {row.support for row in said(reader).values()} == {"unknown"}
    assert (
        the_report(reader).notes[0]
        == "Asked of 4 operators, it answered None, which is neither True nor False."
    )


@pytest.mark.parametrize(
    "declared",
    [object(), 7, "relu", pytest.param(type("Needs", (), {"__init__": lambda self, x: None}))],
)
def test_a_declaration_that_cannot_be_asked_is_told(declared: object, tmp_path: Path) -> None:
    reader = recorded(tmp_path, backend_with(declared))
    (note,) = the_report(reader).notes
    assert note.startswith("operator_support of backend ")
    assert {row.support for row in said(reader).values()} == {"unknown"}


def chain(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        for _ in range(length):
            x = torch.relu(x)
        return x

    return run


def test_a_graph_that_is_too_large_to_be_partitioned_is_asked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_PARTITIONED", 50)
    asked: list[str] = []

    def every(node: torch.fx.Node) -> bool:
        asked.append(node.name)
        return True

    reader = recorded(tmp_path, backend_with(every), chain(60), torch.ones(2))
    report = the_report(reader)
    assert not report.is_partitioned
    assert report.notes[0].startswith("The graph has 62 nodes. The time of torch's partitioner")
    assert len(asked) == len(said(reader)) == 60, "each operator is asked once"


def test_a_partitioner_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.capture.backends.asking.PARTITION_LIMIT_S", -1.0)
    report = the_report(recorded(tmp_path, backend_with({"relu"})))
    assert (report.is_partitioned, len(report.notes)) == (False, 1)
    assert "was stopped after" in report.notes[0]


def test_a_backend_that_raises_still_has_what_it_supports(tmp_path: Path) -> None:
    def broken(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        raise RuntimeError("not today")

    broken.operator_support = {"relu"}  # type: ignore[attr-defined]

    def program(compile: object) -> None:
        with pytest.raises(Exception, match="not today"):
            torch.compile(Net(), backend=broken)(torch.randn(3, 16))

    reader = record(tmp_path / "s.fxs", program)
    assert said(reader)["relu"].support == "supported"


@pytest.fixture(autouse=True)
def _no_compiled_code_left() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def test_views_in_dynamos_graph_move_no_bytes_and_what_copies_does(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = x.view(2, 8)
        turned = wide.t().contiguous().reshape(4, 4)
        first, second = torch.split(x, 2)
        return (
            turned,
            torch.flatten(x) + 1,
            torch.arange(3),
            nn.functional.dropout(x, 0.5, False),
            first * second,
            x.t().reshape(16),
        )

    reader = recorded(tmp_path, eagerly, function, torch.randn(4, 4))
    the_report(reader)
    moved = {
        name: (row.flops, row.read_bytes, row.written_bytes) for name, row in said(reader).items()
    }
    targets = {
        node.name: node.target for node in reader.rows(model.Node) if node.op.startswith("call_")
    }
    found = [(targets[name].rpartition(".")[2], *figures) for name, figures in moved.items()]
    nothing, whole, half = (0, 0, 0), 16 * 4, 8 * 4
    assert sorted(found) == sorted(
        [
            *(
                (view, *nothing)
                for view in (
                    "view",
                    "t",
                    "t",
                    "reshape",
                    "split",
                    "getitem",
                    "getitem",
                    "flatten",
                    "dropout",
                )
            ),
            ("contiguous", 0, whole, whole),
            ("reshape", 0, whole, whole),  # of what lies transposed
            ("add", 0, whole, whole),
            ("mul", 0, 2 * half, half),
            ("arange", 0, 0, 3 * 8),
        ]
    )


class AllButSin(OperatorSupportBase):
    def is_node_supported(self, submodules: object, node: torch.fx.Node) -> bool:
        return node.op.startswith("call_") and node.target is not torch.sin


def test_a_write_in_place_that_a_segment_takes_out_of_turn_is_told_where_results_differ(
    tmp_path: Path,
) -> None:
    def cut(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        partitioner = CapabilityBasedPartitioner(
            module, AllButSin(), allows_single_node_partition=True
        )
        return partitioner.partition_and_fuse().forward  # type: ignore[no-any-return]

    def writing(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        doubled = x * 2
        view = doubled.view(2, 8)
        view += 1
        sine = torch.sin(doubled)  # of what was written
        return sine + 1, view

    def giving(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        doubled = x * 2
        view = doubled.view(2, 8) + 1
        return torch.sin(doubled) + 1, view

    x = torch.randn(4, 4)
    for function, is_right in ((writing, False), (giving, True)):
        folder = tmp_path / function.__name__
        folder.mkdir()
        reader = recorded(folder, cut, function, x)
        torch._dynamo.reset()
        assert (
            torch.allclose(torch.compile(function, backend=cut)(x)[0], function(x)[0]) == is_right
        )
        told = [
            line
            for graph in backend_support(reader)
            for line in explain_splits(graph)
            if "Results may differ" in line
        ]
        assert len(told) == (not is_right)
        assert all(
            "_operator.iadd (view_1) writes into memory that torch.sin (sine) reads after it"
            in line
            for line in told
        )
