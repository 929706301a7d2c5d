"""These tests read the logs of tlparse's own tests, from torch 2.4 to 2.9: the assertions of its
tests hold here.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.whole_session import damage
from fx_explorer.overview.outline import outline
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader

LOGS = Path(__file__).parents[2] / "data" / "tlparse"

ALL = sorted(path.name.removesuffix(".gz") for path in LOGS.glob("*.gz"))

EXPECTED: dict[str, dict[str, dict[str, list[int]]]] = json.loads(
    (LOGS / "expected_provenance.json").read_text()
)

EDITED = {"export.log", "export_guard_added.log", "inductor_provenance_extended_log.txt"}
"""Logs that somebody edited: the spaces at the ends of their last text are gone, or its last line
is.
"""

GRAPHS = {
    "dynamo_output_graph": ("dynamo", ""),
    "inductor_pre_grad_graph": ("pre_grad", ""),
    "after_pre_grad_graph": ("pre_grad", ""),
    "aot_joint_graph": ("joint", ""),
    "aot_forward_graph": ("forward", "forward"),
    "aot_backward_graph": ("backward", "backward"),
    "aot_inference_graph": ("forward", "inference"),
}


class Log:
    """A Log is a log and the session that was made from it, each read separately."""

    def __init__(self, text: str, session: Path) -> None:
        self.text = text
        self.reader = SessionReader(session)

    def heads(self) -> list[dict[str, Any]]:
        return [
            json.loads(line.split("] ", 1)[1])
            for line in self.text.split("\n")
            if line.startswith("V")
        ]

    def kinds(self) -> Counter[str]:
        """Return how often each kind of record occurs in the log."""
        return Counter(name_of(head) for head in self.heads())

    def payload(self, name: str) -> list[str]:
        """The text of the first record of a kind, without the empty lines before it."""
        lines = self.text.split("\n")
        at = next(
            i
            for i, line in enumerate(lines)
            if line.startswith("V") and name_of(json.loads(line.split("] ", 1)[1])) == name
        )
        below = []
        while at + 1 < len(lines) and (lines[at + 1].startswith("\t") or not lines[at + 1]):
            at += 1
            below.append(lines[at][1:])
        first = next(i for i, line in enumerate(below) if line)
        return below[first:]


def name_of(head: dict[str, Any]) -> str:
    kind = next(iter(head))
    named = head[kind].get("name") if kind in ("artifact", "graph_dump") else None
    return str(named or kind)


def opened(name: str, folder: Path, text: str | None = None) -> Log:
    text = gzip.decompress((LOGS / f"{name}.gz").read_bytes()).decode() if text is None else text
    log = folder / name
    log.write_text(text, encoding="utf-8")
    read_log(log, folder / f"{name}.fxs")
    return Log(text, folder / f"{name}.fxs")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Log]]:
    folder = tmp_path_factory.mktemp("tlparse")
    found = {name: opened(name, folder) for name in ALL}
    yield found
    for log in found.values():
        log.reader.close()


@pytest.mark.parametrize("name", ALL)
def test_every_record_is_read_and_every_kind_is_known(logs: dict[str, Log], name: str) -> None:
    log = logs[name]
    told = log.reader.meta("log", {})
    assert (log.reader.meta("skipped_records"), told["unknown"], told["unread_graph_lines"]) == (
        0,
        {},
        0,
    )
    assert told["kinds"] == dict(log.kinds())
    assert told["wrong_hashes"] == (name in EDITED)


@pytest.mark.parametrize("name", ALL)
def test_every_graph_of_the_log_is_in_the_session_once(logs: dict[str, Log], name: str) -> None:
    kinds, reader = logs[name].kinds(), logs[name].reader
    wanted = Counter[tuple[str, str]]()
    for kind, key in GRAPHS.items():
        wanted[key] += kinds[kind]
    found = Counter[tuple[str, str]](
        (row.stage, row.direction) for row in reader.rows(model.Graph, parent=0, name="")
    )
    assert {key: found[key] for key in wanted} == dict(wanted)
    passed = sum(count for (stage, _), count in found.items() if stage == "post_grad")
    assert passed == max(kinds["inductor_post_grad_graph"], kinds["after_post_grad_graph"])


@pytest.mark.parametrize("name", ALL)
def test_every_graph_and_code_belongs_to_something_that_the_outline_shows(
    logs: dict[str, Log], name: str
) -> None:
    reader = logs[name].reader
    known = {row.id for row in reader.rows(model.Compilation)}
    assert all(
        row.compilation in known for row in reader.rows(model.Graph) if row.stage != "front_end"
    )
    assert all(row.compilation in known for row in reader.rows(model.Kernel))
    assert len(outline(reader)) > len(known) > 0


def test_a_text_that_was_changed_is_told_and_everything_else_is_read(
    tmp_path: Path, logs: dict[str, Log]
) -> None:
    """``simple_corrupted_json.log``: a line of a chromium event is missing."""
    lines = logs["simple.log"].text.split("\n")
    log = opened("simple.log", tmp_path, "\n".join([*lines[:18], *lines[19:]]))
    assert (log.reader.meta("skipped_records"), log.reader.meta("log")["wrong_hashes"]) == (1, 1)
    for row_type in (model.Graph, model.Kernel, model.Link):
        assert log.reader.count(row_type) == logs["simple.log"].reader.count(row_type) > 0
    log.reader.close()


def test_the_simple_log_has_its_graphs_and_its_code(logs: dict[str, Log]) -> None:
    reader = logs["simple.log"].reader
    assert [(row.name, row.status) for row in reader.rows(model.Compilation)] == [("0/0", "ok")]
    stages = [(row.stage, row.direction) for row in reader.rows(model.Graph)]
    assert stages == [("dynamo", ""), ("forward", "inference"), ("post_grad", "inference")]
    assert len(reader.rows(model.Artifact, kind="output_code")) == 1


def test_a_library_call_names_its_nodes_as_dynamo_does(logs: dict[str, Log]) -> None:
    """``simple.log``: the comment above the call names nodes of Dynamo's graph, none after the
    passes.
    """
    log = logs["simple.log"]
    lines = log.text.split("\n")
    (call,) = [at for at, line in enumerate(lines) if "= torch.ops.test.baz.default(buf" in line]
    named = re.search(r"Source Nodes: \[([^]]*)]", lines[call - 1])
    assert named
    kernels = {kernel["name"]: kernel for kernel in kernels_of(log.reader)}
    library_call = kernels["torch.ops.test.baz.default"]
    assert (library_call["language"], library_call["nodes"]) == ("extern", [])
    assert sorted(library_call["dynamo_nodes"]) == sorted(named[1].split(", "))
    (graph,) = log.reader.rows(model.Graph, stage="dynamo")
    assert {node.name for node in log.reader.nodes(graph)} >= {*library_call["dynamo_nodes"]}


def kernels_of(reader: SessionReader) -> list[dict[str, Any]]:
    compilations: Any = json_report(reader)["compilations"]
    return [kernel for compilation in compilations for kernel in compilation["kernels"]]


@pytest.mark.parametrize("name", ALL)
def test_a_log_without_a_table_says_that_nothing_leads_to_its_cpp_kernels(
    logs: dict[str, Log], name: str
) -> None:
    """``links.log`` has C++ code and no table of what it computes; logs with a table lead there."""
    log = logs[name]
    has_table = any("provenance" in kind for kind in log.kinds())
    is_cpp = bool(re.search(r"^\s*cpp_fused\w* = async_compile.cpp", log.text, re.MULTILINE))
    facts = [one for one in overview(log.reader) if one.text.startswith("The log does not link")]
    assert bool(facts) == (is_cpp and not has_table)
    for fact in facts:
        assert (
            "its 1 C++ kernel to operations: torch wrote no table of what they compute."
            in fact.text
        )
        assert "INDUCTOR_PROVENANCE=1" in fact.detail


def test_a_frame_that_was_begun_again_says_why(logs: dict[str, Log]) -> None:
    """``comp_metrics.log``: three frames, two of which Dynamo began again because of a break."""
    rows = {row.name: row for row in logs["comp_metrics.log"].reader.rows(model.Compilation)}
    assert set(rows) == {"0/0", "1/0", "2/0"}
    assert {name for name, row in rows.items() if row.attempts == 2} == {"0/0", "1/0"}
    assert "graph_break" in rows["0/0"].restart_reasons[0]


def test_a_failure_is_told_with_its_type(logs: dict[str, Log]) -> None:
    """``comp_failure.log``, which is ``chromium_events.log``."""
    log = logs["chromium_events.log"]
    (ended,) = [
        head["compilation_metrics"] for head in log.heads() if "compilation_metrics" in head
    ]
    (failure,) = log.reader.rows(model.Failure)
    assert failure.kind == ended["fail_type"]
    assert failure.message.startswith(f"{ended['fail_type']}: ")
    (row,) = log.reader.rows(model.Compilation)
    assert row.status == "failed"


@pytest.mark.parametrize("name", ALL)
def test_chromium_events_are_spans(logs: dict[str, Log], name: str) -> None:
    log = logs[name]
    ended = re.findall(r'^\t"ph": "E",?$', log.text, re.M)
    began = re.findall(r'^\t"ph": "B",?$', log.text, re.M)
    assert log.reader.count(model.Span) == min(len(began), len(ended))


def test_cache_hits_and_misses_are_those_of_the_log(logs: dict[str, Log]) -> None:
    log = logs["cache_hit_miss.log"]
    told = Counter(
        json.loads(row.value) for row in log.reader.rows(model.Metric, name="cache_event")
    )
    wanted = {kind: count for kind, count in log.kinds().items() if "_cache_" in kind}
    assert told == wanted
    assert (told["fx_graph_cache_miss"], told["fx_graph_cache_hit"]) == (2, 1)
    of = [
        row.compilation
        for row in log.reader.rows(model.Metric, name="cache_event")
        if "fx_graph_cache_hit" in row.value
    ]
    assert log.reader.get(model.Compilation, of[0]).name == "1/0#2"


def test_an_artifact_is_a_document_under_its_name(logs: dict[str, Log]) -> None:
    (kept,) = [
        row
        for row in logs["artifacts.log"].reader.rows(model.Artifact)
        if row.title == "fx_graph_cache_hash"
    ]
    assert json.loads(logs["artifacts.log"].reader.text(kept.text))["key"]


def test_a_link_is_shown_with_its_address(logs: dict[str, Log]) -> None:
    (link,) = [
        row
        for row in logs["links.log"].reader.rows(model.Artifact)
        if row.title == "Link: manifold_url"
    ]
    assert logs["links.log"].reader.text(link.text) == "https://www.google.com"


@pytest.mark.parametrize("name", ["export.log", "export_guard_added.log"])
def test_an_exported_program_is_a_graph_with_what_was_asked_of_its_sizes(
    logs: dict[str, Log], name: str
) -> None:
    log = logs[name]
    (graph,) = log.reader.rows(model.Graph)
    assert (graph.stage, graph.name) == ("front_end", "export")
    assert [row.graph for row in log.reader.rows(model.FrontEnd)] == [graph.id]
    printed = log.payload("exported_program")
    assert [node.name for node in log.reader.nodes(graph) if node.op.startswith("call_")] == [
        found[1] for found in (re.match(r" {12}(\w+): ", line) for line in printed) if found
    ]
    (row,) = log.reader.rows(model.Compilation)
    assert row.name == "torch.export"
    asked = {(head["guard_added"]["expr"]) for head in log.heads() if "guard_added" in head}
    told = log.reader.rows(model.SymbolEvent, compilation=row.id)
    assert {event.expression for event in told if event.kind == "constrained"} == asked != set()
    assert all(event.file.endswith("test_draft_export.py") for event in told)


def test_an_assumed_size_of_an_exported_program_is_told_with_its_line(logs: dict[str, Log]) -> None:
    (assumed,) = logs["export.log"].reader.rows(model.SymbolEvent, kind="assumed")
    assert (assumed.line, assumed.expression, assumed.reason) == (
        279,
        "Eq((((-u0)//3)) + 5, 0)",
        "False",
    )
    (how,) = [
        row
        for row in logs["export.log"].reader.rows(model.Artifact)
        if row.title.startswith("How each size expression")
    ]
    text = logs["export.log"].reader.text(how.text)
    assert "-u0 = neg(u0)" in text
    assert "test_draft_export.py:270: a = -a" in text


@pytest.mark.parametrize("name", EXPECTED)
def test_calls_compute_the_nodes_that_tlparse_says(logs: dict[str, Log], name: str) -> None:
    """tlparse counts lines of the log's texts: a call's from the first line that has something, of
    Python from ``# AOT ID``.
    """
    log = logs[name]
    kinds = log.kinds()
    is_cpp = bool(EXPECTED[name]["cppCodeToPost"])
    code = log.payload("inductor_aot_wrapper_code" if is_cpp else "inductor_output_code")
    passed = log.payload(
        "after_post_grad_graph" if kinds["after_post_grad_graph"] else "inductor_post_grad_graph"
    )
    start = 0 if is_cpp else next(i for i, line in enumerate(code) if "# AOT ID:" in line)
    table = EXPECTED[name]["cppCodeToPost" if is_cpp else "pyCodeToPost"]
    wanted = {
        (code[int(line) - 1 + start], node_name(passed[node - 1]))
        for line, nodes in table.items()
        for node in nodes
    }
    found = set()
    for row in log.reader.rows(model.Artifact, kind="output_code"):
        lines = log.reader.text(row.text).split("\n")
        for link in log.reader.rows(model.LineNode, artifact=row.id):
            found.add((lines[link.line - 1], log.reader.by_ids(model.Node, [link.node])[0].name))
    assert found == wanted != set()


@pytest.mark.parametrize("name", EXPECTED)
def test_nodes_come_from_those_that_tlparse_says(logs: dict[str, Log], name: str) -> None:
    log = logs[name]
    kinds = log.kinds()
    passed = log.payload(
        "after_post_grad_graph" if kinds["after_post_grad_graph"] else "inductor_post_grad_graph"
    )
    given = log.payload(
        "before_pre_grad_graph" if kinds["before_pre_grad_graph"] else "inductor_pre_grad_graph"
    )
    wanted = {
        (node_name(passed[int(node) - 1]), node_name(given[one - 1]))
        for node, origins in EXPECTED[name]["postToPre"].items()
        for one in origins
    }
    assert {(child, parent) for child, parent in origins_of(log.reader)} >= wanted != set()


def origins_of(reader: SessionReader) -> Iterator[tuple[str, str]]:
    """Which nodes after Inductor's passes come from which before them, by walking the links."""
    graphs = {row.id: row.stage for row in reader.rows(model.Graph)}
    parents: dict[int, list[int]] = {}
    for link in reader.rows(model.Link):
        parents.setdefault(link.child, []).append(link.parent)
    for graph in reader.rows(model.Graph, stage="post_grad"):
        for node in reader.nodes(graph):
            pending = [node.id]
            while pending:
                following = parents.get(pending.pop(), [])
                for parent in reader.by_ids(model.Node, following):
                    if graphs[parent.graph] == "pre_grad":
                        yield node.name, parent.name
                pending += following


