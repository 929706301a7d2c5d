"""This module follows every process below a recorded program from outside: which ones imported
torch without being recorded, and which ones outlive the program.

How a process was started does not matter: the system tells who its parent is. Those that lose their
parent become children of this process, which asks for that (prctl(2), PR_SET_CHILD_SUBREAPER). To
import torch takes a second, so a look every tenth of a second misses nobody who does. Only Linux
tells all this; elsewhere nobody is followed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.model.secret_arguments import without_secrets
from fx_explorer.process_status import (
    ProcessStatus,
    can_follow_processes,
    mark_of,
    option_without_site,
    status_of,
)

MARK = "FX_EXPLORER_CAPTURE"
"""Environment variable that children inherit, and by which they are also recognised; its value
differs for each worker.
"""

OWN_MARK = "FX_EXPLORER_CLIENT"
"""Environment variable of processes that this process starts for itself; a worker does not
have it.
"""

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep

LOOK_S = 0.1

LEAST_REST = 30
"""Pause after a search of the processes, as a multiple of the time of the search, which matters
with thousands of processes.
"""

GRACE_S = 0.5
"""Seconds that a Python process may outlive the program, as multiprocessing's own helpers do."""

MAX_SHOWN = 60
ROUNDS = 20
"""Maximum number of searches for processes that were started by the processes being ended."""

_PR_SET_CHILD_SUBREAPER = 36

_SHELLS = re.compile(
    "sh|bash|dash|zsh|ksh|fish|busybox|env|make|nice|nohup|parallel|perl|ruby|setsid|sudo|stdbuf"
    "|taskset|time|timeout|xargs|unshare|bwrap|runuser|su|uv|uvx|conda|mamba|flock"
)
"""Matches programs whose purpose is to start others, so that it is not known what they start next.
"""

_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Modules in the command of a Python that only waits for its parent: Python's own helpers."""

_COMPILE_POOL = "/torch/_inductor/compile_worker/__main__.py"
"""Path in the command of torch's compile pool, which builds kernels for the program that started
it. The pool and its children trace nothing (torch/_inductor/compile_worker/subproc_pool.py).
"""

_PROBE_LINES = ("import sys", 'if sys.platform != "linux":', "from ctypes import cdll")
"""Lines of the program of a Python with which torch finds out whether the processor has some vector
instructions: it loads a library that was built with them (``VecISA._avx_py_load`` of
torch/_inductor/cpu_vec_isa.py).
"""


@dataclass(frozen=True, slots=True)
class Descendant:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command[:MAX_SHOWN]} (process {self.pid})"


@dataclass(frozen=True, slots=True)
class UnknownProcess:
    """An UnknownProcess is a process of the program that may have compiled something, and was not
    recorded.
    """

    pid: int
    command: str
    """Its command line, without likely secrets."""
    why: str
    is_recorded: bool = False
    """Whether it was recorded as long as the program ran."""


class _Process:
    """One process below the program, and the program it is running."""

    def __init__(self, status: ProcessStatus, is_certain: bool) -> None:
        self.pid = status.pid
        self.is_certain = is_certain
        """Whether it is known to be below the program, rather than below us for no other reason."""
        self.image = ""
        self.command = ""
        self.why = ""
        self.is_ours = False
        self.is_of_compiler = False
        """Whether torch's compiler has started it, and it compiles no function."""
        self.is_python = False
        self.is_shell = False
        self.has_torch = False

    def see(self, status: ProcessStatus, hook: str, is_worker: bool) -> None:
        """Read what the process is running now. ``is_worker``: it is the worker, or a fork of
        it.
        """
        self.image = status.image
        words = _read_strings(self.pid, "cmdline")
        self.command = " ".join(without_secrets(words).words)
        self.is_ours = not is_worker and any(word.startswith(PACKAGE) for word in words)
        is_pool = any(word.endswith(_COMPILE_POOL) for word in words[1:2])
        if is_pool or is_vector_probe(words):
            self.is_of_compiler = True
        program = _executable(self.pid)
        if not program and words:
            program = words[0]
        program = os.path.basename(program)
        self.is_python = program.startswith(("python", "pypy"))
        self.is_shell = _SHELLS.fullmatch(program) is not None
        self.why = _why_not_recorded(words, _read_strings(self.pid, "environ"), hook)
        self.has_torch = False


_counting = threading.Lock()
_adopting_now = 0
"""Number of users that currently need this process to adopt orphaned processes; it adopts them
while there is one.
"""


@contextlib.contextmanager
def adopting() -> Iterator[bool]:
    """Inside the block, make this process the parent of its descendants whose own parent ends.
    Yields whether the system does that.
    """
    can_adopt = _count_adopting(1)
    try:
        yield can_adopt
    finally:
        _count_adopting(-1)


