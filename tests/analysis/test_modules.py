"""These tests check the tree of modules: its sums are those of the other views, and repeated layers
are one row.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.module_paths import (
    around,
    break_paths,
    describe_module_path,
    nodes_in,
    region_of,
)
from fx_explorer.analysis.whole_session import totals
from fx_explorer.instruments.kernels.costs import kernel_costs
from fx_explorer.instruments.memory.saved_values import saved_total, saved_values, user_names
from fx_explorer.instruments.modules.tree import IN_NO_MODULE, module_tree
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.graphs import captured_operations
from tests.capture.recorded import Compile, record
from tests.conftest import Captured, OpenedReader
from tests.sessions import Written

GATED = """
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        y = torch.sigmoid(self.proj(x))
        print("gate")
        return x * y

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.gate = Gate()

    def forward(self, x):
        return self.gate(self.first(x))

model = Net()
example_inputs = (torch.randn(2, 4),)
"""
"""The break is inside of ``gate``, which is then compiled alone."""


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("sample", ["transformer", "graph_breaks"])
def test_the_sums_of_the_tree_are_the_totals_of_the_other_views(
    sample: str, captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured(sample))
    tree, known, costs = module_tree(session), totals(session), kernel_costs(session)
    outermost = [row for row in tree.rows if row.depth == 0]
    for figure, total in (
        ("breaks", known.graph_breaks),
        ("operations", captured_operations(session, graphs_in_use(session))),
        ("calls", sum(one.use.calls for one in costs)),
        ("time_s", sum(one.time_s for one in costs)),
        ("saved_bytes", saved_total(session).size_bytes),
        ("compile_s", known.compile_s),
    ):
        assert sum(getattr(row.figures, figure) for row in outermost) == pytest.approx(total), (
            figure
        )
        own = sum(getattr(row.own, figure) for row in tree.rows)
        assert own == pytest.approx(total), f"{figure} of modules without those in them"


def test_the_tree_has_the_modules_of_the_users_model(
    captured: Captured, reader: OpenedReader
) -> None:
    tree = module_tree(reader(captured("transformer")))
    names = [describe_module_path(row.path) for row in tree.rows if not row.is_fold and row.path]
    block = (
        "norm1",
        "attention",
        "attention.qkv",
        "attention.out",
        "norm2",
        "mlp",
        "mlp.up",
        "mlp.down",
    )
    inside = [f"blocks.{i}{f'.{part}' if part else ''}" for i in (0, 1) for part in ("", *block)]
    assert sorted(names) == sorted(["Transformer", "tokens", "blocks", *inside, "norm", "head"])
    (fold,) = [row for row in tree.rows if row.is_fold]
    assert (fold.count, fold.type) == (2, "Block")
    members = [
        row
        for row in tree.rows
        if describe_module_path(row.path) in ("blocks.0", "blocks.1") and not row.is_fold
    ]
    assert fold.figures == members[0].figures + members[1].figures
    assert ("kernel calls" in fold.difference) == (
        members[0].figures.calls != members[1].figures.calls
    )
    assert [row.name for row in tree.rows if not row.path] == [IN_NO_MODULE]


def test_each_module_below_the_root_has_the_class_that_it_has_in_the_program(
    captured: Captured, reader: OpenedReader
) -> None:
    """A ModuleList has no operation of its own, and a class all the same."""
    network = runpy.run_path(str(ROOT / "sample_models" / "transformer.py"))["get_model"]()
    tree = module_tree(reader(captured("transformer")))
    rows = [row for row in tree.rows if len(row.path) > 1 and not row.is_fold]
    assert "blocks" in [row.name for row in rows]
    for row in rows:
        module = network.get_submodule(describe_module_path(row.path))
        assert row.type == type(module).__name__


def test_a_module_that_a_break_made_a_root_keeps_its_class(
    captured: Captured, tmp_path: Path
) -> None:
    program = tmp_path / "gated.py"
    program.write_text(GATED)
    with SessionReader(captured(program)) as session:
        rows = {row.path: row for row in module_tree(session).rows}
    assert rows["Net", "gate"].type == "Gate"
    assert rows["Net", "gate"].aside == "see Gate"


def test_a_function_of_tensors_has_no_modules(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(
            model.Compilation(0, "0/0", 0, 0, "twice", "/p/f.py", 1, status="ok")
        )
        writer.add(model.Kernel(0, compilation, "forward", 0, "k", "triton"))

    tree = module_tree(written(write))
    assert (list(tree.rows), tree.whole.calls) == ([], 1)


def test_a_break_belongs_to_the_module_that_was_being_called(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(
            model.Compilation(0, "0/0", 0, 0, "Net.forward", "/p/f.py", 1, status="ok")
        )
        for module in ("layers.0.attn", "layers.1.attn"):
            writer.add(
                model.GraphBreak(
                    0, compilation, "GB1", "why", "", (), "/p/f.py", 3, "x.item()", module=module
                )
            )

    assert list(break_paths(written(write)).values()) == [("Net", "layers")]


def test_what_is_around_two_modules_holds_both() -> None:
    assert around([("N", "a", "b"), ("N", "a", "c")]) == ("N", "a")
    assert around([("N", "a"), ("N", "a", "c")]) == ("N", "a")
    assert around([("N",), ()]) == ()


def test_a_module_as_a_region_has_the_nodes_of_its_own_path_only(
    captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured("transformer"))
    nodes = session.by_ids(model.Node, nodes_in(session, region_of(("Transformer", "blocks", "1"))))
    assert nodes
    assert all((node.module + ".").startswith("blocks.1.") for node in nodes)
    everyone = [node for graph in session.rows(model.Graph) for node in session.nodes(graph)]
    assert len(nodes) == sum((node.module + ".").startswith("blocks.1.") for node in everyone)


class Scaled(torch.nn.Module):
    """Scaled is a module whose methods do not call their first parameter ``self``."""

    def __init__(this) -> None:
        super().__init__()
        this.linear = torch.nn.Linear(4, 4)
        this.scale = torch.nn.Parameter(torch.ones(4))

    def forward(this, x: torch.Tensor) -> torch.Tensor:
        return this.linear(x).sin() * this.scale


class Stacked(torch.nn.Module):
    def __init__(m) -> None:
        super().__init__()
        m.parts = torch.nn.ModuleList(Scaled() for _ in range(2))

    def forward(m, x: torch.Tensor) -> torch.Tensor:
        for part in m.parts:
            x = part(x)
        return x


def applied(net: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return net(x)


@pytest.mark.parametrize("is_given", [False, True], ids=["a method", "a function of a module"])
def test_modules_are_the_models_own_whatever_its_methods_call_it(
    tmp_path: Path, is_given: bool
) -> None:
    def program(compile_: Compile) -> None:
        model_, x = Stacked(), torch.ones(2, 4)
        result = compile_(applied)(model_, x) if is_given else compile_(model_)(x)
        result.sum().backward()

    with record(tmp_path / "s.fxs", program) as session:
        tree = module_tree(session)
        names = {
            describe_module_path(row.path) for row in tree.rows if not row.is_fold and row.path
        }
        modules = {name for name, _ in Stacked().named_modules() if name}
        assert names - {"Stacked", "applied"} <= modules
        values = [value for value in saved_values(session) if value.saved.kind == "parameter"]
        parameters = {name for name, _ in Stacked().named_parameters()}
        assert values
        saved = user_names(session, values).values()
        assert {name.removeprefix("net.") for name in saved} <= parameters
