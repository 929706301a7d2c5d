"""These tests run programs that do what programs should not: each ends in a state that is recorded
and explained, with nothing left running.

Every test starts one worker, so each looks at all that its program shows.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.exhaustive import in_exhaustive_runs
from tests.worker.capturing import capture, processes_with

warm = pytest.mark.usefixtures("warm_workers")
"""Marks tests whose programs do not harm the process, so that a warm worker can run them."""

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
    def forward(self, x):
        return self.fc(x)

example_inputs = torch.ones(2, 8)
"""


def written(folder: Path, text: str, name: str = "target.py") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@warm
async def test_a_syntax_error_is_shown_with_its_place(tmp_path: Path) -> None:
    ended = await capture(written(tmp_path, "x = 1\ndef broken(:\n"))
    assert ended.outcome.kind == "raised"
    assert "SyntaxError" in ended.outcome.message
    assert "target.py" in "".join(ended.printed("stderr"))
    assert "line 2" in ended.failure_texts[0]
    assert "fx_explorer" not in ended.failure_texts[0]


@warm
async def test_a_model_that_needs_arguments_is_no_crash(tmp_path: Path) -> None:
    ended = await capture(
        written(tmp_path, NET.replace("(self):", "(self, width):")), output=tmp_path / "s.fxs"
    )
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 2)
    assert "--call 'Net(width=…)'" in ended.outcome.message
    assert ended.failures == []
    assert not (tmp_path / "s.fxs").exists(), (
        "nothing was captured, so nothing may replace an older session"
    )


@warm
async def test_wrong_inputs_are_named_with_the_traceback_of_the_program(tmp_path: Path) -> None:
    ended = await capture(written(tmp_path, NET.replace("ones(2, 8)", "ones(2, 9)")))
    assert ended.outcome.kind == "raised"
    assert "calling Net with (float32[2, 9]) from example_inputs" in ended.outcome.message
    assert ended.failures[-1].where == "program"
    assert "self.fc(x)" in "".join(ended.failure_texts)


@warm
async def test_an_exception_in_forward_keeps_what_was_captured(tmp_path: Path) -> None:
    source = NET.replace(
        "return self.fc(x)",
        "y = self.fc(x)\n        torch._dynamo.graph_break()\n        raise KeyError('mine')",
    )
    ended = await capture(written(tmp_path, source), output=tmp_path / "s.fxs")
    assert ended.outcome.kind == "raised"
    assert "KeyError: 'mine'" in ended.outcome.message
    assert "raise KeyError('mine')" in "".join(ended.failure_texts)
    assert "raise KeyError('mine')" in "\n".join(ended.printed("stderr"))
    assert ended.meta["counters"]["stats"]["unique_graphs"] == 1
    assert ended.session == tmp_path / "s.fxs"


async def test_an_exception_that_cannot_be_shown_is_still_explained(tmp_path: Path) -> None:
    source = """
import sys
class Odd(Exception):
    def __str__(self): raise ValueError("no message")
def hook(*_): raise KeyError("broken hook")
sys.excepthook = hook
raise Odd
"""
    ended = await capture(written(tmp_path, source))
    assert ended.outcome.kind == "raised"
    assert "Odd: (its message cannot be shown" in ended.outcome.message
    assert "broken hook" in "\n".join(ended.printed("stderr"))


@warm
async def test_an_exception_in_backward_is_told_from_one_in_forward(tmp_path: Path) -> None:
    source = """
import torch
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, grad): raise ValueError("in backward")
@torch.compiler.disable
def bad(x): return Bad.apply(x)
def f(x): return bad(x.sin()) + 1
example_inputs = torch.ones(3, requires_grad=True)
"""
    ended = await capture(f"{written(tmp_path, source)}:f")
    assert ended.outcome.kind == "raised"
    assert "ValueError: in backward while running the backward of f" in ended.outcome.message
    assert ended.meta["target"]["train"] is True


@warm
async def test_an_unsupported_backend_is_refused_before_anything_is_called(tmp_path: Path) -> None:
    ended = await capture(
        written(tmp_path, NET.replace("return", "print('called'); return")), backend="inducter"
    )
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 2)
    assert "no backend 'inducter'" in ended.outcome.message
    assert ended.printed() == []


@warm
async def test_sys_exit_in_the_model_is_told_as_such(tmp_path: Path) -> None:
    ended = await capture(
        written(tmp_path, NET.replace("return self.fc(x)", "import sys; sys.exit('done here')"))
    )
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("exited", 1)
    assert "sys.exit('done here')" in ended.outcome.message
    assert ended.printed("stderr")[-1] == "done here"


