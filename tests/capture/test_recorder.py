"""These tests compare what the recorder stores with what torch itself says of the same run."""

import dis
import json
import logging
import logging.config
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._inductor.cpu_vec_isa import valid_vec_isa_list
from torch.nn import functional as F

from fx_explorer.capture import recorder
from fx_explorer.instruments.compile_time.caches import key_pairs
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.model import (
    Artifact,
    Compilation,
    Graph,
    GraphBreak,
    Guard,
    Metric,
    Node,
    Recompile,
    SourceFile,
    Symbol,
)
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record, record_with_notices
from tests.exhaustive import in_exhaustive_runs, with_others


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


def train_mlp(compile_: Compile) -> None:
    compile_(MLP())(torch.randn(4, 8)).sum().backward()


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    return record(tmp_path_factory.mktemp("mlp") / "mlp.fxs", train_mlp)


def graphs(reader: SessionReader) -> list[tuple[str, str]]:
    return [(graph.stage, graph.direction) for graph in reader.rows(Graph) if not graph.name]


@in_exhaustive_runs
def test_a_training_step_has_every_stage_in_both_directions(mlp: SessionReader) -> None:
    assert graphs(mlp) == [
        ("dynamo", ""),
        ("pre_grad", ""),
        ("joint", ""),
        ("forward", "forward"),
        ("backward", "backward"),
        ("post_grad", "forward"),
        ("post_grad", "backward"),
    ]
    (compilation,) = mlp.rows(Compilation)
    assert (compilation.name, compilation.function, compilation.status) == (
        "0/0",
        "MLP.forward",
        "ok",
    )
    assert compilation.missing_stages is None
    assert Path(compilation.file) == Path(__file__)
    kinds = {artifact.kind for artifact in mlp.rows(Artifact, compilation=compilation.id)}
    assert kinds == {
        "bytecode_original", "bytecode_modified", "guard_tree", "ir_pre_fusion", "ir_post_fusion", "output_code", "kernel",
    }  # fmt: skip


def test_nothing_failed_to_be_recorded(mlp: SessionReader) -> None:
    assert failures(mlp) == []


def test_the_guards_are_as_many_as_torch_counted(mlp: SessionReader) -> None:
    (metrics,) = (json.loads(m.value) for m in mlp.rows(Metric, name="compilation_metrics"))
    assert metrics["guard_count"] > 0
    in_guard_list = mlp.count(Guard)
    tensors = [guard for guard in mlp.rows(Guard, kind="TENSOR_MATCH") if guard.source == "L['x']"]
    assert (
        in_guard_list >= metrics["guard_count"]
    )  # torch counts before AOTAutograd and Inductor add theirs
    assert len(tensors) == 1
    assert "size=[4, 8], stride=[8, 1]" in tensors[0].code
    assert tensors[0].line == first_line(MLP.forward)


def first_line(function: object) -> int:
    return function.__code__.co_firstlineno + 1  # type: ignore[attr-defined]


def test_the_original_bytecode_is_the_functions(mlp: SessionReader) -> None:
    (artifact,) = mlp.rows(Artifact, kind="bytecode_original")
    expected = [(str(one.offset), one.opname) for one in dis.get_instructions(MLP.forward)]
    rows = [line.split() for line in mlp.text(artifact.text).splitlines()]
    assert [
        (row[0], row[1]) for row in rows if row[0].isdigit()
    ] == expected  # others are source lines


def test_nodes_know_their_module_shape_and_line(mlp: SessionReader) -> None:
    (dynamo,) = mlp.rows(Graph, stage="dynamo")
    linear = next(node for node in mlp.nodes(dynamo) if node.name == "linear_1")
    assert (linear.module, linear.module_type) == ("fc2", "Linear")
    assert (linear.shape, linear.stride, linear.dtype, linear.device) == (
        ("4", "4"),
        ("4", "1"),
        "f32",
        "cpu",
    )
    assert linear.line == first_line(MLP.forward)
    assert {mlp.get(Node, producer).name for producer in mlp.producers(linear.id)} == {
        "gelu",
        "l_self_modules_fc2_parameters_weight_",
        "l_self_modules_fc2_parameters_bias_",
    }


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_node_and_the_dynamo_node_it_is_linked_to_stand_on_the_same_user_line(
    mlp: SessionReader, direction: str
) -> None:
    (graph,) = mlp.rows(Graph, stage="post_grad", direction=direction)
    calls = [node for node in mlp.nodes(graph) if node.op == "call_function"]
    for node in calls:
        origins = dynamo_origins(mlp, node)
        assert origins, f"{node.name} is linked to no Dynamo node"
        assert {(origin.file, origin.line) for origin in origins} == {(node.file, node.line)}
        if node.module:
            assert {origin.module for origin in origins} == {node.module}


