"""Ends a worker and all that it started when this process is gone, however it went: also by
``kill -9``.

The worker watches its command pipe itself, but in a thread, which does not run while C code holds
the interpreter's lock. A shell that waits for the end of a pipe of ours needs nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from fx_explorer.client.descendants import OWN_MARK

SHELL = "/bin/sh"

SCRIPT = 'read -r line; kill -s KILL -- "-$1"'
"""``read`` ends with the pipe, which nobody writes to."""


@contextlib.asynccontextmanager
async def watched(group: int) -> AsyncIterator[None]:
    """End the process group when we end, as long as the block runs. Without a shell (a bare
    container) nobody sees to it.
    """
    theirs, ours = os.pipe()
    try:
        shell = await asyncio.create_subprocess_exec(
            SHELL,
            "-c",
            SCRIPT,
            SHELL,
            str(group),
            stdin=theirs,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={OWN_MARK: "1"},
            start_new_session=True,  # what ends our group, a closed terminal, must not end it first
        )
    except OSError:
        shell = None
    finally:
        os.close(theirs)
    try:
        yield
    finally:
        if shell:  # before the pipe is closed: the group's number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                shell.kill()
            await shell.wait()
        os.close(ours)
