"""These tests check, without a GPU, the report on CUDA graphs that a program asks for, on copies
between devices in each call, and on tensors that are on a virtual GPU but would stay on the CPU of
a machine with a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.analysis.cuda_graph_states import cuda_graphs
from fx_explorer.analysis.device_copies import device_copies
from fx_explorer.analysis.facts import Fact
from fx_explorer.overview.device_facts import made_on_the_cpu
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton
from tests.exhaustive import in_exhaustive_runs

pytestmark = needs_triton

SCRIPTS = HERE.parents[1] / "data" / "cuda_graphs"
NOT_RECORDED = "which calls record and replay them is decided at run time, and not recorded here"
STAYS = "on the CPU, where it stays on a machine with a GPU"


ALL = """
import runpy, sys

for script in sys.argv[1:]:
    runpy.run_path(script, run_name="__main__")
"""
"""Runs several scripts in one process, so that torch is imported once."""


KEPT_APART = """
import torch

def make():
    return torch.ones(8)

made = torch.zeros(8)
moved = torch.ones(8)
moved = moved.to("cuda" if torch.cuda.is_available() else "cpu")
placed = torch.ones(8, device="cuda" if torch.cuda.is_available() else "cpu")
by_function = make()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.tril(torch.ones(8, 8))
        self.register_buffer("buffer", torch.ones(8))
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        x = x + self.plain.sum() + self.buffer + self.weight
        return x + made + moved + placed + by_function

torch.compile(Model())(torch.randn(4, 8))
"""

HELD = """
import functools

import torch

def make():
    scale, shift = torch.ones(8) * 2, torch.ones(8)
    def inner(x):
        return x * scale + shift
    return inner

def with_default(x, table=torch.full((8,), 2.0), *, other=torch.full((8,), 3.0)):
    return x * table + other

def subtract(x, amount):
    return x - amount

class Model(torch.nn.Module):
    of_class = torch.ones(8)

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.partial = functools.partial(subtract, amount=torch.arange(8.0))
        self.held = [torch.zeros(8)]

    def forward(self, x):
        return self.partial(self.inner(x)) + self.held[0] + self.of_class

TABLES = {"a": torch.ones(8)}
lazy = None

def set_it():
    global lazy
    lazy = torch.ones(8)

set_it()
global_function = make()

def reads_all(x):
    return global_function(x) + TABLES["a"] + lazy + with_default(x)

def passed(x, table=torch.ones(8)):
    return x + table

def moved_in(x, made):
    def inner(x):
        return x + made
    return inner

for function in (make(), with_default, Model(make()), reads_all):
    torch._dynamo.reset()
    torch.compile(function)(torch.randn(8))
torch.compile(passed)(torch.randn(8), torch.ones(8).to("cuda" if torch.cuda.is_available() else "cpu"))
torch.compile(moved_in(None, torch.ones(8)))(torch.randn(8))
"""
"""Tensors that no name of the module holds, and two of which the text does not tell where they are.
"""

REASONS = """
import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True
x = torch.randn(8, 16, device="cuda")
table = torch.ones(16)
CUDA_GRAPHS = {"triton.cudagraphs": True}
def compiled(function, dynamic=None, **options):
    dotted = {name.replace("__", "."): value for name, value in options.items()} | CUDA_GRAPHS
    torch.compile(function, options=dotted, dynamic=dynamic)(x)

def on_the_cpu(x):
    return x * table.exp().sum().to(x.device)

def sizes(x):
    return x.sin() + 1

def of_the_data(x):
    return torch.nonzero(x).sum() + x

def branches(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))

def back(x):
    return x.sum().cpu()

