import operator
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fx_explorer.capture.inductor.generated import LoweredKernels, kernel_recording
from fx_explorer.capture.inductor.kernel_text import definitions
from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.torch_compat.patching import patched
from tests.capture.lowering import call_names, code_line, fresh_compiler, linked_names, lower


class Layers(nn.Module):
    """Two equal layers (they share kernels), an embedding, a concatenation, a buffer that changes,
    and batch norm.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(3)
        )
        self.norm = nn.BatchNorm1d(32)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.seen, torch.Tensor)
        self.seen.add_(1)
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        both = torch.cat([x, F.dropout(x, 0.5)], 1)
        return self.norm(both).sum()


@pytest.fixture(scope="module")
def trained() -> list[LoweredKernels]:
    return lower(lambda step: step(torch.arange(8)).backward(), Layers())


def test_forward_and_backward_come_apart_though_lowered_in_one_go(
    trained: list[LoweredKernels],
) -> None:
    assert [(graph.is_backward, graph.is_inference) for graph in trained] == [
        (False, False),
        (True, False),
    ]
    forward, backward = trained
    assert forward.module is not backward.module
    assert forward.output_code != backward.output_code
    for graph in trained:
        assert linked_names(graph) <= call_names(graph)
        assert not graph.error
        assert not graph.problems


def test_every_node_that_computes_has_a_kernel_in_both_directions(
    trained: list[LoweredKernels],
) -> None:
    for graph in trained:
        missing = [
            node
            for node in graph.module.graph.nodes
            if node.op == "call_function"
            and node.name not in linked_names(graph)
            and node.target is not operator.getitem
        ]
        assert [node.name for node in missing if not node.target.is_view] == []
        assert all(graph.without_kernel[node.name] for node in missing)


def test_every_call_has_nodes_and_stands_on_its_line(trained: list[LoweredKernels]) -> None:
    for graph in trained:
        for kernel in graph.kernels:
            for call in kernel.calls:
                assert call.nodes, kernel.name
                assert f"{kernel.name}(" in code_line(graph, call.line)


def test_no_call_of_the_wrapper_is_missed(trained: list[LoweredKernels]) -> None:
    """The wrapper's own text says how often each kernel is called."""
    for graph in trained:
        wrapper = graph.output_code[graph.output_code.index("def call(") :]
        for kernel in graph.kernels:
            if kernel.language == "cpp":
                assert wrapper.count(f"{kernel.name}(") == len(kernel.calls)
        extern = sum(kernel.language == "extern" for kernel in graph.kernels)
        assert extern == sum(
            wrapper.count(name)
            for name in ("extern_kernels.", "aten.randint.low_out(", "torch.ops.aten.")
        )


def test_equal_layers_share_a_kernel_and_differ_in_the_call(trained: list[LoweredKernels]) -> None:
    shared = [
        kernel
        for kernel in trained[0].kernels
        if kernel.language == "cpp" and len(kernel.calls) > 1
    ]
    assert shared
    for kernel in shared:
        nodes = [set(call.nodes) for call in kernel.calls]
        assert not set.intersection(*nodes)
        assert len({call.line for call in kernel.calls}) == len(kernel.calls)
        assert len({tuple(line for line, _ in call.line_nodes) for call in kernel.calls}) == 1


def test_a_kernel_is_found_where_it_stands_in_the_output_code(
    trained: list[LoweredKernels],
) -> None:
    for graph in trained:
        assert set(definitions(graph.output_code)) == {
            k.name for k in graph.kernels if k.language == "cpp"
        }
        for kernel in graph.kernels:
            if kernel.language == "cpp":
                assert code_line(graph, kernel.first_line) == kernel.source.split("\n")[0]
                assert 'extern "C"' in kernel.source


def test_a_kernel_of_the_cpp_wrapper_has_its_own_name_and_is_found_where_it_stands() -> None:
    with torch._inductor.config.patch(cpp_wrapper=True):
        (graph,) = lower(lambda f: f(torch.ones(8)), lambda x: x.sin() + 1)
    (kernel,) = (kernel for kernel in graph.kernels if kernel.language == "cpp")
    assert re.findall(r"void +(\S+)\(", kernel.source) == [kernel.name]
    assert code_line(graph, kernel.first_line) == kernel.source.split("\n")[0]


