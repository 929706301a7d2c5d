"""These tests read logs that were cut off, mixed up or made by somebody else: the readable part is
read, the rest is counted, and nothing raises.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli, model
from fx_explorer.errors import SessionError
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.read_log import LogReading
from fx_explorer.session import SessionReader
from tests.readers.torch_trace.mutating import changed, of_bytes

ROOT = Path(__file__).parents[3]

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

NAMES = ("graph_breaks", "user_triton", "recompiles")


def whole(name: str) -> bytes:
    return gzip.decompress((LOGS / f"h200_{name}.log.gz").read_bytes())


def told(log: Path) -> dict[str, Any]:
    """Return the session's figures on the log. Reading it, and asking for the overview, must not
    raise.
    """
    session = log.with_suffix(".fxs")
    session.unlink(missing_ok=True)
    read_log(log, session)
    with SessionReader(session) as reader:
        return {
            **reader.meta("log"),
            "skipped": reader.meta("skipped_records"),
            "compilations": reader.count(model.Compilation),
            "said": [fact.text for fact in overview(reader)],
        }


@pytest.mark.parametrize("seed", range(10))
def test_bytes_that_were_changed_anywhere(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = of_bytes([whole(chance.choice(NAMES))], chance)
    log = tmp_path / "x.log"
    log.write_bytes(data)
    found = told(log)
    assert found["skipped"] + found["wrong_hashes"] > 0 or found["records"] > 0


@pytest.mark.parametrize("seed", range(10))
def test_records_that_hold_something_else_than_torch_writes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = whole(chance.choice(NAMES)).decode().split("\n")
    heads = [i for i, line in enumerate(lines) if line.startswith("V")]
    for i in chance.sample(heads, 40):
        before, _, content = lines[i].partition("] ")
        lines[i] = f"{before}] {json.dumps(changed(json.loads(content), chance))}"
    log = tmp_path / "x.log"
    log.write_text("\n".join(lines), encoding="utf-8")
    assert told(log)["compilations"] > 0


@pytest.mark.parametrize("share", [0.01, 0.3, 0.77, 0.999])
def test_a_log_that_was_cut_off_packed_or_not(tmp_path: Path, share: float) -> None:
    text = whole("graph_breaks")
    (tmp_path / "cut.log").write_bytes(text[: int(len(text) * share)])
    packed = (LOGS / "h200_graph_breaks.log.gz").read_bytes()
    (tmp_path / "packed.log").write_bytes(packed[: int(len(packed) * share)])
    cut, of_packed = told(tmp_path / "cut.log"), told(tmp_path / "packed.log")
    assert 0 < cut["records"] < 2_000
    assert 0 <= of_packed["records"] < 2_000
    assert (cut["is_cut_off"], of_packed["is_cut_off"]) == (False, True)
    assert any("the packed file ends in the middle" in said for said in of_packed["said"])


def test_a_changed_text_is_counted_and_told(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(
        whole("graph_breaks").replace(
            b"torch.ops.aten.mul.Tensor(arg0_1, 2)", b"torch.ops.aten.mul.Tensor(arg0_1, 3)", 1
        )
    )
    found = told(log)
    assert (found["skipped"], found["wrong_hashes"]) == (0, 1)
    assert any(
        "changed since torch wrote them, or are mixed with other output: 1" in said
        for said in found["said"]
    )
    assert len(found["damaged_lines"]) == 1


def test_a_kind_that_is_not_known_is_kept_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    line = 'V1121 03:15:04.813000 952 torch/new.py:1] {"tomorrow": {"a": 1}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}\n'
    log.write_bytes(whole("graph_breaks") + line.encode())
    assert told(log)["unknown"]["tomorrow"] == 1
    with SessionReader(log.with_suffix(".fxs")) as reader:
        (kept,) = [row for row in reader.rows(model.Artifact) if row.title == "tomorrow"]
        assert json.loads(reader.text(kept.text)) == {"a": 1}


def test_lines_of_two_ranks_that_were_printed_into_one_another_are_read(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    prefixed = b"".join(
        b"[rank0]:" + line for line in whole("graph_breaks").splitlines(keepends=True)
    )
    log.write_bytes(prefixed)
    found = told(log)
    assert (found["skipped"], found["wrong_hashes"]) == (0, 0)


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="cannot be read"):
        read_log(tmp_path / "missing.log", tmp_path / "t.fxs")


NEED_THE_PROGRAM = (
    ["capture", "-o", "s.fxs"],
    ["run", "-o", "s.fxs"],
    ["dynamic"],
    ["bench"],
    ["ledger"],
    ["memory"],
    ["options"],
    ["support"],
    ["kernel", "triton_poi_fused_relu_0"],
    ["fix", "--try"],
    ["fix", "--apply", "1"],
)


@pytest.mark.parametrize("command", NEED_THE_PROGRAM, ids=" ".join)
def test_what_needs_the_program_takes_no_log(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.log").write_bytes(whole("graph_breaks"))
    assert cli.main([command[0], "x.log", *command[1:]]) == 2
    assert (
        f"x.log was written by torch about a program, but fx-explorer {command[0]} needs the program "
        "itself." in capsys.readouterr().err
    )


def test_report_and_diff_take_logs(capsys: pytest.CaptureFixture[str]) -> None:
    packed = [str(LOGS / f"h200_ranks_diverge/rank_{rank}.log.gz") for rank in (0, 1)]
    assert cli.main(["report", packed[0]]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["skipped_records"] == 0
    assert cli.main(["diff", *packed]) in (0, 1)
    said = capsys.readouterr().out
    assert "rank_0" in said
    assert "saved for the backward" not in said  # no log says it, and 0 would be no answer


def test_graph_and_fix_take_logs(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(LOGS / "h200_graph_breaks.log.gz")
    assert cli.main(["graph", log, "1"]) == 0
    assert "l_x_" in capsys.readouterr().out
    assert cli.main(["fix", log]) == 0
    said = capsys.readouterr().out
    assert "put the number into the graph" in said
    assert "--diff N" in said
    assert "--try" not in said  # there is no program to try it with


def test_a_check_of_a_log_holds_for_what_a_log_tells_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(whole("user_triton"))
    assert cli.main(["check", str(log), "--max-graph-breaks", "0"]) == 0
    assert cli.main(["check", str(log), "--no-skipped-frames"]) == 1
    assert "a log does not record every function" in capsys.readouterr().out
    log.write_bytes(whole("user_triton") + b"a line of somebody else's\n")
    assert cli.main(["check", str(log), "--max-graph-breaks", "0"]) == 1
    assert "could not be read: 1" in capsys.readouterr().out
    assert cli.main(["check", str(log), "--max-graph-breaks", "0", "--allow-gaps"]) == 0


def test_an_empty_log_is_a_log_without_records(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"")
    found = told(tmp_path / "x.log")
    assert (found["records"], found["skipped"], found["compilations"]) == (0, 0, 0)


HEAD = 'V1121 03:15:04.813000 952 torch/new.py:1] {{"{kind}": {value}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}}\n'

DEEP = {
    "brackets": HEAD.format(kind="artifact", value="[" * 100_000),
    "closed": HEAD.format(kind="artifact", value="[" * 100_000 + "]" * 100_000),
    "objects": HEAD.format(kind="dynamo_start", value='{"stack":' * 50_000 + "1" + "}" * 50_000),
    "payload": HEAD.format(kind="inductor_provenance_tracking_node_mappings", value="{}")
    + "\t"
    + "[" * 100_000
    + "\n",
    "graph": HEAD.format(kind="dynamo_output_graph", value="{}") + "\t" + "(" * 100_000 + "\n",
    "guards": HEAD.format(kind="dynamo_cpp_guards_str", value="{}")
    + "\t"
    + "| " * 100_000
    + "+- x\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_nested_without_end_is_counted_or_kept(tmp_path: Path, name: str) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(DEEP[name].encode() + whole("user_triton"))
    found = told(log)
    assert found["records"] >= 134
    assert found["skipped"] + found["records"] >= 135


def test_a_line_of_100_mb_takes_little_memory_and_what_comes_after_it_is_read(
    tmp_path: Path,
) -> None:
    """In a process of its own, whose memory is limited by the system."""
    log = tmp_path / "x.log"
    with log.open("wb") as written:
        written.write(HEAD.format(kind="artifact", value='{"name": "long"}').encode() + b"\t")
        for _ in range(100):
            written.write(b"x" * 1_000_000)
        written.write(b"\n" + whole("user_triton"))
    reads = (
        "import sys; from pathlib import Path; from fx_explorer.readers.torch_trace import read_log; "
        "read_log(Path(sys.argv[1]), Path(sys.argv[2])); "
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    session = tmp_path / "x.fxs"
    command = [sys.executable, "-c", reads, str(log), str(session)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 300_000  # kilobytes
    with SessionReader(session) as reader:
        assert reader.meta("log")["records"] == 135
        assert reader.meta("skipped_records") == 1
        assert reader.meta("log")["damaged_lines"][0] == 1


def test_a_log_that_shrinks_while_it_is_read_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    log, session = tmp_path / "x.log", tmp_path / "x.fxs"
    log.write_bytes(whole("graph_breaks") * 3)
    with LogReading(log, session, leave_texts=True, tell=lambda _: log.write_bytes(b"")) as reading:
        reading.find()
        reading.decode()
    with SessionReader(session) as reader:
        assert reader.count(model.Compilation) > 0
        assert reader.meta("skipped_records") > 0  # graphs, guards and code that are gone


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(whole("graph_breaks"))
    log.chmod(0)
    with pytest.raises(SessionError, match="cannot be read: Permission denied"):
        read_log(log, tmp_path / "s.fxs")