def dynamo_origins(reader: SessionReader, node: Node) -> list[Node]:
    (dynamo,) = reader.rows(Graph, stage="dynamo")
    level = [node.id]
    while level:
        found = reader.by_ids(Node, level)
        if all(origin.graph == dynamo.id for origin in found):
            return found
        level = [link.parent for link in reader.parents(level)]
    return []


def test_saved_tensors_are_those_that_autograd_packs(tmp_path: Path) -> None:
    packed: list[tuple[tuple[int, ...], torch.dtype]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    def program(compile_: Compile) -> None:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = compile_(MLP())(torch.randn(4, 8))
        output.sum().backward()

    reader = record(tmp_path / "saved.fxs", program, backend="aot_eager")
    from fx_explorer.model import SavedTensor

    saved = reader.rows(SavedTensor)
    assert sorted((tuple(map(int, row.shape)), "torch.float32") for row in saved) == sorted(
        (s, str(d)) for s, d in packed
    )
    assert sum(row.size_bytes for row in saved) == sum(
        4 * torch.Size(shape).numel() for shape, _ in packed
    )
    assert {row.kind for row in saved} == {"activation", "parameter", "input"}


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    print("hello")
    if x.sum() > 0:
        x = x + 1
    torch._dynamo.graph_break()
    return x.sin()


def test_breaks_graphs_and_frames_equal_torchs_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.utils.clear_compilation_metrics()
    reader = record(tmp_path / "b.fxs", lambda compile_: compile_(broken)(torch.ones(3)))
    counters = reader.meta("counters")
    breaks = reader.rows(GraphBreak)
    # torch's graph_break counter leaves out branches on data (GB0170), its resume functions do not.
    counted = [row for row in breaks if row.registry_id != "GB0170"]
    assert len(counted) == sum(counters["graph_break"].values()) == 2
    assert {row.line for row in breaks} == {
        int(name.rpartition("_")[2]) for name in counters["resumes"]
    }
    assert len(reader.rows(Graph, stage="dynamo")) == counters["stats"]["unique_graphs"]
    compiled = {metrics.compile_id for metrics in torch._dynamo.utils.get_compilation_metrics()}
    assert {compilation.name for compilation in reader.rows(Compilation)} == compiled
    offset = broken.__code__.co_firstlineno
    assert [row.line - offset for row in breaks] == [2, 3, 5]
    assert all(row.code and row.registry_id for row in breaks)
    assert [c.status for c in reader.rows(Compilation)].count("broke") == 3


def test_a_recompile_names_the_guard_and_the_line_and_makes_a_symbol(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        scale = compile_(lambda x: x * 2)
        scale(torch.ones(4))
        scale(torch.ones(5))

    reader = record(tmp_path / "r.fxs", program)
    (recompile,) = reader.rows(Recompile)
    assert [c.name for c in reader.rows(Compilation)] == ["0/0", "0/1"]
    assert recompile.of == "0/0"
    assert "expected 4, actual 5" in recompile.guard
    (symbol,) = reader.rows(Symbol)
    assert symbol.source == "L['x'].size()[0]"
    assert symbol.hint == "5"
    assert reader.rows(Graph, stage="dynamo", compilation=2)


def test_nested_graphs_of_a_higher_order_op_are_stored_and_linked(tmp_path: Path) -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y.sin() + 1, lambda y: y.cos(), (x,))

    reader = record(tmp_path / "c.fxs", lambda compile_: compile_(choose)(torch.ones(4)))
    nested = [graph for graph in reader.rows(Graph, stage="post_grad") if graph.name]
    assert [graph.name for graph in nested] == ["true_graph_0", "false_graph_0"]
    for graph in nested:
        calls = [node.id for node in reader.nodes(graph) if node.op == "call_function"]
        assert {link.child for link in reader.parents(calls)} >= set(calls)
    whole = next(graph for graph in reader.rows(Graph, stage="dynamo") if not graph.name)
    (cond,) = [node for node in reader.nodes(whole) if node.subgraph_names]
    assert cond.subgraph_names == ("cond_true_0", "cond_false_0")


def test_annotations_reach_forward_and_backward_nodes(tmp_path: Path) -> None:
    class Annotated(MLP):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.fx.traceback.annotate({"region": "mlp"}):
                x = super().forward(x)
            return x.sin()

    reader = record(
        tmp_path / "a.fxs",
        lambda compile_: compile_(Annotated())(torch.randn(4, 8)).sum().backward(),
    )
    for direction in ("forward", "backward"):
        (graph,) = reader.rows(Graph, stage="post_grad", direction=direction)
        marked = [node for node in reader.nodes(graph) if node.annotations == {"region": "mlp"}]
        assert any("mm" in node.target for node in marked)
        assert not any("aten.sin" in node.target or "aten.cos" in node.target for node in marked)


def keeps_the_graph(module: torch.fx.GraphModule, inputs: object) -> object:
    return module.forward


def refuses(module: torch.fx.GraphModule, inputs: object) -> object:
    raise ValueError("this backend refuses")


@pytest.mark.parametrize(
    ("backend", "stages"),
    [
        ("eager", ["dynamo"]),
        ("aot_eager", ["dynamo", "joint", "forward", "backward"]),
        (keeps_the_graph, ["dynamo"]),
    ],
)
def test_a_backend_shows_the_stages_it_has_and_says_which_it_lacks(
    tmp_path: Path, backend: object, stages: list[str]
) -> None:
    reader = record(
        tmp_path / "x.fxs",
        lambda _: torch.compile(MLP(), backend=backend)(torch.randn(4, 8)).sum().backward(),
    )
    assert [graph.stage for graph in reader.rows(Graph)] == stages
    (compilation,) = reader.rows(Compilation)
    name = backend if isinstance(backend, str) else "keeps_the_graph"
    assert compilation.backend == name
    assert compilation.missing_stages is not None
    assert compilation.missing_stages["kernel"] == f"backend {name} does not use Inductor"


def test_an_error_in_the_backend_keeps_what_was_captured_before(tmp_path: Path) -> None:
    def program(_: Compile) -> None:
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            torch.compile(MLP(), backend=refuses)(torch.randn(4, 8))

    reader = record(tmp_path / "x.fxs", program)
    (compilation,) = reader.rows(Compilation)
    assert compilation.status == "failed"
    assert "this backend refuses" in compilation.error
    assert graphs(reader) == [("dynamo", "")]
    (failure,) = failures(reader)
    assert failure.where == "compiler"
    assert "raise ValueError" in reader.text(failure.text)


def test_an_error_while_tracing_is_the_compilations(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        with pytest.raises(torch._dynamo.exc.TorchRuntimeError):
            compile_(lambda x: x @ torch.ones(3, 4))(torch.ones(5, 5))

    reader = record(tmp_path / "x.fxs", program)
    assert [row.status for row in reader.rows(Compilation)] == ["failed"]
    assert "same reduction dim" in failures(reader)[0].message
    assert __file__ in [file.path for file in reader.rows(SourceFile)]


@pytest.mark.parametrize(
    ("at", "what"),
    [
        ("aot.partition.add_saved_tensors", "forward and backward graphs"),
        ("inductor.inductor_hooks._cut_segment", "the joint graph before Inductor's passes"),
        ("inductor.inductor_hooks._add_if_changed", "the joint graph after Inductor's passes"),
    ],
)
def test_a_fault_of_the_recorder_is_shown_and_does_not_reach_the_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, what: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(f"fx_explorer.capture.{at}", fail)
    reader, notices = record_with_notices(tmp_path / "x.fxs", train_mlp)
    (failure,) = failures(reader)
    assert failure.where == "recorder"
    assert what in failure.message
    assert reader.rows(Graph, stage="post_grad", direction="backward")
    assert any("could not record" in notice.text for notice in notices)


def test_every_hook_is_taken_out_again(tmp_path: Path) -> None:
    from torch._dynamo.backends import common
    from torch._dynamo.guards import CheckFunctionManager
    from torch._dynamo.output_graph import OutputGraph
    from torch._inductor import compile_fx, config
    from torch._inductor.scheduler import Scheduler

    def hooked() -> list[object]:
        return [
            OutputGraph.call_user_compiler, CheckFunctionManager.__init__, common.aot_module_simplified, Scheduler.fuse_nodes,
            compile_fx._recursive_post_grad_passes, compile_fx._recursive_pre_grad_passes, config.fx_graph_cache,
        ]  # fmt: skip

    before = hooked()
    record(
        tmp_path / "x.fxs",
        lambda compile_: compile_(lambda x: x + 1)(torch.ones(2)),
        backend="eager",
    )
    assert hooked() == before


@in_exhaustive_runs
def test_code_from_torchs_cache_is_shown_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid_vec_isa_list()  # asks the C++ compiler for 7 s, unless the answers are in the cache of all tests
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))

    def program(compile_: Compile) -> None:
        compile_(lambda x: x.sin() * 3)(torch.ones(4))

    first = record(tmp_path / "first.fxs", program, use_caches=True, build=True)
    again = record(tmp_path / "again.fxs", program, use_caches=True, build=True)
    assert "cache" not in stage_times(first).by_stage
    loaded = stage_times(again).by_stage
    assert loaded["cache"] > 0
    assert not {"post_grad", "schedule"} & set(loaded)
    assert ("pre_grad" in loaded) is bool(
        again.rows(Graph, stage="pre_grad")
    )  # 2.11 looks into its caches after these passes
    (lowered,) = first.rows(Artifact, kind="output_code")
    (cached,) = again.rows(Artifact, kind="output_code")
    assert again.text(cached.text) == first.text(lowered.text)
    assert "cache" in cached.title
    assert not again.rows(Graph, stage="post_grad")
    hits = {json.loads(metric.value) for metric in again.rows(Metric, name="cache_event")}
    assert "fx_graph_cache_hit" in hits or "aotautograd_cache_hit" in hits
    keys = key_pairs(first, again)
    assert [(pair.is_same_key, pair.components) for pair in keys] == [(True, ())] * len(keys) != []
    (compilation,) = again.rows(Compilation)
    assert compilation.missing_stages is not None
    assert "taken from torch's cache" in compilation.missing_stages["post_grad"]


