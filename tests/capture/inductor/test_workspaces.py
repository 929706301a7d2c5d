"""These tests check that the workspace of library calls is measured in a process of its own, which
such a call may crash.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from fx_explorer.instruments.kernels.measure import workspaces
from fx_explorer.instruments.kernels.measure import workspaces as library_process
from fx_explorer.instruments.kernels.measure.workspaces import MeasuredWorkspace, asked
from fx_explorer.model.library_call import Layout, LibraryCall

SEED = Layout((), (), "int64", "cuda:0")
X = Layout((4,), (1,), "float32", "cuda:0")

PROCESS = """
import json, os, sys
asked = json.load(sys.stdin)
for text in asked["calls"]:
    call = json.loads(text)
    words = call["text"]
    devices = {one["device"] for name, one in call["tensors"] if name == "seed"}
    if "dies" in words or ("picky" in words and devices == {"cuda:0"}):
        os.abort()
    answer = {"problem": "RuntimeError: CUDA error: device-side assert"} if "loses" in words else {"size_bytes": len(words)}
    os.write(int(sys.argv[1]), json.dumps(answer).encode() + b"\\n")
    if "loses" in words:
        break
"""


def call(text: str) -> LibraryCall:
    return LibraryCall(text, (("seed", SEED), ("x", X)))


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start another program in place of the one that makes the calls; there is no GPU."""
    program = tmp_path / "process.py"
    program.write_text(PROCESS.replace("\\n", "\\n"))
    monkeypatch.setattr(workspaces, "WORKER", program)


@pytest.mark.usefixtures("starts")
def test_every_call_is_answered_whichever_of_them_end_the_process() -> None:
    calls = [
        call(f"{words}(x, seed)")
        for words in ("one", "picky", "two", "dies", "loses", "picky_not", "three")
    ]
    found = asked(calls)
    assert list(found) == calls
    problems = {
        one.text.partition("(")[0]: answer.problem
        for one, answer in found.items()
        if answer.problem
    }
    assert problems == {
        "dies": "the separate process for this call was ended by signal 6",
        "loses": "RuntimeError: CUDA error: device-side assert",
    }
    assert all(
        answer.size_bytes == len(one.text) for one, answer in found.items() if not answer.problem
    )


@pytest.mark.usefixtures("starts")
def test_it_ends_when_every_call_ends_the_process() -> None:
    calls = [call(f"dies_{number}(x, seed)") for number in range(20)]
    found = asked(calls)
    assert len(found) == 20
    assert all(answer.size_bytes == -1 and answer.problem for answer in found.values())


@pytest.mark.usefixtures("starts")
def test_more_answers_than_a_pipe_holds() -> None:
    calls = [call(f"one_{number}(x, seed)") for number in range(6000)]
    assert [answer.size_bytes for answer in asked(calls).values()] == [
        len(one.text) for one in calls
    ]


def test_a_process_that_cannot_use_torch_is_a_problem_of_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "process.py"
    program.write_text("raise SystemExit(3)")
    monkeypatch.setattr(workspaces, "WORKER", program)
    found = asked([call("one(x, seed)"), call("two(x, seed)")])
    assert all("ended with 3" in answer.problem for answer in found.values())


def test_the_process_makes_calls_and_tells_what_each_takes_beyond_its_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process itself, with an allocator of our own in place of the GPU's."""
    allocated, most = [100, 140, 100, 140], [300, 300, 120, 120]
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated.pop(0))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: most.pop(0))
    for name in (
        "use_deterministic_algorithms",
        "set_float32_matmul_precision",
    ):
        monkeypatch.setattr(torch, name, lambda *args, **kwargs: None)
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    here = Layout((4, 4), (4, 1), "float32", "cpu")
    wrong = LibraryCall("torch.ops.aten.mm.default(x, x, x)", (("x", here),))
    right = LibraryCall("torch.ops.aten.mm.default(x, x)", (("x", here),))
    monkeypatch.setattr(LibraryCall, "device", "cpu")
    question = workspaces._question([right, wrong, right])
    commands, ours = os.pipe()
    os.write(ours, question)
    os.close(ours)
    answers, theirs = os.pipe()
    library_process.main(theirs, commands)
    os.close(theirs)
    with os.fdopen(answers) as lines:
        found = [MeasuredWorkspace(**json.loads(line)) for line in lines]
    assert [one.size_bytes for one in found] == [160, -1, 0]
    assert "TypeError" in found[1].problem or "RuntimeError" in found[1].problem
    assert left == [0]
