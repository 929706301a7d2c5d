"""These tests check what passes are said to have done with each node: against torch's own observer
of the same run, and against what the patterns of a small program must do.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from fx_explorer import model
from fx_explorer.capture.inductor import pass_changes
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.instruments.passes.figures import (
    STAGE_PASSES,
    decomposition_of,
    history_of_node,
    passes_by_graph,
)
from fx_explorer.instruments.passes.view import NOT_IN_LOG, passes_table
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record
from tests.exhaustive import with_others
from tests.sessions import Written
from tests.shared_files import ROOT


class Attention(nn.Module):
    """It has something for several passes: a scaled softmax, a sum with zeros, a product with one,
    a copy of a copy, dropout.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.last = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = F.gelu(self.first(x)).view(4, 8, 2, 32).transpose(1, 2)
        scores = (heads @ heads.transpose(-1, -2)) / 32**0.5
        values = torch.softmax(scores, -1) @ heads
        values = values.transpose(1, 2).reshape(32, 64)
        values = values + torch.zeros_like(values)
        return F.dropout(self.last(values), 0.1) * 1.0


def attention(compile_it: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    layer, x = Attention(), torch.randn(32, 64)
    step = compile_it(layer)
    step(x).sum().backward()
    with torch.no_grad():
        step(x)


def from_models(name: str) -> Callable[[Callable[[Any], Any]], None]:
    def program(compile_it: Callable[[Any], Any]) -> None:
        from benchmarks.models import build, inputs, train_step

        train_step(compile_it(build(name)), inputs(name))

    return program


Seen = list[tuple[str, set[str], set[str]]]
"""Name of a pass, names of the nodes that are there after it and were not before, and of those that
are there no more.
"""


def observed(path: Path, program: Callable[..., None]) -> tuple[SessionReader, Seen]:
    """Record a program while torch's own observers are on, and return what they saw."""
    seen: Seen = []

    def make(original: Any) -> Any:
        def leave(observer: Any, *exception: Any) -> Any:
            made, erased = set(observer.created_nodes), set(observer.erased_nodes)
            seen.append((observer.passname, made - erased, erased - made))
            return original(observer, *exception)

        return leave

    with (
        torch._inductor.config.patch({"trace.provenance_tracking_level": 1}),
        patched(GraphTransformObserver, "__exit__", make),
    ):
        reader = record(path, program)
    return reader, seen


PROGRAMS = with_others(
    [("attention", attention)],
    [
        (name, from_models(name))
        for name in (
            "gpt2",
            "bert",
            "t5",
            "vit",
            "convnextv2",
            "resnet",
            "llama2",
            "transformer",
            "convnet",
        )
    ],
)


WITHOUT_OBSERVER = ("eliminate_dead_code", "view_to_reshape", "numpy_compat_normalization",
    "sink_cat_after_pointwise", "canonicalize_aten_ir_passes", "replace_random_passes")  # fmt: skip
"""Passes that Inductor calls without an observer."""


@pytest.mark.parametrize(("name", "program"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_passes_equal_those_that_torch_observes(
    name: str, program: Callable[..., None], tmp_path: Path
) -> None:
    reader, seen = observed(tmp_path / "s.fxs", program)
    assert not failures(reader)
    changes: dict[tuple[int, int], list[model.PassChange]] = {}
    for change in reader.rows(model.PassChange):
        changes.setdefault((change.graph, change.graph_pass), []).append(change)
    rows = reader.rows(model.GraphPass)
    recorded = [
        (row.name, row.made, row.erased)
        for row in rows
        if row.name not in WITHOUT_OBSERVER and row.parent >= 0
    ]
    expected = [(name, len(made), len(erased)) for name, made, erased in seen]
    # Passes over a joint graph that nothing changed are not stored, nor is that graph.
    changed = [row for row in expected if row[1] or row[2]]
    assert sorted(row for row in recorded if row[1] or row[2]) == sorted(changed)
    names = {(row.graph, row.position): row.name for row in reader.rows(model.GraphPass)}
    for key, of_pass in changes.items():
        made = {change.name for change in of_pass if change.kind == "made"}
        erased = {change.name for change in of_pass if change.kind == "erased"}
        of_name = [one for one in seen if one[0] == names[key]]
        if of_name:
            assert any(made <= one[1] and erased <= one[2] for one in of_name)
    reader.close()


def untold_nodes(reader: SessionReader) -> tuple[int, set[str]]:
    """Return how many nodes differ between AOTAutograd's graphs and those after the post-grad
    passes, and those of them that no pass, and no row between two, is said to have changed.
    """
    graphs = reader.rows(model.Graph)
    different, untold = 0, set()
    for after in graphs:
        if after.stage != "post_grad":
            continue
        (before,) = [
            graph
            for graph in graphs
            if graph.stage in ("forward", "backward")
            and (graph.compilation, graph.direction, graph.name)
            == (after.compilation, after.direction, after.name)
        ]
        texts = [
            {
                node.name: (node.target, node.arguments)
                for node in reader.rows(model.Node, graph=graph.id)
            }
            for graph in (before, after)
        ]
        names = {
            name for name in texts[0].keys() | texts[1] if texts[0].get(name) != texts[1].get(name)
        }
        different += len(names)
        changes = reader.rows(model.PassChange, graph=after.id)
        untold |= names - {change.name for change in changes}
    return different, untold


def scatters_and_branches(compile_it: Callable[[Any], Any]) -> None:
    def scatters(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.slice_scatter(x.sin(), y * 2, 1, 0, 4)
        return torch.select_scatter(x, y[:, 0], 1, 2).cos() + x.view(-1, 16), x

    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda x: x.view(-1).sin().view(4, 8), lambda x: x.cos(), (x,)
        )

    with torch.no_grad():
        compile_it(scatters)(torch.randn(8, 16), torch.randn(8, 4))
    compile_it(branches)(torch.randn(4, 8, requires_grad=True)).sum().backward()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    return record(tmp_path_factory.mktemp("planted") / "s.fxs", scatters_and_branches)


def test_all_that_differs_between_two_stages_is_told(
    session: SessionReader, planted: SessionReader
) -> None:
    for reader in (session, planted):
        different, untold = untold_nodes(reader)
        assert different
        assert not untold


@pytest.mark.parametrize("name", [name for name, _ in PROGRAMS if name != "attention"])
def test_all_that_differs_in_a_model_is_told(name: str, tmp_path: Path) -> None:
    with record(tmp_path / "s.fxs", from_models(name)) as reader:
        assert not untold_nodes(reader)[1]


def test_a_view_in_a_nested_graph_became_a_reshape(planted: SessionReader) -> None:
    names = {(row.graph, row.position): row.name for row in planted.rows(model.GraphPass)}
    nested = {graph.id for graph in planted.rows(model.Graph) if graph.parent}
    changes = [change for change in planted.rows(model.PassChange) if change.graph in nested]
    assert {names[change.graph, change.graph_pass] for change in changes} == {"view_to_reshape"}
    for change in changes:
        assert change.before.replace("aten.view.", "aten.reshape.") == change.after


def test_a_node_of_the_same_operator_replaces_one(planted: SessionReader) -> None:
    rows = {row.cells[0]: row.cells for row in passes_table(planted).rows}
    assert rows["slice_scatter_default"][1] == "replaces slice_scatter"
    assert rows["reinplace_inplaceable_ops"][1] == "2 replaced, 3 changed"
    (made,) = [
        node
        for node in planted.rows(model.Node, name="slice_scatter_default")
        if planted.get(model.Graph, node.graph).stage == "post_grad"
    ]
    links = planted.rows(model.Link, child=made.id)
    parents = planted.by_ids(model.Node, [link.parent for link in links])
    assert [parent.name for parent in parents] == ["slice_scatter"]


def test_what_no_pass_did_is_between_two(tmp_path: Path) -> None:
    post_grad = importlib.import_module("torch._inductor.fx_passes.post_grad")

    def make(original: Any) -> Any:
        def lazy_init(*args: Any) -> Any:
            (module,) = graphs
            change_in_place(module.graph)
            return original(*args)

        return lazy_init

    def keep(original: Any) -> Any:
        def passes(module: torch.fx.GraphModule, *args: Any) -> Any:
            graphs[:] = [module]
            return original(module, *args)

        return passes

    graphs: list[torch.fx.GraphModule] = []
    compile_fx = importlib.import_module("torch._inductor.compile_fx")
    with patched(post_grad, "lazy_init", make), patched(compile_fx, "post_grad_passes", keep):
        reader = record(tmp_path / "s.fxs", lambda compile_it: compile_it(Plain())(torch.ones(8)))
    (change,) = reader.rows(model.PassChange)
    (row,) = [row for row in reader.rows(model.GraphPass) if row.position == change.graph_pass]
    assert (
        row.name == "code without a name between remove_profiler_ops and post_grad_custom_pre_pass"
    )
    (sentence,) = history(reader, "post_grad", "sin")
    assert sentence.startswith(f"post_grad: {row.name} changed it: aten.sin.default(")
    reader.close()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    return record(tmp_path_factory.mktemp("passes") / "s.fxs", attention)


def history(session: SessionReader, stage: str, name: str, direction: str = "") -> list[str]:
    graphs = {
        graph.id: graph
        for graph in session.rows(model.Graph)
        if graph.stage == stage and direction in ("", graph.direction)
    }
    nodes = [node for node in session.rows(model.Node, name=name) if node.graph in graphs]
    return [event.sentence for event in history_of_node(session, nodes[0])]


def test_what_happened_to_a_joint_node_in_both_directions_is_told_once(tmp_path: Path) -> None:
    def program(compile_it: Callable[[Any], Any]) -> None:
        def scaled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return x.view(4, 4) * weight

        weight = torch.ones(4, 4, requires_grad=True)
        compile_it(scaled)(torch.ones(16), weight).sum().backward()

    reader = record(tmp_path / "s.fxs", program)
    assert history(reader, "joint", "view") == [
        "post_grad: view_to_reshape changed it: aten.view.default(primals_1, [4, 4]) → "
        "aten.reshape.default(primals_1, [4, 4]) (forward and backward)"
    ]
    assert history(reader, "post_grad", "view", "backward") == [
        "post_grad: view_to_reshape changed it: aten.view.default(primals_1, [4, 4]) → "
        "aten.reshape.default(primals_1, [4, 4])"
    ]
    reader.close()


def test_the_sum_with_zeros_is_removed(session: SessionReader) -> None:
    assert history(session, "joint", "add_1") == [
        "joint: constant_fold_uniform_value removed it; replaced by view_7"
    ]


def test_who_used_the_sum_is_changed(session: SessionReader) -> None:
    (sentence,) = history(session, "post_grad", "addmm_1", "forward")
    assert sentence.startswith("joint: constant_fold_uniform_value changed it: ")
    before, _, after = sentence.partition(" → ")
    assert "add_1" in before
    assert "view_7" in after


def test_a_pattern_made_a_node_in_place_of_another(session: SessionReader) -> None:
    (sentence,) = history(session, "post_grad", "where_self", "forward")
    assert "pattern div_softmax_pattern made it in place of sub: aten.where.self(" in sentence


def test_what_a_pattern_made_is_linked_to_what_it_matched(session: SessionReader) -> None:
    joint = [graph for graph in session.rows(model.Graph) if graph.stage == "joint"]
    after = max(joint, key=lambda graph: graph.id)
    nodes = [node for node in session.rows(model.Node, graph=after.id) if node.name == "where_self"]
    links = session.rows(model.Link, child=nodes[0].id)
    parents = session.by_ids(model.Node, [link.parent for link in links])
    assert {parent.name for parent in parents} == {"div", "amax", "sub"}
    assert {link.how for link in links} == {"replaced"}


def test_a_node_that_no_pass_touched_has_no_history(session: SessionReader) -> None:
    assert history(session, "post_grad", "addmm", "forward") == []


def test_passes_over_an_inference_graph_are_all_of_its_post_grad_graph(
    session: SessionReader,
) -> None:
    graphs = [passes.graph for passes in passes_by_graph(session)]
    inference = [graph for graph in graphs if graph.direction == "inference"]
    (passes,) = [p for p in passes_by_graph(session) if p.graph.id == inference[0].id]
    assert [step.row.name for step in passes.steps if step.depth == 0] == [
        "joint",
        "view_to_reshape",
    ]
    (sentence,) = history(session, "forward", "add_1", "inference")
    assert "constant_fold_uniform_value removed it" in sentence


def test_the_view_has_graphs_passes_and_nodes(session: SessionReader) -> None:
    table = passes_table(session)
    assert "pass_pattern_1 › pattern_matcher made the most changes: it made " in table.answer
    assert table.answer.endswith(" in the joint graph of [0/0].")
    assert table.tree is not None
    assert table.rows[-1].cells[1] == "no pass changed a node"
    (at,) = [
        at
        for at, row in enumerate(table.rows)
        if row.cells[0] == "where_self" and row.cells[1] == "made for sub"
    ][:1]
    assert table.tree.depths[at] == 4
    place = table.rows[at].find_place
    assert place is not None
    assert place() is not None


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


def change_in_place(graph: torch.fx.Graph) -> None:
    """A pass of the user's that tells nobody what it changes."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.sin.default:
            node.target = torch.ops.aten.cos.default
            node.meta["val"] = node.meta["val"]


def test_a_pass_that_changes_the_graph_in_place_is_seen(tmp_path: Path) -> None:
    with torch._inductor.config.patch(post_grad_custom_post_pass=change_in_place):
        reader = record(tmp_path / "s.fxs", lambda compile_it: compile_it(Plain())(torch.ones(8)))
    (change,) = reader.rows(model.PassChange)
    assert (change.kind, change.name) == ("changed", "sin")
    assert change.before.startswith("aten.sin.default(")
    assert change.after.startswith("aten.cos.default(")
    (row,) = [row for row in reader.rows(model.GraphPass) if row.changed and row.parent >= 0]
    assert row.name == "post_grad_custom_post_pass"
    assert not failures(reader)
    reader.close()


def raise_it(graph: torch.fx.Graph) -> None:
    raise ValueError("this pass fails")


def test_a_pass_that_raises_ends_as_it_does_alone(tmp_path: Path) -> None:
    def program(compile_it: Callable[[Any], Any]) -> None:
        with pytest.raises(Exception, match="this pass fails"):
            compile_it(Plain())(torch.ones(8))

    with torch._inductor.config.patch(post_grad_custom_post_pass=raise_it):
        reader = record(tmp_path / "s.fxs", program)
    assert not [row for row in failures(reader) if "pass change" in row.message]
    answer = passes_table(reader).answer
    assert "Passes after AOTAutograd are not listed for [0/0]" in answer
    assert "this pass fails" in answer
    reader.close()
    assert not hasattr(GraphTransformObserver.__enter__, "__wrapped__")


def test_a_log_says_that_it_has_no_passes(written: Written) -> None:
    session = written(lambda writer: writer.set_meta("target", {"kind": "log", "spec": "t.log"}))
    table = passes_table(session)
    assert not table.rows
    assert table.empty == NOT_IN_LOG


def test_a_node_names_the_operator_that_was_decomposed(session: SessionReader) -> None:
    sentence = history(session, "post_grad", "div_1", "forward")[0]
    assert sentence.startswith(
        "AOTAutograd traced it as a part of aten._softmax.default, by its decomposition _softmax ("
    )
    graphs = {graph.id: graph.stage for graph in session.rows(model.Graph)}
    erf = next(
        node for node in session.rows(model.Node, name="erf") if graphs[node.graph] == "joint"
    )
    decomposed = decomposition_of(session, erf)
    assert decomposed is not None
    assert decomposed.operator == "aten.gelu.default"
    assert "def gelu" in session.text(decomposed.source)


def test_an_operator_that_was_called_is_no_part_of_another(session: SessionReader) -> None:
    graphs = {graph.id: graph.stage for graph in session.rows(model.Graph)}
    nodes = [node for node in session.rows(model.Node, name="addmm") if graphs[node.graph]]
    assert nodes
    assert all(decomposition_of(session, node) is None for node in nodes)


def test_a_fault_of_ours_while_a_pass_runs_is_none_of_the_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise KeyError("a fault of the recorder")

    monkeypatch.setattr(pass_changes, "mark_replacement", fail)
    reader = record(tmp_path / "s.fxs", attention)
    assert reader.count(model.Kernel)
    assert any("what a pattern made" in row.message for row in failures(reader))
    reader.close()


def test_the_json_report_has_the_figures_of_the_view(session: SessionReader) -> None:
    schema = ROOT / "docs" / "reference" / "report-schema.json"
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    report = json_report(session)
    validator.validate(json.loads(json.dumps(report)))
    passes = cast("dict[str, Any]", report["passes"])
    changes = Counter(change.graph for change in session.rows(model.PassChange))
    assert passes["count"] == len(changes)
    for row in passes["rows"]:
        stages = [each for each in row["passes"] if each["pass"] in STAGE_PASSES]
        inner = [each for each in row["passes"] if each["depth"] == 1]
        for did in ("made", "removed", "changed"):
            assert sum(each[did] for each in stages) <= sum(each[did] for each in inner)
    decompositions = cast("dict[str, Any]", report["decompositions"])
    by_operator = {row["operator"]: row for row in decompositions["rows"]}
    gelu = by_operator["aten.gelu.default"]
    assert gelu["function"] == "gelu"
    assert gelu["made"]["aten.erf.default"] == 2  # a training step, and a call without gradients
    nodes = [row["nodes"] for row in decompositions["rows"]]
    assert nodes == sorted(nodes, reverse=True)
    assert sum(nodes) == session.count(model.Decomposed)
