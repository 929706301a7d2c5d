"""How long a backend works on a graph. torch's own events have that time as AOTAutograd's, or as that
of passes before autograd.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Span


@contextlib.contextmanager
def timed(recording: Recording, backend: str) -> Iterator[None]:
    """Record the block as a span of the backend's stage. Torch's own events inside it count for
    themselves.
    """
    start_s = recording.elapsed() - recording.waited_s
    try:
        yield
    finally:
        duration_s = recording.elapsed() - recording.waited_s - start_s
        with recording.noting("the time that a backend took", "backend"):
            recording.writer.add(
                Span(
                    0, recording.variant_id(), f"backend {backend}", "backend", start_s, duration_s
                )
            )
