"""This test folds the graphs of a real Llama of transformers, forward and backward, as a program of
a few lines compiles it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.modules.folded_listing import whole_name
from fx_explorer.instruments.modules.graph_folding import folded_graph
from tests.capture.recorded import Compile, record
from tests.exhaustive import in_exhaustive_runs
from tests.folding.layers import standing

LAYERS = 4

SCREEN = 18


@in_exhaustive_runs
def test_a_training_step_of_a_real_llama_fits_a_screen_and_is_right(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
        use_cache=False,
    )
    llama = transformers.LlamaForCausalLM(config)

    def step(compile: Compile) -> None:
        tokens = torch.randint(0, 100, (2, 16))
        compile(llama.forward)(tokens, labels=tokens).loss.backward()

    of_layer = sum(parameter.numel() * 4 for parameter in llama.model.layers[0].parameters())
    with record(tmp_path / "llama.fxs", step) as reader:
        graphs = reader.rows(model.Graph)
        assert {graph.stage for graph in graphs} >= {"dynamo", "joint", "forward", "backward"}
        for graph in graphs:
            nodes, folded = reader.nodes(graph), folded_graph(reader, graph.id)
            shown = folded.first_shown()
            assert len(shown) <= SCREEN
            assert sorted(standing(folded, shown)) == list(range(graph.node_count))
            (layers,) = [
                group
                for group in map(folded.group, shown)
                if group is not None and group.kind == "layers"
            ]
            assert len(layers.layers) == LAYERS
            assert whole_name(layers) == "model.layers.0 … 3"
            calls = [node for node in nodes if node.op.startswith("call")]
            of_layers = [
                node
                for node in calls
                if any(node.module.startswith(f"model.layers.{at}.") for at in range(LAYERS))
                or node.module in [f"model.layers.{at}" for at in range(LAYERS)]
            ]
            assert layers.calls == len(of_layers)
            if graph.stage in ("dynamo", "joint"):
                assert layers.parameter_bytes == LAYERS * of_layer
            if graph.stage == "dynamo":
                assert not layers.difference, "torch traces each layer alike"
