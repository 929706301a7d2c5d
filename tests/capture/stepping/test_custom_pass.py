"""These tests apply the user's passes to the graphs that torch.compile produces after Dynamo and
after AOTAutograd.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from fx_explorer.capture.stepping.custom_pass import apply_pass, load_pass
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.errors import PassProblem
from tests.capture.lowering import fresh_compiler
from tests.exhaustive import in_exhaustive_runs


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ w) + 1


@pytest.fixture(scope="module")
def stages() -> dict[str, tuple[GraphModule, list[Any]]]:
    """Gate → graph and inputs, as the compiler that comes next was given them."""
    from torch._dynamo.backends.common import aot_autograd

    found: dict[str, tuple[GraphModule, list[Any]]] = {}

    def keep(name: str) -> Any:
        def compiler(gm: GraphModule, inputs: list[Any]) -> Any:
            found[name] = (gm, list(inputs))
            return gm.forward

        return compiler

    aot = aot_autograd(fw_compiler=keep("partition"))

    def backend(gm: GraphModule, inputs: list[Any]) -> Any:
        keep("dynamo")(gm, inputs)
        return aot(gm, inputs)

    with fresh_compiler():
        torch.compile(model, backend=backend, dynamic=True)(torch.randn(4, 8), torch.randn(8, 8))
    return found


RELU = """import torch
def pass_(gm):
    for node in list(gm.graph.nodes):
        if "gelu" in str(node.target):
            with gm.graph.inserting_after(node):
                new = gm.graph.call_function({relu}, (node.args[0],))
            node.replace_all_uses_with(new)
            gm.graph.erase_node(node)
"""
RELUS = {"dynamo": "torch.relu", "partition": "torch.ops.aten.relu.default"}


def written(folder: Path, source: str) -> Path:
    path = folder / "fold.py"
    path.write_text(source)
    return path


def graph_of(module: GraphModule) -> str:
    return str(module.print_readable(print_output=False))


def refused(folder: Path, source: str, module: GraphModule) -> str:
    """Return the message on a pass that is refused; the graph is unchanged."""
    before = graph_of(module)
    with pytest.raises(PassProblem) as problem:
        apply_pass(written(folder, source), module)
    assert graph_of(module) == before
    return str(problem.value)


@pytest.mark.parametrize("gate", ["dynamo", "partition"])
def test_a_pass_changes_a_copy_whose_new_node_has_a_value(
    gate: str, stages: Any, tmp_path: Path
) -> None:
    module, inputs = stages[gate]
    before = graph_of(module)
    edited = apply_pass(written(tmp_path, RELU.format(relu=RELUS[gate])), module)
    assert graph_of(module) == before
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    x, w = tensors if gate == "dynamo" else (torch.randn(4, 8), torch.randn(8, 8))
    real = iter((x, w))
    arguments = [
        next(real) if isinstance(one, torch.Tensor) else 4 if i == 0 else 8
        for i, one in enumerate(inputs)
    ]
    assert torch.allclose(edited(*arguments)[0], torch.relu(x @ w) + 1)
    (new,) = [node for node in edited.graph.nodes if "relu" in str(node.target)]
    (old,) = [node for node in module.graph.nodes if "gelu" in str(node.target)]
    key = "example_value" if gate == "dynamo" else "val"
    assert str(new.meta[key].shape) == str(old.meta[key].shape)


@in_exhaustive_runs
def test_inductor_compiles_the_edited_graph(tmp_path: Path) -> None:
    from torch._inductor import compile_fx as module

    path = written(tmp_path, RELU.format(relu=RELUS["dynamo"]))

    def make(original: Any) -> Any:
        return lambda gm, inputs, *args, **kwargs: original(
            apply_pass(path, gm), inputs, *args, **kwargs
        )

    x, w = torch.randn(4, 8), torch.randn(8, 8)
    with fresh_compiler(), patched(module, "compile_fx", make):
        assert torch.allclose(torch.compile(model)(x, w), torch.relu(x @ w) + 1, atol=1e-5)


def test_a_graph_module_that_the_pass_returns_is_taken(stages: Any, tmp_path: Path) -> None:
    source = (
        "from torch.fx import GraphModule, Graph\nimport copy\ndef pass_(gm):\n    g = Graph()\n"
    )
    source += "    v = {}\n    out = g.graph_copy(gm.graph, v)\n    g.output(out)\n"
    source += "    [n.meta.clear() for n in g.nodes]\n    return GraphModule(gm, g)\n"
    module, _ = stages["dynamo"]
    edited = apply_pass(written(tmp_path, source), module)
    assert edited.compile_subgraph_reason is module.compile_subgraph_reason
    assert all("example_value" in node.meta for node in edited.graph.nodes if node.op != "output")
    assert [
        getattr(n, "_dynamo_source", 0) for n in edited.graph.nodes if n.op == "placeholder"
    ] == [getattr(n, "_dynamo_source", 0) for n in module.graph.nodes if n.op == "placeholder"]


def test_the_graph_of_a_pass_result_is_taken(stages: Any, tmp_path: Path) -> None:
    source = "from torch.fx.passes.infra.pass_base import PassResult\nimport copy\ndef pass_(gm):\n"
    source += "    gm.graph.lint()\n    gm.meta['seen'] = True\n    return PassResult(gm, True)\n"
    assert apply_pass(written(tmp_path, source), stages["dynamo"][0]).meta["seen"]


def on_gelu(*statements: str) -> str:
    """A pass that changes the node of gelu, ``n``."""
    lines = ["n = next(n for n in gm.graph.nodes if 'gelu' in str(n.target))", *statements]
    return "import torch\ndef pass_(gm):\n" + "".join(f"    {line}\n" for line in lines)


PROBLEMS = {
    "def pass_(gm):\n    return (\n": ["fold.py:2", "SyntaxError"],
    "import nothing_of_that_name\n": [
        "fold.py:1",
        "ModuleNotFoundError",
        "when the file was loaded",
    ],
    "raise SystemExit('no')\n": ["fold.py:1", "SystemExit: no"],
    "def pass_(gm):\n    return 3\n": ["returned int", "return a GraphModule"],
    "def fold(gm): pass\n": ["no function pass_(gm)", "it has fold"],
    "def pass_(gm):\n    gm.nothing\n": ["fold.py:2", "AttributeError", "nothing"],
    on_gelu("n.graph.output(())"): ["cannot be compiled"],
    on_gelu("n.next.next.args = ((n, n),)"): ["returned 1 values before and returns 2 now"],
    on_gelu("n.graph.erase_node(n.next.next)"): ["it has no output"],
    on_gelu("with n.graph.inserting_before():", "    n.graph.placeholder('extra')"): [
        "the pass must not change its inputs",
        "extra added",
    ],
    on_gelu("n.target, n.kwargs = torch.relu, {}"): [
        "node gelu",
        "torch.relu",
        "torch.ops.aten.relu.default",
    ],
    on_gelu("n.target, n.args = torch.ops.aten.mm.default, n.args * 2"): [
        "node gelu",
        "aten.mm.default",
        "does not accept its inputs",
    ],
    on_gelu("n.target = torch.ops.aten.sum.default"): ["output 0, add", "is now f32[]"],
}


@pytest.mark.parametrize("source", PROBLEMS)
def test_a_pass_that_cannot_be_is_refused_with_its_reason(
    source: str, stages: Any, tmp_path: Path
) -> None:
    said = refused(tmp_path, source, stages["partition"][0])
    assert all(part in said for part in PROBLEMS[source]), said


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PassProblem, match=r"cannot read the pass file .*none\.py: No such file"):
        load_pass(tmp_path / "none.py")