def _count_adopting(change: int) -> bool:
    global _adopting_now
    with _counting:
        _adopting_now += change
        is_wanted = int(_adopting_now > 0)
        try:
            failed = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, is_wanted, 0, 0, 0)
        except (OSError, AttributeError):  # an old kernel: fewer are seen
            return False
        return not failed


class Descendants:
    """Follows the processes that a worker starts, in a thread, from ``begin`` to
    ``program_ended``.
    """

    def __init__(self, mark: str, hook: str) -> None:
        """``mark`` is the value of MARK, and ``hook`` the folder on PYTHONPATH that records."""
        self.unknown: list[UnknownProcess] = []
        """Processes of the program that used torch but could not be recorded. The list is complete
        after ``program_ended``.
        """
        self._mark = f"{MARK}={mark}"
        self._hook = hook
        self._worker = 0
        self._images: set[str] = set()
        """Images (``ProcessStatus.image``) of the worker's process, one for each program it has
        run.
        """
        self._own_image = ""
        """Image of this process (``ProcessStatus.image``). A fork has the same image until it runs
        its own program.
        """
        self._marks = ""
        self._processes: dict[int, _Process] = {}
        self._others: set[int] = set()
        self._suspects: dict[str, UnknownProcess] = {}
        """Start of a program → the process that imported torch in it."""
        self._ended = threading.Event()
        self._looking = threading.Lock()
        self._thread: threading.Thread | None = None
        self._adopting = contextlib.ExitStack()

    def begin(self, worker: int, marks: Path | None) -> None:
        """Begin to follow the processes that ``worker`` starts. Recorded processes leave their
        marks in the directory ``marks``; None if nothing is recorded.
        """
        self._worker = worker
        self._marks = str(marks) if marks else ""
        if not can_follow_processes():
            return
        os.environ.setdefault(OWN_MARK, "1")
        own_status = status_of()
        assert own_status is not None
        self._own_image = own_status.image
        for pid in _all_processes():  # those that there were before are none of the program's
            status = status_of(pid)
            if status and worker not in (status.pid, status.session):
                self._others.add(pid)
        self._adopting.enter_context(adopting())
        self._thread = threading.Thread(
            target=self._follow, name="what the program starts", daemon=True
        )
        self._thread.start()

    def program_ended(self) -> None:
        """Find the processes that imported torch, and those that are still running. Call it before
        any process is ended.
        """
        if self._thread is None or not self._marks:
            return
        self._look()
        last = time.monotonic() + GRACE_S
        while self._outliving() and time.monotonic() < last:
            time.sleep(GRACE_S / 25)
            self._look()
        for image, suspect in self._suspects.items():
            if not self._is_recorded(image):
                self.unknown.append(suspect)
        for process in self._outliving():
            group = status_of(process.pid)
            if group and group.group == self._worker:
                fate = "was ended with the program"
            else:
                fate = "runs on"
            why = f"it was still running when the program ended, and {fate}"
            unknown = UnknownProcess(
                process.pid, process.command, why, self._is_recorded(process.image)
            )
            self.unknown.append(unknown)

    def outside_the_group(self) -> list[Descendant]:
        """List the processes that are alive and have left the worker's process group."""
        if self._thread is None:
            return []
        self._look()
        descendants = []
        for process in self._processes.values():
            status = status_of(process.pid)
            is_alive = status is not None and status.state not in "ZX"
            if status is None or not is_alive or status.group == self._worker:
                continue
            if process.is_certain and not process.is_ours:
                descendants.append(Descendant(process.pid, process.command))
        return descendants

    def end_all(self) -> list[Descendant]:
        """End the processes outside of the worker's process group, and return them."""
        ended: dict[int, Descendant] = {}
        for _ in range(ROUNDS):
            alive = self.outside_the_group()
            if not alive:
                break
            for descendant in alive:
                ended[descendant.pid] = descendant
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(descendant.pid, signal.SIGKILL)
        return list(ended.values())

    def stop(self) -> None:
        """Stop following."""
        self._ended.set()
        self._adopting.close()

    def _follow(self) -> None:
        took_s = 0.0
        while not self._ended.wait(max(LOOK_S, LEAST_REST * took_s)):
            began = time.monotonic()
            self._look()
            took_s = time.monotonic() - began

    def _look(self) -> None:
        """Look once at every process: those that are new, and those that belong to the program."""
        with self._looking:
            present = _all_processes()
            self._others &= present
            for pid in self._processes.keys() - present:
                del self._processes[pid]
            statuses = {}
            for pid in present - self._others:
                if status := status_of(pid):
                    statuses[pid] = status
            self._sort(statuses)
            for process in self._processes.values():
                if status := statuses.get(process.pid):
                    self._see(process, status)

    def _sort(self, statuses: dict[int, ProcessStatus]) -> None:
        """Separate the program's processes from others."""
        new = [status for pid, status in sorted(statuses.items()) if pid not in self._processes]
        has_grown = True
        while has_grown:  # a parent may have a higher number than its child
            has_grown = False
            for status in new:
                if status.pid in self._processes:
                    continue
                is_certain = self._is_programs(status)
                if is_certain or self._may_be_programs(status):
                    self._processes[status.pid] = _Process(status, is_certain)
                    has_grown = True
        for status in new:
            # A child of ours may have been forked by the program, and orphaned, just now.
            if status.pid not in self._processes and status.parent != os.getpid():
                self._others.add(status.pid)

    def _is_programs(self, status: ProcessStatus) -> bool:
        if status.pid == self._worker or status.session == self._worker:
            return True
        parent = self._processes.get(status.parent)
        if parent is not None:
            return parent.is_certain and not parent.is_ours
        return self._mark in _read_strings(status.pid, "environ")

    def _may_be_programs(self, status: ProcessStatus) -> bool:
        """Return whether the process has become our child although neither we nor another worker
        started it: those have our variables. It may have been orphaned before it was seen.
        """
        parent = self._processes.get(status.parent)
        if parent is not None:
            return not parent.is_certain
        if status.parent != os.getpid() or status.state in "ZX":
            return False
        if status.image in ("0", self._own_image):
            # 0: we may not look at it. Our own: we are starting it, and its variables are not
            # there yet. Who started it waits for its end: it is not for us to bury.
            return False
        environment = _read_strings(status.pid, "environ")
        return not any(word.startswith((MARK + "=", OWN_MARK + "=")) for word in environment)

    def _see(self, process: _Process, status: ProcessStatus) -> None:
        if status.state in "ZX":
            if status.parent == os.getpid() and process.pid != self._worker:
                with contextlib.suppress(ChildProcessError):  # who adopts must bury
                    os.waitpid(process.pid, os.WNOHANG)
            return
        if status.pid == self._worker:
            self._images.add(status.image)
        parent = self._processes.get(status.parent)
        if parent is not None and parent.is_of_compiler:
            process.is_of_compiler = True
        if status.image != process.image:
            process.see(status, self._hook, status.image in self._images)
        if process.has_torch or process.is_ours or process.is_of_compiler:
            return
        if self._is_recorded(process.image):
            return
        process.has_torch = _has_torch(process.pid)
        if process.has_torch:
            process.is_python = True
            why = f"it imported torch and was not recorded: {process.why}"
            self._suspects[process.image] = UnknownProcess(process.pid, process.command, why)

    def _is_recorded(self, image: str) -> bool:
        return os.path.exists(mark_of(self._marks, image))

    def _outliving(self) -> list[_Process]:
        """Return the processes that still run and may compile later: Pythons, and programs that
        start others.
        """
        processes = []
        for process in self._processes.values():
            status = status_of(process.pid)
            if status is None or status.state in "ZX" or process.pid == self._worker:
                continue
            if process.is_ours:
                continue
            is_helper = any(helper in process.command for helper in _HELPERS)
            if is_helper or process.is_of_compiler:
                continue
            if process.is_python or process.is_shell:
                processes.append(process)
        return processes


