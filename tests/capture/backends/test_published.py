"""These tests check what a backend publishes: rows, links, and the message where it cannot be
shown. The expected links are counted on the graph that the backend itself received.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

import fx_explorer
from fx_explorer import publish, publish_run
from fx_explorer.analysis.published import backend_summaries
from fx_explorer.capture.recorder import recording
from fx_explorer.instruments.backends.report import FORMATS
from fx_explorer.instruments.backends.support import backend_support
from fx_explorer.model import (
    Artifact,
    BackendEntry,
    BackendInstruction,
    BackendRun,
    CaptureRequest,
    Compilation,
    Failure,
    Graph,
    LineNode,
    Link,
    Node,
    PublishedStage,
)
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import with_others

Backend = Callable[..., Any]


def program(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.sin(x @ weight).relu()


def nothing() -> None:
    pass


def recorded(
    path: Path,
    backend: Backend,
    *,
    calls: int = 1,
    train: bool = False,
    after: Callable[[], None] = nothing,
) -> SessionReader:
    torch._dynamo.reset()
    with SessionWriter(path) as writer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with recording(writer, CaptureRequest("test", str(path)), lambda notice: None):
            compiled = torch.compile(program, backend=backend)
            for _ in range(calls):
                result = compiled(torch.ones(3, 4), torch.ones(4, 5, requires_grad=train))
                if train:
                    result.sum().backward()
            after()
    torch._dynamo.reset()
    return SessionReader(path)


def problems(reader: SessionReader) -> list[str]:
    return [row.message for row in reader.rows(Failure, where="backend")]


def faults_of_ours(reader: SessionReader) -> list[str]:
    return [
        row.message for row in reader.rows(Failure, where="recorder") if row.kind != "unavailable"
    ]


def test_stages_are_kept_in_the_order_of_publishing(tmp_path: Path) -> None:
    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        publish("second in the alphabet", "text")
        publish("received", gm)
        publish("a", lambda: "made when asked for")
        return gm.forward

    with recorded(tmp_path / "a.fxs", backend) as reader:
        stages = reader.rows(PublishedStage)
        assert [stage.name for stage in stages] == ["second in the alphabet", "received", "a"]
        assert [stage.position for stage in stages] == [0, 1, 2]
        assert reader.text(reader.get(Artifact, stages[2].artifact).text) == "made when asked for"
        assert faults_of_ours(reader) == []


def test_a_line_is_linked_to_the_very_node_else_to_the_one_of_its_name(tmp_path: Path) -> None:
    names: list[str] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
        names.extend(node.name for node in calls)
        publish("by node", "\n".join(names), links=lambda: dict(enumerate(calls, start=1)))
        publish("by name", "\n".join(names), links={1: names[0], 2: [names[1], names[2]]})
        return gm.forward

    with recorded(tmp_path / "a.fxs", backend) as reader:
        by_node, by_name = (stage.artifact for stage in reader.rows(PublishedStage))
        assert len(names) == 3
        assert _linked(reader, by_node) == [
            (i, name, "identity") for i, name in enumerate(names, start=1)
        ]
        assert _linked(reader, by_name) == sorted(
            [(1, names[0], "name"), (2, names[1], "name"), (2, names[2], "name")]
        )
        assert problems(reader) == []


def _linked(reader: SessionReader, artifact: int) -> list[tuple[int, str, str]]:
    dynamo = reader.rows(Graph, stage="dynamo")[0]
    found = reader.rows(LineNode, artifact=artifact)
    nodes = {row.node: reader.get(Node, row.node) for row in found}
    assert {node.graph for node in nodes.values()} == {dynamo.id}
    return sorted((row.line, nodes[row.node].name, row.how) for row in found)


def test_a_partitioned_copy_is_linked_node_by_node_and_its_partitions_are_graphs_below_it(
    tmp_path: Path,
) -> None:
    given: dict[str, list[str]] = {}

    def compile_graph(gm: torch.fx.GraphModule, _: Any) -> Any:
        copied = torch.fx.GraphModule(gm, _copy(gm.graph))
        support = create_op_support(
            lambda _, node: node.op == "call_function" and "sin" not in str(node.target)
        )
        partitioner = CapabilityBasedPartitioner(copied, support, allows_single_node_partition=True)
        publish("segments", partitioner.fuse_partitions(partitioner.propose_partitions()))
        given[str(len(given))] = [
            node.name for node in gm.graph.nodes if node.op == "call_function"
        ]
        return make_boxed_func(gm.forward)

    backend = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph)
    with recorded(tmp_path / "a.fxs", backend, train=True) as reader:
        assert [stage.direction for stage in reader.rows(PublishedStage)] == ["forward", "backward"]
        whole = reader.get(Graph, reader.rows(PublishedStage)[0].graph)
        inner = reader.rows(Graph, parent=whole.id)
        assert len(inner) == 2  # sin stands between them
        forward = reader.rows(Graph, stage="forward")[0]
        parents = {link.child: link.parent for link in reader.rows(Link)}
        every = [
            node
            for graph in (whole, *inner)
            for node in reader.nodes(graph)
            if node.op == "call_function"
        ]
        copies = [
            node for node in every if node.target != "operator.getitem"
        ]  # of what a partition returns
        sources = [reader.get(Node, parents[node.id]) for node in copies]
        assert [(node.name, node.target) for node in copies] == [
            (node.name, node.target) for node in sources
        ]
        assert {node.graph for node in sources} == {forward.id}
        assert sorted(node.name for node in copies) == sorted(given["0"])


def _copy(graph: torch.fx.Graph) -> torch.fx.Graph:
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(graph, {}))
    return copied


class Raises:
    def __str__(self) -> str:
        raise SystemExit("evil")

    __repr__ = __str__


def damaged() -> torch.fx.GraphModule:
    graph = torch.fx.symbolic_trace(lambda x: x.sin() + 1)
    next(iter(graph.graph.nodes)).meta = None
    return graph


FOREIGN = torch.fx.symbolic_trace(lambda x: x.cos())

anything: Any = publish
any_run: Any = publish_run

BAD: dict[str, tuple[Callable[[], None], str]] = {
    "a name that is none": (lambda: anything(3, "text"), "of type int, not a text"),
    "a name that raises": (lambda: anything(Raises(), "text"), "raised SystemExit"),
    "nothing": (lambda: anything("s", None), "neither an FX graph nor a text"),
    "a text that raises": (lambda: anything("s", Raises()), "its str() raised SystemExit"),
    "a function that raises": (lambda: anything("s", lambda: 1 / 0), "raised ZeroDivisionError"),
    "a damaged graph": (lambda: anything("s", damaged()), "its graph raised AttributeError"),
    "an unknown language": (
        lambda: anything("s", "text", language="klingon"),
        "'klingon' is not known here",
    ),
    "an unknown direction": (
        lambda: anything("s", "text", direction="sideways"),
        "its direction is none of",
    ),
    "links that are none": (lambda: anything("s", "text", links=7), "of type int, not a mapping"),
    "a line that is not there": (
        lambda: anything("s", "text", links={2: "relu"}),
        "name line 2, but it has 1",
    ),
    "a line before the first": (
        lambda: anything("s", "text", links={0: "relu"}),
        "name line 0, but it has 1",
    ),
    "a foreign node": (
        lambda: anything("s", "text", links={1: list(FOREIGN.graph.nodes)[1]}),
        "not a node of the graph",
    ),
    "a name of no node": (
        lambda: anything("s", "text", links={1: "nosuch"}),
        "'nosuch', which is not a node",
    ),
    "a run that is none": (lambda: any_run("e", 3), "its instructions raised TypeError"),
    "a run without end": (
        lambda: any_run("e", ({} for _ in iter(int, 1))),
        "more than 20,000 instructions",
    ),
    "an instruction that raises": (
        lambda: any_run("e", [{"shapes": Raises()}]),
        "an instruction raised SystemExit",
    ),
    "a time that is none": (lambda: any_run("e", [{"seconds": float("nan")}]), "are not a time"),
}


@pytest.fixture(scope="module")
def after_bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    """A session in which everything of BAD was published, from the first compile."""

    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        for what, (give, _told) in BAD.items():
            publish(what, what)
            give()
        publish("\x1b[31mred\udcff", "\x1b]0;title\x07 \udcff \x00")
        publish("outside", lambda: (anything("inside", "first"), "second")[1])
        thread = threading.Thread(target=publish, args=("of a thread", "text"))
        thread.start()
        thread.join()
        publish("last", gm)
        return gm.forward

    path = tmp_path_factory.mktemp("bad") / "bad.fxs"
    with recorded(path, backend, after=lambda: publish("at run time", "text")) as reader:
        yield reader


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_told_and_never_raised(after_bad: SessionReader, what: str) -> None:
    assert any(BAD[what][1] in message for message in problems(after_bad)), problems(after_bad)


def test_everything_else_is_kept_whatever_was_wrong_before(after_bad: SessionReader) -> None:
    names = [stage.name for stage in after_bad.rows(PublishedStage)]
    assert [what for what in BAD if what not in names] == []
    assert names[-4:] == ["outside", "of a thread", "last", "at run time"]
    assert names.index("inside") < names.index("outside")
    assert len({stage.compilation for stage in after_bad.rows(PublishedStage)}) == 1
    assert faults_of_ours(after_bad) == []


def test_a_huge_text_is_shortened_with_a_remark(tmp_path: Path) -> None:
    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        publish("huge", ("x" * 109 + "\n") * 400_000, links={1: "relu", 399_999: "relu"})
        return gm.forward

    with recorded(tmp_path / "a.fxs", backend) as reader:
        text = reader.text(reader.rows(Artifact, kind="published")[0].text)
        assert len(text) < 17_000_000
        assert "characters are left out here" in text
        assert any(
            "44,000,000 characters; only 16,000,000 of them are kept" in message
            for message in problems(reader)
        )
        assert [
            row.line
            for row in reader.rows(LineNode, artifact=reader.rows(PublishedStage)[0].artifact)
        ] == [1]


@pytest.mark.parametrize("length", [121, 1_201, 5_000, 1_000_000])
def test_a_long_name_is_cut_once_and_the_count_is_that_of_what_is_left_out(
    length: int, tmp_path: Path
) -> None:
    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        publish("n" * length, "text")
        return gm.forward

    with recorded(tmp_path / "a.fxs", backend) as reader:
        (name,) = [stage.name for stage in reader.rows(PublishedStage)]
    assert name.count("left out") == 1
    before, after = name.split(f" … ({length - 120:,} characters are left out here) … ")
    assert {*before, *after} == {"n"}
    assert len(before) + len(after) == 120


def test_publishing_is_left_out_of_what_dynamo_traces(tmp_path: Path) -> None:
    def traced(x: torch.Tensor) -> torch.Tensor:
        publish("traced", "text")
        publish_run("traced", [])
        return x + 1 if fx_explorer.is_looked_at() else x.cos()

    def outside() -> None:
        result = torch.compile(traced, backend="eager", fullgraph=True)(torch.zeros(3))
        assert torch.equal(result, torch.ones(3))

    outside()  # with nobody looking, too

    with recorded(tmp_path / "a.fxs", lambda gm, _: gm.forward, after=outside) as reader:
        assert reader.rows(PublishedStage) == []


class TestCalls:
    """These tests check how often a backend's compiled function is called."""

    def test_each_direction_is_counted(self, tmp_path: Path) -> None:
        counted = {"forward": 0, "backward": 0}

        def compiler(direction: str) -> Any:
            def compile_graph(gm: torch.fx.GraphModule, _: Any) -> Any:
                def run(*args: Any) -> Any:
                    counted[direction] += 1
                    return gm(*args)

                return make_boxed_func(run)

            return compile_graph

        backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
        with recorded(tmp_path / "a.fxs", backend, calls=3, train=True) as reader:
            assert counted == {"forward": 3, "backward": 3}
            assert {row.direction: row.calls for row in reader.rows(BackendEntry)} == counted

    def test_a_lazy_graph_module_is_counted_too(self, tmp_path: Path) -> None:
        with recorded(tmp_path / "a.fxs", lambda gm, _: gm.forward, calls=5) as reader:
            assert [
                (row.direction, row.calls, row.outputs) for row in reader.rows(BackendEntry)
            ] == [("", 5, 1)]

    def test_inductor_is_no_backend_of_ones_own(self, tmp_path: Path) -> None:
        """While inspecting, the calls of Dynamo's graph are counted in place of its own."""
        with recorded(tmp_path / "a.fxs", "inductor") as reader:  # type: ignore[arg-type]
            rows = reader.rows(BackendEntry)
            assert [(row.direction, row.calls, row.outputs) for row in rows] == [("", 1, 1)]
            assert backend_summaries(reader) == []

    def test_another_number_of_outputs_is_told(self, tmp_path: Path) -> None:
        def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
            return lambda *args: (*gm(*args), 1, 2)

        with recorded(tmp_path / "a.fxs", backend) as reader:
            assert len(problems(reader)) == 1
            assert problems(reader)[0].endswith("made returned 3 outputs; its graph has 1 output")


