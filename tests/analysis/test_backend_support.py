"""These tests check segments and the code between them: the parts of small graphs by hand, and a
backend in a target file of 30 lines counted by hand, with the sentences about it.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

import jsonschema
import pytest

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import (
    SEGMENT_KEY,
    first_place,
    positions_in,
    regions_at,
)
from fx_explorer.analysis.documents import Place
from fx_explorer.cli import main
from fx_explorer.command_line.narrated_capture import describe_support
from fx_explorer.instruments.backends.amounts import BackendPart, neighbours, parts_of, summaries
from fx_explorer.instruments.backends.report import (
    FORMATS,
    operator_table,
    part_table,
    support_object,
)
from fx_explorer.instruments.backends.support import (
    GraphSupport,
    amount_of,
    backend_support,
    operator_rows,
)
from fx_explorer.instruments.backends.verdict import (
    NO_BACKEND,
    explain_splits,
    verdict,
    why_unknown,
)
from fx_explorer.overview.overview import overview
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import ROOT, Captured, OpenedReader
from tests.exhaustive import in_exhaustive_runs

FILE = ROOT / "tests" / "data" / "small_backend.py"


# parts of graphs, by hand


def test_what_falls_back_stands_between_the_segments_that_need_it() -> None:
    # 10 in segment 1, 11 and 12 fall back side by side, 13 in segment 2 needs both.
    segments = {10: 1, 11: 0, 12: 0, 13: 2}
    edges = [(10, 11), (10, 12), (11, 13), (12, 13)]
    assert parts_of(segments, edges) == (
        [BackendPart(1, (10,)), BackendPart(0, (11, 12)), BackendPart(2, (13,))],
        False,
    )


def test_what_falls_back_before_and_after_a_segment_is_two_parts() -> None:
    # 1 falls back, segment 1 needs it, and 3 needs both.
    assert parts_of({1: 0, 2: 1, 3: 0}, [(1, 2), (1, 3), (2, 3)])[0] == [
        BackendPart(0, (1,)),
        BackendPart(1, (2,)),
        BackendPart(0, (3,)),
    ]


def test_a_segment_whose_nodes_stand_apart_in_the_graph_is_one_part() -> None:
    # torch puts what does not need each other into one segment: 1 and 3 around 2.
    assert parts_of({1: 1, 2: 0, 3: 1}, [])[0] == [BackendPart(0, (2,)), BackendPart(1, (1, 3))]


def test_segments_that_need_each_other_in_a_circle_are_told() -> None:
    parts, is_circular = parts_of({1: 1, 2: 2, 3: 1}, [(1, 2), (2, 3)])
    assert is_circular
    assert {one.segment for one in parts} == {1, 2}


def test_an_operator_splits_the_segments_that_it_leads_from_and_to() -> None:
    # 1 (segment 1) → 2 → 3 → 4 (segment 2); 5 needs nothing, 6 is needed by nothing.
    segments = {1: 1, 2: 0, 3: 0, 4: 2, 5: 0, 6: 0}
    needs, needed_by = neighbours(segments, [(1, 2), (2, 3), (3, 4), (5, 4), (1, 6)])
    assert {node: set(found) for node, found in needs.items()} == {2: {1}, 3: {1}, 5: set(), 6: {1}}
    assert {node: set(found) for node, found in needed_by.items()} == {
        2: {2},
        3: {2},
        5: {2},
        6: set(),
    }


# the backend of 30 lines, by hand


@pytest.fixture
def session(captured: Captured) -> Path:
    return captured(FILE, backend=f"{FILE}:small", train=False)


@pytest.fixture
def graph(session: Path, reader: OpenedReader) -> GraphSupport:
    (found,) = backend_support(reader(session))
    return found


X, WEIGHT_1, BIAS_1, HIDDEN, WEIGHT_2, BIAS_2, OUT = (
    4 * n for n in (3 * 16, 32 * 16, 32, 3 * 32, 4 * 32, 4, 3 * 4)
)
"""Bytes of the tensors in the program."""

MOVED = {
    "aten.addmm": (X + WEIGHT_1 + BIAS_1 + HIDDEN) + (HIDDEN + WEIGHT_2 + BIAS_2 + OUT),
    "aten.relu": 2 * HIDDEN,
    "aten.i0": 2 * HIDDEN,
    "aten._softmax": 2 * OUT,
    "aten.t": 0,
}


def test_the_operators_have_the_calls_and_the_work_that_a_count_by_hand_finds(
    graph: GraphSupport,
) -> None:
    rows = {row.operator: row for row in operator_rows([graph])}
    assert {name: row.amount.count for name, row in rows.items()} == {
        **dict.fromkeys(("aten.relu", "aten.i0", "aten._softmax"), 1),
        **dict.fromkeys(("aten.addmm", "aten.t"), 2),
    }
    assert {name: row.amount.size_bytes for name, row in rows.items()} == MOVED
    assert {name: row.amount.flops for name, row in rows.items() if row.amount.flops} == {
        "aten.addmm": 2 * 3 * 16 * 32 + 2 * 3 * 32 * 4
    }
    assert {name for name, row in rows.items() if row.supported} == {
        "aten.addmm",
        "aten.t",
        "aten.relu",
    }
    why = ("only linear layers and ReLU are taken",)
    refused = {name: row.reasons for name, row in rows.items() if row.falls_back}
    assert refused == {"aten.i0": why, "aten._softmax": why}


def test_what_crosses_the_borders_is_counted_by_hand(graph: GraphSupport) -> None:
    found = [
        (
            one.part.segment,
            [each.node.name for each in one.nodes],
            {each.size_bytes for each in one.takes.given},
            [each.size_bytes for each in one.takes.computed],
            [each.size_bytes for each in one.gives.crossings],
        )
        for one in graph.parts
    ]
    assert found == [
        (1, ["t", "addmm", "relu"], {X, WEIGHT_1, BIAS_1}, [], [HIDDEN]),
        (0, ["i0"], set(), [HIDDEN], [HIDDEN]),
        (2, ["t_1", "addmm_1"], {WEIGHT_2, BIAS_2}, [HIDDEN], [OUT]),
        (0, ["_softmax"], set(), [OUT], [OUT]),
    ]


def test_it_is_said_in_words_how_much_is_supported_who_says_so_and_what_splits(
    session: Path, graph: GraphSupport, reader: OpenedReader
) -> None:
    supported, whole = sum(MOVED[name] for name in ("aten.addmm", "aten.relu")), sum(MOVED.values())
    shares = f"100 % of the FLOPs, {100 * supported / whole:.0f} % of the bytes"
    said = verdict(summaries(reader(session)), [graph])
    assert said[0] == f"small supports 5 of 7 operators in 1 graph: {shares}."
    assert said[1] == f"5 operators are in 2 segments: {shares}. PyTorch runs the other 2."
    assert said[2].startswith("Of the unsupported operators, aten.i0 (1 call, ")
    assert said[3].startswith(
        "fx-explorer asked operator_support of small_backend.py, an instance of its class "
        "LinearLayers, and torch's partitioner"
    )
    assert explain_splits(graph) == [
        "aten.i0 is not supported (only linear layers and ReLU are taken), and segment 2 needs its result, "
        "which needs segment 1."
    ]


def test_the_session_adds_up_to_what_the_nodes_add_up_to(
    session: Path, graph: GraphSupport, reader: OpenedReader
) -> None:
    (summary,) = summaries(reader(session))
    assert summary.whole == amount_of(graph.nodes)
    assert summary.supported == amount_of(
        one for one in graph.nodes if one.row.support == "supported"
    )
    assert summary.in_segments == amount_of(one for one in graph.nodes if one.row.segment)
    assert (summary.graphs, summary.segments, summary.unknown.count) == (1, len(graph.segments), 0)


@in_exhaustive_runs
def test_aot_eager_does_not_say_and_its_operators_are_counted(
    captured: Captured, reader: OpenedReader
) -> None:
    opened = reader(captured(FILE, backend="aot_eager", train=False))
    (graph,) = backend_support(opened)
    assert verdict(summaries(opened), [graph])[0] == (
        "aot_eager does not say which operators it supports: 7 operators in 1 graph, 3.8 kFLOP, "
        f"{sum(MOVED.values()) / 1000:.1f} kB."
    )
    assert (graph.parts, explain_splits(graph)) == ((), [])
    assert {row[4] for row in operator_table(operator_rows([graph]))} == {"unknown"}


def test_the_overview_says_it(session: Path, reader: OpenedReader) -> None:
    facts = [fact for fact in overview(reader(session)) if fact.topic == "backend"]
    assert [fact.view for fact in facts] == ["support", "support"]
    assert "supports 5 of 7 operators" in facts[0].text


def test_segments_and_what_falls_back_are_regions(
    session: Path, graph: GraphSupport, reader: OpenedReader
) -> None:
    opened = reader(session)
    rows = {one.node.name: one.node.position for one in graph.nodes}
    assert regions_at(opened, Place(graph.document, rows["addmm"])) == [(SEGMENT_KEY, "segment 1")]
    assert regions_at(opened, Place(graph.document, rows["i0"])) == [(SEGMENT_KEY, "falls back")]
    assert positions_in(opened, graph.document, (SEGMENT_KEY, "falls back")) == [
        rows["i0"],
        rows["_softmax"],
    ]
    assert positions_in(opened, graph.document, (SEGMENT_KEY, "segment 2")) == [
        rows["t_1"],
        rows["addmm_1"],
    ]
    assert first_place(opened, (SEGMENT_KEY, "segment 2")) == Place(graph.document, rows["t_1"])


# the command and the reports


def test_every_format_tells_the_same(
    session: Path, graph: GraphSupport, reader: OpenedReader
) -> None:
    opened = reader(session)
    said = verdict(summaries(opened), [graph])
    told = {name: write(str(FILE), summaries(opened), [graph]) for name, write in FORMATS.items()}
    parsed = json.loads(told["json"])
    assert parsed["schema"] == "fx-explorer/support/1"
    assert [part["segment"] for part in parsed["graphs"][0]["parts"]] == [1, None, 2, None]
    lines = list(csv.DictReader(io.StringIO(told["csv"])))
    assert [(line["node"], line["support"], line["segment"]) for line in lines] == [
        ("t", "supported", "1"),
        ("addmm", "supported", "1"),
        ("relu", "supported", "1"),
        ("i0", "falls_back", ""),
        ("t_1", "supported", "2"),
        ("addmm_1", "supported", "2"),
        ("_softmax", "falls_back", ""),
    ]
    for row in part_table(graph):
        assert f"| {' | '.join(row)} |" in told["markdown"]
    assert all(sentence in told["text"] for sentence in (*said, *explain_splits(graph)))


def test_the_report_has_it_as_its_schema_says(
    session: Path, captured: Captured, reader: OpenedReader
) -> None:
    schema = json.loads((ROOT / "docs" / "reference" / "report-schema.json").read_text())
    opened = reader(session)
    made = json_report(opened)
    jsonschema.validate(made, schema)
    assert made["support"] == json.loads(
        json.dumps(support_object(summaries(reader(session)), backend_support(reader(session))))
    )
    assert json_report(reader(captured("mlp")))["support"] is None


def test_the_command_tells_a_sessions_support_and_says_why_there_is_none(
    session: Path, captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["support", str(session)]) == 0
    assert "supports 5 of 7 operators" in capsys.readouterr().out
    assert main(["support", str(captured("mlp"))]) == 2
    told = capsys.readouterr()
    assert (told.out, "Inductor supports every operator" in told.err) == ("", True)


def test_a_capture_ends_with_how_much_is_supported(session: Path, captured: Captured) -> None:
    first, *_, last = describe_support(session)
    assert first.startswith("small supports 5 of 7 operators")
    assert last == f"operators and segments: fx-explorer support {session}"
    assert describe_support(captured("mlp")) == []


def test_values_of_a_damaged_session_are_refused(session: Path, tmp_path: Path) -> None:
    import sqlite3

    from fx_explorer.errors import NotASessionError

    copy = tmp_path / "s.fxs"
    copy.write_bytes(session.read_bytes())
    with sqlite3.connect(copy) as database:
        database.execute("UPDATE node_support SET support = 'perhaps'")
    with SessionReader(copy) as opened, pytest.raises(NotASessionError):
        opened.rows(model.NodeSupport)


@pytest.mark.parametrize(
    ("backend", "kind", "said"),
    [
        (
            "mine.py:mine",
            "exited",
            (
                "The operators that mine.py:mine supports are not known: the capture ended before the "
                "backend finished a graph"
            ),
        ),
        (
            "mine.py:mine",
            "killed",
            (
                "The operators that mine.py:mine supports are not known: the capture ended before the "
                "backend finished a graph"
            ),
        ),
        ("inductor", "killed", NO_BACKEND),
        ("inductor", "finished", NO_BACKEND),
    ],
)
def test_a_backend_that_ended_the_process_is_not_told_as_inductor(
    backend: str, kind: model.OutcomeKind, said: str, tmp_path: Path
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("request", asdict(model.CaptureRequest("m.py", "s.fxs", backend=backend)))
        writer.set_meta("outcome", model.Outcome(kind, "while calling M", exit_code=4).to_json())
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert why_unknown(reader).startswith(said)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_backend_of_torchs_own_that_does_not_say_what_it_supports_is_no_finding(
    captured: Captured, reader: OpenedReader, backend: str
) -> None:
    facts = overview(reader(captured("mlp", backend=backend)))
    assert not [fact.text for fact in facts if fact.topic == "backend" or "support" in fact.text]
