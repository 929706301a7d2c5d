"""torch.compile in steps, with the private functions of torch that precompile.py needs none of."""

from __future__ import annotations

import functools

import torch
from torch._dynamo import convert_frame
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.functional_export import create_fx_graph_from_captured_output
from torch._dynamo.utils import dynamo_timed, get_metrics_context
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table


class Classifier(torch.nn.Module):
    """Two linear layers with a normalization between them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(16, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.out = torch.nn.Linear(32, 4)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return one row of scores for each row of ``features``."""
        hidden = torch.nn.functional.gelu(self.norm(self.hidden(features)))
        return self.out(hidden)


def main() -> None:
    """Capture one graph, lower it with AOTAutograd and Inductor, and train one step with it."""
    torch.manual_seed(0)
    model = Classifier()
    features = torch.randn(8, 16)

    # Dynamo: one graph of the whole model, its bytecode and what the guards are made of.
    with get_metrics_context(), dynamo_timed("fullgraph_capture"):
        captured = convert_frame.fullgraph_capture(model, (features,), {})
    graph_inputs = captured.backend_input.example_inputs
    graph = captured.backend_input.graph_module
    context = TracingContext(captured.backend_input.fake_mode)
    context.tensor_to_context = captured.backend_input.tensor_to_context
    traced, _ = convert_frame.get_traced_fn(model)

    # AOTAutograd: a forward and a backward graph, and a compiler for them.
    inductor = aot_autograd(
        fw_compiler=compile_fx_inner,
        bw_compiler=functools.partial(compile_fx_inner, is_backward=True),
        decompositions=select_decomp_table,
        partition_fn=min_cut_rematerialization_partition,
    )
    with tracing(context), get_metrics_context(), dynamo_timed("backend_compile"):
        compiled_graph = inductor(graph, graph_inputs)
        guards = captured.graph_capture_output.build_guards(traced.__code__).guard_manager

    # The graph that takes the model's own inputs, to look at or to edit.
    readable = create_fx_graph_from_captured_output(captured, model, (features,), {})
    print(f"{len(readable.graph.nodes)} nodes")
    print(guards.check({"self": model, "features": features}))

    # Dynamo's bytecode around the compiled graph.
    output = captured.graph_capture_output
    compiled_model = captured.forward_callable(
        compiled_fn=torch._dynamo.disable(compiled_graph), extra_globals=output.f_globals
    )
    scores = compiled_model(model, features)
    scores.sum().backward()
    print(torch.allclose(scores, model(features), atol=1e-5), model.out.weight.grad.shape)


if __name__ == "__main__":
    main()
