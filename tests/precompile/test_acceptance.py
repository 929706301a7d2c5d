"""These tests are the fourteen acceptance checks of Precompile, by their numbers, as its
specification states them.

Nothing is shared and no step left out: each stands as somebody would write it who has read the
specification alone.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
import torch.fx.traceback as fx_traceback
from torch.fx.passes.regional_inductor import regional_inductor

import fx_explorer
from fx_explorer.precompile import Precompile, install
from tests.exhaustive import in_exhaustive_runs
from tests.precompile.gradients import gradients
from tests.precompile.models import MLP, Compiled, Transformer, eager


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "Precompile", None, raising=False)
    monkeypatch.delattr(torch, "Precompile")
    install()


def test_01_torch_precompile_exists_after_install() -> None:
    install()
    assert torch.Precompile is Precompile is fx_explorer.Precompile


def test_01_install_leaves_a_precompile_of_torchs_own_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "Precompile", "torch's own")
    install()
    assert torch.Precompile == "torch's own"


def test_02_dynamo_is_there_and_callable() -> None:
    assert callable(torch.Precompile.dynamo)


def test_03_dynamo_on_a_product_returns_a_graph_module_with_a_graph() -> None:
    gm, bytecode, guards, inputs = torch.Precompile.dynamo(lambda x: x * 2, torch.ones(3))
    assert isinstance(gm, torch.fx.GraphModule)
    assert [node.op for node in gm.graph.nodes] == ["placeholder", "call_function", "output"]
    assert inspect.iscode(bytecode)
    assert "check_tensor(L['x']" in str(guards)
    assert torch.equal(gm(*inputs), torch.full((3,), 2.0))


def test_04_aot_autograd_is_there_and_callable() -> None:
    assert callable(torch.Precompile.aot_autograd)


def test_05_a_product_and_a_sum_end_to_end_equal_eager() -> None:
    x = torch.randn(5)
    gm, _, guards, inputs = torch.Precompile.dynamo(lambda x: x * 2 + 1, x)
    compiled_fn, _ = torch.Precompile.aot_autograd(gm, guards)
    assert torch.allclose(compiled_fn(inputs), x * 2 + 1)


def test_06_an_annotation_is_on_the_traced_nodes() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({"compile_with_inductor": "r"}):
            y = x.sin()
        return y + 1

    gm, *_ = torch.Precompile.dynamo(model, torch.ones(3))
    custom = {
        node.name: node.meta.get("custom") for node in gm.graph.nodes if node.op != "placeholder"
    }
    assert custom["y"] == {"compile_with_inductor": "r"}
    assert not custom["add"]


def test_07_regional_inductor_is_callable() -> None:
    assert callable(regional_inductor)


@in_exhaustive_runs
def test_08_regional_inductor_is_accepted_as_compiler() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({"compile_with_inductor": "r"}):
            return x.sin() * 2

    x = torch.randn(3)
    gm, bytecode, guards, example_inputs = torch.Precompile.dynamo(model, x)
    assert inspect.iscode(bytecode)
    compiled_fn, guards = torch.Precompile.aot_autograd(gm, guards, compiler=regional_inductor)
    assert torch.allclose(compiled_fn(example_inputs), model(x))


def test_09_both_methods_are_reachable_from_the_torch_namespace() -> None:
    assert torch.Precompile.dynamo is Precompile.dynamo
    assert torch.Precompile.aot_autograd is Precompile.aot_autograd


def test_10_the_forward_of_an_mlp_equals_eager() -> None:
    torch.manual_seed(0)
    model, x = MLP(), torch.randn(3, 8)
    gm, bytecode, guards, example_inputs = torch.Precompile.dynamo(model, x)
    assert inspect.iscode(bytecode)
    compiled_fn, guards = torch.Precompile.aot_autograd(gm, guards)
    with torch.no_grad():
        compiled_output = compiled_fn(example_inputs)
        eager_output = model(x)
    assert torch.allclose(compiled_output, eager_output, atol=1e-5)


def test_11_gradients_by_parameter_name_equal_eager() -> None:
    torch.manual_seed(0)
    model, x = MLP(), torch.randn(3, 8)
    gm, bytecode, guards, example_inputs = torch.Precompile.dynamo(model, x)
    assert inspect.iscode(bytecode)
    compiled_fn, guards = torch.Precompile.aot_autograd(gm, guards)
    model.zero_grad()
    compiled_fn(example_inputs).sum().backward()
    ours = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    model(x).sum().backward()
    theirs = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in theirs)


@in_exhaustive_runs
def test_12_a_transformer_with_attention_and_mlp_regions_equals_eager() -> None:
    torch.manual_seed(0)
    model, x = Transformer(), torch.randn(2, 5, 16)
    gm, bytecode, guards, example_inputs = torch.Precompile.dynamo(model, x)
    assert inspect.iscode(bytecode)
    compiled_fn, guards = torch.Precompile.aot_autograd(gm, guards, compiler=regional_inductor)
    with torch.no_grad():
        compiled_output = compiled_fn(example_inputs)
        eager_output = model(x)
    assert torch.allclose(compiled_output, eager_output, atol=1e-4)
    ours, theirs = (
        gradients(model, lambda: compiled_fn(example_inputs)),
        gradients(model, lambda: model(x)),
    )
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in theirs)


@pytest.mark.parametrize("name", ["dynamo", "aot_autograd", "save", "load"])
def test_13_docstrings_say_what_comes_in_what_comes_out_and_what_is_raised(name: str) -> None:
    docstring = inspect.getdoc(getattr(Precompile, name)) or ""
    assert len(docstring) > 400
    assert "Raises:" in docstring


@in_exhaustive_runs
def test_14_the_new_api_replaces_the_old_flow(mlp: Compiled, tmp_path: Path) -> None:
    """What the old flow's own loader, the second source, makes of the file is what ours makes of
    it.
    """
    path = Precompile.save(mlp.run, tmp_path / "mlp.pt2")
    ours = Precompile.load(path, mlp.model)(mlp.inputs)
    with path.open("rb") as file:
        old = torch.compiler.load_compiled_function(file)
    assert torch.equal(ours, old(mlp.model, *mlp.inputs))
    assert torch.allclose(ours, mlp.model(*mlp.inputs), atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(
            Precompile.load(path, mlp.model)(mlp.inputs), mlp.model(*mlp.inputs), atol=1e-5
        )


def test_a_custom_compiler_is_given_the_forward_and_the_backward_graph() -> None:
    seen: list[int] = []
    gm, _, guards, _ = Precompile.dynamo(torch.nn.Linear(2, 2), torch.ones(1, 2))
    Precompile.aot_autograd(
        gm, guards, compiler=lambda graph, inputs: seen.append(len(inputs)) or eager(graph, inputs)
    )
    assert len(seen) == 2
