"""These tests check CUDA memory snapshots: their figures are those that torch itself counted in the
same process, lines have the operations of a log of the run, and nothing of a pickle is executed.
"""

from __future__ import annotations

import gzip
import json
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.cli import main
from fx_explorer.errors import SessionError
from fx_explorer.instruments.memory.snapshot_figures import (
    DeviceFigures,
    digest_of,
    snapshot_figures,
)
from fx_explorer.readers.memory_snapshot import read_snapshot
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

DATA = Path(__file__).parent / "data" / "memory_snapshots"

TORCHS: dict[str, int] = json.loads((DATA / "stats.json").read_text())
"""torch's own counts of the process that wrote the snapshots."""


def _unpacked(name: str, into: Path) -> Path:
    file = into / name
    file.write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return file


def _device(name: str) -> DeviceFigures:
    (device,) = snapshot_figures(DATA / f"{name}.pickle.gz").devices
    return device


def _printed(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    ended = main([str(word) for word in words])
    printed = capsys.readouterr()
    assert ended == code, printed.err
    return printed.out if code == 0 else printed.err


def test_totals_are_those_that_torch_counted() -> None:
    device = _device("compiled")
    assert device.end_bytes == TORCHS["allocated"]
    assert device.reserved.reserved == TORCHS["reserved"]
    # The allocator may give a larger piece than was asked for, and does not record it.
    assert TORCHS["peak"] * 0.99 < device.peak_bytes <= TORCHS["peak"]
    eager = _device("eager_oom")
    assert TORCHS["eager_peak"] * 0.99 < eager.peak_bytes <= TORCHS["eager_peak"]


@pytest.mark.parametrize("name", ["compiled", "eager_oom", "no_history"])
def test_lines_and_kinds_add_up_to_the_peak(name: str) -> None:
    device = _device(name)
    assert sum(held.size_bytes for held in device.lines) == device.peak_bytes
    assert sum(device.kinds.values()) == device.peak_bytes
    reserved = device.reserved
    assert reserved.in_use + reserved.free == reserved.reserved
    assert reserved.largest <= reserved.free


def test_what_a_line_holds_is_what_the_history_says() -> None:
    """Count the activations of the first linear layer by hand: three layers, of which each keeps
    the result of the linear and that of gelu for the backward, 8 × 256 × 2048 floats.
    """
    device = _device("compiled")
    (held,) = [held for held in device.lines if held.line == 14]
    assert held.function == "forward"
    assert held.kind == "compiled code"
    assert (held.count, held.size_bytes) == (6, 6 * 8 * 256 * 2048 * 4)


def test_a_failed_allocation_is_told_with_its_line() -> None:
    (failed,) = _device("eager_oom").failed
    assert failed.wanted == (1 << 42) * 4
    assert failed.file.endswith("train_snap.py")
    assert failed.line == 60


def test_optimizer_parameters_and_backward_are_kinds_of_their_own() -> None:
    kinds = _device("eager_oom").kinds
    state = 2 * 4 * 2 * sum((256, 256, 1024 * 256, 1024, 256 * 1024, 256))
    assert kinds["the optimizer"] > state
    assert "parameters and buffers, made or moved" in kinds
    assert "eager mode" in kinds


def test_lines_have_the_operations_of_a_log_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _unpacked("compiled.log", tmp_path)
    snapshot = _unpacked("compiled.pickle", tmp_path)
    found = json.loads(_printed(capsys, "memory", log, snapshot, "--format", "json"))
    (device,) = found["devices"]
    by_line = {(line["line"], line["kind"]): line for line in device["lines"]}
    up = by_line[14, "compiled code"]
    assert up["graphs"] == ["[0/0] forward"]
    assert "linear" in up["operations"]
    head = by_line[24, "compiled code"]
    assert head["graphs"] == ["[0/0] forward"]
    assert head["operations"]
    assert not by_line[27, "eager mode"]["operations"]


def test_generated_code_is_found_by_the_name_of_its_file(tmp_path: Path) -> None:
    snapshot = read_snapshot(DATA / "compiled.pickle.gz")
    log = gzip.decompress((DATA / "compiled.log.gz").read_bytes()).decode()
    names = set()
    for events in snapshot.events:
        for event in events:
            names.update(Path(frame.file).stem for frame in event.frames)
    codes = log.split("inductor_output_code")[1:]
    texts = ["".join(f"{line[1:]}\n" for line in _payload(code)) for code in codes]
    assert {digest_of(text) for text in texts} & names


def _payload(record: str) -> list[str]:
    lines = record.split("\n")[1:]
    payload = []
    for line in lines:
        if not line.startswith("\t"):
            break
        payload.append(line)
    return payload


def test_a_session_keeps_its_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = tmp_path / "whole.fxs"
    content = Path(__file__).parent / "data" / "screens" / "whole.fxs.gz"
    session.write_bytes(gzip.decompress(content.read_bytes()))
    _printed(capsys, "memory", session, DATA / "compiled.pickle.gz")
    assert "312.8 MB are allocated on GPU 0" in _printed(
        capsys, "report", session, "--format", "text"
    ).replace("\n  ", " ")
    report = json.loads(_printed(capsys, "report", session))
    assert report["memory_snapshot"]["devices"][0]["end_bytes"] == TORCHS["allocated"]


def test_a_snapshot_opens_alone_and_claims_nothing_of_the_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = _unpacked("compiled.pickle", tmp_path)
    text = _printed(capsys, "report", snapshot, "--format", "text")
    assert "compiled.pickle is a CUDA memory snapshot: 480 events of its history." in text
    assert "but no graphs, graph breaks or guards." in text
    assert text.count("graph break") == 1
    assert "No graph" not in text
    assert "fx-explorer memory SESSION SNAPSHOT" in text.replace("\n    ", " ")
    report = json.loads(_printed(capsys, "report", snapshot))
    assert "graphs" in report["not_in_text"]
    with zipfile.ZipFile(tmp_path / "attached.zip", "w") as archive:
        archive.write(snapshot, "run/snapshot.pickle")
    assert "312.8 MB" in _printed(capsys, "report", tmp_path / "attached.zip", "--format", "text")
    assert "peak" in _printed(capsys, "memory", snapshot, "--format", "markdown")


def test_a_snapshot_without_history_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = _printed(capsys, "memory", DATA / "no_history.pickle.gz")
    assert "It has no history" in text
    assert "At the peak" not in text


def test_what_is_no_session_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "train.py"
    program.write_text("print(1)\n")
    snapshot = DATA / "compiled.pickle.gz"
    assert "Record the program first" in _printed(capsys, "memory", program, snapshot, code=2)
    assert "was written by torch about a program" in _printed(capsys, "check", snapshot, code=2)


# Nothing is executed, and nothing takes more than its size allows.


class _Writes:
    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self._file, "executed"))


