"""These tests check an unpacked log: events are found first, graphs, guards and code are decoded
after that, and its texts stay in the file.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.errors import NotASessionError
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.opened import TextsOfLog
from fx_explorer.readers.torch_trace.read_log import LogReading, Progress
from fx_explorer.session import SessionReader
from fx_explorer.session.elsewhere import register_texts_elsewhere

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

NAMES = ("graph_breaks", "recompiles", "gpt_block_train", "ranks_diverge/rank_1")

DECODED_LATER = (
    model.Graph,
    model.Node,
    model.Link,
    model.Kernel,
    model.LineNode,
    model.GuardCheck,
)

KNOWN_AT_ONCE = (model.GraphBreak, model.Recompile, model.Symbol, model.Span, model.Metric)


def packed(name: str) -> Path:
    path = LOGS / f"h200_{name}.log.gz"
    return path if path.exists() else LOGS / f"h200_{name.replace('.log', '')}.log.gz"


@pytest.fixture(params=NAMES)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An unpacked log."""
    unpacked = tmp_path / "unpacked.log"
    unpacked.write_bytes(gzip.decompress(packed(request.param).read_bytes()))
    return unpacked


@pytest.fixture
def reading(log: Path, tmp_path: Path) -> Iterator[LogReading]:
    with LogReading(log, tmp_path / "s.fxs", leave_texts=True) as made:
        register_texts_elsewhere(tmp_path / "s.fxs", TextsOfLog(log))
        yield made


def told_by(reader: SessionReader) -> dict[str, Counter[object]]:
    """Everything that a session says, without the ids of its rows."""
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    graphs = {
        row.id: (names.get(row.compilation, ""), row.stage, row.direction, row.name)
        for row in reader.rows(model.Graph)
    }
    nodes = {
        row.id: (*graphs[row.graph], row.position, row.name) for row in reader.rows(model.Node)
    }
    artifacts = {
        row.id: (names.get(row.compilation, ""), row.kind, row.title)
        for row in reader.rows(model.Artifact)
    }
    found: dict[str, list[object]] = {
        "compilations": [
            (row.name, row.status, row.missing_stages, row.duration_s)
            for row in reader.rows(model.Compilation)
        ],
        "graphs": [
            (*graphs[row.id], row.node_count, row.call_count) for row in reader.rows(model.Graph)
        ],
        "nodes": [
            (*nodes[row.id], row.op, row.target, row.arguments, row.shape, row.line)
            for row in reader.rows(model.Node)
        ],
        "edges": [(nodes[row.producer], nodes[row.consumer]) for row in reader.rows(model.Edge)],
        "links": [
            (nodes[row.child], nodes[row.parent], row.how) for row in reader.rows(model.Link)
        ],
        "lines": [
            (artifacts[row.artifact], row.line, nodes[row.node], row.how)
            for row in reader.rows(model.LineNode)
        ],
        "texts": [
            (*artifacts[row.id], row.line_count, reader.text(row.text))
            for row in reader.rows(model.Artifact)
        ],
        "kernels": [
            (names[row.compilation], row.name, row.position, row.first_line)
            for row in reader.rows(model.Kernel)
        ],
        "checks": [
            (names[row.compilation], row.kind, row.source, row.code)
            for row in reader.rows(model.GuardCheck)
        ],
        "breaks": [
            (names[row.compilation], row.cause, row.line) for row in reader.rows(model.GraphBreak)
        ],
    }
    return {what: Counter(map(repr, rows)) for what, rows in found.items()}


def test_it_says_what_a_packed_log_says_which_is_decoded_in_its_own_order(
    log: Path, tmp_path: Path
) -> None:
    (tmp_path / "packed.log").write_bytes(gzip.compress(log.read_bytes()))
    for name in ("packed", "unpacked"):
        read_log(tmp_path / f"{name}.log", tmp_path / f"{name}.fxs")
    with (
        SessionReader(tmp_path / "packed.fxs") as of_packed,
        SessionReader(tmp_path / "unpacked.fxs") as of_plain,
    ):
        assert told_by(of_plain) == told_by(of_packed)
        assert of_plain.meta("log") == of_packed.meta("log")


