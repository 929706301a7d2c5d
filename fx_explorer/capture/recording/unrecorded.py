"""This module keeps the recordings in progress, and the blocks that nobody records: compiles that
are ours, not the program's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from fx_explorer.capture.recording.noting import Published
from fx_explorer.capture.recording.sources import Sources
from fx_explorer.capture.recording.state import Recording
from fx_explorer.session.writer import IN_MEMORY, SessionWriter

_observing: list[Recording] = []


@contextlib.contextmanager
def registered(recording: Recording) -> Iterator[None]:
    """Have torch report to ``recording`` inside the block."""
    _observing.append(recording)
    try:
        yield
    finally:
        _observing.remove(recording)


def recordings() -> tuple[Recording, ...]:
    """Return the recordings that hear of what is compiled now."""
    return tuple(_observing)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Report nothing to any recording inside the block."""
    with contextlib.ExitStack() as stack:
        for recording in recordings():
            stack.enter_context(recording.nothing_learnt())
            stack.enter_context(unrecorded(recording))
        yield


@contextlib.contextmanager
def unrecorded(recording: Recording) -> Iterator[None]:
    """Record what happens inside the block into a session that is thrown away."""
    # What was recorded before the block belongs into the real session.
    recording.flush()
    before = (
        recording.writer,
        recording.sources,
        recording.notify,
        recording.request,
        recording.published,
    )
    with SessionWriter(IN_MEMORY) as scratch:
        recording.writer, recording.sources, recording.published = (
            scratch,
            Sources(scratch),
            Published(),
        )
        recording.notify, recording.request = (
            lambda notice: None,
            replace(recording.request, build=True),
        )
        try:
            yield
        finally:
            # What was recorded inside must not be written into the real one later.
            recording.flush()
            (
                recording.writer,
                recording.sources,
                recording.notify,
                recording.request,
                recording.published,
            ) = before