EMPTY = {"segments": [], "device_traces": []}


def test_a_pickle_that_calls_something_is_refused(tmp_path: Path) -> None:
    made = tmp_path / "made.txt"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        content = pickle.dumps({"segments": [_Writes(made)]}, protocol)
        assert any(code.name == "REDUCE" for code, _, _ in pickletools.genops(content))
        (tmp_path / "bad.pickle").write_bytes(content)
        with pytest.raises(SessionError, match="only plain values"):
            read_snapshot(tmp_path / "bad.pickle")
    assert not made.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"(S'touch x'\nios\nsystem\n.",  # INST
        b"cos\nsystem\n(S'touch x'\ntR.",  # GLOBAL
        b"\x80\x02Pname\n.",  # a reference to an object outside
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x02)\x81.",  # NEWOBJ of nothing
        b"\x80\x04]r\xff\xff\xff\x7f.",  # a memo of gigabytes
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x0f.",  # a bytearray of petabytes
        b"\x80\x02" + b"(" * 100_000 + b"l" * 100_000 + b".",
        b"\x80\x02" + b"]" * 10 + b"a" * 9 + b".",
        b"\x80\x02.",
        b"",
    ],
)
def test_hostile_pickles_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "bad.pickle"
    file.write_bytes(content)
    with pytest.raises(SessionError, match="not a memory snapshot"):
        read_snapshot(file)


def _segment(**changes: object) -> dict[str, object]:
    block = {"size": 512, "address": 0, "state": "inactive", "frames": []}
    return {"device": 0, "address": 0, "total_size": 512, "blocks": [block], **changes}


@pytest.mark.parametrize(
    "snapshot",
    [
        {"segments": [_segment(total_size=-1)]},
        {"segments": [_segment(total_size="1")]},
        {"segments": [_segment(device=1 << 70)]},
        {"segments": [_segment(blocks=[1])]},
        {"segments": [_segment(blocks={})]},
        {"segments": [[]]},
        {"segments": {}},
        {"segments": [], "device_traces": [[{"size": 1}]]},
        {"segments": [], "device_traces": [[{"action": "alloc", "frames": [1]}]]},
        {"other": []},
        "segments",
        {"segments": [_segment()] * 3_000},
    ],
)
def test_what_is_not_as_torch_makes_it_is_refused(snapshot: object, tmp_path: Path) -> None:
    file = tmp_path / "bad.pickle"
    file.write_bytes(pickle.dumps(snapshot))
    if isinstance(snapshot, dict) and len(snapshot.get("segments", ())) == 3_000:
        # Many references to one list of many: more entries than bytes.
        many = _segment(blocks=[{"size": 512, "state": "inactive", "address": 0}] * 3_000)
        file.write_bytes(pickle.dumps({"segments": [many] * 3_000}))
    with pytest.raises(SessionError, match="not a memory snapshot"):
        read_snapshot(file)


def test_a_snapshot_that_was_cut_off_is_refused_everywhere(tmp_path: Path) -> None:
    content = gzip.decompress((DATA / "no_history.pickle.gz").read_bytes())
    file = tmp_path / "cut.pickle"
    for end in range(0, len(content), 97):
        file.write_bytes(content[:end])
        with pytest.raises(SessionError, match="not a memory snapshot"):
            read_snapshot(file)
    for end in range(30, 1_100, 97):
        file.write_bytes((DATA / "no_history.pickle.gz").read_bytes()[:end])
        with pytest.raises(SessionError, match=r"cannot be read|not a memory snapshot"):
            read_snapshot(file)


def test_other_pickles_are_no_snapshots(tmp_path: Path) -> None:
    file = tmp_path / "x.pickle"
    for protocol in (2, 3, 4, 5):
        file.write_bytes(pickle.dumps(EMPTY, protocol))
        assert kind_of_file(file).kind == "memory_snapshot"
        file.write_bytes(pickle.dumps({"state_dict": {"weight": 1}}, protocol))
        assert kind_of_file(file).kind == "binary"
        file.write_bytes(pickle.dumps([_segment()], protocol))
        assert kind_of_file(file).kind == "memory_snapshot"
        assert len(read_snapshot(file).segments) == 1