def test_what_happened_is_there_before_anything_is_decoded(
    reading: LogReading, tmp_path: Path
) -> None:
    reading.find()
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [reader.count(row_type) for row_type in DECODED_LATER] == [0] * len(DECODED_LATER)
        found = {row_type: reader.count(row_type) for row_type in KNOWN_AT_ONCE}
        compilations = [(row.name, row.status) for row in reader.rows(model.Compilation)]
        assert reader.meta("outcome") is None
        counts = reader.meta("log")
    reading.decode()
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert (
            [(row.name, row.status) for row in reader.rows(model.Compilation)] == compilations != []
        )
        decoded = {
            row_type: reader.count(row_type)
            for row_type in KNOWN_AT_ONCE
            if row_type is not model.Metric
        }
        assert decoded == {
            row_type: count for row_type, count in found.items() if row_type is not model.Metric
        }
        assert reader.count(model.Graph) > 0
        assert reader.meta("log") == counts
        assert reader.meta("outcome")["kind"] == "finished"


def test_its_texts_are_read_where_they_lie_and_a_copy_has_them(
    log: Path, reading: LogReading, tmp_path: Path
) -> None:
    reading.find()
    reading.decode()
    read_log(log, tmp_path / "with_texts.fxs")
    copy_session(tmp_path / "s.fxs", session_file(tmp_path / "copy.fxs"))
    with (
        SessionReader(tmp_path / "s.fxs") as left,
        SessionReader(tmp_path / "with_texts.fxs") as whole,
    ):
        elsewhere = left.query("SELECT count(*) FROM text WHERE base < 0")[0][0]
        assert elsewhere > 0
        assert whole.query("SELECT count(*) FROM text WHERE base < 0") == [(0,)]
        expected = told_by(whole)
        assert told_by(left) == expected
    log.unlink()
    with SessionReader(tmp_path / "copy.fxs") as copy:
        assert told_by(copy) == expected


def test_a_text_of_a_log_that_was_changed_since_is_not_shown(
    log: Path, reading: LogReading, tmp_path: Path
) -> None:
    reading.find()
    log.write_bytes(log.read_bytes()[:20_000] + b"\n")
    reading.decode()
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("skipped_records") > 0
        texts = [reader.text(row.text) for row in reader.rows(model.Artifact)]
        assert any("was changed or removed after" in text for text in texts)


def test_the_compilation_that_is_looked_at_is_decoded_first(log: Path, tmp_path: Path) -> None:
    graphs: list[set[str]] = []

    def tell(progress: Progress) -> None:
        with SessionReader(tmp_path / "s.fxs") as reader:
            names = {row.id: row.name for row in reader.rows(model.Compilation)}
            graphs.append({names[row.compilation] for row in reader.rows(model.GuardCheck)})

    with LogReading(log, tmp_path / "s.fxs", tell=tell) as reading:
        reading.find()
        graphs.clear()
        with SessionReader(tmp_path / "s.fxs") as reader:
            last = reader.rows(model.Compilation)[-1]
        reading.decode(lambda: last.id)
    assert graphs[0] <= {last.name}
    assert graphs[-1] > graphs[0] or len(graphs) == 1


def test_nobodys_session_can_name_a_file_of_the_users(reading: LogReading, tmp_path: Path) -> None:
    """What lies elsewhere is read by who was told of it only, in the process that was told."""
    reading.find()
    stranger = tmp_path / "stranger.fxs"
    stranger.write_bytes((tmp_path / "s.fxs").read_bytes())
    reading.__exit__(None, None, None)
    stranger.write_bytes((tmp_path / "s.fxs").read_bytes())
    with SessionReader(stranger) as reader:
        (text,) = reader.query("SELECT id FROM text WHERE base < 0 LIMIT 1")[0]
        with pytest.raises(NotASessionError, match="no reader for that file is registered"):
            reader.text(text)