def test_a_hook_that_torch_does_not_offer_empties_its_view_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recorder.HOOKS, "bytecode", ("dynamo.graph", "no_such_hook"))
    reader = record(tmp_path / "x.fxs", train_mlp)
    (failure,) = failures(reader)
    assert (failure.where, failure.kind) == ("recorder", "unavailable")
    assert failure.message.startswith(
        f"bytecode: torch {torch.__version__} lacks what this is read from"
    )
    assert not reader.rows(Artifact, kind="bytecode_original")
    assert reader.rows(Graph, stage="post_grad", direction="backward")


def test_a_number_that_torch_gives_again_after_a_reset_is_another_compilation(
    tmp_path: Path,
) -> None:
    def program(compile_: Compile) -> None:
        compile_(lambda x: x.sin())(torch.ones(3))
        torch._dynamo.reset()
        compile_(lambda x: x.cos() + 1)(torch.ones(3))

    reader = record(tmp_path / "x.fxs", program)
    assert [c.name for c in reader.rows(Compilation)] == ["0/0", "0/0#2"]
    ops = [
        {node.target for node in reader.nodes(graph) if node.op == "call_function"}
        for graph in reader.rows(Graph, stage="post_grad")
    ]
    assert ops == [{"aten.sin.default"}, {"aten.cos.default", "aten.add.Tensor"}]


