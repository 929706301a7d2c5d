"""These tests check a profile of torch.profiler that is opened alone: its sums are those of the
trace, every mark of torch's counts as compiled, and nothing is claimed of graphs that it cannot know.
"""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.cli import main
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from tests.profiles import DATA, events, gpu_seconds

CAPTURED = ("broken", "gpt2", "large", "scatter", "tiny", "transposed")


def _printed(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    ended = main([str(word) for word in words])
    printed = capsys.readouterr()
    assert ended == code, printed.err
    return printed.out if code == 0 else printed.err


@pytest.mark.parametrize("name", CAPTURED)
def test_all_of_the_gpus_time_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    trace = DATA / f"{name}.json.gz"
    found = json.loads(_printed(capsys, "profile", trace, "--format", "json"))
    whole = gpu_seconds(events(trace.name))
    assert found["profile"]["work_s"] == pytest.approx(whole)
    assert sum(row["seconds"] for row in found["elsewhere"]) == pytest.approx(whole)
    compiled = [row for row in found["elsewhere"] if row["kind"] == "unjoined"]
    compiled_s = found["profile"]["compiled_s"]
    assert sum(row["seconds"] for row in compiled) == pytest.approx(compiled_s)
    assert compiled_s > 0


def test_it_names_the_command_that_joins_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = _printed(capsys, "report", DATA / "gpt2.json.gz", "--format", "text")
    one_line = " ".join(text.split())
    assert "71 % in compiled graphs" in one_line
    assert "fx-explorer profile SESSION gpt2.json.gz" in one_line
    assert "Calls of compiled graphs: [1/0] 2×, [3/0] 2×, [3/0] backward 2×" in one_line
    assert "The GPU is idle for 45.8 ms" in one_line
    assert "graph break" not in one_line.replace("graphs, graph breaks or guards", "")
    assert "No graph" not in one_line
    report = json.loads(_printed(capsys, "report", DATA / "gpt2.json.gz"))
    assert "graphs" in report["not_in_text"]


def test_it_opens_in_any_packing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = tmp_path / "trace.json"
    plain.write_bytes(gzip.decompress((DATA / "tiny.json.gz").read_bytes()))
    assert kind_of_file(plain).kind == "profile"
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.write(plain, "run/trace.json")
    shutil.copyfile(DATA / "tiny.json.gz", tmp_path / "tiny.json.gz")
    said = set()
    for name in ("trace.json", "run.zip", "tiny.json.gz"):
        found = json.loads(_printed(capsys, "profile", tmp_path / name, "--format", "json"))
        said.add(found["profile"]["work_s"])
    assert len(said) == 1


def test_other_json_is_no_profile(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for content in ('[{"name": "dynamo", "ph": "B", "ts": 1}]', '{"a": 1}', '{"args": {"x": {}}}'):
        file.write_text(content)
        assert kind_of_file(file).kind == "text", content


def test_what_needs_a_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "fix", "memory", "bench"):
        message = _printed(capsys, command, DATA / "tiny.json.gz", code=2)
        assert "was written by torch about a program" in message, command


MARKS = {
    "2.0, AOTAutograd": ["CompiledFunction"],
    "2.0, the backward": ["CompiledFunctionBackward"],
    "2.1": ["Torch-Compiled Region"],
    "2.3, cached graphs": ["Torch-Compiled Region", "## Call CompiledFxGraph fabc ##"],
    "2.6, with a name": ["Torch-Compiled Region: 0/1", "## Call CompiledFxGraph fabc ##"],
    "profiler_mark_wrapper_call": ["CompiledFunction", "graph_0_inductor_wrapper_call"],
}
"""Release of torch → the marks around an operator, the outermost first."""


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_every_mark_that_torch_has_used_counts_as_compiled(
    marks: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"schemaVersion": 1, "traceEvents": [*_step(marks, 0.0), *_step([], 1000.0)]}
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(content))
    found = json.loads(_printed(capsys, "profile", file, "--format", "json"))
    assert found["profile"]["work_s"] == pytest.approx(20e-6)
    assert found["profile"]["compiled_s"] == pytest.approx(10e-6)


def _step(marks: list[str], start_us: float) -> list[dict[str, Any]]:
    """Return an operator in these marks, its launch, and its kernel of 10 µs."""
    number = int(start_us) + 7
    cpu = {"ph": "X", "pid": 1, "tid": 1}
    rows = []
    for depth, name in enumerate([*marks, "aten::mm"]):
        times = {"ts": start_us + depth, "dur": 100.0 - 2 * depth}
        rows.append({**cpu, "cat": "cpu_op", "name": name, **times, "args": {}})
    launch = {"ts": start_us + 20, "dur": 5, "args": {"correlation": number}}
    rows.append({**cpu, "cat": "cuda_runtime", "name": "cudaLaunchKernel", **launch})
    work = {"ts": start_us + 50, "dur": 10, "args": {"correlation": number, "device": 0}}
    rows.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", **work})
    return rows
