"""These tests check what is said of breaks inside transformers, and of layers that are dropped at
random: each call on the model is made in a bare program, and torch's graph breaks are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.transformers_breaks import _KNOWN_BREAKS, ALWAYS_COMPUTED
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import in_exhaustive_runs

DROPPING = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.{name} = 0.1

    def forward(self, x):
        for layer in self.layers:
            if torch.rand([]) < self.{name}:
                continue
            x = layer(x)
        return x


torch.manual_seed(0)
torch.compile(Model(), backend="eager")(torch.ones(2, 4))
"""


@pytest.mark.parametrize(("name", "is_layer_drop"), [("layerdrop", True), ("threshold", False)])
def test_layers_that_are_dropped_at_random_are_told_as_that(
    name: str, is_layer_drop: bool, tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    file = tmp_path / "dropping.py"
    file.write_text(DROPPING.format(name=name))
    found = findings(reader(captured(file)))
    (finding,) = [row for row in found if row.kind == "graph break"]
    assert ("LayerDrop decides in each call" in finding.explanation) == is_layer_drop
    assert (ALWAYS_COMPUTED in finding.remedies) == is_layer_drop
    has_hint = any(line.startswith("torch's hint") for line in finding.evidence)
    assert has_hint != is_layer_drop


PACKAGE = """
import torch


def lock(x):
    torch._dynamo.graph_break()
    return x + 1


def install(x):
    x = lock(x)
    torch._dynamo.graph_break()
    return x * 2
"""

SCRIPT = """
import sys

import torch

sys.path.insert(0, {folder!r})
from {module} import install

compiled = torch.compile(lambda x: install(x) * 3, backend="eager")
compiled(torch.ones(2))
compiled(torch.ones(2, 2))
"""


@pytest.mark.parametrize(("module", "is_known"), [("output_capturing", True), ("others", False)])
def test_what_one_call_in_transformers_avoids_is_one_finding(
    module: str, is_known: bool, tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    folder = tmp_path / "transformers" / "utils"
    folder.mkdir(parents=True)
    (folder / f"{module}.py").write_text(PACKAGE)
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(folder=str(folder), module=module))
    found = findings(reader(captured(file)))
    breaks = [row for row in found if row.kind == "graph break"]
    assert len(breaks) == (1 if is_known else 2)
    assert sum(row.count for row in breaks) >= 4
    if is_known:
        (one,) = breaks
        assert [remedy.text.partition(":")[0] for remedy in one.remedies] == [
            "Call the model once before you give it to torch.compile"
        ]
        lines = "".join(one.evidence)
        assert all(f"output_capturing.py:{line} breaks" in one.text + lines for line in (6, 12))
        assert "torch's hint" not in lines
    recompiles = [row for row in found if row.kind == "recompile"]
    of_package = [row for row in recompiles if "install" in row.text or "lock" in row.text]
    assert bool(of_package) != is_known


def test_layers_that_are_always_computed_are_one_graph() -> None:
    layer = torch.nn.Linear(4, 4)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.where(torch.rand([]) < 0.1, x, layer(x))
        return x

    torch._dynamo.reset()
    torch.compile(forward, backend="eager", fullgraph=True)(torch.ones(2, 4)).sum().backward()
    assert layer.weight.grad is not None


SMALL = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}

TEXT: dict[str, Any] = {
    "input_ids": torch.arange(32).reshape(2, 16),
    "labels": torch.arange(32).reshape(2, 16),
    "use_cache": False,
}


def opt(transformers: Any) -> tuple[Any, dict[str, Any]]:
    configuration = transformers.OPTConfig(
        **SMALL, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64, layerdrop=0.1
    )
    return transformers.OPTForCausalLM(configuration), TEXT


def mixtral(transformers: Any) -> tuple[Any, dict[str, Any]]:
    configuration = transformers.MixtralConfig(
        **SMALL, intermediate_size=64, num_key_value_heads=1, num_local_experts=4,
        experts_implementation="eager",
    )  # fmt: skip
    return transformers.MixtralForCausalLM(configuration), TEXT


def wav2vec2(transformers: Any) -> tuple[Any, dict[str, Any]]:
    configuration = transformers.Wav2Vec2Config(
        **SMALL, intermediate_size=64, conv_dim=[16, 16], conv_stride=[4, 4], conv_kernel=[8, 8],
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_prob=0.0,
    )  # fmt: skip
    return transformers.Wav2Vec2ForCTC(configuration), {"input_values": torch.randn(2, 800)}


@in_exhaustive_runs
@pytest.mark.filterwarnings("ignore::UserWarning")  # of transformers, and torch's of them
@pytest.mark.parametrize(
    ("build", "on_model"),
    [
        (opt, "apply(lambda"),
        (mixtral, 'set_experts_implementation("grouped_mm")'),
        (mixtral, 'set_experts_implementation("batched_mm")'),
        (wav2vec2, "freeze_feature_encoder()"),
    ],
)
def test_what_a_trial_adds_to_the_model_avoids_breaks(
    build: Callable[[Any], tuple[Any, dict[str, Any]]], on_model: str
) -> None:
    transformers = pytest.importorskip("transformers")  # takes each process of the tests 4 s
    (added,) = [row.on_model for row in _KNOWN_BREAKS if row.on_model.startswith(on_model)]
    breaks = []
    for addition in ("", added):
        model, inputs = build(transformers)
        model.train()
        model.loss_type = "ForCausalLM"
        if addition:
            exec(f"model.{addition}", {"model": model})
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        torch.compile(model, backend="eager")(**inputs)
        breaks.append(sum(counters["graph_break"].values()))
    assert breaks[0] > breaks[1]