def test_an_attempt_that_dynamo_gave_up_stands_apart_and_is_no_failure(tmp_path: Path) -> None:
    restarted = []

    def restart_once(module: torch.fx.GraphModule, inputs: object) -> object:
        if not restarted:
            restarted.append(module)
            raise torch._dynamo.exc.TensorifyScalarRestartAnalysis
        return module.forward

    reader = record(
        tmp_path / "x.fxs", lambda _: torch.compile(MLP(), backend=restart_once)(torch.randn(4, 8))
    )
    assert [(c.name, c.status) for c in reader.rows(Compilation)] == [
        ("0/0", "ok"),
        ("0/0_0", "restarted"),
    ]
    assert [graph.compilation for graph in reader.rows(Graph)] == [2, 1]
    assert failures(reader) == []
    assert reader.meta("counters")["stats"]["unique_graphs"] == 1


def test_a_break_that_torch_may_report_twice_is_one_hit_as_torch_counts_it(tmp_path: Path) -> None:
    """2.13 then skips the function, and says it once more; 2.15 compiles what is around it, a graph
    without operations.
    """
    reader = record(tmp_path / "s.fxs", lambda compile_: compile_(nn.LSTM(2, 2))(torch.ones(3, 2)))
    counters = reader.meta("counters")
    assert len(reader.rows(GraphBreak)) == sum(counters["graph_break"].values()) == 1
    assert [row.status for row in reader.rows(Compilation)] == [
        "broke" if "ok" in counters["frames"] else "skipped"
    ]


