"""These tests run library calls of generated code alone: with zeros of the layouts that the
compiler knows, outside of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fx_explorer.capture.inductor.generated import kernel_recording
from fx_explorer.capture.inductor.library_calls import library_call, prepared
from fx_explorer.capture.inductor.lowered_kernels import LoweredKernels
from fx_explorer.capture.inspecting import inspecting
from fx_explorer.model.library_call import Layout, LibraryCall
from tests.capture.lowering import fresh_compiler
from tests.exhaustive import in_exhaustive_runs, one_of


def convolutions() -> Callable[[], object]:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1)
    )
    compiled = torch.compile(network)
    x = torch.randn(2, 3, 16, 16)
    return lambda: compiled(x).sum().backward()


def attention() -> Callable[[], object]:
    q, k, v = (torch.randn(2, 4, 8, 16, requires_grad=True) for _ in range(3))
    attend = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    return lambda: attend(q, k, v).sum().backward()


def transposed_products() -> Callable[[], object]:
    a, b = torch.randn(4, 8, 5), torch.randn(6, 5)
    product = torch.compile(
        lambda a, b: (torch.bmm(a.transpose(1, 2), a).cos(), torch.addmm(b[0], b, b.t() @ b))
    )
    return lambda: product(a, b)


def sizes_that_change() -> Callable[[], object]:
    a, b = torch.randn(7, 5), torch.randn(5, 6)
    product = torch.compile(
        lambda a, b: (a @ b, torch.sort(a, dim=0, stable=True)[1]), dynamic=True
    )
    return lambda: product(a, b)


def what_inductor_leaves_to_aten() -> Callable[[], object]:
    a, at = torch.randn(6, 6), torch.tensor([1, 3, 3])

    def rest(a: torch.Tensor, at: torch.Tensor) -> object:
        return (
            torch.linalg.cholesky(a @ a.t() + torch.eye(6)),
            torch.topk(a, 2)[0],
            torch.bincount(at, minlength=4),
        )

    compiled = torch.compile(rest)
    return lambda: compiled(a, at)


PROGRAMS = [
    convolutions,
    attention,
    transposed_products,
    sizes_that_change,
    what_inductor_leaves_to_aten,
]


def lowered(program: Callable[[], Callable[[], object]], **options: Any) -> list[LoweredKernels]:
    found: list[LoweredKernels] = []
    with fresh_compiler(), inspecting(), kernel_recording(found.append, **options):
        program()()
    return found


def library_calls(
    found: list[LoweredKernels],
) -> Iterator[tuple[LibraryCall | None, torch.fx.Node]]:
    """Return every library call with the node that it computes."""
    for graph in found:
        nodes = {node.name: node for node in graph.module.graph.nodes}
        for kernel in graph.kernels:
            if kernel.language == "extern":
                found = ((call.alone, nodes[call.nodes[-1]]) for call in kernel.calls)
                yield from (
                    (alone, node) for alone, node in found if node.name != "with_effects"
                )  # it checks, and returns nothing


@pytest.mark.parametrize("program", one_of(2, PROGRAMS), ids=lambda program: program.__name__)
def test_every_call_can_be_made_alone_and_gives_what_the_graph_says(
    program: Callable[[], Callable[[], object]],
) -> None:
    calls = list(library_calls(lowered(program, notes_library_calls=True)))
    assert calls
    for call, node in calls:
        assert call is not None, node
        returned = prepared(call)()
        for tensor, value in zip(leaves(returned), leaves(node.meta["val"]), strict=True):
            if "out=" not in call.text:  # then it writes into what it is given
                assert tensor.dtype == value.dtype
                sizes = zip(tensor.shape, value.shape, strict=True)
                assert all(size == given for size, given in sizes if isinstance(given, int))


def leaves(value: object) -> list[Any]:
    found = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]


def test_nothing_is_noted_unless_it_is_asked_for() -> None:
    assert {call for call, _ in library_calls(lowered(convolutions))} == {None}


@in_exhaustive_runs
def test_calls_that_differ_in_their_buffers_only_by_name_stay_apart_and_go_through_a_pipe() -> None:
    for call, _ in library_calls(lowered(convolutions, notes_library_calls=True)):
        assert call is not None
        assert LibraryCall.from_json(call.to_json()) == call
        assert hash(LibraryCall.from_json(call.to_json())) == hash(call)


NO_NAMES = SimpleNamespace(name_to_buffer={}, graph_inputs={}, constants={})
"""A lowering that knows no names."""


@pytest.mark.parametrize(
    "line",
    [
        "buf0 = torch.ops.mylib.launch_rockets.default()",
        "buf0 = torch.ops._c10d_functional.all_reduce.default(buf1, 'sum', '0')",
        "import os; os.system('true')",
        "buf0 = torch.ops.aten.cos.default(buf_nobody_knows)",
        "buf0 = __import__('os').system('true')",
        "triton_poi_fused_0.run(buf0, 16, stream=stream0)",
        "del buf0",
        "buf0 = (",
        "",
    ],
)
def test_what_is_not_atens_own_is_never_made_alone(line: str) -> None:
    assert library_call(line, NO_NAMES) is None


def test_single_integers_can_be_given_on_the_host() -> None:
    seed, x = Layout((), (), "int64", "cuda:0"), Layout((2, 2), (2, 1), "float32", "cuda:0")
    call = LibraryCall("torch.ops.aten.f.default(x, seed)", (("seed", seed), ("x", x)))
    moved = dict(call.with_indices_on_the_host.tensors)
    assert (moved["seed"].device, moved["x"].device) == ("cpu", "cuda:0")
    assert call.function == "torch.ops.aten.f.default"
    assert call.device == call.with_indices_on_the_host.device == "cuda:0"
