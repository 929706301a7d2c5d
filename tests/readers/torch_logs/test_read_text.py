"""These tests read the text that torch 2.13 printed for
TORCH_LOGS="graph_breaks,recompiles,guards,output_code,graph_code,aot_graphs".

The program multiplies by ``n``, prints, and takes the relu, for two values of ``n``; its own output
is in the text, too. Every number is counted straight from the text's lines.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.whole_session import damage
from fx_explorer.overview.overview import overview, page_facts
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

PACKED = Path(__file__).parents[2] / "data" / "torch_logs" / "breaks_and_recompiles.log.gz"

TEXT = gzip.decompress(PACKED.read_bytes()).decode()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    session = tmp_path_factory.mktemp("text") / "s.fxs"
    read_text(PACKED, session)
    with SessionReader(session) as opened:
        yield opened


def lines_of(artifact: str) -> list[str]:
    return [
        line.partition(f"[__{artifact}] ")[2]
        for line in TEXT.split("\n")
        if f"[__{artifact}] " in line
    ]


def test_nothing_of_it_is_skipped(reader: SessionReader) -> None:
    assert damage(reader) == []
    names = set(re.findall(r"\[__(\w+)\]", TEXT))
    assert set(reader.meta("log")["kinds"]) == names


def test_each_break_is_one_at_its_line(reader: SessionReader) -> None:
    wanted = [line for line in lines_of("graph_breaks") if line.startswith("Graph break")]
    rows = reader.rows(model.GraphBreak)
    assert len(rows) == len(wanted) == 2
    assert {(row.file, row.line) for row in rows} == {("/home/user/texts.py", 6)}
    assert all("print" in row.explanation for row in rows)


def test_a_recompile_has_the_guard_that_failed(reader: SessionReader) -> None:
    (row,) = reader.rows(model.Recompile)
    assert (row.of, row.guard, row.file, row.line) == ("0/0", "n == 2", "/home/user/texts.py", 5)


def test_guards_are_the_leaves_of_the_trees(reader: SessionReader) -> None:
    leaves = [
        line
        for line in lines_of("guards")
        if re.match(r"(?:\| )*\+- (?!\w*Manager)[A-Z_]+: ", line)
    ]
    of_several_lines = sum("DIMENSION_DYNAMIC_MARKING_GUARD" in line for line in leaves)
    assert (
        reader.count(model.GuardCheck) == len(leaves) - of_several_lines + of_several_lines // 5 > 0
    )


def test_graphs_are_those_printed_with_the_users_lines(reader: SessionReader) -> None:
    printed = sum("class GraphModule(torch.nn.Module)" in line for line in lines_of("graph_code"))
    graphs = reader.rows(model.Graph, stage="dynamo")
    assert len(graphs) == printed == 3
    assert len(reader.rows(model.Graph, stage="forward", direction="inference")) == 3
    calls = [
        node for graph in graphs for node in reader.nodes(graph) if node.op.startswith("call_")
    ]
    assert {node.line for node in calls} == {5, 7}


def test_kernels_are_split_out_of_the_output_code(reader: SessionReader) -> None:
    wanted = [
        found[1]
        for found in (
            re.match(r"(\w+) = async_compile\.", line) for line in lines_of("output_code")
        )
        if found
    ]
    assert sorted(row.name for row in reader.rows(model.Kernel)) == sorted(wanted)
    assert len(wanted) == 3


def test_compilations_have_the_names_of_their_functions(reader: SessionReader) -> None:
    rows = {
        row.name: (row.function, row.status)
        for row in reader.rows(model.Compilation)
        if "/" in row.name
    }
    assert rows == {
        "0/0": ("scaled", "broke"),
        "1/0": ("torch_dynamo_resume_in_scaled_at_6", "ok"),
        "0/1": ("scaled", "broke"),
    }


def test_what_the_program_printed_is_kept(reader: SessionReader) -> None:
    (row,) = [
        row
        for row in reader.rows(model.Artifact)
        if row.title == "Lines that torch's logging did not write"
    ]
    assert reader.text(row.text).split("\n").count("between") == 2


def test_the_overview_says_what_the_text_has_and_what_it_does_not(reader: SessionReader) -> None:
    said = next(fact for fact in overview(reader) if fact.topic == "run")
    assert "messages that torch printed: " in said.text
    assert "TORCH_TRACE writes a complete log" in said.detail


def coloured(text: str) -> str:
    return "\n".join(f"\x1b[36m{line}\x1b[0m" for line in text.split("\n"))


def pasted(text: str) -> str:
    return "Hello, my model recompiles, see below:\n```\n" + text + "```\n"


def quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def of_a_rank(text: str) -> str:
    return re.sub(r"^(?=[VIW]\d{4} )", "[rank0]:", text, flags=re.M)


@pytest.mark.parametrize(
    "change",
    [coloured, pasted, quoted, of_a_rank],
    ids=["coloured", "pasted", "quoted", "of_a_rank"],
)
def test_it_is_known_however_it_came_into_the_file(
    tmp_path: Path, change: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "pasted.txt"
    text.write_text(change(TEXT), encoding="utf-8")
    assert cli.main(["report", str(text)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["graph_breaks"]) == 1  # one line, hit twice
    assert len(told["recompiles"]) == 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_text_that_was_cut_off_gives_what_it_has(tmp_path: Path, share: float) -> None:
    text = tmp_path / "cut.txt"
    text.write_text(TEXT[: int(len(TEXT) * share)], encoding="utf-8")
    assert kind_of_file(text).kind == "torch_logs"
    read_text(text, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as opened:
        assert opened.count(model.GraphBreak) > 0
        assert overview(opened)


SKIPS = """\
W1125 15:23:58.712000 21853 torch/_inductor/cudagraph_utils.py:380] [0/0] [__cudagraphs] skipping cudagraphs due to mutated inputs (1 instances). Found from :
W1125 15:23:58.712000 21853 torch/_inductor/cudagraph_utils.py:380] [0/0] [__cudagraphs]    File "/home/user/train.py", line 12, in step
W1125 15:23:58.712000 21853 torch/_inductor/cudagraph_utils.py:380] [0/0] [__cudagraphs]     self.count.add_(1)
loss 0.5
W1125 15:24:06.445000 21853 torch/_inductor/cudagraph_utils.py:380] [1/0] [__cudagraphs] skipping cudagraphs due to cpu device (arg0_1)
"""  # as get_mutation_stack_trace and log_cudagraph_skip_and_bump_counter of torch 2.13 write it


def test_graphs_that_are_no_cuda_graphs_are_told_with_torchs_reason_and_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "stderr.txt").write_text(SKIPS)
    read_text(tmp_path / "stderr.txt", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        facts = [
            fact
            for fact in page_facts(reader)
            if "CUDA graph" in fact.text and fact.topic == "call"
        ]
    assert [fact.text for fact in facts] == [
        "[0/0] does not run as a CUDA graph: mutated inputs (1 instances) at train.py:12.",
        "[1/0] does not run as a CUDA graph: cpu device (arg0_1).",
    ]
    assert facts[0].detail.startswith("self.count.add_(1)\n")
