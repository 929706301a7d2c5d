"""These tests check that a script under ``run`` behaves as it does alone; everything that it prints
is recorded.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.capturing import capture

SCRIPT = """
import atexit, multiprocessing, os, subprocess, sys, threading, time

def square(queue):
    queue.put(7 * 7)

if __name__ == "__main__":
    print("argv", sys.argv, sys.path, os.getcwd(), __file__, sys.modules["__main__"].__spec__)
    os.write(1, b"raw \\xff bytes\\n")
    subprocess.run(["echo", "from a grandchild"])
    print("to stderr", file=sys.stderr)
    child = os.fork()
    if child == 0:
        print("from a child")
        sys.exit(5)
    print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=square, args=(queue,))
    process.start()
    print("spawned", queue.get())
    process.join()
    try:
        input()
    except EOFError:
        print("stdin is empty")
    atexit.register(print, "exit handler")
    release = threading.Event()
    def late():
        release.wait()
        print("thread, after the main program")
    threading.Thread(target=late).start()
    threading.Timer(0.2, release.set).start()
    import signal
    print("SIGINT", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    sys.exit(9)
"""


OF_FORKING = re.compile("use of fork|= os.fork")
"""Python 3.12 warns a program that forks in a process with threads, as it does with most that
import torch; ours has one.
"""


def alone(command: list[str]) -> tuple[list[str], list[str], int]:
    """Return what a program prints on a terminal without us (stdout and stderr), and its exit code."""
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE
    ) as process:
        _, stderr = process.communicate(timeout=60)
    os.close(terminal)
    stdout = b""
    with contextlib.suppress(
        OSError
    ):  # Linux ends a terminal whose other side is closed with an error
        while chunk := os.read(
            ours, 65536
        ):  # one reading gets what the kernel has passed on by then, not always all
            stdout += chunk
    os.close(ours)
    return (
        stdout.decode(errors="backslashreplace").splitlines(),
        stderr.decode().splitlines(),
        process.returncode,
    )


async def test_a_script_does_and_prints_the_same_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    arguments = ("--epochs", "3", "--", "-o")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    stdout, stderr, exit_code = alone([sys.executable, str(script), *arguments])
    ended = await capture(script, as_script=True, build=True, arguments=arguments)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("exited", exit_code)
    assert ended.printed("stdout") == stdout
    assert [line for line in ended.printed("stderr") if not OF_FORKING.search(line)] == stderr


async def test_what_a_script_sets_before_it_imports_torch_takes_effect_and_its_compilations_are_recorded(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, inspect\n"
        "os.environ['TORCHINDUCTOR_NAN_ASSERTS'] = '1'\n"
        "import torch, torch._inductor.config\n"
        "print(torch._inductor.config.nan_asserts, inspect.getsourcefile(torch) == torch.__file__)\n"
        "print(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())\n"
    )
    ended = await capture(script)
    assert ended.outcome.kind == "finished"
    assert ended.printed() == ["True True", "2.0"]
    assert ended.meta["counters"]["stats"]["unique_graphs"] == 1
    assert ended.meta["target"]["kind"] == "script"


@pytest.mark.usefixtures("warm_workers")
async def test_what_a_forked_child_compiles_stays_out_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "CUDA_VISIBLE_DEVICES", ""
    )  # Dynamo asks for its random state, which a fork cannot have twice
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, torch\n"
        "f = torch.compile(lambda x: x + 1, backend='eager', dynamic=False)\n"
        "f(torch.ones(1))\n"
        "child = os.fork()\n"
        "f(torch.ones(3 if child else 2))\n"
        "if child: print('child ended with', os.waitpid(child, 0)[1])\n"
    )
    ended = await capture(script)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.printed() == ["child ended with 0"]
    assert ended.compilations == 2
    assert ended.failures == []


@pytest.mark.usefixtures("warm_workers")
async def test_a_script_that_compiles_nothing_says_so_and_what_would_help(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nclass Net(torch.nn.Module): pass\nprint(torch.ones(2).sum())\n"
    )
    ended = await capture(script)
    assert ended.outcome.kind == "finished"
    assert "compiled nothing" in ended.outcome.message
    assert (
        f"It defines Net. To compile a model or function of it: fx-explorer {script}:Net --inputs"
        in ended.outcome.message
    )
    assert ended.printed() == ["tensor(2.)"]


async def test_a_variable_that_keeps_torch_from_compiling_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\ntorch.compile(lambda x: x.sin(), backend='eager')(torch.ones(2))\n"
    )
    ended = await capture(script, as_script=True, build=True)
    assert (ended.outcome.kind, ended.compilations) == ("finished", 0)
    assert "set by the environment variable TORCH_COMPILE_DISABLE" in ended.outcome.message
