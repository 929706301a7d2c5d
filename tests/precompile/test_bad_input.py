"""These tests check models that cannot be compiled or saved: each error names the cause, the place
and a remedy.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from fx_explorer.precompile import (
    CompilerError,
    GraphBreakError,
    GuardError,
    Precompile,
    PrecompileError,
    SaveError,
)
from tests.exhaustive import in_exhaustive_runs
from tests.precompile.models import Compiled, compiled, eager

CALLS: list[str] = []


def helper(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x + 1


def broken(x: torch.Tensor) -> list[int]:
    CALLS.append("ran")
    print("a first break")
    x = helper(x)
    if x.sum() > 0:
        x = x + 2
    return x.tolist()


@pytest.fixture(scope="module")
def graph_breaks() -> GraphBreakError:
    with pytest.raises(GraphBreakError) as raised:
        Precompile.dynamo(broken, torch.ones(3))
    return raised.value


def line_of(text: str) -> int:
    return next(
        number
        for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
        if line.strip() == text
    )


def test_every_graph_break_is_listed_with_its_line(graph_breaks: GraphBreakError) -> None:
    lines = [
        'print("a first break")',
        "torch._dynamo.graph_break()",
        "if x.sum() > 0:",
        "return x.tolist()",
    ]
    assert {(found.file, found.line) for found in graph_breaks.breaks} == {
        (__file__, line_of(line)) for line in lines
    }
    assert "GB0170" in {found.registry_id for found in graph_breaks.breaks}


def test_the_message_has_place_reason_and_hints_of_each(graph_breaks: GraphBreakError) -> None:
    message = str(graph_breaks)
    assert all(
        f"{found.file}:{found.line}: {found.reason}" in message for found in graph_breaks.breaks
    )
    assert "hint: Use `torch.cond`" in message
    assert "running a deep copy" in message


def test_looking_for_breaks_a_second_time_finds_the_same(graph_breaks: GraphBreakError) -> None:
    with pytest.raises(GraphBreakError) as raised:
        Precompile.dynamo(broken, torch.ones(3))
    again = [(found.file, found.line, found.reason) for found in raised.value.breaks]
    assert again == [(found.file, found.line, found.reason) for found in graph_breaks.breaks]


def test_a_model_that_cannot_be_copied_has_its_first_break_listed() -> None:
    class Uncopied(torch.nn.Module):
        def __deepcopy__(self, memo: object) -> Uncopied:
            raise RuntimeError("one only")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return x

    with pytest.raises(GraphBreakError, match=r"Only the first is listed.*one only") as raised:
        Precompile.dynamo(Uncopied(), torch.ones(3))
    assert len(raised.value.breaks) == 1
    assert raised.value.breaks[0].file == __file__


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (3, (), "give an nn.Module, a Python function"),
        (functools.partial(torch.add, 1), (torch.ones(1),), "give an nn.Module, a Python function"),
        (lambda x: x, (), "cannot be called with these inputs: missing a required argument: 'x'"),
        (lambda x: 3, (torch.ones(1),), "nothing to compile"),
    ],
)
def test_what_cannot_be_captured_is_said(
    model: object, inputs: tuple[object, ...], message: str
) -> None:
    with pytest.raises(PrecompileError, match=message):
        Precompile.dynamo(model, *inputs)


def illegal(graph: torch.fx.GraphModule, inputs: object) -> object:
    operations = [node for node in graph.graph.nodes if node.op == "call_function"]
    operations[0].prepend(operations[-1])
    return graph


def another_input(graph: torch.fx.GraphModule, inputs: object) -> object:
    with graph.graph.inserting_before(next(iter(graph.graph.nodes))):
        graph.graph.placeholder("extra")
    graph.recompile()
    return graph


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (lambda graph, inputs: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda graph, inputs: "nonsense", "returned 'nonsense', which is not callable"),
        (illegal, "left a broken graph: .* was used before it has been defined"),
        (another_input, "changed the inputs or outputs of the graph"),
    ],
)
def test_a_bad_compiler_is_named_and_the_graph_can_be_compiled_by_another(
    compiler: object, message: str
) -> None:
    gm, _, guards, inputs = Precompile.dynamo(lambda x: (x * 2).sin() + 1, torch.zeros(3))
    with pytest.raises(CompilerError, match=f"the compiler {compiler.__name__}.*{message}"):
        Precompile.aot_autograd(gm, guards, compiler=compiler)
    run, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    assert torch.equal(run(inputs), torch.ones(3))


@in_exhaustive_runs
def test_a_number_that_has_to_be_a_constant_for_inductor_is_told_with_what_helps() -> None:
    model, x = torch.nn.BatchNorm1d(4), torch.randn(3, 4)
    gm, _, guards, _ = Precompile.dynamo(model, x, dynamic=True)
    with pytest.raises(
        PrecompileError, match=r"momentum of a BatchNorm.*specialize_float=True.*mark_dynamic"
    ):
        Precompile.aot_autograd(gm, guards)
    with torch._dynamo.config.patch(specialize_float=True):
        gm, _, guards, _ = Precompile.dynamo(model, x, dynamic=True)
    compiled_fn, _ = Precompile.aot_autograd(gm, guards)
    assert compiled_fn((torch.randn(7, 4),)).shape == (7, 4)
    marked = torch.randn(3, 4)
    torch._dynamo.mark_dynamic(marked, 0)
    gm, _, guards, _ = Precompile.dynamo(model, marked)
    compiled_fn, _ = Precompile.aot_autograd(gm, guards)
    assert compiled_fn((torch.randn(7, 4),)).shape == (7, 4)


def test_graphs_and_guards_of_other_origin_are_refused(mlp: Compiled) -> None:
    _, _, others, _ = Precompile.dynamo(lambda x: x * 2, torch.ones(3))
    with pytest.raises(PrecompileError, match="guards do not belong to this capture"):
        Precompile.aot_autograd(mlp.gm, others)
    with pytest.raises(PrecompileError, match=r"not a graph of Precompile\.dynamo"):
        Precompile.aot_autograd(torch.fx.symbolic_trace(torch.nn.ReLU()), mlp.guards)


def test_what_a_custom_compiler_returned_cannot_be_saved(tmp_path: Path) -> None:
    found = compiled(torch.nn.ReLU(), torch.ones(3), compiler=eager)
    with pytest.raises(SaveError, match="the result of the compiler eager"):
        Precompile.save(found.run, tmp_path / "x.pt2")
    assert list(tmp_path.iterdir()) == []


@in_exhaustive_runs
def test_what_dynamo_put_among_the_globals_of_the_module_is_in_the_file(tmp_path: Path) -> None:
    """The bytecode names ``range`` by a global that Dynamo made up. Without its model, a file has
    no globals but its own.
    """
    found = compiled(lambda x: (x * 2, range(3)), torch.ones(2))
    loaded = Precompile.load(Precompile.save(found.run, tmp_path / "range.pt2"))
    assert loaded(found.inputs)[1] == range(3)


def test_regions_are_saved_and_loaded_with_gradients_and_guards(
    transformer: Compiled, tmp_path: Path
) -> None:
    model, inputs = transformer.model, transformer.inputs
    transformer.run(inputs).sum().backward()
    kept = model.layers[0].up.weight.grad
    loaded = Precompile.load(Precompile.save(transformer.run, tmp_path / "regions.pt2"), model)
    assert model.layers[0].up.weight.grad is kept
    model.zero_grad(set_to_none=True)
    assert torch.allclose(loaded(inputs), model(*inputs), atol=1e-4)
    loaded(inputs).sum().backward()
    assert torch.allclose(model.layers[0].up.weight.grad, kept, atol=1e-4)
    model.zero_grad(set_to_none=True)
    with pytest.raises(
        GuardError,
        match=r"compiled for other inputs: .* size mismatch at index 0. expected 2, actual 3",
    ):
        loaded((torch.ones(3, 5, 16),))
    with pytest.raises(SaveError, match=r"Precompile.load\(path, model\)"):
        Precompile.load(tmp_path / "regions.pt2")


def test_a_file_that_is_something_else_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.pt2").write_text("something else")
    with pytest.raises(SaveError, match="cannot be loaded"):
        Precompile.load(tmp_path / "x.pt2")
    with pytest.raises(SaveError, match="cannot be read"):
        Precompile.load(tmp_path / "missing.pt2")
