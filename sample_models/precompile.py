"""The steps of precompile_by_hand.py with Precompile: the graph and its guards between them."""

from __future__ import annotations

import torch

from fx_explorer import Precompile


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

    graph, _, guards, example_inputs = Precompile.dynamo(model, features)
    print(f"{len(graph.graph.nodes)} nodes")

    compiled_model, guards = Precompile.aot_autograd(graph, guards)
    print(guards.check(torch.randn(8, 16)), guards.why_not(torch.randn(8, 17)))

    scores = compiled_model(example_inputs)
    scores.sum().backward()
    print(torch.allclose(scores, model(features), atol=1e-5), model.out.weight.grad.shape)


if __name__ == "__main__":
    main()
