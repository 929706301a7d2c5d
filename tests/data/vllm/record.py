"""Records tests/data/vllm/pieces.log.gz: TORCH_TRACE=DIR python record.py

It cuts a model into pieces at an operation, as vLLM does at its attention, compiles each by Inductor, and writes the records of
vllm/compilation/backends.py and piecewise_backend.py (vLLM 0.13) in their form. Everything else in the log is torch 2.13's own.
"""

import json
from collections.abc import Mapping

import torch
from torch._inductor import standalone_compile
from torch._logging import trace_structured
from torch.fx.passes.split_module import split_module


@torch.library.custom_op("sample::attention", mutates_args=())  # type: ignore[untyped-decorator]
def attention(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


@attention.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.ops.sample.attention(self.up(x).relu()))


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def backend(
    graph: torch.fx.GraphModule, example_inputs: list[torch.Tensor]
) -> torch.fx.GraphModule:
    config = {
        "model": "sample",
        "mode": "VLLM_COMPILE",
        "backend": "inductor",
        "splitting_ops": "['sample::attention']",
    }
    _artifact("vllm_compilation_config", config)
    part, parts = 0, dict[torch.fx.Node, int]()
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        is_cut = node.target in (torch.ops.sample.attention, torch.ops.sample.attention.default)
        part += is_cut
        parts[node] = part
        part += is_cut
    split = split_module(graph, None, lambda node: parts[node], keep_original_order=True)
    _dump("vllm_piecewise_split_graph", split.print_readable(print_output=False))
    modules = dict(split.named_children())
    pieces = [name for i, name in enumerate(modules) if i % 2 == 0]
    for node in [
        node for node in split.graph.nodes if node.op == "call_module" and node.target in pieces
    ]:
        inputs = [
            one.meta["example_value"]
            for one in modules[node.target].graph.find_nodes(op="placeholder")
        ]
        for first, last in ((1, 8192), (4, 4)):
            start = {
                "piecewise_index": pieces.index(node.target),
                "submod_name": node.target,
                "total_piecewise_compiles": len(pieces),
            }
            sizes = {
                "compile_range_start": first,
                "compile_range_end": last,
                "is_single_size": first == last,
            }
            _artifact(
                "vllm_piecewise_compile_start",
                {**start, **sizes, "is_cudagraph_capture_size": False},
            )
            if first == 1:
                _dump(
                    f"vllm_{node.target}", modules[node.target].print_readable(print_output=False)
                )
            standalone_compile(modules[node.target], inputs, dynamic_shapes="from_example_inputs")
    return split


def _artifact(name: str, content: Mapping[str, object]) -> None:
    trace_structured(
        "artifact",
        lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: json.dumps(content),
    )


def _dump(name: str, text: str) -> None:
    trace_structured("graph_dump", lambda: {"name": name}, payload_fn=lambda: text)


if __name__ == "__main__":
    with torch.no_grad():
        torch.compile(Model(), backend=backend, fullgraph=True)(torch.randn(4, 8))
