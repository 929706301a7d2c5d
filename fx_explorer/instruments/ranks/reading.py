"""One file becomes the summary of a rank: the work that is done for each, in whatever process or on
whatever machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer.errors import FxExplorerError
from fx_explorer.instruments.ranks.summarising import summarise
from fx_explorer.instruments.ranks.summary import RankSummary
from fx_explorer.readers.torch_log_messages import printed_ranks
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.excerpt import write_excerpt
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.temporary_folder import temporary_folder

NO_RANK = -1


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file says, before it is known which rank it is of."""

    path: str
    summary: RankSummary | None
    """None for a file that cannot be read."""
    told_ranks: tuple[tuple[int, int], ...] = ()
    """(rank, records that say so)."""
    error: str = ""
    is_log: bool = False
    """Whether it is a log of torch's, and no session: the two name functions otherwise."""


def read_file(path: str) -> ReadFile:
    """Return the summary of a log or session; never raises for what stands in the file."""
    try:
        kind = kind_of_file(Path(path)).kind
        if kind == "log":
            return _read_log(path)
        if kind == "torch_logs":
            return _read_printed(path)
        with SessionReader(path) as reader:
            return ReadFile(path, summarise(reader, NO_RANK, path))
    except FxExplorerError as error:
        return ReadFile(path, None, error=str(error))
    except OSError as error:
        return ReadFile(path, None, error=f"{path} cannot be read: {error.strerror or error}")


def _read_log(path: str) -> ReadFile:
    with temporary_folder() as folder:
        session, log = folder / "log.fxs", folder / Path(path).stem
        with log.open("wb") as file:
            excerpt = write_excerpt(Path(path), file)
        read_log(log if excerpt else Path(path), session)
        with SessionReader(session) as reader:
            summary = summarise(reader, NO_RANK, path)
            damaged = set((reader.meta("log") or {}).get("damaged_lines", ()))
    if excerpt is None:
        return ReadFile(path, summary, is_log=True)
    # A log whose texts were changed by hand has more that is damaged than its end.
    is_cut_off = bool(excerpt.unknown_end) and len(damaged) <= excerpt.keeps_last
    unknown_end = excerpt.unknown_end if is_cut_off else summary.unknown_end
    return ReadFile(path, replace(summary, unknown_end=unknown_end), excerpt.ranks, is_log=True)


def _read_printed(path: str) -> ReadFile:
    with opened(Path(path)) as reader:
        return ReadFile(path, summarise(reader, NO_RANK, path), printed_ranks(Path(path)))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[SessionReader]:
    """Give the session of a log or session file; that of a log is gone afterwards.

    Raises SessionError for what cannot be read.
    """
    kind = kind_of_file(path).kind
    if kind not in ("log", "torch_logs"):
        with SessionReader(path) as reader:
            yield reader
        return
    with temporary_folder() as folder:
        session = folder / "log.fxs"
        (read_log if kind == "log" else read_text)(path, session)
        with SessionReader(session) as reader:
            yield reader
