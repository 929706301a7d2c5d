"""A capture whose session is looked at once and then gone: what a trial is made of."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from fx_explorer.client.capture import Capture
from fx_explorer.model import CaptureRequest


@contextlib.asynccontextmanager
async def temporary_capture(
    request: CaptureRequest,
    python: str,
    timeout_s: float | None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Capture]:
    """Start a capture. Its session is there until the block is left, and its worker ends with a
    block that is cancelled or raises. Raises SessionWriteError when there is no room for a session.
    """
    capture = Capture(request, python, timeout_s, environment=environment)
    await capture.start()
    try:
        yield capture
    except BaseException:
        await capture.cancel()
        raise
    finally:
        capture.discard()
