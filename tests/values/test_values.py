"""These tests check what is said of inputs and outputs: against expectations of twelve planted
functions, and against AOTAutograd's metadata of a bare run, as torch's own log has it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import CallMethodKey, DivideByKey

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_node
from fx_explorer.analysis.node_meta import meta_of_node
from fx_explorer.capture.recording.meta_texts import meta_text
from fx_explorer.capture.torch_compat.private_names import functorch_aot_autograd
from fx_explorer.instruments.values.figures import values_of_graphs
from fx_explorer.instruments.values.report import values_json
from fx_explorer.instruments.values.view import NO_VALUE, values_table
from fx_explorer.overview.graph_tables import graphs_table
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.inspect import entries
from tests.capture.recorded import Compile, failures, record
from tests.values.planted import PLANTED, overlapping, plain


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    def program(compile_it: Compile) -> None:
        for planted in PLANTED.values():
            compile_it(planted.make())(*planted.inputs())

    path = tmp_path_factory.mktemp("values") / "planted.fxs"
    with record(path, program, backend="aot_eager") as reader:
        yield reader


def compilations_of(session: SessionReader, name: str) -> set[str]:
    return {row.name for row in session.rows(model.Compilation) if name in row.function}


def test_nothing_fails(session: SessionReader) -> None:
    assert failures(session) == []


@pytest.mark.parametrize("name", PLANTED)
def test_planted_facts_are_found(session: SessionReader, name: str) -> None:
    own = compilations_of(session, name)
    values = [value for value in values_of_graphs(session) if value.compilation in own]
    found = {(value.name, value.kind, value.base, value.copied_bytes) for value in values}
    expected = {
        (value, kind, "" if kind.startswith("alias_of_intermediate") and not base else base, size)
        for _, value, kind, base, size in PLANTED[name].facts
    }
    assert found == expected
    summaries = [
        row
        for row in session.rows(model.GraphValues)
        if session.get(model.Compilation, row.compilation).name in own
    ]
    assert sum(row.intermediate_bases for row in summaries) == PLANTED[name].bases


def test_each_has_the_line_that_makes_or_writes_it(session: SessionReader) -> None:
    source = Path(PLANTED["flattens"].make().__code__.co_filename).read_text().splitlines()
    lines = {
        (value.function, value.name): source[value.line - 1].strip()
        for value in values_of_graphs(session)
    }
    assert lines["flattens", "output 1"] == "return x.sin(), x.view(-1)"
    assert lines["scales_in_place", "input x"] == "x.mul_(2)"
    assert lines["writes_a_row", "input x"] == "x[0].fill_(3)"
    assert lines["steps", "input weight"] == "weight.sub_(0.1)"
    assert lines["adds_to_overlapping", "input a"] == "a.add_(1)"
    running = lines["Normalizes.forward", "buffer norm.running_mean"]
    assert running == "result: torch.Tensor = self.norm(x)"


Facts = tuple[int, int, int, int, list[tuple[str, int, str]]]
"""Inputs, outputs, intermediate bases, tangents, and what is out of the ordinary."""


def facts_of(metadata: Any) -> Facts:
    facts = [
        ("input", at, info.mutation_type.name.lower())
        for at, info in enumerate(metadata.input_info)
        if info.mutation_type.name != "NOT_MUTATED"
    ]
    facts += [
        ("output", at, info.output_type.name)
        for at, info in enumerate(metadata.output_info)
        if info.output_type.name != "non_alias"
    ]
    return (
        len(metadata.input_info),
        len(metadata.output_info),
        metadata.num_intermediate_bases,
        len(metadata.traced_tangents),
        sorted(facts),
    )


class Metadata(logging.Handler):
    """Keeps AOTAutograd's metadata of each graph, from the arguments of torch's own log."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, Facts] = {}

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args if isinstance(record.args, tuple) else ():
            if type(argument).__name__ == "ViewAndMutationMeta":
                # At once: torch drops the tangents when it has compiled the graph.
                self.kept.setdefault(id(argument), facts_of(argument))