@warm
async def test_inputs_by_position_and_by_name_in_one_tuple_end_with_advice(tmp_path: Path) -> None:
    text = NET.partition("example_inputs")[0] + "example_inputs = ((torch.ones(4, 8),), {})\n"
    ended = await capture(written(tmp_path, text))
    assert ended.outcome.kind == "raised"
    assert "while calling Net with (tuple, dict) from example_inputs: " in ended.outcome.message
    assert "fx_explorer_target() return (callable, args, kwargs)" in ended.outcome.message


async def test_a_segfault_leaves_the_session_and_the_stack(tmp_path: Path) -> None:
    crash = "print('before', flush=True); import ctypes; ctypes.string_at(0); return"
    ended = await capture(
        written(tmp_path, NET.replace("return", crash)), output=tmp_path / "s.fxs"
    )
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("killed", -11)
    assert "SIGSEGV" in ended.outcome.message
    assert "while calling Net" in ended.outcome.message
    assert "in forward" in ended.failure_texts[-1]
    assert ended.printed() == ["before"]
    assert ended.session == tmp_path / "s.fxs"


async def test_an_endless_loop_that_catches_everything_ends_at_the_timeout(tmp_path: Path) -> None:
    source = """
print("started", flush=True)
def spin():
    while True:
        try:
            while True: pass
        except BaseException: pass
spin()
"""
    ended = await capture(written(tmp_path, source), timeout=4)
    assert ended.outcome.kind == "timed_out"
    assert "4 s (--timeout) while running target.py" in ended.outcome.message
    assert "in spin" in ended.outcome.message
    assert ended.printed() == ["started"]
    assert ended.failures[-1].kind == "timeout"


@warm
async def test_memory_that_runs_out_is_called_by_its_name(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30)); y = torch.ones(1 << 33); return"
    ended = await capture(written(tmp_path, NET.replace("return", f"{limit}")), train=False)
    assert ended.outcome.kind == "raised"
    assert "Out of memory" in ended.outcome.message


async def test_os_exit_and_forked_children_leave_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FX_EXPLORER_TEST_ORPHANS", "1")
    source = """
import os, subprocess, time
subprocess.Popen(["sleep", "1000"])
if os.fork() == 0:
    time.sleep(1000)
os._exit(7)
"""
    ended = await capture(written(tmp_path, source))
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("exited", 7)
    assert processes_with("FX_EXPLORER_TEST_ORPHANS") == []


@warm
async def test_a_full_disk_stops_the_recording_but_not_the_program(tmp_path: Path) -> None:
    # A limit on the size of files stands for a full disk: writes fail in the same way, for the
    # worker only.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))"
    script = f"import torch\n{limit}\nf = torch.compile(lambda x: x.sin() + x.cos(), backend='aot_eager')\nf(torch.ones(3))\n"
    ended = await capture(
        written(tmp_path, script + "print('went on')\n"), output=tmp_path / "s.fxs", as_script=True
    )
    assert ended.outcome.kind == "incomplete"
    assert ended.outcome.exit_code == 0
    assert "TMPDIR" in ended.outcome.message, (
        "the session is in the temporary directory, whatever -o says"
    )
    assert ended.printed() == ["went on"]
    assert ended.meta["target"]["kind"] == "script", (
        "what was written before the disk was full is kept"
    )


@in_exhaustive_runs
@warm
async def test_odd_names_and_escape_sequences_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mit Leerzeichen – ünïcode \x1b[31m"
    written(folder, "raise RuntimeError('the wrong types module was imported')", "types.py")
    written(folder, "raise RuntimeError('the wrong queue module was imported')", "queue.py")
    file = written(
        folder,
        NET.replace(
            "return", "print('\\x1b]0;title\\x07' + x.new_tensor(1).__class__.__name__); return"
        ),
        "naïve model.py",
    )
    ended = await capture(file, output=folder / "sitzung.fxs", backend="aot_eager")
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.meta["target"]["file"] == str(file)
    assert ended.printed() == ["\x1b]0;title\x07Tensor"]
    assert ended.session == folder / "sitzung.fxs"


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/ls"])
async def test_an_interpreter_that_is_none_is_blamed_and_not_the_target(
    tmp_path: Path, python: str
) -> None:
    ended = await capture(written(tmp_path, NET), python=python)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 4)
    assert python in ended.outcome.message
    assert "--python" in ended.outcome.message


async def test_an_interpreter_without_torch_says_so(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {os.environ.get("BASE_PYTHON", "python3")} -S "$@"\n')
    wrapper.chmod(0o755)
    ended = await capture(written(tmp_path, NET), python=str(wrapper))
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 4)
    assert "torch cannot be imported" in ended.outcome.message


async def test_a_missing_file_is_answered_at_once(tmp_path: Path) -> None:
    ended = await capture(tmp_path / "absent.py", backend="eager")
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 2)
    assert "there is no file" in ended.outcome.message
