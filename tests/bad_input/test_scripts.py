"""A script under ``run`` behaves as it does alone; what it prints is recorded, whoever prints it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.worker.capturing import capture

SCRIPT = """
import atexit, multiprocessing, os, subprocess, sys, threading, time

def square(queue):
    queue.put(7 * 7)

if __name__ == "__main__":
    print("argv", sys.argv[1:], sys.path[0], os.getcwd(), __file__)
    os.write(1, b"raw \\xff bytes\\n")
    subprocess.run(["echo", "from a grandchild"])
    print("to stderr", file=sys.stderr)
    sys.stdout.flush()
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


async def test_a_script_does_and_prints_the_same_as_alone(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    arguments = ("--epochs", "3", "--", "-o")
    alone = subprocess.run(
        [sys.executable, str(script), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    ended = await capture(script, as_script=True, build=True, arguments=arguments)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("exited", alone.returncode)
    assert ended.printed("stdout") == alone.stdout.decode(errors="backslashreplace").splitlines()
    assert ended.printed("stderr") == alone.stderr.decode().splitlines()


async def test_a_script_that_compiles_nothing_says_so_and_what_would_help(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint(torch.ones(2).sum())\n")
    ended = await capture(script)
    assert ended.outcome.kind == "finished"
    assert "compiled nothing" in ended.outcome.message
    assert "--inputs" in ended.outcome.message
    assert ended.printed() == ["tensor(2.)"]
