"""Files that torch writes for bug reports, run for a GPU that is not there: what they give to
Inductor without Dynamo is moved to it, and what they have on a GPU stays.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.session import SessionReader
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton

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
