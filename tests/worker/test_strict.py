"""These tests compare stances and strict arguments in a worker with the same program in a bare
process.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.capture.torch_compat.versions import stances
from fx_explorer.model import STANCE
from tests.worker.capturing import Ended, capture

Bare = Callable[[Path, str], tuple[str, str]]

pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import torch

made = []

def counting(module, inputs):
    made.append(module)
    return module.forward

@torch.compile(backend=counting)
def f(x):
    return x.sin()

torch._dynamo.reset()
made.clear()
try:
    for size in (2, 2, 3, 4):
        f(torch.ones(size))
finally:
    print("graphs made:", len(made))
"""

TWICE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += COUNTS
        return x.sin() * self.calls

model = Net()
example_inputs = (torch.ones(2),)
"""

BREAKS = """
import torch

@torch.compile(backend="eager")
def f(x):
    x = x.sin()
    print("in between")
    return x.cos()

f(torch.ones(2))
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "program.py"
    file.write_text(text)
    return file


@pytest.fixture
def bare(tmp_path: Path, warm_python: str) -> Bare:
    """``bare(file, before)`` → (what the program prints, its traceback) in a process that has torch
    and nothing of ours.
    """

    def run(file: Path, before: str) -> tuple[str, str]:
        program = tmp_path / "bare.py"
        program.write_text(
            f"import torch, runpy\n{before}\nrunpy.run_path({str(file)!r}, run_name='__main__')"
        )
        done = subprocess.run(
            [warm_python, program], capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout, done.stderr

    return run


async def as_script(file: Path, **request: Any) -> Ended:
    return await capture(file, as_script=True, build=True, **request)


@pytest.mark.parametrize("stance", stances())
async def test_a_stance_compiles_what_it_compiles_in_a_bare_process(
    tmp_path: Path, bare: Bare, stance: str
) -> None:
    file = write(tmp_path, PROGRAM)
    printed, error = bare(file, f"torch.compiler.set_stance({stance!r})")
    ended = await as_script(file, stance=stance)
    assert "\n".join(ended.printed()) + "\n" == printed
    assert ended.outcome.kind == ("raised" if "Error" in error else "finished")
    assert [row.kind for row in ended.failures] == (
        ["RuntimeError"] if "RuntimeError" in error else []
    )


async def test_fail_on_recompile_says_which_call_failed_and_what_it_called(tmp_path: Path) -> None:
    file = write(tmp_path, PROGRAM)
    ended = await as_script(file, stance="fail_on_recompile")
    lines = PROGRAM.splitlines()
    call, function = (
        lines.index("        f(torch.ones(size))") + 1,
        lines.index("@torch.compile(backend=counting)") + 1,
    )
    assert f"the call at {file}:{call} needs one of f ({file}:{function})" in ended.outcome.message
    assert "nothing is compiled for it yet" in ended.outcome.message


async def test_a_target_is_called_before_and_in_fail_on_recompile(tmp_path: Path) -> None:
    ended = await capture(write(tmp_path, TWICE.replace("COUNTS", "0")), stance="fail_on_recompile")
    assert (ended.outcome.kind, ended.compilations) == ("finished", 1)


async def test_a_target_that_recompiles_when_called_again_is_told_with_the_guard(
    tmp_path: Path,
) -> None:
    file = write(tmp_path, TWICE.replace("COUNTS", "1"))
    ended = await capture(file, stance="fail_on_recompile")
    assert ended.outcome.kind == "raised"
    assert (
        f"needs one of forward ({file}:9): the guard that failed is self.calls == 0"
        in ended.outcome.message
    )
    assert "#" not in ended.outcome.message


@pytest.mark.parametrize(
    ("stance", "calls"),
    [("eager_then_compile", 2), ("aot_eager_then_compile", 2), ("force_eager", 1)],
)
async def test_a_target_is_called_as_often_as_the_stance_needs(
    tmp_path: Path, stance: str, calls: int
) -> None:
    file = write(
        tmp_path,
        TWICE.replace("COUNTS", "0").replace("return x", "print('called')\n        return x"),
    )
    ended = await capture(file, stance=stance)
    assert ended.outcome.kind == "finished"
    assert ended.printed().count("called") == calls


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            {"stance": "force_eager"},
            "the stance force_eager runs everything in eager mode (set with an option",
        ),
        (
            {"stance": "eager_on_recompile"},
            "and there was none (set with an option of fx-explorer)",
        ),
        (
            {"settings": {"compile.disable": True}},
            "torch.compile was called with disable=True for f (set with an option of fx-explorer",
        ),
        (
            {"settings": {"dynamo.disable": True}},
            "torch._dynamo.config.disable is true (set with an option of fx-explorer",
        ),
    ],
)
async def test_when_nothing_is_compiled_the_reason_is_said(
    tmp_path: Path, request_: dict[str, Any], why: str
) -> None:
    ended = await as_script(write(tmp_path, BREAKS), **request_)
    assert (ended.outcome.kind, ended.compilations) == ("finished", 0)
    assert why in ended.outcome.message


