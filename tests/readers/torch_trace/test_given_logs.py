"""These tests check the ways in which a log is given: packed with zstd, on the standard input, and
to be kept as a session.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.errors import SessionError
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

PACKED = LOGS / "h200_graph_breaks.log.gz"

ROOT = Path(__file__).parents[3]


def report_of_input(content: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "fx_explorer", "report", "-"]
    return subprocess.run(command, cwd=ROOT, input=content, capture_output=True, check=False)


def test_a_log_on_the_standard_input_is_reported_packed_or_not() -> None:
    packed, plain = (
        report_of_input(content)
        for content in (PACKED.read_bytes(), gzip.decompress(PACKED.read_bytes()))
    )
    for ended in (packed, plain):
        assert (ended.returncode, ended.stderr) == (0, b"")
        said = json.loads(ended.stdout)
        assert (said["totals"]["graph_breaks"], said["totals"]["skipped_records"]) == (4, 0)
        assert said["target"]["name"] == "the standard input"


def test_a_standard_input_that_holds_no_log_is_told() -> None:
    ended = report_of_input(b"epoch 1: loss 0.3\n")
    assert ended.returncode == SessionError.exit_code
    assert b"the standard input has no torch records" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_save_keeps_what_was_read_and_needs_the_log_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.log").write_bytes(gzip.decompress(PACKED.read_bytes()))
    assert cli.main(["job.log", "--save", "kept.fxs"]) == 0
    said = capsys.readouterr()
    assert "saved kept.fxs" in said.err
    assert "breaks the graph" in said.out
    Path("job.log").unlink()
    with SessionReader("kept.fxs") as reader:
        texts = {row.title: reader.text(row.text) for row in reader.rows(model.Artifact)}
        assert "import torch" in texts["Script that runs the graph"]
        assert reader.count(model.Graph, stage="dynamo") == 4
    assert [path.name for path in tmp_path.iterdir()] == ["kept.fxs"]


def test_save_writes_over_no_file_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.fxs").write_text("mine")
    assert cli.main([str(PACKED), "--save", "notes.fxs"]) == 2
    assert Path("notes.fxs").read_text() == "mine"
    Path("net.py").write_text("x = 1\n")
    capsys.readouterr()
    assert cli.main(["net.py", "--save", "kept.fxs"]) == 2
    assert "--save works on TORCH_TRACE logs. To save a capture: -o FILE" in capsys.readouterr().err


def test_a_log_packed_with_zstd_is_read_and_one_that_is_cut_off_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = gzip.decompress(PACKED.read_bytes())
    half = len(plain) // 2
    frames = [zstandard.ZstdCompressor().compress(part) for part in (plain[:half], plain[half:])]
    whole, cut = tmp_path / "whole.log.zst", tmp_path / "cut.log.zst"
    whole.write_bytes(b"".join(frames))
    cut.write_bytes(frames[0] + frames[1][:-20])
    for log in (whole, cut):
        assert kind_of_file(log).kind == "log"
        read_log(log, log.with_suffix(".fxs"))
    with SessionReader(whole.with_suffix(".fxs")) as reader:
        told = reader.meta("log")
        assert (reader.meta("skipped_records"), told["is_cut_off"]) == (0, False)
        assert told["records"] == sum(line.startswith(b"V") for line in plain.split(b"\n"))
    with SessionReader(cut.with_suffix(".fxs")) as reader:
        assert reader.meta("log")["is_cut_off"]
        assert 0 < reader.meta("log")["records"] < told["records"]


def test_what_zstd_has_packed_says_which_package_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)  # as where it is not installed
    packed = tmp_path / "x.log.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd rest")
    with pytest.raises(
        SessionError, match=r"pip install 'fx-explorer\[zstd\]'. Or decompress it first: unzstd"
    ):
        read_log(packed, tmp_path / "s.fxs")
    assert "pip install 'fx-explorer[zstd]'" in kind_of_file(packed).advice_for(packed)