def is_vector_probe(words: list[str]) -> bool:
    """Return whether a command is torch's test of the processor's vector instructions."""
    if words[1:2] != ["-c"] or len(words) < len(("python", "-c", "program")):
        return False
    lines = [line.strip() for line in words[2].splitlines() if line.strip()]
    *before, last = lines or [""]
    if not last.startswith('cdll.LoadLibrary("') or not last.endswith('")'):
        return False
    known = [line in _PROBE_LINES or line.startswith("import torch") for line in before]
    return bool(known) and all(known) and before[-1] == _PROBE_LINES[-1]


def _all_processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _read_strings(pid: int, name: str) -> list[str]:
    """Return the arguments or the environment of a process; empty if it has ended, or may not be
    read.
    """
    try:
        content = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="backslashreplace") for word in content.split(b"\0") if word]


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _has_torch(pid: int) -> bool:
    """Return whether a process has loaded the Python part of torch."""
    try:
        return b"libtorch_python" in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # gone, or not ours to look at
        return False


def _why_not_recorded(words: list[str], environment: list[str], hook: str) -> str:
    """Return what keeps a Python from loading our hook: an option, or its environment."""
    option = option_without_site(words[1:])
    if option:
        return f"it was started with {option}, which makes Python ignore its environment"
    path = next((word for word in environment if word.startswith("PYTHONPATH=")), "")
    if hook not in path.partition("=")[2].split(os.pathsep):
        return "its environment lacks the PYTHONPATH that this program was given"
    return "another sitecustomize replaces ours, or its Python is older than 3.10"


def describe_descendants(descendants: list[Descendant]) -> str:
    shown = ", ".join(map(str, descendants[:5]))
    more = len(descendants) - 5
    return f"{shown} and {more} more" if more > 0 else shown
