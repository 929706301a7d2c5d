"""These tests check graphs with higher-order operators, effects and the user's operators: their
scripts compute the same as FX.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fx_explorer import model
from fx_explorer.analysis.graph_expressions import NotPythonError, RowNames, importable
from fx_explorer.analysis.graph_files import graph_script
from fx_explorer.analysis.graph_python import DEEPEST, graph_code
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import Compile, record
from tests.exhaustive import one_of
from tests.graph_code.conftest import RunAlone
from tests.graph_code.test_script import TENSOR, Written, one_graph

LINEAR = nn.Linear(4, 4)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 2 * ctx.saved_tensors[0] * grad


def twice(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(
        lambda y: checkpoint(lambda z: LINEAR(z).relu(), y, use_reentrant=False).sin(),
        x,
        use_reentrant=False,
    )


def inverse(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv(x @ x.T + torch.eye(4))


def counting(x: torch.Tensor) -> torch.Tensor:
    start = (torch.tensor(0), x)
    return torch._higher_order_ops.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), start
    )[1]


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "checkpoint": lambda x: checkpoint(lambda y: LINEAR(y).relu().sin(), x, use_reentrant=False),
    "checkpoint_in_checkpoint": twice,
    "autograd_function": lambda x: Square.apply(x).sin(),
    "cond": lambda x: torch.cond(x.sum() > 0, lambda y: LINEAR(y) + 1, lambda y: y.cos(), (x,)),
    "effects": inverse,
    "while_loop": counting,
}


@pytest.mark.parametrize("name", one_of(2, FUNCTIONS))
def test_dynamos_graph_with_a_higher_order_operator_computes_what_the_function_does(
    name: str, tmp_path: Path, run_alone: RunAlone
) -> None:
    function, x = FUNCTIONS[name], torch.rand(4, 4)
    with record(tmp_path / "s.fxs", lambda compile_: compile_(function)(x)) as reader:
        graph = reader.rows(model.Graph, stage="dynamo", parent=0)[0]
        known = {(4, 4): LINEAR.weight, (4,): LINEAR.bias}
        inputs = [
            x if "x" in node.name else known[tuple(map(int, node.shape or ()))]
            for node in graph_code(reader, graph).inputs
        ]
        scripts = []
        for number, one in enumerate(reader.rows(model.Graph)):
            scripts.append(tmp_path / f"{number}.py")
            scripts[-1].write_text(graph_script(reader, one, ["test"]))
        written: dict[str, Any] = {}
        exec(graph_code(reader, graph).text, written)
    with torch.no_grad():
        torch.testing.assert_close(written["GraphModule"]()(*inputs)[0], function(x))
    ended = run_alone(scripts)
    assert {
        file: printed for file, printed in ended.items() if not printed.startswith(("[", "torch."))
    } == {}


@torch.library.custom_op("fx_explorer_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)

REGISTERS = """
import torch
torch.library.custom_op("fx_explorer_tests::doubled", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
"""


def test_an_operator_of_the_users_is_asked_for_in_words_and_the_script_runs_once_it_is_imported(
    tmp_path: Path,
    run_alone: RunAlone,
) -> None:
    def program(compile_: Compile) -> None:
        compile_(lambda x: doubled(x).sin())(torch.rand(3))

    with record(tmp_path / "s.fxs", program) as reader:
        text = graph_script(reader, reader.rows(model.Graph, stage="dynamo")[0], ["test"])
    assert "fx_explorer_tests.doubled is not torch's: import" in " ".join(
        text.replace("\n#  ", "").split()
    )
    script = tmp_path / "g.py"
    script.write_text(text)
    assert run_alone([script])[str(script)].startswith(
        "SystemExit: fx_explorer_tests.doubled is not registered: import"
    )
    (tmp_path / "mine.py").write_text(REGISTERS)
    script.write_text(text.replace("import torch\n", "import torch\nimport mine\n", 1))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[torch.float32[3]]"


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 1000 + "]" * 1000,
        "-" * 3000 + "1",
        "+".join(["s0"] * 3000),
        "x" + ".T" * 3000,
        "slice(" * 150 + "1" + ")" * 150,
    ],
)
def test_arguments_that_are_nested_too_deeply_become_a_sentence(
    written: Written, arguments: str
) -> None:
    reader, graph = one_graph(
        written,
        ("t", "call_function", "torch.add", arguments, TENSOR),
        ("o", "output", "output", "t", {}),
        takes=((0, 1),),
    )
    text = graph_code(reader, graph)
    compile(text.text, "graph.py", "exec")
    assert len(text.missing) == 1 or "slice(" in arguments


def test_graphs_nested_deeper_than_any_of_torchs_become_a_sentence(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        compilation, parent = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "m.py", 1)), 0
        for depth in range(1000):
            node = model.Node(0, 0, 0, "output", "output", "output", "1")
            graph = model.Graph(
                0, compilation, "dynamo", "", name=f"inner_{depth}" if depth else "", parent=parent
            )
            parent = writer.add_graph(graph, [node], ()).id

    reader: SessionReader = written(write)
    text = graph_code(reader, reader.rows(model.Graph)[0])
    compile(text.text, "graph.py", "exec")
    assert text.text.count("class ") == DEEPEST
    assert text.missing == (
        f"Graphs are nested deeper than {DEEPEST} here; the inner ones are not part of this text.",
    )


def test_every_operator_of_atens_can_be_called_by_name_but_what_reads_files() -> None:
    registered = (
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    )
    operators = [name.partition(".")[::2] for name in registered]
    assert len(operators) > 2_000
    assert {
        name
        for name, overload in operators
        if not can_be_called(f"aten.{name}.{overload or 'default'}")
    } == {"from_file"}


def can_be_called(target: str) -> bool:
    try:
        return importable(target, RowNames()) == f"torch.ops.{target}"
    except NotPythonError:
        return False
