"""A watcher ends a group of processes of ours when this process is gone.

A worker watches its command pipe itself, but in a thread, which does not run while C code holds the
interpreter's lock. A shell that waits for the end of a pipe of ours needs nobody: it kills the
group also when we end by ``kill -9``.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from fx_explorer.client.descendants import OWN_MARK

SHELL = "/bin/sh"

SCRIPT = 'read -r line; kill -s KILL -- "-$1"'
"""Shell script that ends a process group when the pipe on its input closes: ``read`` returns only
then, because nobody writes to the pipe.
"""


def watcher_of(group: int) -> subprocess.Popen[bytes] | None:
    """Start a watcher for a process group. Returns None without a shell (a bare container): then
    nothing ends the group.
    """
    try:
        return subprocess.Popen(
            [SHELL, "-c", SCRIPT, SHELL, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={OWN_MARK: "1"},
            start_new_session=True,  # what ends our group, a closed terminal, must not end it first
        )
    except OSError:
        return None


def end_watcher(watcher: subprocess.Popen[bytes]) -> None:
    """End a watcher without letting it end the group. It must be gone before its pipe is closed,
    because the group's number may belong to another group by now.
    """
    watcher.kill()
    watcher.wait()
    if watcher.stdin is not None:
        watcher.stdin.close()


@contextlib.contextmanager
def watched(group: int) -> Iterator[None]:
    """Inside the block, make sure that the process group is ended if this process ends."""
    watcher = watcher_of(group)
    try:
        yield
    finally:
        if watcher is not None:
            end_watcher(watcher)
