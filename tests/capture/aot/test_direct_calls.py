"""These tests check that code given to Inductor, AOTAutograd or make_fx directly is recorded as a
compilation, and runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import functorch.compile as functorch_compile
import pytest
import torch
from torch import nn
from torch._inductor import compile_fx
from torch.fx.experimental import proxy_tensor

from fx_explorer.errors import NotASessionError
from fx_explorer.instruments.guards.kinds import capture_summaries
from fx_explorer.model import Artifact, Compilation, Graph, Kernel
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import failures, record

REPROS = Path(__file__).parents[2] / "data" / "repros"

X = torch.linspace(-2, 2, 32).reshape(4, 8)


def rows(reader: SessionReader) -> list[tuple[str, str, str]]:
    return [(row.name, row.backend, row.status) for row in reader.rows(Compilation)]


def stages(reader: SessionReader, compilation: int = 1) -> list[tuple[str, str]]:
    graphs = reader.rows(Graph, compilation=compilation)
    return [(graph.stage, graph.direction) for graph in graphs]


def stepped(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).relu()


def test_a_graph_given_to_inductor_runs_while_it_is_inspected(tmp_path: Path) -> None:
    graph = proxy_tensor.make_fx(lambda x: [stepped(x)])(X)
    results: list[torch.Tensor] = []

    def program(_: object) -> None:
        with torch.no_grad():
            results.extend(compile_fx.compile_fx_inner(graph, [X], is_inference=True)([X]))
            whole = torch.fx.symbolic_trace(lambda x: (stepped(x),))
            results.extend(compile_fx.compile_fx(whole, [X])(X))

    reader = record(tmp_path / "inductor.fxs", program)
    assert all(torch.equal(result, stepped(X)) for result in results)
    assert len(results) == 2
    assert failures(reader) == []
    assert rows(reader) == [
        ("inductor/0/0", "inductor", "ok"),
        ("inductor/1/0", "inductor", "ok"),
    ]
    assert stages(reader) == [("forward", "inference"), ("post_grad", "inference")]
    assert stages(reader, 2)[0] == ("pre_grad", "")
    assert [kernel.language for kernel in reader.rows(Kernel)] == ["cpp", "cpp"]
    told = "The program itself gave 2 graphs to Inductor, without Dynamo."
    assert told in [fact.text for fact in overview(reader)]
    missing = [row.missing_stages or {} for row in reader.rows(Compilation)]
    assert all("without Dynamo" in reasons["dynamo"] for reasons in missing)


def test_functions_and_modules_given_to_aotautograd_are_compilations(tmp_path: Path) -> None:
    given: list[torch.fx.GraphModule] = []

    def keep(module: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        given.append(module)
        return functorch_compile.make_boxed_func(module.forward)

    linear = nn.Linear(8, 3)

    def program(_: object) -> None:
        function = functorch_compile.aot_function(stepped, keep, bw_compiler=keep)
        x = X.clone().requires_grad_()
        function(x).sum().backward()
        function(x)
        functorch_compile.aot_module(linear, fw_compiler=keep, bw_compiler=keep)(X).sum().backward()

    reader = record(tmp_path / "aot.fxs", program)
    assert failures(reader) == []
    assert [(row.name, row.function) for row in reader.rows(Compilation)] == [
        ("aot/0/0", "stepped"),
        ("aot/1/0", "Linear.forward"),
    ]
    assert stages(reader) == [("joint", ""), ("forward", "forward"), ("backward", "backward")]
    calls = [sum(node.op == "call_function" for node in module.graph.nodes) for module in given]
    recorded = [graph.call_count for graph in reader.rows(Graph) if graph.stage != "joint"]
    assert recorded == calls
    assert linear.weight.grad is not None


def test_what_make_fx_traces_for_the_program_is_a_compilation(tmp_path: Path) -> None:
    traced: list[torch.fx.GraphModule] = []

    def program(compile_: Callable[..., Any]) -> None:
        traced.append(proxy_tensor.make_fx(stepped)(X))
        compile_(stepped)(X)  # torch traces with it for itself, too

    reader = record(tmp_path / "make_fx.fxs", program)
    assert [row[:2] for row in rows(reader)] == [("make_fx/0/0", "make_fx"), ("0/0", "inductor")]
    (graph,) = reader.rows(Graph, compilation=1)
    assert graph.call_count == sum(node.op == "call_function" for node in traced[0].graph.nodes)


def test_a_backend_that_calls_inductor_is_dynamos_compilation(tmp_path: Path) -> None:
    def own(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return compile_fx.compile_fx(module, inputs)

    def program(_: object) -> None:
        assert torch.equal(torch.compile(stepped, backend=own)(X), stepped(X))

    reader = record(tmp_path / "own.fxs", program)
    assert rows(reader) == [("0/0", "own", "ok")]


def test_an_error_of_inductors_reaches_the_program_and_is_recorded(tmp_path: Path) -> None:
    def program(_: object) -> None:
        with pytest.raises(Exception, match="nothing of the kind"):
            compile_fx.compile_fx_inner(_raising(), [X])

    reader = record(tmp_path / "failed.fxs", program)
    ((_, _, status),) = rows(reader)
    assert status == "failed"


def _raising() -> torch.fx.GraphModule:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("nothing of the kind")

    graph = torch.fx.Graph()
    graph.output((graph.call_function(fails, (graph.placeholder("x"),)),))
    return torch.fx.GraphModule({}, graph)


@pytest.mark.parametrize("name", ["minifier_upsample", "fx_graph_runnable_cuda"])
def test_what_torch_writes_for_bug_reports_is_a_target(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (REPROS / f"{name}.txt").read_text()
    file = tmp_path / f"{name}.py"
    file.write_text(text.replace("device=device(type='cuda', index=0)", "device=device('cpu')"))
    monkeypatch.setattr(sys, "argv", [str(file)])
    monkeypatch.setenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "0")

    def program(_: object) -> None:
        # The file sets options for good, and so does torch where it runs it.
        with (
            torch._inductor.config.patch(generate_intermediate_hooks=False),
            torch._functorch.config.patch(debug_partitioner=False, functionalize_rng_ops=False),
        ):
            runpy.run_path(str(file), run_name="__main__")

    reader = record(tmp_path / "repro.fxs", program)
    assert rows(reader) == [("inductor/0/0", "inductor", "ok")]
    assert failures(reader) == []
    assert [kernel.language for kernel in reader.rows(Kernel)] == ["cpp"]


@pytest.mark.skipif(
    importlib.util.find_spec("torch._precompile") is None, reason="torch has no precompile yet"
)
def test_what_is_precompiled_is_a_compilation_with_the_code_that_is_saved(tmp_path: Path) -> None:
    saved = tmp_path / "stepped.py"

    def program(_: object) -> None:
        precompile = importlib.import_module("torch.compiler.precompile")
        files = {"artifact_path": saved, "cache_path": tmp_path / "stepped.cache"}
        with precompile.capture(stepped, **files) as capture:
            assert torch.equal(capture(X), stepped(X))

    reader = record(tmp_path / "precompile.fxs", program)
    assert failures(reader) == []
    assert rows(reader) == [("precompile/0/0", "inductor", "ok")]
    assert ("forward", "inference") in stages(reader)
    (row,) = reader.rows(Artifact, kind="listing")
    assert reader.text(row.text) in saved.read_text()
    assert any("to torch.compiler.precompile" in fact.text for fact in overview(reader))


def _captures_several_graphs() -> bool:
    name = "torch._dynamo.precompile_package"
    is_there = importlib.util.find_spec(name) is not None
    return is_there and hasattr(importlib.import_module(name), "precompile_capture")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        y = self.act(x) * times
        torch._dynamo.graph_break()
        return y + 1


def scaled(model: nn.Module, x: torch.Tensor, times: int) -> torch.Tensor:
    return model(x, times)


@pytest.mark.skipif(not _captures_several_graphs(), reason="torch captures one graph only")
def test_torchs_summary_of_a_capture_of_several_graphs_is_kept(tmp_path: Path) -> None:
    summaries: list[Any] = []

    def program(_: object) -> None:
        package = importlib.import_module("torch._dynamo.precompile_package")
        session = package.precompile_capture(scaled, backend="eager")
        model = Scaled()
        with session as call:
            assert torch.equal(call(model, X, 2), scaled(model, X, 2))
        summaries.append(session.summary())

    reader = record(tmp_path / "captured.fxs", program)
    assert failures(reader) == []
    (expected,) = summaries
    (summary,) = capture_summaries(reader)
    assert summary.function == "scaled"
    assert (summary.frames, summary.guarded_codes) == (expected.frames, expected.guarded_codes)
    assert summary.unchecked == len(expected.dropped_guards + expected.policy_dropped_guards)
    assert summary.kept == len(expected.kept_guards)
    assert summary.wont_generalize == expected.wont_generalize
    (fact,) = (fact for fact in overview(reader) if fact.text == summary.description)
    assert fact.detail.splitlines() == summary.details


STORED = {
    "function": "step",
    "frames": 3,
    "resume_functions": 1,
    "guarded_codes": 4,
    "backend_graphs": 4,
    "kept": 9,
    "unchecked": 1,
    "bypassed": ["forward"],
    "uncovered_frames": [],
    "truncated": ["inner (model.py:3)"],
    "capture_errors": ["RuntimeError: boom"],
    "wont_generalize": ["times"],
    "dropped_guards": [["ID_MATCH", "self.act"]],
    "risky_dropped_guards": [["ID_MATCH", "self.act"]],
    "policy_dropped_guards": [],
}
"""The counters of a compilation in the form of torch 2.15."""


def test_what_a_capture_lacks_is_told_first(tmp_path: Path) -> None:
    path = tmp_path / "stored.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("capture_summaries", [STORED])
    with SessionReader(path) as reader:
        (summary,) = capture_summaries(reader)
    assert summary.description == (
        "The capture of step is not complete: 3 frames, 1 of them after a graph break, as 4 "
        "versions with 4 graphs."
    )
    assert summary.details == [
        "forward could not be saved: a call that reaches this code raises.",
        (
            "inner (model.py:3) reached the recompile limit: the code that ran after it is not "
            "captured."
        ),
        "A call raised RuntimeError: boom: it is not captured.",
        "The saved code checks 9 and does not check 1 guard.",
        "Risky among them: self.act (ID_MATCH). Such a guard distinguished versions, or looks "
        "like a configuration choice.",
        "All captured versions have the same value of times.",
    ]


@pytest.mark.parametrize(
    "damaged",
    [[{}], {}, [{**STORED, "frames": "3"}], [{**STORED, "dropped_guards": [["ID_MATCH"]]}]],
)
def test_summaries_that_torch_did_not_write_are_refused(tmp_path: Path, damaged: object) -> None:
    path = tmp_path / "damaged.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("capture_summaries", damaged)
    with SessionReader(path) as reader, pytest.raises(NotASessionError):
        capture_summaries(reader)
