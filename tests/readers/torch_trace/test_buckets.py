"""These tests read a log of DistributedDataParallel: each bucket of its graph has its own graphs,
links and code. The program had two buckets (torch 2.13, on the CPU; records without a test here
were left out).
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import artifact_title, graph_title
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.read_log import LogReading
from fx_explorer.session import SessionReader
from tests.ranks.logs_of_ranks import DATA

LOG = DATA / "ddp_buckets.log.gz"

BUCKETS = ("bucket 1 of 2", "bucket 2 of 2")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("buckets") / "log.fxs"
    read_log(LOG, path)
    with SessionReader(path) as reader:
        yield reader


def records() -> Iterator[tuple[dict[str, object], str]]:
    """The records of the log, with their texts."""
    found: list[tuple[dict[str, object], list[str]]] = []
    for line in gzip.decompress(LOG.read_bytes()).decode().splitlines():
        if line.startswith("\t"):
            found[-1][1].append(line[1:])
        else:
            found.append((json.loads(line[line.index("{") :]), []))
    yield from ((fields, "\n".join(text)) for fields, text in found)


def test_every_stage_has_as_many_graphs_as_there_are_buckets(session: SessionReader) -> None:
    assert sum("optimize_ddp_split_child" in fields for fields, _ in records()) == len(BUCKETS)
    graphs = [graph for graph in session.rows(model.Graph) if graph.stage != "dynamo"]
    expected = [(stage, "") for stage in ("pre_grad", "joint")]
    expected += [
        (stage, direction)
        for direction in ("forward", "backward")
        for stage in (direction, "post_grad")
    ]
    assert Counter((graph.label, graph.stage, graph.direction) for graph in graphs) == {
        (label, *key): 1 for label in BUCKETS for key in expected
    }


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_bucket_computes_what_torch_put_into_it(session: SessionReader, bucket: str) -> None:
    """Names of operations that AOTAutograd traces from a bucket: torch's layers keep their
    parameters' order.
    """
    children = [text for fields, text in records() if "optimize_ddp_split_child" in fields]
    layers = len(re.findall(r"= torch\._C\._nn\.linear\(", children[BUCKETS.index(bucket)]))
    (forward,) = (one for one in session.rows(model.Graph, stage="forward") if one.label == bucket)
    assert sum("addmm" in node.target for node in session.nodes(forward)) == layers == 2


def test_links_stay_in_their_bucket_up_to_dynamos_graph(session: SessionReader) -> None:
    labels = {graph.id: graph.label for graph in session.rows(model.Graph)}
    label_of = {
        node.id: labels[graph.id]
        for graph in session.rows(model.Graph)
        for node in session.nodes(graph)
    }
    pairs = Counter(
        (label_of[link.child], label_of[link.parent]) for link in session.rows(model.Link)
    )
    assert set(pairs) == {(label, label) for label in BUCKETS} | {(label, "") for label in BUCKETS}


def test_documents_name_their_bucket(session: SessionReader) -> None:
    titles = {artifact_title(one) for one in session.rows(model.Artifact, kind="output_code")}
    assert titles == {
        f"Output code · {direction} · {label}"
        for label in BUCKETS
        for direction in ("forward", "backward")
    }
    assert "Backward · post-grad · bucket 2 of 2" in {
        graph_title(one) for one in session.rows(model.Graph)
    }


def test_breaks_around_the_model_are_those_of_torchs_wrapper_and_no_problem(
    session: SessionReader,
) -> None:
    hits = sum(
        fields.get("artifact", {}).get("name") == "dynamo_graph_break_reason"
        for fields, _ in records()
    )  # type: ignore[attr-defined]
    breaks = distinct_breaks(session)
    assert sum(one.count for one in breaks) == hits == 3
    assert all(one.is_wrappers for one in breaks)
    facts = overview(session)
    assert not [fact for fact in facts if fact.severity == "problem"]
    assert any(
        fact.text == "torch split the graph of forward into 2 buckets (DDPOptimizer)."
        for fact in facts
    )


def test_a_bucket_is_decoded_the_same_where_graphs_are_read_later(tmp_path: Path) -> None:
    """The app puts graphs off until all records were found."""
    plain = tmp_path / "ddp.log"
    plain.write_bytes(gzip.decompress(LOG.read_bytes()))
    read_log(plain, tmp_path / "later.fxs")
    read_log(LOG, tmp_path / "in order.fxs")
    found = []
    for name in ("later.fxs", "in order.fxs"):
        with SessionReader(tmp_path / name) as reader:
            found.append(
                sorted(
                    (one.label, one.stage, one.direction, one.node_count)
                    for one in reader.rows(model.Graph)
                )
            )
    assert found[0] == found[1]


class LookedAt:
    """A log that is looked at again and again while it grows: at these places there is nothing more
    for a moment.
    """

    idle_s = 0.0

    def __init__(self, file: BinaryIO, content: bytes, places: list[int]) -> None:
        self.file = file
        self._content, self._places = content, places
        self._looks = 0

    def blocks(self) -> Iterator[bytes]:
        begin = 0
        for end in [*self._places, len(self._content)]:
            yield self._content[begin:end]
            yield b""
            begin = end

    def wait(self, tell: object) -> bool:
        self._looks += 1
        return self._looks <= len(self._places)

    def end(self) -> None:
        pass


def in_buckets(session: Path) -> tuple[Counter[tuple[str, ...]], int]:
    with SessionReader(session) as reader:
        graphs = Counter(
            (graph.label, graph.stage, graph.direction) for graph in reader.rows(model.Graph)
        )
        return graphs, reader.count(model.Link)


@pytest.mark.parametrize("every", [1, 40])
def test_graphs_are_of_the_same_buckets_whenever_a_log_was_looked_at_while_it_grew(
    every: int, tmp_path: Path
) -> None:
    content = gzip.decompress(LOG.read_bytes())
    begins = [found.start() for found in re.finditer(rb"(?m)^V\d{4} ", content)]
    log = tmp_path / "job.log"
    log.write_bytes(content)
    read_log(log, tmp_path / "whole.fxs")
    with LogReading(log, tmp_path / "followed.fxs") as reading, log.open("rb") as file:
        reading.follow(LookedAt(file, content, begins[every::every]))  # type: ignore[arg-type]
    assert in_buckets(tmp_path / "followed.fxs") == in_buckets(tmp_path / "whole.fxs")
