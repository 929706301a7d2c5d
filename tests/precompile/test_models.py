"""These tests check features of models: buffers, randomness, tied weights, structured inputs and
outputs, mutation, sizes that vary.
"""

from __future__ import annotations

import copy
import doctest
import importlib

import pytest
import torch

from fx_explorer.precompile import GuardError, Precompile
from tests.exhaustive import in_exhaustive_runs
from tests.precompile.gradients import gradients
from tests.precompile.models import Compiled, compiled, eager


def test_batch_norm_in_training_changes_the_same_buffers_equally() -> None:
    ours = torch.nn.BatchNorm1d(3)
    theirs = copy.deepcopy(ours)
    found = compiled(ours, torch.randn(6, 3), compiler=eager)
    before = ours.running_mean.clone()
    assert torch.allclose(found.run(found.inputs), theirs(*found.inputs), atol=1e-6)
    assert not torch.equal(ours.running_mean, before)
    assert all(torch.allclose(a, b) for a, b in zip(ours.buffers(), theirs.buffers(), strict=True))


def test_dropout_draws_the_same_numbers_from_the_same_seed() -> None:
    found = compiled(torch.nn.Dropout(0.5), torch.ones(64), compiler=eager)
    torch.manual_seed(7)
    ours = found.run(found.inputs)
    torch.manual_seed(7)
    assert torch.equal(ours, found.model(*found.inputs))
    assert 0 < int((ours == 0).sum()) < 64


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids))


def test_a_tied_weight_gets_the_gradient_of_both_uses() -> None:
    found = compiled(Tied(), torch.tensor([0, 3, 3]), compiler=eager)
    ours = gradients(found.model, lambda: found.run(found.inputs))
    theirs = gradients(found.model, lambda: found.model(*found.inputs))
    assert list(ours) == ["embed.weight"]
    assert torch.allclose(ours["embed.weight"], theirs["embed.weight"], atol=1e-6)


def test_dicts_go_out_and_keyword_inputs_come_in() -> None:
    def model(x: torch.Tensor, *, scale: torch.Tensor, shift: float = 1.0) -> dict[str, object]:
        return {"scaled": x * scale, "both": (x * scale + shift, "text")}

    x, scale = torch.ones(2), torch.tensor([2.0, 3.0])
    gm, _, guards, inputs = Precompile.dynamo(model, x, kwargs={"scale": scale})
    run, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    out = run(inputs, scale=scale * 2)
    assert torch.equal(out["scaled"], torch.tensor([4.0, 6.0]))
    assert torch.equal(out["both"][0], torch.tensor([5.0, 7.0]))
    assert out["both"][1] == "text"
    assert torch.equal(run(inputs)["scaled"], scale)


def test_an_input_that_the_model_changes_is_changed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    gm, _, guards, _ = Precompile.dynamo(model, torch.zeros(3))
    run, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    x = torch.ones(3)
    assert torch.equal(run((x,)), torch.full((3,), 4.0))
    assert torch.equal(x, torch.full((3,), 2.0))


def test_dynamic_accepts_other_sizes_and_rejects_what_was_specialised() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    gm, _, guards, _ = Precompile.dynamo(model, torch.ones(3, 4), torch.ones(4, 5), dynamic=True)
    run, guards = Precompile.aot_autograd(gm, guards, compiler=eager)
    assert run((torch.ones(7, 2), torch.ones(2, 9))).shape == (7, 9)
    assert guards.check(torch.ones(7, 2), torch.ones(2, 9))
    assert not guards.check(torch.ones(7, 2), torch.ones(3, 9))
    assert not guards.check(torch.ones(7, 2, dtype=torch.float64), torch.ones(2, 9))


def test_a_marked_dimension_varies_and_the_others_do_not() -> None:
    x = torch.ones(3, 8)
    torch._dynamo.mark_dynamic(x, 0)
    gm, _, guards, _ = Precompile.dynamo(torch.nn.Linear(8, 2), x)
    run, guards = Precompile.aot_autograd(gm, guards, compiler=eager)
    assert run((torch.ones(11, 8),)).shape == (11, 2)
    assert guards.check(torch.ones(11, 8))
    assert not guards.check(torch.ones(11, 7))


def test_guards_are_rebuilt_with_what_lowering_added() -> None:
    added = {}

    def bounding(graph: torch.fx.GraphModule, inputs: tuple[object, ...]) -> object:
        size = next(value for value in inputs if isinstance(value, torch.SymInt))
        added["holds"] = bool(size < 100)
        return graph.forward

    gm, _, before, _ = Precompile.dynamo(lambda x: x * 2, torch.ones(6), dynamic=True)
    _, after = Precompile.aot_autograd(gm, before, compiler=bounding)
    assert added == {"holds": True}
    assert before.check(torch.ones(500))
    assert not after.check(torch.ones(500))
    assert after.check(torch.ones(50))
    assert "100" in after.why_not(torch.ones(500)) or "99" in after.why_not(torch.ones(500))


def test_a_graph_compiles_again_with_another_compiler_and_after_an_edit() -> None:
    gm, _, guards, inputs = Precompile.dynamo(lambda x: torch.relu(x), torch.tensor([-1.0, 1.0]))
    first, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    (relu,) = (node for node in gm.graph.nodes if node.op == "call_function")
    relu.target = torch.abs
    second, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    assert first(inputs).tolist() == [0.0, 1.0]
    assert second(inputs).tolist() == [1.0, 1.0]


def test_other_inputs_than_the_guards_allow_are_an_error_that_says_which(mlp: Compiled) -> None:
    with pytest.raises(
        GuardError, match=r"'L\['x'\]' size mismatch at index 1. expected 8, actual 9"
    ) as raised:
        mlp.run((torch.randn(3, 9),))
    assert "Precompile.dynamo(model" in str(raised.value)


def test_a_model_in_another_mode_is_not_what_was_compiled() -> None:
    found = compiled(torch.nn.Dropout(0.5), torch.ones(4), compiler=eager)
    found.model.eval()
    assert "training" in found.rebuilt.why_not(torch.ones(4))


@in_exhaustive_runs
def test_a_tiny_llama_gives_the_logits_and_gradients_of_eager() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        use_cache=False,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, 32, (1, 6))
    gm, _, guards, inputs = Precompile.dynamo(model, kwargs={"input_ids": ids})
    run, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    assert inputs == ()
    assert torch.allclose(run(inputs).logits, model(input_ids=ids).logits, atol=1e-5)
    ours = gradients(model, lambda: run(inputs).logits)
    theirs = gradients(model, lambda: model(input_ids=ids).logits)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in theirs)


@pytest.mark.parametrize("module", ["precompile", "precompile.api", "precompile.compiled_function"])
def test_the_examples_in_the_docstrings_run(module: str) -> None:
    ran = doctest.testmod(importlib.import_module(f"fx_explorer.{module}"))
    assert ran.attempted > 3
    assert ran.failed == 0
