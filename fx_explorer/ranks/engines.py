"""Where the work for each file is done: in this process, in processes beside it, or on a Dask cluster that the user has.

All are ``concurrent.futures.Executor``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from fx_explorer.errors import UsageError
from fx_explorer.temporary_folder import temporary_folder

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

FEW_BYTES = 4_000_000
"""Bytes of files that are read sooner than other processes have started."""

PARENT_LOOKED_FOR_S = 1.0
"""A process that waits for work does not see that nobody is left to give it any."""

_DASK = "dask://"


class SameProcess(Executor):
    """Does the work at once, where it is asked for."""

    def submit(
        self, work: Callable[P, ResultT], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[ResultT]:
        future: Future[ResultT] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 it is raised where the result is asked for, as by any executor
            future.set_exception(error)
        return future


@contextlib.contextmanager
def engine(address: str, total_bytes: int, files: int) -> Iterator[Executor]:
    """Give an executor: for ``dask://HOST:PORT`` that of a Dask scheduler, for an empty address one of this machine.

    Raises UsageError for an address that is none, and where Dask is not installed or does not answer.
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
    """Begin a process of the pool: it ends when its parent ends, however that is, and leaves nothing outside of
    ``folder``, which the parent removes.
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
    """Return how processes are started: forked where nothing else runs in this one, which takes a few ms."""
    is_alone = threading.active_count() == 1 and sys.platform == "linux"
    return multiprocessing.get_context("fork" if is_alone else "spawn")


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Executor]:
    if not address.startswith(_DASK) or address == _DASK:
        raise UsageError(
            f"{address} is no engine. Give the address of a Dask scheduler: --engine dask://HOST:PORT"
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
