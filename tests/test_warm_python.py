"""These tests claim that the server of forked Pythons outlives whoever asks it."""

from __future__ import annotations

import marshal
import os
import select
import socket
import subprocess
from pathlib import Path

from tests.shared_files import digest
from tests.warm_servers import served
from tests.warm_start import address


def test_who_leaves_before_the_answer_does_not_end_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "warm"
    script = tmp_path / "here.py"
    script.write_text("print('here')")
    message = {
        "arguments": [str(script)],
        "environment": dict(os.environ),
        "directory": str(tmp_path),
        "numbers": [1],
    }
    with served(folder, dict(os.environ), "commands") as python:
        for asks in (False, True):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
                asking.connect(address(digest(str(folder))))
                if asks:
                    socket.send_fds(asking, [marshal.dumps(message)], [1])
                    select.select([asking], [], [])  # what was answered is never read
        ended = subprocess.run([python, script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "here\n"), ended.stderr
