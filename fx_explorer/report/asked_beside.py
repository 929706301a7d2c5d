"""This module asks a question about a large session in a second process, while this one asks
others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from fx_explorer import model
from fx_explorer.second_process import WorkBeside, is_gain
from fx_explorer.session import SessionReader

AnswerT = TypeVar("AnswerT")

LARGE = 10_000
"""Number of nodes from which on a second process is a gain: it takes 15 ms."""


@contextlib.contextmanager
def asked_beside(
    reader: SessionReader, question: Callable[[SessionReader], AnswerT]
) -> Iterator[Callable[[], AnswerT]]:
    """Ask a question in a second process, and return what waits for its answer. Where that is no
    gain, it is asked here, when its answer is wanted.
    """
    if not (_is_large_and_complete(reader) and is_gain()):
        yield lambda: question(reader)
        return

    def ask() -> AnswerT:
        # A connection to SQLite belongs to the process that opened it.
        with SessionReader(reader.path) as own, own.snapshot():
            return question(own)

    with WorkBeside(ask, doing="reading the session") as asking:
        yield asking.result


def _is_large_and_complete(reader: SessionReader) -> bool:
    """Return whether a session is large, and nothing is written to it any more: two readers see the
    same.
    """
    if reader.meta("outcome") is None:
        return False
    return sum(graph.node_count for graph in reader.rows(model.Graph)) >= LARGE