def test_a_concatenation_is_computed_by_the_kernels_that_write_its_parts(
    trained: list[LoweredKernels],
) -> None:
    writers = [
        kernel.name for kernel in trained[0].kernels for call in kernel.calls if "cat" in call.nodes
    ]
    assert writers
    assert all(name.startswith("cpp_") for name in writers)


def test_library_calls_name_the_function_and_its_node() -> None:
    (graph,) = lower(
        lambda f: f(torch.ones(4, 4), torch.ones(4)),
        lambda x, y: torch.linalg.qr(x)[0] + (x @ x) * y,
    )
    calls = {
        kernel.name: kernel.calls[0].nodes
        for kernel in graph.kernels
        if kernel.language == "extern"
    }
    assert calls == {
        "torch.ops.aten.linalg_qr.default": ("linalg_qr",),
        "extern_kernels.mm": ("mm",),
    }


def test_a_check_of_a_size_is_no_library_call() -> None:
    def count(x: torch.Tensor) -> torch.Tensor:
        size = x.sum().item()
        torch._check(size >= 2)
        return torch.zeros(size) + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        (graph,) = lower(lambda f: f(torch.ones(4, dtype=torch.int64)), count)
    assert "raise RuntimeError(" in graph.output_code
    assert all(call.nodes for kernel in graph.kernels for call in kernel.calls)


def branches(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x, y: (x @ y).relu(), lambda x, y: x.sin() + y, (x, y))


def test_branches_of_a_cond_have_kernels_of_their_own_in_the_code_of_the_whole() -> None:
    whole, *nested = lower(lambda f: f(torch.ones(4, 4), torch.ones(4, 4)), branches)
    assert {graph.subgraph for graph in nested} == {"true_graph_0", "false_graph_0"}
    assert "cond" in linked_names(whole)
    for graph in nested:
        assert graph.parent is whole.module
        assert graph.output_code == whole.output_code
        assert linked_names(graph) == call_names(graph)
        start = graph.output_code.index(f"def {graph.subgraph}(")
        first_line = graph.output_code.count("\n", 0, start) + 1
        for kernel in graph.kernels:
            assert kernel.calls[0].line > first_line
            assert f"{kernel.name}(" in code_line(graph, kernel.calls[0].line)


def test_what_was_generated_before_a_failure_is_delivered() -> None:
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    def fail(_: object) -> Any:
        def generate(*_: object) -> None:
            raise ZeroDivisionError("no more code")

        return generate

    with patched(PythonWrapperCodegen, "generate", fail):
        graphs: list[LoweredKernels] = []
        with (
            fresh_compiler(),
            inspecting(),
            kernel_recording(graphs.append),
            pytest.raises(Exception, match="no more code"),
        ):
            torch.compile(lambda x: x.sin() @ x)(torch.ones(4, 4))
    (graph,) = graphs
    assert graph.error == "ZeroDivisionError: no more code"
    assert {kernel.name for kernel in graph.kernels} == {"cpp_fused_sin_0", "extern_kernels.mm"}
    assert graph.output_code == ""


def test_nothing_of_the_recording_stays_in_torch() -> None:
    from torch._inductor import graph, scheduler, utils
    from torch._inductor.codegen import cpp, wrapper

    places = [
        (graph.GraphLowering, "codegen"),
        (scheduler.Scheduler, "codegen_extern_call"),
        (wrapper.PythonWrapperCodegen, "generate_kernel_call"),
        (cpp.CppScheduling, "define_kernel"),
        (utils.IndentedBuffer, "writeline"),
    ]
    before = [getattr(owner, name) for owner, name in places]
    with kernel_recording(lambda _: None) as recording:
        assert all(
            getattr(owner, name) is not original
            for (owner, name), original in zip(places, before, strict=True)
        )
        assert recording.unavailable == {}
    assert [getattr(owner, name) for owner, name in places] == before


def test_a_release_without_a_hook_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.scheduler import Scheduler

    monkeypatch.delattr(Scheduler, "codegen_extern_call")
    with kernel_recording(lambda _: None) as recording:
        assert recording.unavailable == {
            "library calls": "this torch release has no Scheduler.codegen_extern_call"
        }
