"""These tests capture a program and read the TORCH_TRACE log of the same program: both sessions say
the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.whole_session import damage
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.diff.two_sessions import COMPILE_TIME, figures_of_both
from fx_explorer.instruments.kernels.costs import kernel_costs, source_heat
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys, torch, torch.nn.functional as F
import fx_explorer

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16), torch.nn.LayerNorm(16)
    def forward(self, x):
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        print("a side effect")
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)).square().mean()

def scaled(x, n):
    x = x.clone()
    x[0] = n
    x += 1
    return (x * n).softmax(-1)

def innermost(x):
    torch._dynamo.graph_break()
    return x.cos()

def calls_it(x):
    return innermost(x.sin()) + 1

def joined(x, w, b):
    product = x.mm(w)
    total = product + b
    return (total + torch.zeros(8, 4)).relu()

hooked = torch.nn.Sequential(torch.nn.Linear(4, 4))
hooked[0].register_forward_pre_hook(torch._dynamo.disable(lambda module, given: None))

with fx_explorer.record(sys.argv[1], build=False):
    torch.compile(Block())(torch.randn(4, 16)).backward()
    compiled = torch.compile(scaled)
    for n in (2, 3):
        compiled(torch.randn(8, 8), n)
    torch.compile(calls_it)(torch.randn(4))
    torch.compile(lambda x: hooked(x) + 1)(torch.randn(4, 4))
    torch.compile(joined)(torch.randn(8, 16), torch.randn(16, 4), torch.randn(4))
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SessionReader, SessionReader]]:
    """The session of the capture and that of the log."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "TORCH_TRACE": str(folder / "trace"), "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "program.py", "live.fxs"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    (log,) = (folder / "trace").iterdir()
    read_log(log, folder / "log.fxs")
    with SessionReader(folder / "live.fxs") as live, SessionReader(folder / "log.fxs") as of_log:
        yield live, of_log


def test_the_compilations_and_how_they_ended(both: tuple[SessionReader, SessionReader]) -> None:
    live, log = (
        {(row.name, row.status, row.line) for row in one.rows(model.Compilation)} for one in both
    )
    assert log == live != set()


def test_every_kind_of_record_that_this_torch_writes_is_known(
    both: tuple[SessionReader, SessionReader],
) -> None:
    _, log = both
    assert damage(log) == []
    assert log.meta("log")["unknown"] == {}
    assert log.meta("environment")["torch"] == torch.__version__


def test_their_figures_are_the_same(both: tuple[SessionReader, SessionReader]) -> None:
    """All but the time, since one of the sessions is of the compile with us in it, and the
    conditionals, which a capture counts among the library calls.
    """
    differing = {one.what for one in figures_of_both(*both) if one.differs}
    assert differing <= {COMPILE_TIME, "kernels", "  library calls"}


def test_a_library_call_that_a_pattern_made_of_two_lines_is_of_both(
    both: tuple[SessionReader, SessionReader],
) -> None:
    line = PROGRAM.split("\n").index("    product = x.mm(w)") + 1
    for reader, removed in zip(both, (False, True), strict=True):
        (cost,) = [
            cost
            for cost in kernel_costs(reader)
            if cost.version and cost.version.function == "joined" and is_addmm(cost.use.kernel)
        ]
        lines = [line for _, line in cost.lines]
        # A log does not tell that the sum with zeros was removed, and not joined.
        assert lines == [line, line + 1, line + 2][: 3 if removed else 2]
        (file,) = [row for row in reader.rows(model.SourceFile) if row.path.endswith("program.py")]
        heat = source_heat(reader).files[file.id]
        for of_line in lines:
            assert cost.use.kernel.id in heat[of_line - 1].kernels


def is_addmm(kernel: model.Kernel) -> bool:
    return kernel.name == "extern_kernels.addmm"


def test_the_breaks_and_recompiles(both: tuple[SessionReader, SessionReader]) -> None:
    live, log = (
        sorted((row.cause, row.explanation, row.code) for row in one.rows(model.GraphBreak))
        for one in both
    )
    assert log == live != []
    live_chains, log_chains = (
        sorted(
            [(frame.file, frame.line, frame.function) for frame in one.chain]
            for one in distinct_breaks(reader)
        )
        for reader in both
    )
    assert log_chains == live_chains
    assert any(chain[-1][0].endswith("torch/nn/modules/module.py") for chain in log_chains)
    live_again, log_again = (
        sorted((row.of, row.guard, row.line) for row in one.rows(model.Recompile)) for one in both
    )
    assert log_again == live_again != []


@pytest.mark.parametrize("stage", ["dynamo", "joint", "forward", "backward", "post_grad"])
def test_the_nodes_of_every_graph(
    both: tuple[SessionReader, SessionReader], stage: model.Stage
) -> None:
    def nodes(reader: SessionReader) -> Counter[tuple[object, ...]]:
        names = {row.id: row.name for row in reader.rows(model.Compilation)}
        return Counter(
            (
                names[graph.compilation],
                graph.direction,
                node.name,
                node.op,
                node.target,
                node.shape,
                node.dtype,
                line_of(node),
            )
            for graph in reader.rows(model.Graph, stage=stage, parent=0, name="")
            for node in reader.nodes(graph)
        )

    live, log = map(nodes, both)
    assert log == live != Counter()


def test_the_users_names_of_inputs(both: tuple[SessionReader, SessionReader]) -> None:
    """AOTAutograd numbers its inputs; the log says of each which one it was given that is."""

    def names(reader: SessionReader) -> Counter[tuple[str, str, str, str]]:
        compilations = {row.id: row.name for row in reader.rows(model.Compilation)}
        found = Counter[tuple[str, str, str, str]]()
        for stage in ("joint", "forward", "backward"):
            for graph in reader.rows(model.Graph, stage=stage, parent=0, name=""):
                inputs = [node for node in reader.nodes(graph) if node.op == "placeholder"]
                named = InputNames(reader).of(inputs)
                found.update(
                    (compilations[graph.compilation], stage, node.name, named[node.id].name)
                    for node in inputs
                )
        return found

    live, log = map(names, both)
    assert log == live
    assert "up.weight" in {name for *_, name in log}


def line_of(node: model.Node) -> int:
    """Return the line of an operation: the text of a graph names no line for inputs."""
    return node.line if node.op.startswith("call_") else 0


def test_the_checks(both: tuple[SessionReader, SessionReader]) -> None:
    live, log = (
        Counter((row.kind, row.source) for row in one.rows(model.GuardCheck)) for one in both
    )
    assert log == live != Counter()


def test_the_kernels(both: tuple[SessionReader, SessionReader]) -> None:
    live, log = (
        Counter(
            (row.name, row.language, row.direction)
            for row in one.rows(model.Kernel)
            if not row.runs
        )
        for one in both
    )
    assert log == live != Counter()
