"""The short ways of reading a printed graph give what the long ways give, and rows that are written
column by column are what rows written one by one are.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer.model import Graph, GuardCheck, Kernel, Node, SourceFile
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.records import Damage, records
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.torch_texts import printed_graph
from fx_explorer.torch_texts.printed_graph import (
    PrintedGraph,
    _parsed_operation,
    operation_of,
    read_graphs,
)

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

COLLECTIVES = LOGS.parent / "collectives"
"""A program, and its log by torch 2.13 with INDUCTOR_PROVENANCE=1 and a fake process group."""


def printed_graphs() -> Iterator[str]:
    for log in sorted(LOGS.glob("h200_*.log.gz")):
        for record in records([gzip.decompress(log.read_bytes())], Damage()):
            if record and "(torch.nn.Module):" in record.payload and "graph" in record.name:
                yield record.payload


def flat(graphs: list[PrintedGraph]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for graph in graphs:
        rows.append((graph.name, graph.unread, *graph.nodes))
        rows += flat(graph.children)
    return rows


def test_graphs_of_torch_read_the_same_without_the_match_of_a_whole_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = list(printed_graphs())
    at_once = [flat(read_graphs(text)) for text in texts]
    monkeypatch.setattr(printed_graph, "_OVERLOAD_LINE", printed_graph.re.compile("(?!)"))
    assert [flat(read_graphs(text)) for text in texts] == at_once
    assert sum(map(len, at_once)) > 50


@pytest.mark.parametrize(
    "expression",
    [
        "x.view(2, 128, 4, -1)",
        "x.view((2, 256, -1, 64))",
        "torch._C._nn.linear(y, w, None)",
        "torch.cat((a, b), dim = -1)",
        "torch.cat((a,), -1)",
        "self.layers.fc(x)",
        "x.mean(-1, keepdim = True)",
        "x.sin()",
        "x.to(torch.bfloat16)",
        "getattr(x, shape)",
        "x[0]",
        "x[None]",
        "x[-1]",
        "x * y",
        "x + 1e-06",
        "-1 * x",
        "x / 2.5",
        "x @ self.weight",
    ],
)
def test_plain_expressions_are_read_as_pythons_parser_reads_them(expression: str) -> None:
    known = {"x": 0, "y": 1, "a": 2, "b": 3, "w": 4}
    read = operation_of(expression, known)
    assert read is not None
    assert read == _parsed_operation(expression, known)


@pytest.mark.parametrize("expression", ["x y", "x.view(2,", "f(a b)", "x[", "x * ", "007 + x"])
def test_what_is_no_expression_is_not_read(expression: str) -> None:
    assert operation_of(expression, {"x": 0}) is None


def test_keys_stand_in_no_row_that_is_written_with_others(tmp_path: Path) -> None:
    key = "AKIA" + "ABCD1234EFGH5678"  # short: longer texts are stored apart
    rows = []
    for position in range(20):
        row = GuardCheck(
            0, 1, 0, position, "EQUALS_MATCH", "L['k']", "argument", f"L['k'] == '{key}'"
        )
        rows.append(row)
    session = tmp_path / "log.fxs"
    with SessionWriter(session, checks_rows=True) as writer:
        writer.add_all(rows)
        writer.finish()
    assert key.encode() not in session.read_bytes()
    with sqlite3.connect(session) as database:
        assert database.execute("SELECT count(*) FROM guard_check").fetchone() == (20,)


def test_places_stand_behind_annotations_and_marks_of_recomputation() -> None:
    def place_behind(mark: str) -> str:
        return f"        #{mark} File: /home/me/net.py:12 in f, code: y = x.cos()"

    marks = (
        "",
        " recompute: MUST_SAVE",
        " ac_graph_id: 3 - PREFER_RECOMPUTE",
        " Annotation: {'part': 'attention'}",
    )
    for mark in marks:
        lines = [
            "class <lambda>(torch.nn.Module):",
            '    def forward(self, x: "f32[4]"):',
            "        # File: /home/me/net.py:3 in f, code: x = x.sin()",
            '        sin: "f32[4]" = torch.ops.aten.sin.default(x)',
            place_behind(mark),
            '        cos: "f32[4]" = torch.ops.aten.cos.default(sin)',
            f"        #{mark} No stacktrace found for following nodes",
            '        tan: "f32[4]" = torch.ops.aten.tan.default(cos)',
            "        return (tan,)",
        ]
        (graph,) = read_graphs("\n".join(lines))
        frames = {node.name: node.frame for node in graph.nodes}
        cos = frames["cos"]
        assert cos is not None
        assert (cos.file, cos.line) == ("/home/me/net.py", 12), mark
        assert frames["tan"] is None, mark


def places_of(reader: SessionReader, stage: str, direction: str) -> dict[str, str]:
    """Return node → ``net.py:12`` of each collective of a graph."""
    files = {file.id: Path(file.path).name for file in reader.rows(SourceFile)}
    (graph,) = reader.rows(Graph, stage=stage, direction=direction, name="")
    nodes = reader.rows(Node, graph=graph.id)
    return {
        node.name: f"{files[node.file]}:{node.line}"
        for node in nodes
        if node.target.startswith("_c10d_functional.")
    }


def test_collectives_of_a_log_have_the_users_lines(tmp_path: Path) -> None:
    """The graphs name a line of torch's; the stacks of the kernels name the program's. The second
    source is the program: each collective is in a line of its own.
    """
    program = (COLLECTIVES / "two_of_each.py.txt").read_text().splitlines()
    first, in_place, gather, summed = (
        1 + next(at for at, line in enumerate(program) if text in line)
        for text in ('all_reduce(x, "sum"', "dist.all_reduce(x)", "all_gather_tensor", "x.sum(), ")
    )
    session = tmp_path / "s.fxs"
    read_log(COLLECTIVES / "two_of_each.log.gz", session)
    with SessionReader(session) as reader:
        wanted = [f"collectives.py:{line}" for line in (first, in_place, gather, summed)]
        for stage, direction in (("dynamo", ""), ("forward", "forward"), ("post_grad", "forward")):
            places = places_of(reader, stage, direction)
            # each with the node that waits for it
            assert list(places.values()) == [place for place in wanted for _ in range(2)], stage
        for stage in ("backward", "post_grad"):
            places = places_of(reader, stage, "backward")
            # torch names another node above the call that waits for the second: it is not guessed
            assert places.pop("wait_tensor_6") == "_functional_collectives.py:179"
            assert list(dict.fromkeys(places.values())) == wanted[::-1][:2] + wanted[1::-1], stage
        copies = reader.rows(Node, name="copy_")
        assert {node.line for node in copies if node.target == "copy_"} == {in_place}


def test_a_collective_that_was_not_lowered_keeps_the_line_that_the_graph_names(
    tmp_path: Path,
) -> None:
    session = tmp_path / "s.fxs"
    read_log(LOGS / "h200_ranks_diverge" / "rank_0.log.gz", session)
    with SessionReader(session) as reader:
        assert set(places_of(reader, "forward", "forward").values()) == {"ranks_zoo.py:30"}
        backward = places_of(reader, "backward", "backward")
        assert set(backward.values()) == {"_functional_collectives.py:173"}


def test_kernels_of_a_backward_without_torchs_table_are_linked_by_the_comments(
    tmp_path: Path,
) -> None:
    session = tmp_path / "s.fxs"
    read_log(LOGS / "h200_llama_train.log.gz", session)
    with SessionReader(session) as reader:
        kernels = reader.rows(Kernel, direction="backward")
        computed = kernel_nodes(reader, kernels[0].compilation)
        assert len(kernels) > 100
        assert [kernel.name for kernel in kernels if not computed.get(kernel.id)] == []