def node_name(line: str) -> str:
    return line.split("=")[0].split(":")[0].strip()


@pytest.mark.parametrize(
    "name", ["inductor_provenance_aot_cuda_log.txt", "inductor_provenance_aot_log.txt"]
)
def test_kernels_of_aot_inductor_have_their_code(logs: dict[str, Log], name: str) -> None:
    reader = logs[name].reader
    (row,) = reader.rows(model.Compilation)
    assert (row.name, row.status, row.function) == ("AOTInductor", "ok", "main")
    kernels = [kernel for kernel in reader.rows(model.Kernel) if kernel.language != "extern"]
    assert len(kernels) >= 2
    for kernel in kernels:
        assert f"{kernel.name}(" in reader.text(reader.get(model.Artifact, kernel.artifact).text)


def test_the_overview_of_a_program_without_dynamo_does_not_say_that_nothing_was_compiled(
    logs: dict[str, Log],
) -> None:
    for name, what in (
        ("export.log", "torch.export"),
        ("inductor_provenance_aot_cuda_log.txt", "AOTInductor"),
    ):
        (said,) = [fact.text for fact in overview(logs[name].reader) if fact.topic == "graphs"]
        assert said == f"The log has {what}, and no compilation by torch.compile."


def test_a_part_that_is_compiled_by_itself_names_the_part(tmp_path: Path) -> None:
    """``subgraph_name.log`` of tlparse 0.4.8, whose records these are."""
    text = (
        'V0429 16:46:27.745000 3930665 /torch/_inductor/compile_fx.py:1313] {"artifact": {"name": "fx_graph_runnable", '
        '"encoding": "string"}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, '
        '"subgraph_name": "repeated_subgraph0", "has_payload": '
        '"dcffdffe5e74fe67eaf327b0453e379a"}\n\ttest payload subgraph A\n'
    )
    log = opened("subgraph_name.log", tmp_path, text)
    assert [row.title for row in log.reader.rows(model.Artifact)] == [
        "Script that runs the graph · repeated_subgraph0"
    ]
    assert damage(log.reader) == []
    log.reader.close()


@pytest.mark.parametrize("name", ALL)
def test_a_report_can_be_made_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert cli.main(["report", str(LOGS / f"{name}.gz")]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["skipped_records"] == 0