def test_a_run_belongs_to_the_compilation_and_direction_whose_entry_runs(tmp_path: Path) -> None:
    def compile_graph(gm: torch.fx.GraphModule, _: Any) -> Any:
        calls = [node for node in gm.graph.nodes if node.op == "call_function"]
        publish(
            "program", "\n".join(node.name for node in calls), links=dict(enumerate(calls, start=1))
        )

        def run(*args: Any) -> Any:
            told = [
                {"name": node.name, "shapes": [(3, 4), (5,)], "node": node, "line": i}
                for i, node in enumerate(calls, 1)
            ]
            publish_run("entry", told)
            return gm(*args)

        return make_boxed_func(run)

    backend = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph)
    with recorded(tmp_path / "a.fxs", backend, calls=2, train=True) as reader:
        programs = {stage.direction: stage.artifact for stage in reader.rows(PublishedStage)}
        runs = reader.rows(BackendRun)
        assert [(run.direction, run.call) for run in runs] == [
            ("forward", 1),
            ("backward", 1),
            ("forward", 2),
            ("backward", 2),
        ]
        assert {run.direction: run.program for run in runs} == programs
        first = reader.rows(BackendInstruction, run=runs[0].id)
        assert {row.shapes for row in first} == {"3x4, 5"}
        text = reader.text(reader.get(Artifact, runs[0].program).text).splitlines()
        assert [row.name for row in first] == text
        assert [reader.get(Node, row.node).name for row in first] == text
        assert problems(reader) == []


