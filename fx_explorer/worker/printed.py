"""What a piece of the program prints, by whatever means, and logs."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def printed(lines: list[str]) -> Iterator[None]:
    """Adds the lines of the block, those that native code and child processes write too. They still go where they would have
    gone, but once the block has ended."""
    collector = _Collector(lines)
    logging.getLogger().addHandler(collector)
    with tempfile.TemporaryFile() as file, _flushed():
        stdout = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            with _flushed():
                yield
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
            logging.getLogger().removeHandler(collector)
            file.seek(0)
            written = file.read()
            lines += written.decode(errors="backslashreplace").splitlines()
            while written:
                written = written[os.write(1, written) :]


@contextlib.contextmanager
def _flushed() -> Iterator[None]:
    """Nothing printed before the block comes out in it, nor what it prints after it."""
    _flush()
    try:
        yield
    finally:
        _flush()


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # the program may have closed or replaced it
        sys.stdout.flush()


class _Collector(logging.Handler):
    """Messages of the program's own loggers; torch's differ with and without torch.compile."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != "torch":
            self._lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")
