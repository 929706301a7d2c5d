"""This module compares a directory of logs: which ranks are alike, and where the others first
diverge.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from fx_explorer.analysis.words import counted
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.instruments.ranks.divergence import differing_ranks, findings, first_divergence
from fx_explorer.instruments.ranks.divergence_reasons import explained
from fx_explorer.instruments.ranks.groups import RankGroup, alike, without_differing_records
from fx_explorer.instruments.ranks.rank_files import (
    FoundFile,
    OtherFile,
    assigned,
    find_files,
    is_mixed,
    rank_in_name,
    split_by_rank,
)
from fx_explorer.instruments.ranks.rank_finding import RankFinding
from fx_explorer.instruments.ranks.reading import ReadFile, opened, read_file
from fx_explorer.instruments.ranks.summary import RankSummary
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import FileNames, begin_showing

Progress = Callable[[int, int], None]
"""A function that is called with the number of files read and the number of all files."""

TOLD_EVERY_S = 1.0
"""Seconds between two reports of progress, also while no file is finished."""

MOST_EXPLAINED = 24
"""Number of findings that are explained from the sessions of two ranks; further ones have only what
the summaries contain.
"""


@dataclass(frozen=True, slots=True)
class ComparedRanks:
    """The result of comparing the ranks of a job: groups, findings, and files left out."""

    summaries: tuple[RankSummary, ...]
    groups: tuple[RankGroup, ...]
    """Ranks that did the same. The others are compared with the first group."""
    findings: tuple[RankFinding, ...]
    """The earliest first."""
    left_out: tuple[OtherFile, ...]
    notes: tuple[str, ...]
    file_names: FileNames = field(default_factory=FileNames, repr=False, compare=False)
    """Distinguishes files of the same name in texts. It is kept here because the sessions of the
    files are closed.
    """

    @property
    def first(self) -> RankFinding | None:
        """Return the first divergence of ranks; None where there is none."""
        return first_divergence(self.findings)

    @property
    def differing(self) -> tuple[int, ...]:
        return differing_ranks(self.findings)


def compare(
    given: Sequence[Path], address: str = "", progress: Progress = lambda done, of: None
) -> ComparedRanks:
    """Read the given files and compare them. ``address`` is the address of an engine.

    Raises SessionError where no log or session is among the files, or none can be read.
    """
    files = find_files(given)
    if not files.found:
        raise SessionError(_no_logs(given, files.others))
    read, notes = _without_mixed(_read(files.found, address, progress))
    read, other_kind = _of_same_kind(read)
    ranks = assigned(read)
    if not ranks.summaries:
        text = "; ".join(
            f"{other_file.path.name} {other_file.why}" for other_file in ranks.left_out[:3]
        )
        raise SessionError(f"no rank can be compared: {text}")
    names = FileNames()
    for summary in ranks.summaries:
        names.add(summary.files_of_one_name)
    begin_showing(names)
    groups = alike(ranks.summaries)
    groups = without_differing_records(groups, differing_ranks(findings(groups)))
    found = _explained(groups, ranks.summaries)
    left_out = (*ranks.left_out, *other_kind, *files.others)
    all_notes = (*notes, *ranks.notes)
    return ComparedRanks(ranks.summaries, tuple(groups), found, left_out, all_notes, names)


def _without_mixed(read: Sequence[ReadFile]) -> tuple[list[ReadFile], list[str]]:
    """Replace a file that several ranks wrote into with one log per rank, and add a note. These
    logs are in a temporary directory until this process ends, because their sessions may be opened.
    """
    read_files: list[ReadFile] = []
    notes = []
    folder: Path | None = None
    for rank_file in read:
        if not is_mixed(rank_file):
            read_files.append(rank_file)
            continue
        folder = folder or _kept_to_the_end()
        try:
            apart = split_by_rank(Path(rank_file.path), Path(tempfile.mkdtemp(dir=folder)))
        except (SessionError, OSError):
            read_files.append(rank_file)  # of which it is told why it is left out
            continue
        read_files += _read(
            [FoundFile(path, rank_in_name(path.name)) for path in apart.logs],
            "",
            lambda done, of: None,
        )
        text = (
            f"{Path(rank_file.path).name} has the records of {counted(len(apart.logs), 'rank')}, "
            "which were separated"
        )
        if apart.nobodys:
            verb = "belongs" if apart.nobodys == 1 else "belong"
            text += f"; {counted(apart.nobodys, 'line')} of it {verb} to no rank"
        notes.append(text)
    return read_files, notes


def _kept_to_the_end() -> Path:
    """Make a folder that is removed when this process ends; if it is killed, at the next start."""
    until = contextlib.ExitStack()
    atexit.register(until.close)
    return until.enter_context(temporary_folder())


def _of_same_kind(read: Sequence[ReadFile]) -> tuple[list[ReadFile], list[OtherFile]]:
    """Return the sessions or the logs, whichever are more, and the reason why the others are left
    out: a capture names a function as its program does (``Net.forward``), and a log as torch does
    (``forward``), so that they would differ in every function.
    """
    usable = [rank_file for rank_file in read if rank_file.summary]
    logs = [rank_file for rank_file in usable if rank_file.is_log]
    sessions = [rank_file for rank_file in usable if not rank_file.is_log]
    if not logs or not sessions:
        return list(read), []
    if len(logs) <= len(sessions):
        fewer, what, others = (logs, "log", "sessions")
    else:
        fewer, what, others = (sessions, "session", "logs of torch's")
    why = (
        f"is a {what}, and the others are {others}: they use different names for functions, so "
        "they are not compared"
    )
    kept = [rank_file for rank_file in read if rank_file not in fewer]
    ranks = {rank_in_name(Path(rank_file.path).name) for rank_file in kept}
    left = []
    for rank_file in fewer:
        path = Path(rank_file.path)
        left.append(OtherFile(path, why, is_unread=rank_in_name(path.name) not in ranks))
    return kept, left


def _read(found_files: Sequence[FoundFile], address: str, progress: Progress) -> list[ReadFile]:
    total_bytes = sum(_size(found_file.path) for found_file in found_files)
    with engine(address, total_bytes, len(found_files)) as executor:
        return _read_with(
            executor, [str(found_file.path.absolute()) for found_file in found_files], progress
        )


def _read_with(executor: Executor, paths: Sequence[str], progress: Progress) -> list[ReadFile]:
    progress(0, len(paths))
    ended: queue.SimpleQueue[Future[ReadFile]] = queue.SimpleQueue()
    futures = []
    for path in paths:
        future = executor.submit(read_file, path)
        future.add_done_callback(ended.put)
        futures.append(future)
        progress(ended.qsize(), len(paths))  # an executor may do the work where it is asked for
    for done in range(1, len(paths) + 1):
        while True:
            with contextlib.suppress(queue.Empty):
                ended.get(timeout=TOLD_EVERY_S)
                break
            progress(done - 1, len(paths))
        progress(done, len(paths))
    return [future.result() for future in futures]


def _explained(
    groups: Sequence[RankGroup], summaries: Sequence[RankSummary]
) -> tuple[RankFinding, ...]:
    """Return the findings, the first of them with explanations from the sessions of one rank of
    each side.
    """
    all_findings = findings(groups)
    paths = {rank.rank: rank.path for rank in summaries}
    wanted = {id(finding) for finding in _to_explain(all_findings)}
    with contextlib.ExitStack() as stack:
        readers: dict[int, SessionReader] = {}

        def reader(rank: int) -> SessionReader:
            if rank not in readers:
                readers[rank] = stack.enter_context(opened(Path(paths[rank])))
            return readers[rank]

        result = []
        for finding in all_findings:
            if id(finding) in wanted:
                ours, theirs = reader(finding.ranks[0]), reader(finding.others[0])
                result.append(explained(finding, ours, theirs, len(summaries)))
            else:
                result.append(finding)
        return tuple(result)


def _to_explain(found: Sequence[RankFinding]) -> list[RankFinding]:
    """Return the first divergence of each group, and then the others, up to a limit."""
    seen: set[tuple[int, ...]] = set()
    firsts = []
    for finding in found:
        if finding.is_divergence and finding.ranks not in seen:
            seen.add(finding.ranks)
            firsts.append(finding)
    rest = [finding for finding in found if finding not in firsts]
    return [*firsts, *rest][:MOST_EXPLAINED]


def _no_logs(given: Sequence[Path], others: Sequence[OtherFile]) -> str:
    where = ", ".join(map(str, given[:3]))
    seen = f": {others[0].path.name} {others[0].why}" if others else ""
    more = f", and {len(others) - 1:,} more" if len(others) > 1 else ""
    if others and others[0].is_unread:
        return f"{where} cannot be compared{seen}{more}. Make it readable"
    return (
        f"{where} holds no TORCH_TRACE log and no session{seen}{more}. Set TORCH_TRACE to a "
        "directory in the job, and give that directory"
    )


def _size(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    return size * 8 if path.suffix == ".gz" else size


# Executors: the work for each file is done in this process, in others, or on a Dask cluster.

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

FEW_BYTES = 4_000_000
"""Total size of files, in bytes, up to which reading them takes less time than starting other
processes.
"""

PARENT_LOOKED_FOR_S = 1.0
"""Seconds between two checks by a pool process that its parent still exists."""

_DASK = "dask://"


class SameProcess(Executor):
    """Runs the work at once, in this process."""

    def submit(
        self, work: Callable[P, ResultT], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[ResultT]:
        future: Future[ResultT] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001
            # it is raised where the result is asked for, as by any executor
            future.set_exception(error)
        return future


@contextlib.contextmanager
def engine(address: str, total_bytes: int, files: int) -> Iterator[Executor]:
    """Yield an executor: of a Dask scheduler for ``dask://HOST:PORT``, or of this machine for an
    empty address.

    Raises UsageError for an address that is none, and where Dask is not installed or does not
    answer.
    """
    if address:
        with _dask(address) as executor:
            yield executor
        return
    processes = min(files, os.cpu_count() or 1)
    if processes < 2 or total_bytes < FEW_BYTES:
        yield SameProcess()
        return
    with temporary_folder() as folder:
        begin = partial(_begin_process, str(folder), os.getpid())
        with ProcessPoolExecutor(processes, _context(), begin) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.kill()
                    process.join()
                raise


def _begin_process(folder: str, parent: int) -> None:
    """Initialise a process of the pool: it ends when its parent ends, in any way, and writes only
    in ``folder``, which the parent removes.
    """
    tempfile.tempdir = folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(
        target=_end_with, args=(parent,), name="ends with its parent", daemon=True
    ).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_LOOKED_FOR_S)
    os._exit(1)


def _context() -> multiprocessing.context.BaseContext:
    """Return how processes are started: by fork, which takes a few ms, if this process has no other
    threads.
    """
    is_alone = threading.active_count() == 1 and sys.platform == "linux"
    method = "fork" if is_alone else "spawn"
    return multiprocessing.get_context(method)


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Executor]:
    if not address.startswith(_DASK) or address == _DASK:
        raise UsageError(
            f"{address} is not a valid engine. Give the address of a Dask scheduler: --engine "
            "dask://HOST:PORT"
        )
    try:
        from distributed import Client  # type: ignore[import-not-found] # an extra, which few need
    except ImportError as error:
        raise UsageError(
            "--engine dask:// needs Dask, which is not installed: pip install 'fx-explorer[dask]'"
        ) from error
    try:
        client = Client(f"tcp://{address.removeprefix(_DASK)}", timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address.removeprefix(_DASK)}: {error}"
        ) from error
    with client:
        yield client.get_executor()
