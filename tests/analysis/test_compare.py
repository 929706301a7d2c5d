"""These tests check the differences of two graphs, two texts and two variants of a compilation. The
expected answers can be read off the code.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.diff import describe_difference, graph_diff, text_diff
from fx_explorer.analysis.lineage import documents_of_variant, kernels_of_variant
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.whole_session import totals
from fx_explorer.instruments.diff.compare import document_pairs, figures, pair_diff
from fx_explorer.instruments.kernels.counts import kernel_uses, kernels_by_direction
from fx_explorer.overview.overview import overview
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step


def node(name: str, target: str, arguments: str = "", op: str = "call_function") -> model.Node:
    return model.Node(0, 0, 0, name, op, target, arguments, ("4",), "f32")


X, OUT = node("x", "x", op="placeholder"), node("output", "output", "add", op="output")
BEFORE = [X, node("gelu", "aten.gelu", "x"), node("add", "aten.add", "gelu, 1"), OUT]


def test_graphs_that_differ_in_names_only_are_the_same() -> None:
    renamed = [
        X,
        node("g", "aten.gelu", "x"),
        node("a", "aten.add", "g, 1"),
        replace(OUT, arguments="a"),
    ]
    rows = graph_diff(BEFORE, renamed)
    assert {row.sign for row in rows} == {" "}
    assert describe_difference(rows) == "no difference"


def test_an_operation_taken_for_another_and_what_depends_on_it_are_shown() -> None:
    after = [X, node("relu", "aten.relu", "x"), node("add", "aten.add", "relu, 1"), OUT]
    rows = graph_diff(BEFORE, after)
    signs = [
        (row.sign, row.before and row.before.name, row.after and row.after.name) for row in rows
    ]
    assert signs[:3] == [(" ", "x", "x"), ("-", "gelu", None), ("+", None, "relu")]
    assert ("~", "add", "add") in signs


def test_texts_of_ten_thousand_lines_differ_in_one() -> None:
    before = [f"    tmp{i} = load({i})" for i in range(10_000)]
    after = [*before[:5_000], "    tmp = 0", *before[5_001:], "end"]
    rows = text_diff(before, after)
    assert [row.sign for row in rows if row.sign != " "] == ["~", "+"]
    assert describe_difference(rows, "line") == "1 line added, 1 changed"


@pytest.fixture
def branched(tmp_path: Path) -> SessionReader:
    """A training step whose backward alone was lowered a second time, with two kernels, and whose
    second variant is in use.
    """
    path = tmp_path / "branched.fxs"
    write_training_step(path)
    with SessionWriter(path) as writer:
        first = SessionReader(path).rows(model.Compilation)[0]
        writer.update(replace(first, in_use=False))
        changes = model.Changes(
            {"inductor.max_fusion_size": 1}, passes=(model.PassFile("post_grad", "/p/fold.py"),)
        )
        row = replace(
            first, id=0, name="0/0~1", variant_of="0/0", variant_from="partition", changes=changes.to_json(), duration_s=0.5,
            saved_s=1.25,
        )  # fmt: skip
        variant = writer.add(row)
        nodes = [node("mm", "aten.mm.default"), node("gelu_backward", "aten.gelu_backward.default")]
        graph = writer.add_graph(
            model.Graph(0, variant, "post_grad", "backward", call_count=2), nodes, []
        )
        text = writer.text("call()\n")
        code = writer.add(
            model.Artifact(
                0, variant, "output_code", "output_code", "backward", "", "python", text, 1
            )
        )
        for i in range(2):
            writer.add(model.Kernel(0, variant, "backward", i, f"small_{i}", "cpp", 0, code))
        writer.add(
            model.Intervention(
                0, variant, "post_grad", "backward", "pass", "pass_ of fold.py", after=graph.id
            )
        )
    return SessionReader(path)


def test_a_variant_shares_what_was_there_at_its_gate_and_the_direction_it_left(
    branched: SessionReader,
) -> None:
    first, variant = branched.rows(model.Compilation)
    theirs = {(d.kind, d.id) for d in documents_of_variant(branched, first)}
    shown = documents_of_variant(branched, variant)
    own = [(d.stage, d.direction) for d in shown if (d.kind, d.id) not in theirs]
    assert own == [("post_grad", "backward"), ("output_code", "backward")]
    replaced = [
        d
        for d in documents_of_variant(branched, first)
        if (d.kind, d.id) not in {(s.kind, s.id) for s in shown}
    ]
    assert [(d.stage, d.direction) for d in replaced] == [("post_grad", "backward")]
    assert [k.name for k in kernels_of_variant(branched, variant)] == [
        "extern_kernels.addmm",
        "kernel",
        "extern_kernels.addmm",
        "small_0",
        "small_1",
    ]


def test_a_compilation_counts_once_with_the_kernels_of_the_variant_in_use(
    branched: SessionReader,
) -> None:
    counted = totals(branched)
    assert (counted.compilations, counted.graphs, counted.kernels, counted.compile_s) == (
        1,
        1,
        5,
        2.0,
    )
    assert len(kernel_uses(branched)) == 5
    assert [
        (d.direction, d.generated, d.library_calls) for d in kernels_by_direction(branched)
    ] == [
        ("forward", 1, 2),
        ("backward", 2, 0),
    ]


def test_a_branch_says_what_made_it_differ_and_what_it_saved(branched: SessionReader) -> None:
    (other,) = other_variants(branched)
    assert other.changes == (
        "inductor.max_fusion_size = 1",
        "pass_ of fold.py after the post-grad passes",
    )
    assert (other.first, other.gate_name, other.seconds) == ("0/0", "the partition", 0.5)
    assert other.graphs == ("Backward · post-grad",)
    told = [fact.text for fact in overview(branched) if fact.topic == "graphs"]
    assert any("1 other variant" in text and "1.25 s" in text for text in told), told
    assert any("changed by hand" in text and "pass_ of fold.py" in text for text in told), told


def test_the_report_has_branches_apart_from_compilations(branched: SessionReader) -> None:
    report = json_report(branched)
    assert [one["id"] for one in report["compilations"]] == ["0/0"]  # type: ignore[attr-defined]
    (other,) = report["variants"]  # type: ignore[misc]
    assert other["of"] == "0/0"
    assert other["from"] == "partition"
    assert other["changes"]["settings"] == {"inductor.max_fusion_size": 1}
    assert other["saved_s"] == 1.25
    assert [graph["stage"] for graph in other["graphs"]] == ["post_grad"]
    (intervention,) = report["interventions"]  # type: ignore[misc]
    assert intervention["compilation"] == "0/0~1"
    assert intervention["gate"] == "post_grad"
    assert (intervention["nodes_before"], intervention["nodes_after"]) == (None, 2)


def test_two_variants_are_compared_in_figures_and_documents(branched: SessionReader) -> None:
    first, variant = branched.rows(model.Compilation)
    told = {
        figure.what: (figure.left, figure.right) for figure in figures(branched, first, variant)
    }
    assert told["kernels"] == ("3", "5")
    assert told["  C++"] == ("1", "3")
    assert told["kernels only here"] == ("none", "small_0 and small_1")
    assert told["saved for the backward"] == ("128 B", "128 B")
    assert told["compiling took"][0].startswith("2.0")
    pairs = {(pair.title, pair.is_shared) for pair in document_pairs(branched, first, variant)}
    assert ("Dynamo graph", True) in pairs
    assert ("Backward · post-grad", False) in pairs
    (pair,) = [
        pair
        for pair in document_pairs(branched, first, variant)
        if pair.title == "Output code · backward"
    ]
    assert pair.left is None
    assert [(row.sign, row.after) for row in pair_diff(branched, pair)] == [("+", "call()")]


def test_what_an_eager_variant_runs_is_counted_as_dynamo_traced_it(tmp_path: Path) -> None:
    path = tmp_path / "eager.fxs"
    write_training_step(path)
    with SessionReader(path) as reader, SessionWriter(path) as writer:
        (first,) = reader.rows(model.Compilation)
        writer.add(replace(first, id=0, name="0/0~1", variant_of="0/0", variant_from="dynamo"))
    with SessionReader(path) as reader:
        told = {
            figure.what: (figure.left, figure.right)
            for figure in figures(reader, *reader.rows(model.Compilation))
        }
    assert told["operations run eagerly"] == ("0", "3")  # fc1, gelu, fc2
    assert told["kernels"] == ("3", "0")


def test_time_that_a_variant_did_not_spend_is_spared_before_its_gate_and_none_after_it(
    branched: SessionReader,
) -> None:
    with SessionWriter(branched.path) as writer:
        writer.add(model.Span(0, 1, "joint", "joint", 10.0, 1.0, 0))
        writer.add(model.Span(0, 1, "post_grad", "post_grad", 11.0, 1.0, 0))
    first, variant = branched.rows(model.Compilation)
    told = {figure.what.strip(): figure.right for figure in figures(branched, first, variant)}
    assert told["tracing forward and backward (AOTAutograd)"] == "not repeated"
    assert told["passes on the final graphs"] == "none"