def test_the_backward_of_every_graph_is_published_and_counted_as_the_first_one_is(
    tmp_path: Path,
) -> None:
    """torch keeps the compiler of the backward that it wrapped for the first graph, and hands it
    over again for the next.
    """
    calls: list[int] = []

    def of_the_backward(graph: torch.fx.GraphModule, _: Any) -> Any:
        publish("received", graph)
        calls.append(0)
        number = len(calls) - 1

        def entry(*tensors: torch.Tensor) -> Any:
            calls[number] += 1
            return torch.fx.Interpreter(graph).run(*tensors)

        return make_boxed_func(entry)

    backend = aot_autograd(
        fw_compiler=lambda graph, _: make_boxed_func(graph.forward), bw_compiler=of_the_backward
    )
    torch._dynamo.reset()
    with (
        SessionWriter(tmp_path / "s.fxs") as writer,
        recording(writer, CaptureRequest("t", "s"), lambda _: None),
    ):
        compiled = torch.compile(program, backend=backend, dynamic=False)
        for size in (2, 3, 4, 3):
            compiled(torch.ones(size, 4), torch.ones(4, 4, requires_grad=True)).sum().backward()
    torch._dynamo.reset()
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert (
            [row.calls for row in reader.rows(BackendEntry) if row.direction == "backward"]
            == calls
            == [1, 2, 1]
        )
        assert [row.direction for row in reader.rows(PublishedStage)] == ["backward"] * 3