def bare_metadata(name: str) -> tuple[list[Facts], list[Facts]]:
    """Return, of a function's graphs in a run without a recorder, what AOTAutograd collected and
    what its log says.
    """
    collected: list[Facts] = []
    collect = functorch_aot_autograd.run_functionalized_fw_and_collect_metadata

    def collecting(*args: Any, **kwargs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            metadata = collect(*args, **kwargs)(*inputs)
            collected.append(facts_of(metadata))
            return metadata

        return run

    logger = logging.getLogger("torch._functorch._aot_autograd.graph_compile")
    torch._dynamo.reset()
    torch._logging.set_logs(aot_graphs=True)
    handler = Metadata()
    logger.addHandler(handler)
    planted = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(
            functorch_aot_autograd, "run_functionalized_fw_and_collect_metadata", collecting
        )
        torch.compile(planted.make(), backend="aot_eager")(*planted.inputs())
    logger.removeHandler(handler)
    torch._logging.set_logs()
    torch._dynamo.reset()
    return collected, list(handler.kept.values())


@pytest.mark.parametrize("name", PLANTED)
def test_facts_are_those_of_a_bare_run(session: SessionReader, name: str) -> None:
    own = compilations_of(session, name)
    recorded = []
    for summary in session.rows(model.GraphValues):
        if session.get(model.Compilation, summary.compilation).name in own:
            facts = session.rows(model.ValueFact, graph_values=summary.id)
            recorded.append(
                (
                    summary.inputs,
                    summary.outputs,
                    summary.intermediate_bases,
                    summary.tangents,
                    sorted(
                        (fact.role, fact.position, fact.kind)
                        for fact in facts
                        if fact.kind != "not_mutated"  # of inputs that overlap another one
                    ),
                )
            )
    collected, logged = bare_metadata(name)
    assert collected
    assert sorted(recorded) == sorted(collected)
    if PLANTED[name].inputs not in (
        plain,
        overlapping,
    ):  # torch logs that of graphs with a backward
        assert logged == collected


def test_overlapping_inputs_are_one_tensor_of_the_traced_graph(session: SessionReader) -> None:
    [summary] = [row for row in session.rows(model.GraphValues) if row.synthetic_bases]
    inputs = session.rows(model.Node, graph=summary.graph, op="placeholder")
    assert summary.inputs == 2
    assert [node.shape for node in inputs] == [("8",)]


def test_a_copy_back_is_said_first(session: SessionReader) -> None:
    answer = values_table(session).answer
    assert answer.startswith("Input x is copied back, 64 B at each call. ")
    [row] = [row for row in values_json(session) if row["copied_bytes"]]
    assert row["sentence"] == (
        "Input x is copied back after the graph, because autograd must see the change: 64 B read "
        "and written at each call."
    )


def test_details_of_nodes_say_it_in_each_graph(session: SessionReader) -> None:
    value = next(value for value in values_of_graphs(session) if value.how == "copied back")
    sentences = {}
    for graph in session.rows(model.Graph):
        compilation = session.get(model.Compilation, graph.compilation)
        if compilation.name != value.compilation:
            continue
        for node in session.nodes(graph):
            shown = entries(session, place_of_node(session, node))
            if value.text in [entry.text for entry in shown if entry.label == "value"]:
                sentences[graph.stage, node.op] = node.name
    assert sentences["dynamo", "placeholder"] == "l_x_"
    assert sentences["forward", "placeholder"] == "primals_1"
    assert sentences["forward", "call_function"] == "mul"


def test_details_of_a_graph_say_it(session: SessionReader) -> None:
    details = [row.detail().text for row in graphs_table(session).rows if row.detail]
    about = [text for text in details if "Output 1 (x.view(-1)) is a view of input x" in text]
    assert len(about) == 1
    assert "AOTAutograd: 1 input, 2 outputs, 1 gradient as inputs of the backward." in about[0]


def test_a_session_without_any_says_so(tmp_path: Path) -> None:
    def program(compile_it: Compile) -> None:
        compile_it(torch.sin)(torch.ones(3))

    with record(tmp_path / "none.fxs", program, backend="aot_eager") as reader:
        assert values_table(reader).empty == NO_VALUE


# node.meta


def test_every_key_of_meta_is_in_the_details(tmp_path: Path) -> None:
    keys: dict[tuple[str, str], list[str]] = {}

    def backend(module: torch.fx.GraphModule, inputs: object) -> Any:
        for node in module.graph.nodes:
            if node.op == "call_function":
                node.meta["mine"] = Secret()
                node.meta["quantization"] = {"scheme": "int8", "bits": 8}
        keys.update({("dynamo", node.name): list(node.meta) for node in module.graph.nodes})
        return module.forward

    def program(compile_it: Compile) -> None:
        torch.compile(lambda x: (x.sin() + 1).cos(), backend=backend)(torch.ones(3))

    with record(tmp_path / "meta.fxs", program) as reader:
        assert failures(reader) == []
        # Dynamo's graph is recorded before the backend sees it.
        [graph] = reader.rows(model.Graph, stage="dynamo")
        for node in reader.nodes(graph):
            kept = [entry.key for entry in meta_of_node(reader, node)]
            ours = [key for key in keys["dynamo", node.name] if key not in ("mine", "quantization")]
            assert sorted(kept) == sorted(ours)


class Secret:
    """A class of the program's, whose text would fail."""

    def __repr__(self) -> str:
        raise AssertionError("a capture must not call it")

    __str__ = __repr__


def test_no_text_is_made_by_the_programs_code() -> None:
    assert meta_text(Secret()) == "Secret"
    assert meta_text([Secret(), {"a": Secret()}]) == "[Secret, {'a': Secret}]"
    assert meta_text({"scheme": "int8", "bits": 8}) == "{'scheme': 'int8', 'bits': 8}"
    assert meta_text(torch.ops.aten.mul.Tensor) == "aten.mul.Tensor"
    assert meta_text(list(range(100))) == "[0, 1, 2, 3, 4, 5, …]"


def test_a_record_of_torchs_without_dict_is_written_out() -> None:
    """``unbacked_bindings`` holds such keys: where an operation's result has a size of its own."""
    keys = (CallMethodKey("item"), DivideByKey(4))
    assert not any(hasattr(key, "__dict__") for key in keys)
    assert meta_text(keys) == "(CallMethodKey(name='item'), DivideByKey(divisor=4))"


def sized_by_content(x: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(x) * 2


def test_meta_of_a_size_that_only_the_content_gives_is_recorded(tmp_path: Path) -> None:
    def program(compile_it: Compile) -> None:
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            compile_it(sized_by_content)(torch.ones(3))

    with record(tmp_path / "s.fxs", program, backend="aot_eager") as reader:
        assert not failures(reader)
        (graph,) = reader.rows(model.Graph, stage="dynamo")
        node = next(node for node in reader.nodes(graph) if node.name == "nonzero")
        held = {entry.key: entry.text for entry in meta_of_node(reader, node)}
    assert "CallMethodKey(name='size')" in held["unbacked_bindings"]


def test_meta_of_a_compile_has_what_torch_put_there(session: SessionReader) -> None:
    own = compilations_of(session, "scales_in_place")
    graphs = [
        graph
        for graph in session.rows(model.Graph, stage="forward")
        if session.get(model.Compilation, graph.compilation).name in own
    ]
    node = next(node for node in session.nodes(graphs[0]) if node.name == "mul")
    held = {entry.key: entry.text for entry in meta_of_node(session, node)}
    assert held["original_aten"] == "aten.mul.Tensor"
    assert held["partitioner_tag"] == "is_forward"
    assert held["val"] == ""  # the node's row has it
    shown = entries(session, place_of_node(session, node))
    texts = [entry.text for entry in shown if entry.label == "node.meta"]
    assert "original_aten = aten.mul.Tensor" in texts
    assert texts[-1].endswith(": shown above")
