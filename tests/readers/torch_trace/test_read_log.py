"""These tests read logs that torch wrote on an H200: the session agrees with the log's lines,
counted straight from them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

ALL = sorted(str(path.relative_to(LOGS)) for path in LOGS.rglob("*.log.gz"))

GRAPHS = {
    "dynamo_output_graph": ("dynamo", ""),
    "aot_joint_graph": ("joint", ""),
    "aot_forward_graph": ("forward", "forward"),
    "aot_backward_graph": ("backward", "backward"),
    "aot_inference_graph": ("forward", "inference"),
}


@pytest.fixture(scope="module", params=ALL)
def log(request: pytest.FixtureRequest) -> Path:
    return LOGS / str(request.param)


@pytest.fixture(scope="module")
def reader(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    session = tmp_path_factory.mktemp("log") / "s.fxs"
    read_log(log, session)
    with SessionReader(session) as opened:
        yield opened


@pytest.fixture(scope="module")
def text(log: Path) -> str:
    return gzip.decompress(log.read_bytes()).decode()


def heads(text: str) -> list[dict[str, object]]:
    """The JSON of every record."""
    return [json.loads(line.split("] ", 1)[1]) for line in text.split("\n") if line.startswith("V")]


def test_no_record_is_left_out(reader: SessionReader, text: str) -> None:
    told = reader.meta("log", {})
    assert (reader.meta("skipped_records"), told["wrong_hashes"], told["damaged_lines"]) == (
        0,
        0,
        [],
    )
    assert told["unknown"] == {}
    assert told["records"] == sum(line.startswith("V") for line in text.split("\n"))


def test_compilations_are_those_that_torch_ended(reader: SessionReader, text: str) -> None:
    ended = [head["compilation_metrics"] for head in heads(text) if "compilation_metrics" in head]
    names = [row["compile_id"] for row in ended if isinstance(row, dict)]
    rows = {row.name: row for row in reader.rows(model.Compilation) if row.status != "restarted"}
    assert set(names) <= set(rows)
    for row in ended:
        assert isinstance(row, dict)
        found = rows[row["compile_id"]]
        assert found.duration_s == pytest.approx(row["entire_frame_compile_time_s"])
        assert found.attempts == 1 + len(row["restart_reasons"])


def test_every_graph_of_the_log_is_a_graph_of_the_session(reader: SessionReader, text: str) -> None:
    wanted = Counter(GRAPHS[kind] for head in heads(text) for kind in GRAPHS if kind in head)
    found = Counter(
        (row.stage, row.direction) for row in reader.rows(model.Graph, parent=0, name="")
    )
    assert {key: found[key] for key in wanted} == dict(wanted)


def test_dynamos_graphs_have_as_many_nodes_as_torch_counted(
    reader: SessionReader, text: str
) -> None:
    counted = {
        str(row["compile_id"]): row["graph_node_count"]
        for head in heads(text)
        if isinstance(row := head.get("compilation_metrics"), dict) and row.get("graph_node_count")
    }
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    found = {
        names[row.compilation]: row.node_count
        for row in reader.rows(model.Graph, stage="dynamo", parent=0)
    }
    assert found
    assert {name: counted.get(name, count) for name, count in found.items()} == found


def test_every_input_of_a_node_is_an_edge(reader: SessionReader) -> None:
    for graph in reader.rows(model.Graph):
        nodes = {node.name: node for node in reader.nodes(graph)}
        (output,) = [node for node in nodes.values() if node.op == "output"]
        words = set(re.findall(r"\w+", output.arguments)) & set(nodes)
        producers = {edge.producer for edge in reader.rows(model.Edge, consumer=output.id)}
        assert {nodes[word].id for word in words} == producers


def test_breaks_and_recompiles_are_those_of_the_log(reader: SessionReader, text: str) -> None:
    places = re.findall(r"^\tGraph break in user code at (.+):(\d+)$", text, re.M)
    rows = list(reader.rows(model.GraphBreak))
    assert len(rows) == len(places)
    for row, (file, line) in zip(
        rows, places, strict=True
    ):  # a break in torch's own code is told at the user's line
        assert "/torch/" in file or (row.file, str(row.line)) == (file, line)
        assert "/torch/" not in row.file
    reasons = sum(
        '"recompile_reasons"' in line for line in text.split("\n") if line.startswith("V")
    )
    assert len({row.compilation for row in reader.rows(model.Recompile)}) == reasons


def test_options_are_those_that_torch_wrote(reader: SessionReader, text: str) -> None:
    groups = {
        "dynamo_config": "dynamo",
        "inductor_config": "inductor",
        "compiler_config": "compiler",
    }
    written = set()
    for head in heads(text):
        metrics = head.get("compilation_metrics")
        if isinstance(metrics, dict):
            for field, group in groups.items():
                for name, value in json.loads(metrics[field]).items():
                    written.add((f"{group}.{name}", json.dumps(value)))
    rows = reader.rows(model.OptionInForce)
    assert {row.set_by for row in rows} == {"not recorded"}
    found = [(row.name, row.value) for row in rows]
    assert len(found) == len(set(found)), "no value twice"
    of_metrics = {row for row in found if not row[0].startswith("functorch.")}
    assert of_metrics == {row for row in written if not row[0].endswith(".TYPE_CHECKING")}
    config = '"torch._functorch.config"' in text
    assert (("functorch.activation_memory_budget", "1.0") in found) == config


def test_kernels_are_those_of_the_output_code_and_say_what_they_compute(
    reader: SessionReader, text: str
) -> None:
    names = re.findall(r"^\t(\w+) = async_compile\.triton\(", text, re.M)
    triton = [row for row in reader.rows(model.Kernel) if row.language == "triton"]
    assert sorted(row.name for row in triton) == sorted(names)
    assert all(row.artifact and row.output_code and row.first_line for row in triton)
    for row in triton:
        assert "def " in reader.text(reader.by_ids(model.Artifact, [row.artifact])[0].text)


def test_checks_are_the_leaves_of_the_guard_trees(reader: SessionReader, text: str) -> None:
    leaves = re.findall(r"^\t(?:\| )*\+- (?!\w*Manager)[A-Z_]+: ", text, re.M)
    assert reader.count(model.GuardCheck) == len(leaves)


def test_what_a_trained_model_computes_is_linked_to_what_dynamo_saw(reader: SessionReader) -> None:
    """torch tells it of the forward; its table of a backward is empty in this release."""
    graphs = {row.id: row for row in reader.rows(model.Graph)}
    kinds = Counter[tuple[str, str]]()
    for link in reader.rows(model.Link):
        nodes = {node.id: node for node in reader.by_ids(model.Node, [link.child, link.parent])}
        child, parent = (graphs[nodes[one].graph] for one in (link.child, link.parent))
        assert child.compilation == parent.compilation
        kinds[child.stage, parent.stage] += 1
    if reader.rows(model.Graph, stage="joint", name="", parent=0) and reader.count(model.Kernel):
        wanted = {
            ("pre_grad", "dynamo"),
            ("joint", "pre_grad"),
            ("forward", "joint"),
            ("post_grad", "forward"),
        }
        assert wanted <= set(kinds)