async def test_a_stance_that_the_program_sets_is_named_with_its_line(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        BREAKS.replace(
            "f(torch.ones(2))", 'torch.compiler.set_stance("force_eager")\nf(torch.ones(2))'
        ),
    )
    ended = await as_script(file)
    assert (
        f"the stance force_eager runs everything in eager mode (set at {file}:10)"
        in ended.outcome.message
    )


async def test_eager_then_compile_says_why_one_call_is_not_compiled(tmp_path: Path) -> None:
    ended = await as_script(write(tmp_path, BREAKS), stance="eager_then_compile")
    assert "runs the first call in eager mode, and there was no second one" in ended.outcome.message


async def test_fullgraph_names_the_break_and_its_line_and_raises_as_bare_torch_does(
    tmp_path: Path, bare: Bare
) -> None:
    file = write(tmp_path, BREAKS)
    strict = write(tmp_path, BREAKS.replace('backend="eager"', 'backend="eager", fullgraph=True'))
    _, error = bare(strict, "")
    file = write(tmp_path, BREAKS)
    ended = await as_script(file, fullgraph=True)
    assert [row.kind for row in ended.failures] == ["Unsupported"]
    assert "torch._dynamo.exc.Unsupported" in error
    assert 'program.py", line 7, in f' in error
    assert f'there is one at {file}:7 `print("in between")`' in ended.outcome.message


async def test_error_on_recompile_names_the_call_and_the_guard(tmp_path: Path) -> None:
    file = write(tmp_path, PROGRAM)
    ended = await as_script(file, settings={"dynamo.error_on_recompile": True})
    assert "the option error_on_recompile allows no further compilation" in ended.outcome.message
    assert "tensor 'x' size mismatch at index 0. expected 2, actual 3" in ended.outcome.message


@pytest.mark.parametrize(
    "settings",
    [
        {"compile.fullgraph": True},
        {"compile.dynamic": True},
        {"compile.mode": "max-autotune"},
        {"compile.backend": "eager"},
    ],
)
async def test_an_argument_of_the_request_holds_in_the_program_s_own_call(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Second source: what torch.compile hands on, which the program itself prints."""
    program = """
import torch, torch._dynamo
original = torch._dynamo.optimize
def optimize(*args, **kwargs):
    backend = kwargs["backend"]
    told = {"fullgraph": kwargs["nopython"], "dynamic": kwargs["dynamic"], "backend": backend.compiler_name}
    told["mode"] = "max-autotune" if getattr(backend, "config", {}).get("max_autotune") else None
    print(told)
    return original(*args, **kwargs)
torch._dynamo.optimize = optimize
torch.compile(lambda x: x, options={"max_fusion_size": 3})
"""
    ended = await as_script(write(tmp_path, program), settings=settings)
    told = ended.printed()[0]
    wanted = {"fullgraph": False, "dynamic": None, "backend": "inductor", "mode": None}
    assert told == str(
        wanted | {name.removeprefix("compile."): value for name, value in settings.items()}
    )


@pytest.mark.parametrize(
    "request_", [{"as_script": True, "stance": "nosuch"}, {"settings": {STANCE: "nosuch"}}]
)
async def test_a_stance_that_torch_does_not_have_is_refused_before_anything_runs(
    tmp_path: Path, request_: dict[str, Any]
) -> None:
    file = write(tmp_path, BREAKS + "\nmodel = f\nexample_inputs = (torch.ones(2),)\n")
    ended = await capture(file, **request_)
    assert ended.outcome.kind == "not_started"
    assert "nosuch" in ended.outcome.message
    assert "force_eager" in ended.outcome.message
    assert ended.printed() == []


def test_json_of_a_request_keeps_what_is_new() -> None:
    from fx_explorer.model import CaptureRequest

    asked = CaptureRequest(
        "a.py", "", fullgraph=True, stance="force_eager", settings={"compile.mode": "lite"}
    )
    back = CaptureRequest.from_json(json.dumps(json.loads(asked.to_json())))
    assert (back.compile_arguments, back.stance_wanted) == (
        {"fullgraph": True, "mode": "lite"},
        "force_eager",
    )
