"""These tests check that torch's decisions by the device are those of a GPU; the answers are those
of an H200 (torch 2.11).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fx_explorer import model
from fx_explorer.capture.virtual_gpu.operators import AttentionArguments, Backend, chosen
from fx_explorer.gpus import find_gpu
from fx_explorer.session import SessionReader
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton, told
from tests.exhaustive import in_exhaustive_runs
from tests.worker.capturing import Ended

Opened = Callable[[Ended], SessionReader]

HALF, FULL, DOUBLE = torch.float16, torch.float32, torch.float64


def asked(
    dtype: torch.dtype = HALF,
    head: int = 64,
    value: int = 0,
    keys: int = 64,
    kv_heads: int = 8,
    mask: str = "",
    **given: object,
) -> AttentionArguments:
    def made(heads: int, length: int, size: int, requires_grad: bool = True) -> torch.Tensor:
        return torch.empty(
            2, heads, length, size, dtype=dtype, device="meta", requires_grad=requires_grad
        )

    masks = {"": None, "fixed": made(1, 64, keys, False), "learned": made(8, 64, keys)}
    inputs = made(8, 64, head), made(kv_heads, keys, head), made(kv_heads, keys, value or head)
    values = {"dropout": 0.0, "is_causal": False, "grouped": False, **given}
    return AttentionArguments(*inputs, masks[mask], **values)


@pytest.mark.parametrize(
    ("inputs", "kernel"),
    [
        (asked(), "cudnn"),
        (asked(mask="fixed"), "cudnn"),
        (asked(value=32), "cudnn"),
        (asked(head=256), "cudnn"),
        (asked(kv_heads=2, grouped=True), "cudnn"),
        (asked(keys=48, is_causal=True), "cudnn"),
        (asked(head=60), "flash"),
        (asked(mask="learned"), "efficient"),
        (asked(head=512), "efficient"),
        (asked(FULL), "efficient"),
        (asked(FULL, kv_heads=2, grouped=True), "math"),
        (asked(DOUBLE), "math"),
    ],
)
def test_attention_is_the_kernel_that_an_h200_takes(
    inputs: AttentionArguments, kernel: Backend
) -> None:
    assert chosen(inputs, find_gpu("h200")) == kernel


@pytest.mark.parametrize(
    ("gpu", "inputs", "kernel"),
    [
        ("a100", asked(), "flash"),
        ("a100", asked(keys=48, is_causal=True), "efficient"),
        ("a100", asked(mask="fixed"), "efficient"),
        ("a100", asked(head=256), "flash"),
        ("l4", asked(head=224), "efficient"),
        ("b200", asked(), "cudnn"),
        ("b200", asked(head=256), "flash"),
        ("mi300x", asked(), "flash"),
    ],
)
def test_attention_is_another_kernel_on_other_gpus(
    gpu: str, inputs: AttentionArguments, kernel: Backend
) -> None:
    assert chosen(inputs, find_gpu(gpu)) == kernel


def test_attention_is_decomposed_when_every_fused_kernel_is_switched_off() -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert chosen(asked(), find_gpu("h100")) == "math"


@pytest.fixture
def moved(for_gpu: ForGpu) -> Ended:
    names = ("optimizer", "questions", "channels_last", "fast_path", "nested", "mask")
    return for_gpu(HERE / "as_on_a_gpu.py", "h100", as_script=True, arguments=names)


def post_grad(reader: SessionReader) -> list[model.Node]:
    return [
        node
        for graph in reader.rows(model.Graph, stage="post_grad")
        for node in reader.nodes(graph)
    ]


@needs_triton
def test_what_a_gpu_decides_before_there_is_a_graph_is_compiled(moved: Ended) -> None:
    assert told(moved, "failed") == []
    assert moved.meta["virtual_gpu"]["feeding"] == "transplant"


@needs_triton
def test_a_compiled_optimizer_takes_all_parameters_at_once(moved: Ended, opened: Opened) -> None:
    assert "aten._foreach_sqrt.default" in [node.target for node in post_grad(opened(moved))]


@needs_triton
def test_no_graph_breaks_at_a_function_of_ours(moved: Ended, opened: Opened) -> None:
    assert [
        found.reason
        for found in opened(moved).rows(model.GraphBreak)
        if "virtual_gpu" in found.explanation
    ] == []


@needs_triton
def test_a_convolution_keeps_channels_last(moved: Ended, opened: Opened) -> None:
    strides = [
        node.stride
        for node in post_grad(opened(moved))
        if node.target == "aten.convolution.default"
    ]
    assert strides == [("14400", "1", "480", "16")]


@needs_triton
def test_an_operator_that_nobody_described_has_an_output_on_the_gpu(
    moved: Ended, opened: Opened
) -> None:
    found = [
        node
        for node in post_grad(opened(moved))
        if node.target == "aten._transformer_encoder_layer_fwd.default"
    ]
    assert [(node.shape, node.device) for node in found] == [(("2", "16", "64"), "cuda:0")]


@needs_triton
def test_a_mask_becomes_what_cudnn_takes(moved: Ended, opened: Opened) -> None:
    nodes = post_grad(opened(moved))
    assert "aten._scaled_dot_product_cudnn_attention.default" in [node.target for node in nodes]
    assert any("-65504.0" in node.arguments for node in nodes)


@in_exhaustive_runs
@needs_triton
def test_an_lstm_on_cuda_gets_its_first_values_and_runs_between_graphs(
    for_gpu: ForGpu, opened: Opened
) -> None:
    ended = for_gpu(HERE / "as_on_a_gpu.py", "h100", as_script=True, arguments=("lstm",))
    assert told(ended, "compiled") == ["lstm"], told(ended, "failed")
    assert ended.meta["virtual_gpu"]["feeding"] == "fake"