def test_a_backward_collected_by_compiled_autograd_is_the_compilation_torch_makes_of_it(
    tmp_path: Path,
) -> None:
    def program(compile_: Compile) -> None:
        with torch._dynamo.compiled_autograd._enable(compile_):
            (torch.ones(3, requires_grad=True) * 2).sum().backward()

    torch._dynamo.utils.clear_compilation_metrics()
    reader = record(tmp_path / "a.fxs", program)
    compiled = [
        metrics.compile_id
        for metrics in torch._dynamo.utils.get_compilation_metrics()
        if metrics.frame_key
    ]
    assert [(row.name, row.status) for row in reader.rows(Compilation)] == [
        (name, "ok") for name in compiled
    ]


def test_memory_that_is_only_allocated_is_no_computation(tmp_path: Path) -> None:
    def allocate(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.new_empty(3), torch.empty_like(x), x + 1

    reader = record(tmp_path / "e.fxs", lambda compile_: compile_(allocate)(torch.ones(3)))
    (graph,) = reader.rows(Graph, stage="post_grad")
    assert [node.target for node in reader.nodes(graph) if not node.is_view] == ["aten.add.Tensor"]


@pytest.mark.parametrize("loggers", with_others([{}], [{"torch": {"level": "WARNING"}}]))
def test_a_program_that_configures_its_logging_is_recorded_all_the_same(
    tmp_path: Path, loggers: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """By default ``logging.config`` disables every logger there is."""
    trace = logging.getLogger("torch.__trace")
    before = {
        name: (vars(logger).copy(), logger.handlers[:]) for name, logger in _loggers().items()
    }

    def program(compile_: Compile) -> None:
        logging.config.dictConfig({"version": 1, "loggers": loggers})
        compile_(broken)(torch.ones(3))

    try:
        reader = record(tmp_path / "l.fxs", program)
        assert trace.disabled != bool(loggers), "as the program set it"
        assert type(trace) is logging.Logger
    finally:
        for name, logger in _loggers().items():
            if name in before:
                vars(logger).update(before[name][0])
                logger.handlers[:] = before[name][1]
    assert len(reader.rows(GraphBreak)) == 3
    assert "running" not in {row.status for row in reader.rows(Compilation)}
    assert "dynamo_start" not in capsys.readouterr().err


def _loggers() -> dict[str, logging.Logger]:
    found = logging.root.manager.loggerDict
    return {name: logger for name, logger in found.items() if isinstance(logger, logging.Logger)}


def test_the_sum_of_two_gradients_is_of_a_line_that_uses_the_tensor(tmp_path: Path) -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        a = x.sin()
        b = a * x
        return b.sum()

    reader = record(
        tmp_path / "g.fxs",
        lambda compile_: compile_(twice)(torch.ones(3, requires_grad=True)).backward(),
    )
    (joint,) = reader.rows(Graph, stage="joint")
    (add,) = [node for node in reader.nodes(joint) if node.target == "aten.add.Tensor"]
    parents = reader.by_ids(Node, [link.parent for link in reader.parents([add.id])])
    assert parents
    assert {node.target for node in parents} <= {"sin", "_operator.mul"}


def test_compiled_autograd_while_inspecting_says_what_it_sees(tmp_path: Path) -> None:
    def step(model: MLP, x: torch.Tensor) -> None:
        model(x).sum().backward()

    def program(compile_: Compile) -> None:
        with torch._dynamo.config.patch(compiled_autograd=True):
            compile_(step)(MLP(), torch.randn(4, 8))

    reader = record(tmp_path / "x.fxs", program)
    assert any(compilation.name.startswith("!") for compilation in reader.rows(Compilation))
    (failure,) = failures(reader)
    assert "compiled autograd" in failure.message
    assert "--build" in failure.message
