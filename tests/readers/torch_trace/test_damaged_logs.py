"""Logs that were cut off, mixed up or made by somebody else: what can be read is read, the rest is counted, nothing raises."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.log_sessions import NOTHING_SAVED
from fx_explorer.analysis.overview.overview import overview
from fx_explorer.errors import SessionError
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader
from fx_explorer.tui.views.tables import TABLES

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

NAMES = ("graph_breaks", "user_triton", "recompiles")

JUNK = (
    *(b"\x1b[31m", b"<script>", b"\0", b"\xff\xfe", b"{" * 2000, b"[[[[", b"null", b"-1", b"1e999", b'"', b"\n", b"\t"),
    *(b"]", b"NaN", b"9" * 30, b"[rank3]:", b"''"),
)

VALUES: tuple[Any, ...] = (
    *(None, -1, "x", "", [], {}, 1e308, float("nan"), True, [[1]], {"a": 1}, 10**30, "\x1b[2J", ["x", 0], "9" * 4000),
)


def whole(name: str) -> bytes:
    return gzip.decompress((LOGS / f"h200_{name}.log.gz").read_bytes())


def told(log: Path) -> dict[str, Any]:
    """What the session says of the log. Reading it, and asking for the overview, must not raise."""
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


@pytest.mark.parametrize("seed", range(40))
def test_bytes_that_were_changed_anywhere(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(whole(chance.choice(NAMES)))
    for _ in range(chance.choice((1, 3, 30))):
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at:at] = chance.choice(JUNK)
        elif chance.random() < 0.5:
            del data[at : at + chance.choice((1, 10, 1000))]
        else:
            other = chance.randrange(len(data))
            data[at:at] = data[other : other + chance.choice((50, 5000))]
    log = tmp_path / "x.log"
    log.write_bytes(data)
    found = told(log)
    assert found["skipped"] + found["wrong_hashes"] > 0 or found["records"] > 0


def changed(value: Any, chance: random.Random) -> Any:
    """Put something else in the place of one value that lies somewhere in ``value``."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return chance.choice(VALUES)
    key: Any = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    value[key] = changed(value[key], chance)
    return value


@pytest.mark.parametrize("seed", range(40))
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
        whole("graph_breaks").replace(b"torch.ops.aten.mul.Tensor(arg0_1, 2)", b"torch.ops.aten.mul.Tensor(arg0_1, 3)", 1)
    )
    found = told(log)
    assert (found["skipped"], found["wrong_hashes"]) == (0, 1)
    assert any("not what torch wrote: changed, or mixed with others: 1" in said for said in found["said"])
    assert len(found["damaged_lines"]) == 1


def test_a_kind_that_is_not_known_is_kept_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    line = (
        'V1121 03:15:04.813000 952 torch/new.py:1] {"tomorrow": {"a": 1}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}\n'
    )
    log.write_bytes(whole("graph_breaks") + line.encode())
    assert told(log)["unknown"]["tomorrow"] == 1
    with SessionReader(log.with_suffix(".fxs")) as reader:
        (kept,) = [row for row in reader.rows(model.Artifact) if row.title == "tomorrow"]
        assert json.loads(reader.text(kept.text)) == {"a": 1}


def test_lines_of_two_ranks_that_were_printed_into_one_another_are_read(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    prefixed = b"".join(b"[rank0]:" + line for line in whole("graph_breaks").splitlines(keepends=True))
    log.write_bytes(prefixed)
    found = told(log)
    assert (found["skipped"], found["wrong_hashes"]) == (0, 0)


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="cannot be read"):
        read_log(tmp_path / "missing.log", tmp_path / "t.fxs")


NEED_THE_PROGRAM = (
    *(["capture", "-o", "s.fxs"], ["run", "-o", "s.fxs"], ["dynamic"], ["bench"], ["ledger"], ["memory"], ["options"]),
    *(["support"], ["kernel", "triton_poi_fused_relu_0"], ["fix", "--try"], ["fix", "--apply", "1"]),
)


@pytest.mark.parametrize("command", NEED_THE_PROGRAM, ids=" ".join)
def test_what_needs_the_program_takes_no_log(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.log").write_bytes(whole("graph_breaks"))
    assert cli.main([command[0], "x.log", *command[1:]]) == 2
    assert "x.log is what torch wrote of a program, and not the program" in capsys.readouterr().err


def test_report_and_diff_take_logs(capsys: pytest.CaptureFixture[str]) -> None:
    packed = [str(LOGS / f"h200_ranks_diverge/rank_{rank}.log.gz") for rank in (0, 1)]
    assert cli.main(["report", packed[0]]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["skipped_records"] == 0
    assert cli.main(["diff", *packed]) in (0, 1)
    said = capsys.readouterr().out
    assert "rank_0" in said
    assert "kept for the backward" not in said  # no log says it, and 0 would be no answer


def test_graph_and_fix_take_logs(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(LOGS / "h200_graph_breaks.log.gz")
    assert cli.main(["graph", log, "1"]) == 0
    assert "l_x_" in capsys.readouterr().out
    assert cli.main(["fix", log]) == 0
    said = capsys.readouterr().out
    assert "let the graph hold the number" in said
    assert "--diff N" in said
    assert "--try" not in said  # there is no program to try it with


def test_a_check_of_a_log_holds_for_what_a_log_tells_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(whole("user_triton"))
    assert cli.main(["check", str(log), "--max-graph-breaks", "0"]) == 0
    assert cli.main(["check", str(log), "--no-skipped-frames"]) == 1
    assert "a log does not tell of every function" in capsys.readouterr().out
    log.write_bytes(whole("user_triton") + b"a line of somebody else's\n")
    assert cli.main(["check", str(log), "--max-graph-breaks", "0"]) == 1
    assert "could not be read: 1" in capsys.readouterr().out
    assert cli.main(["check", str(log), "--max-graph-breaks", "0", "--allow-gaps"]) == 0


def test_the_view_of_memory_says_that_a_log_does_not_tell(tmp_path: Path) -> None:
    read_log(LOGS / "h200_gpt_block_train.log.gz", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert TABLES["memory"](reader).empty == NOTHING_SAVED