def test_a_name_that_could_steer_a_terminal_is_made_safe_where_it_is_recorded(
    tmp_path: Path,
) -> None:
    def steering(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        publish("\x1b[31mred\x07\u202e", "text", language="py\x9bthon")
        return module.forward

    steering.__name__ = "my\x1b]0;title\x07backend"
    reader = recorded(tmp_path / "s.fxs", steering)
    (stage,) = reader.rows(PublishedStage)
    names = [stage.name, *(row.backend for row in reader.rows(Compilation))]
    assert names == ["␛[31mred␇\\u202e", "my␛]0;title␇backend"]
    said = [
        *names,
        *(row.message for row in reader.rows(Failure)),
        *FORMATS["csv"]("t", [], backend_support(reader)).split("\n"),
    ]
    assert all(text.isprintable() for text in said)


def test_calls_of_compiled_code_are_counted(tmp_path: Path) -> None:
    """Matrix products alone: no kernel is built. While graphs are inspected, Dynamo's graph is what
    is called.
    """

    def program(compile_: Compile) -> None:
        weight = torch.randn(4, 4, requires_grad=True)
        multiply = compile_(torch.matmul)
        for _ in range(3):
            multiply(torch.randn(4, 4), weight).sum().backward()

    for build, expected in ((True, {"forward": 3, "backward": 3}), (False, {"": 3})):
        reader = record(tmp_path / f"{build}.fxs", program, build=build)
        assert not failures(reader)
        assert {row.direction: row.calls for row in reader.rows(BackendEntry)} == expected


@pytest.mark.parametrize(
    ("backend", "build"),
    with_others(
        [("eager", False), ("aot_eager", False), ("inductor", False)],
        [("eager", True), ("aot_eager", True), ("inductor", True)],
    ),
)
def test_the_overview_has_no_line_about_what_torchs_own_backends_support(
    tmp_path: Path, backend: str, build: bool
) -> None:
    """The overview says neither what torch's own backends support, which they do not report, nor
    how often they were called.
    """

    def program(compile_: Compile) -> None:
        step = compile_(lambda x, w: torch.relu(x @ w))
        for _ in range(2):
            step(torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)).sum().backward()

    reader = record(tmp_path / "s.fxs", program, backend=backend, build=build)
    assert not failures(reader)
    facts = overview(reader)
    assert [fact.text for fact in facts if fact.topic == "graphs"]
    assert [fact.text for fact in facts if fact.topic == "backend" or fact.view == "support"] == []


def test_the_overview_has_a_line_about_a_backend_that_says_what_it_supports(
    tmp_path: Path,
) -> None:
    supported = create_op_support(lambda modules, node: node.target is torch.relu)

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        CapabilityBasedPartitioner(module, supported).propose_partitions()
        return module

    def program(compile_: Compile) -> None:
        torch.compile(lambda x: torch.relu(x.sin()), backend=backend)(torch.randn(4))

    reader = record(tmp_path / "s.fxs", program)
    assert [fact.text for fact in overview(reader) if fact.view == "support"]