compiled(on_the_cpu, graph_partition=False)
compiled(sizes, dynamic=True, graph_partition=False, triton__cudagraph_skip_dynamic_graphs=True)
compiled(of_the_data, graph_partition=False)
compiled(branches)
compiled(back)
"""

SKIPPED = {
    "[1/0]": ("cpu device (arg0_1)", 13),
    "[2/0]": (
        "graph with symbolic shapes inputs and config.triton.cudagraph_skip_dynamic_graphs=True",
        0,
    ),
    "[3/0]": ("incompatible op aten.nonzero.default", 0),
    "[4/0]": ("control flow operator: torch.cond", 22),
}
"""Graph → why torch decides while it compiles that it is no CUDA graph, and the line it names."""


def of_text(session: Path, part: str) -> list[Fact]:
    with SessionReader(session) as reader:
        facts = overview(reader)
    return [fact for fact in facts if part in fact.text and fact.topic != "next"]


@pytest.fixture
def run(for_gpu: ForGpu, tmp_path: Path) -> Callable[..., Path]:
    """``run(script, …)`` → the session of these scripts, one after the other."""

    def scripts(*scripts: Path, **options: object) -> Path:
        together = tmp_path / "together.py"
        together.write_text(ALL)
        arguments = [str(script) for script in scripts]
        ended = for_gpu(together, "h100", as_script=True, arguments=arguments, **options)
        assert ended.outcome.kind == "finished", ended.outcome.message
        return ended.session

    return scripts


def test_what_torch_decides_while_it_compiles_a_program_on_the_cpu(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.py"
    kept.write_text(KEPT_APART)
    session = run(SCRIPTS / "mutated.py", SCRIPTS / "sizes.py", SCRIPTS / "cpu_part.py", kept)

    (mutated,) = of_text(session, "[0/0] inference writes into inputs at mutated.py:8")
    assert (mutated.severity, mutated.detail) == ("notice", "cache.add_(x)")
    assert mutated.place is not None
    (sizes,) = of_text(session, "takes dynamic sizes (size 0 of x and size 1 of x)")
    assert sizes.text.startswith("[1/0] inference")
    (decided,) = of_text(session, "No decision of torch at compile time prevents")
    assert "prevents [1/0] inference and [2/0] inference from running" in decided.text
    assert of_text(session, NOT_RECORDED)

    stay = {fact.text.split(" on the CPU")[0]: fact for fact in of_text(session, STAYS)}
    assert set(stay) == {
        "cpu_part.py:5 creates table",
        "kept.py:7 creates made",
        "kept.py:16 creates self.plain",
    }
    table = stay["cpu_part.py:5 creates table"]
    assert "read at cpu_part.py:10" in table.detail
    assert "C++ kernels instead of the Triton ones shown" in table.detail
    assert "outside of CUDA graphs: create it on the GPU" in table.detail
    assert table.place is not None
    assert "self.register_buffer" in stay["kept.py:16 creates self.plain"].detail
    with SessionReader(session) as reader:
        assert device_copies(reader) == []


@in_exhaustive_runs
def test_what_functions_and_containers_hold_stays_on_the_cpu_too(
    for_gpu: ForGpu, tmp_path: Path
) -> None:
    held = tmp_path / "held.py"
    held.write_text(HELD)
    ended = for_gpu(held, "h100", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome.message
    with SessionReader(ended.session) as reader:
        made = made_on_the_cpu(reader)
    names = {(tensor.input.name, tensor.line) for tensor in made}
    assert names == {
        ("scale", 7),
        ("shift", 7),
        ("table", 12),
        ("other", 12),
        ("amount", 24),
        ("self.held[0]", 25),
        ("self.of_class", 19),
        ("TABLES['a']", 30),
        ("lazy", 35),
    }
    attributes = {tensor.line for tensor in made if tensor.input.kind == "attribute"}
    assert attributes == {19, 25}
    facts = of_text(ended.session, STAYS)
    assert facts[0].text.startswith("held.py:7 makes ")
    assert "It is read at held.py:9." in facts[0].detail


def test_what_would_stay_on_the_cpu_is_named_also_without_weights(run: Callable[..., Path]) -> None:
    session = run(SCRIPTS / "cpu_part.py", no_weights=True)
    (fact,) = of_text(session, STAYS)
    assert fact.text.startswith("cpu_part.py:5 creates table on the CPU")


def test_what_torch_decides_of_a_program_that_puts_its_tensors_on_the_gpu(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    text = (SCRIPTS / "cpu_part.py").read_text()
    asked = 'device = "cuda" if torch.cuda.is_available() else "cpu"'
    assert asked in text
    on_cuda, reasons = tmp_path / "cpu_part.py", tmp_path / "reasons.py"
    on_cuda.write_text(text.replace(asked, 'device = "cuda"'))
    reasons.write_text(REASONS)
    session = run(on_cuda, reasons)

    with SessionReader(session) as reader:
        graphs = {graph.name: graph for graph in cuda_graphs(reader).graphs}
        copies = {copy.line: copy for copy in device_copies(reader) if copy.file == str(on_cuda)}
    in_part = graphs["[0/0] inference"]
    assert [(reason.text, reason.line) for reason in in_part.reasons] == [
        ("cpu ops", 10),
        ("DeviceCopy ops", 11),
    ]
    copy = copies.pop(11)
    assert not copies
    assert (copy.of, copy.to, copy.tensor) == ("cpu", "cuda:0", "f32[]")
    assert [(taken.name, taken.kind) for taken in copy.made_of] == [("table", "global")]
    (left_out,) = of_text(
        session, "[0/0] inference would run only in part as CUDA graphs; outside of them: cpu ops"
    )
    assert left_out.severity == "problem"
    assert left_out.detail.startswith("scale = table.exp().sum()\n")
    assert "\nAn operator computes with a tensor on" in left_out.detail
    (fact,) = of_text(session, "cpu_part.py:11 copies 1 tensor (f32[]) from the CPU to the GPU")
    assert fact.severity == "problem"
    assert "computed from table on the CPU: create it on the GPU" in fact.detail

    skipped = {
        graph.name: graph.reasons[0] for graph in graphs.values() if graph.state == "skipped"
    }
    assert {name: (why.text, why.line) for name, why in skipped.items()} == SKIPPED
    facts = of_text(session, "does not run as a CUDA graph")
    assert [fact.severity for fact in facts] == ["problem"] * len(SKIPPED)
    (back,) = of_text(session, "from the GPU to the CPU in each call")
    assert "reasons.py:25 copies 1 tensor (f32[])" in back.text
    assert "The CPU waits for this copy" in back.detail
    assert not of_text(session, STAYS)
