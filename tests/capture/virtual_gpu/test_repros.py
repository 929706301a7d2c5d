"""These tests run torch's files for bug reports, and programs that call Inductor without Dynamo,
for a virtual GPU: the inputs that they pass are moved, and what they already have on a GPU stays.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.session import SessionReader
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton
from tests.exhaustive import in_exhaustive_runs

pytestmark = needs_triton

REPROS = HERE.parents[1] / "data" / "repros"

CALLS = """
import runpy, sys

import torch

on_the_cpu, on_the_gpu = sys.argv[1:]
del sys.argv[1:]  # torch reads them in such a file
runpy.run_path(on_the_cpu, run_name="__main__")

from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

small, large, scalar = torch.arange(8.0), torch.arange(32.0).view(4, 8), torch.tensor(3.0)

def constants(x):
    return (torch.relu(x * small + small - large * scalar),)

def placed(x):
    return (x.sin() + torch.full((8,), 2.0, device="cpu"),)

x = torch.randn(4, 8)
for function in (constants, placed):
    graph = make_fx(function, select_decomp_table())(x)
    (output,) = compile_fx_inner(graph, [x])([x])
    print("RIGHT", torch.allclose(output, *function(x)), output.device)

runpy.run_path(on_the_gpu, run_name="__main__")
"""
"""Two repro files, and graphs of operators between them with what such a graph can hold: constants
of several sizes, one used twice, and a device among the arguments.
"""


def test_graphs_that_are_given_to_inductor_are_compiled_for_the_gpu(
    for_gpu: ForGpu, tmp_path: Path
) -> None:
    files = []
    for name in ("minifier_upsample", "fx_graph_runnable_cuda"):
        file = tmp_path / f"{name}.py"
        file.write_text((REPROS / f"{name}.txt").read_text())
        files.append(str(file))
    script = tmp_path / "calls.py"
    script.write_text(CALLS)
    ended = for_gpu(script, "h100", as_script=True, arguments=files)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.failure_texts == []
    right = [line for line in ended.printed() if line.startswith("RIGHT")]
    assert right == ["RIGHT True cpu"] * 2, "the program runs on the CPU, and has its own results"

    with SessionReader(ended.session) as reader:
        every = reader.rows(model.Compilation)
        assert [row.status for row in every] == ["ok"] * len(every)
        compilations = [row for row in every if row.backend == "inductor"]
        assert len(compilations) == len(files) + len(right), "each file, and each call between"
        languages = {
            row.id: {kernel.language for kernel in reader.rows(model.Kernel, compilation=row.id)}
            for row in compilations
        }
        assert set(map(frozenset, languages.values())) == {frozenset({"triton"})}, languages
        graphs = reader.rows(model.Graph, stage="post_grad")
        assert {graph.compilation for graph in graphs} == set(languages)
        for graph in graphs:
            devices = {node.device for node in reader.nodes(graph) if node.device}
            assert devices == {"cuda:0"}, graph
        mode = reader.meta("virtual_gpu")["feeding"]
    assert mode == "fake", "the last file has its input on a GPU"


NESTED = """
import torch
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._higher_order_ops.while_loop import while_loop
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

small, large, scalar = torch.arange(8.0), torch.arange(32.0).view(4, 8), torch.tensor(3.0)
x = torch.randn(4, 8)

def constants(x):
    return (torch.relu(x * small + small - large * scalar),)

def increase(x):
    return x.sin() + large * scalar + torch.full((8,), 2.0, device="cpu")

def branches(x):
    return (torch.cond(x.sum() > 0, increase, lambda x: x.cos() * small, (x,)) + large,)

def branches_of_branches(x):
    def outer(x):
        return torch.cond(x.mean() > 1, increase, lambda x: x - large, (x,)) * 2
    return (torch.cond(x.sum() > 0, outer, lambda x: x.cos(), (x,)),)

def loop(x):
    count = torch.zeros((), dtype=torch.int64)
    step = lambda count, x: (count + 1, x.sin() * small + large)
    return tuple(while_loop(lambda count, x: count < 4, step, (count, x)))

@mark_compile_region
def region(x):
    return x.sin() * small

def regions(x):
    return (region(region(x)) + 1,)

def compare(what, compiled, function):
    pairs = zip(compiled, function(x), strict=True)
    right = all(torch.allclose(output, expected, atol=1e-5) for output, expected in pairs)
    print("RIGHT", what, right)

for function in (branches, regions):
    compiled = compile_fx_inner(make_fx(function, select_decomp_table())(x), [x])
    compare(f"{function.__name__} inner", compiled([x]), function)
for function in (constants, branches, branches_of_branches, regions):
    compiled = compile_fx(make_fx(function)(x), [x])
    compare(function.__name__, compiled(x), function)

for function in (branches_of_branches, loop):  # torch compiles these from fake inputs only
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fake = mode.from_tensor(x, static_shapes=True)
    with mode:
        graph = make_fx(function, select_decomp_table())(fake)
        to_call = make_fx(function)(fake)
    compile_fx_inner(graph, [fake])
    compiled = compile_fx(to_call, [fake])
    compare(f"{function.__name__} of fake tensors", compiled(x), function)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        self.weight = torch.nn.Parameter(torch.randn(8))
        self.register_buffer("buffer", torch.randn(8))
        self.table = torch.randn(8)

    def forward(self, x):
        return (self.layers(x) * self.weight + self.buffer - self.table,)

model = Model().eval()
with torch.no_grad():
    for graph in (torch.fx.symbolic_trace(model), torch.export.export(model, (x,)).module()):
        compare(type(graph).__name__, torch._inductor.compile(graph, [x])(x), model)
"""
"""Graphs with other graphs in them, and graphs with modules."""


@in_exhaustive_runs
def test_graphs_in_graphs_and_modules_in_graphs_are_compiled_for_the_gpu(
    for_gpu: ForGpu, tmp_path: Path
) -> None:
    script = tmp_path / "nested.py"
    script.write_text(NESTED)
    ended = for_gpu(script, "h100", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.failure_texts == []
    right = [line for line in ended.printed() if line.startswith("RIGHT")]
    assert len(right) == 10
    assert [line for line in right if not line.endswith("True")] == []

    with SessionReader(ended.session) as reader:
        assert reader.meta("virtual_gpu")["feeding"] == "transplant", "what torch makes is torch's"
        every = [row for row in reader.rows(model.Compilation) if row.backend == "inductor"]
        assert len(every) == 12, "two of them twice: as operators of Inductor's, too"
        for compilation in every:
            kernels = reader.rows(model.Kernel, compilation=compilation.id)
            languages = {kernel.language for kernel in kernels}
            assert languages in ({"triton"}, {"triton", "extern"}), compilation.name
        for graph in reader.rows(model.Graph, stage="post_grad"):
            nodes = [node for node in reader.nodes(graph) if node.device]
            off = [node.name for node in nodes if node.device != "cuda:0"]
            assert off == [], graph.name
