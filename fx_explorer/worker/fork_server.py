"""A fork server imports torch and its compiler once, and each worker that is asked of it is a fork
of it, which finds them there.

Nothing of the user's is imported in it, nothing is compiled, and no GPU is initialized: what comes
before the user's module in a worker for a target is imported, in the same order (job.py,
request_recording.py). A request that needs something else before torch (a virtual GPU), or a
program that imports torch itself (a script), gets a fresh interpreter in place of the fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import select
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fx_explorer.errors import FxExplorerError
from fx_explorer.model import CaptureRequest, Notice
from fx_explorer.program.place import locate
from fx_explorer.program.usable_torch import (
    BrokenTorch,
    import_compiler,
    import_torch,
    importing_the_compiler,
    place_of_torch,
)
from fx_explorer.stack_room import with_room
from fx_explorer.worker import later_imports
from fx_explorer.worker.progress import IMPORTING_TORCH

MODULES = (
    "fx_explorer.worker.job",
    "fx_explorer.worker.request_recording",
    "fx_explorer.capture.option_catalogue",
    "fx_explorer.capture.recorder",
    "fx_explorer.program.calling",
    "fx_explorer.instruments.fixes.measure.verifying",
)
"""Ours that a worker needs for a target."""

CAPTURE_JOB = "worker.job"

MARK = "FX_EXPLORER_CAPTURE"
"""The variable by which the client knows a worker's processes (client/descendants.py)."""

ASKS_THE_DRIVER = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""With this variable at 1, ``torch.cuda.is_available`` counts GPUs without initializing CUDA, after
which no fork could use them (torch/cuda/__init__.py). torch 2.11 calls it when its compiler is
imported (torch/_inductor/runtime/benchmarking.py).
"""

IDLE_S = 2.0
"""After a request, the server waits so long for another one before it imports more: the worker that
was just forked has the processor for itself until its first graphs are known.
"""

DESCRIPTORS = 4
"""How many come with a request: notices, commands, standard output, standard error."""

LONGEST_REQUEST = 1 << 16

_ENV_START = 47
"""Field of ``/proc/PID/stat`` after the process's name: where its variables start in memory
(``env_start`` of proc_pid_stat(5)). Where they end is the next one.
"""


def main(client: int, _: int) -> None:
    """Run the fork server: fork a worker for each request on the socket ``client``. Never
    returns.
    """
    printed = _keep_what_is_printed()
    os.write(client, b"%d\n" % os.getpid())
    worker = ForkLoop(socket.socket(fileno=client), printed).serve()
    if has_lost_its_devices():
        worker = replace(worker, is_fresh=True)
    os.close(printed)
    worker.work()


@dataclass(frozen=True, slots=True)
class RequestedWorker:
    """Describes a worker that the client asked for: its job and its file descriptors."""

    job: str
    """The module of the package that does the work."""
    folder: str
    """Its working directory."""
    variables: Mapping[str, str]
    """Environment variables that differ from those of the server."""
    notices: int
    commands: int
    output: int
    errors: int
    begun: bytes
    """The part of the commands that the server has read; empty for a job other than a capture."""
    is_fresh: bool
    """Whether a fresh interpreter is started in place of the fork."""

    def work(self) -> None:
        """Do the job in this process. Never returns."""
        begun = (self.begun,) if self.begun else ()
        if self.is_fresh:
            self._start_afresh()
        job = importlib.import_module(f"fx_explorer.{self.job}")
        with_room(job.main)(self.notices, self.commands, *begun)

    def _start_afresh(self) -> None:
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
        arguments = [worker, str(self.notices), str(self.commands), self.job]
        inherited = [self.notices, self.commands]
        with tempfile.TemporaryFile() as file:
            if self.begun:
                file.write(self.begun)
                file.flush()
                file.seek(0)
                arguments.append(str(file.fileno()))
                inherited.append(file.fileno())
            for descriptor in inherited:
                os.set_inheritable(descriptor, True)
            os.execv(sys.executable, [sys.executable, *arguments])


class ForkLoop:
    """Answers the requests of one client. torch and its compiler are imported when the client asks
    for that, or before the first worker that needs them.
    """

    def __init__(self, client: socket.socket, printed: int) -> None:
        self._client = client
        self._printed = printed
        self._torch: TorchOnDisk | None = None
        """The torch that was imported; None before the import."""
        self._can_fork = False
        self._later: deque[Callable[[], object]] = deque()
        """Imports for which there was no time yet (later_imports.py)."""

    def serve(self) -> RequestedWorker:
        """Answer requests until the client has gone. The server never returns from here; a forked
        worker does, with the description of its work.
        """
        while request := self._next_request():
            asked, descriptors = request
            if not descriptors:
                self._import()
                self._client.sendall(b"0\n")
                continue
            worker = self._worker(asked, descriptors)
            pid = _fork(worker, self._printed)
            if pid is None:
                self._client.close()
                return worker
            self._client.sendall(b"%d\n" % pid)
        os._exit(0)

    def _next_request(self) -> tuple[dict[str, Any], list[int]] | None:
        """Wait for a request, and return it with its file descriptors. Returns None when the client
        has gone.
        """
        self._import_while_idle()
        try:
            line, descriptors, _, _ = socket.recv_fds(self._client, LONGEST_REQUEST, DESCRIPTORS)
        except OSError:
            return None
        if not line:
            return None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return json.loads(line), list(descriptors)

    def _worker(self, asked: dict[str, Any], descriptors: list[int]) -> RequestedWorker:
        """Describe the requested worker, after importing what it needs."""
        notices, commands, output, errors = descriptors
        begun, is_fresh = b"", False
        if asked["job"] == CAPTURE_JOB:
            begun = _first_line(commands)
            is_fresh = _needs_own_imports(begun)
        if not is_fresh:
            if self._torch is None and asked["job"] == CAPTURE_JOB:
                notice = Notice("worker", text=IMPORTING_TORCH)
                os.write(notices, notice.to_json().encode() + b"\n")
            self._import()
            is_fresh = not self._can_fork or self._torch is None or self._torch.has_changed
        return RequestedWorker(
            asked["job"],
            asked["folder"],
            asked["variables"],
            notices,
            commands,
            output,
            errors,
            begun,
            is_fresh,
        )

    def _import(self) -> None:
        if self._torch is None:
            self._torch = TorchOnDisk()
            self._can_fork = _import_all() and threading.active_count() == 1
            if self._can_fork:
                self._later.extend(later_imports.steps())

    def _import_while_idle(self) -> None:
        """Import more until there is a request, or nothing is left to import."""
        wait_s = IDLE_S
        while self._later and not select.select([self._client], [], [], wait_s)[0]:
            wait_s = 0.0
            step = self._later.popleft()
            try:
                with _driver_asked():
                    step()
            except BrokenTorch:  # a worker imports it again, and says what is wrong
                self._later.clear()
            self._can_fork = threading.active_count() == 1


def has_lost_its_devices() -> bool:
    """Return whether torch refuses to use a GPU in this fork, as it does where the server had asked
    for one before the fork.
    """
    torch = sys.modules.get("torch")
    for device in ("cuda", "xpu"):
        is_refused = getattr(getattr(torch, device, None), "_is_in_bad_fork", None)
        if is_refused is not None and is_refused():
            return True
    return False


class TorchOnDisk:
    """Tells whether another version of torch has been installed since this object was made."""

    def __init__(self) -> None:
        self._version = os.path.join(os.path.dirname(place_of_torch()), "version.py")
        self._written = self._written_now()

    @property
    def has_changed(self) -> bool:
        return self._written_now() != self._written

    def _written_now(self) -> tuple[int, int]:
        try:
            status = os.stat(self._version)
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino


def _keep_what_is_printed() -> int:
    """Redirect the output of the imports to a file, and return its descriptor. Each worker prints
    that output again.
    """
    with tempfile.TemporaryFile() as file:
        kept = os.dup(file.fileno())
    os.dup2(kept, 1)
    os.dup2(kept, 2)
    return kept


def _import_all() -> bool:
    """Import everything that workers need, and return whether that succeeded."""
    try:
        with _driver_asked():
            import_torch()
            import_compiler()
            with importing_the_compiler():
                for module in MODULES:
                    importlib.import_module(module)
                hooks = importlib.import_module("fx_explorer.capture.recorder").HOOKS
                for module, _ in hooks.values():
                    importlib.import_module(f"fx_explorer.capture.{module}")
    except BaseException:  # noqa: BLE001 - the fresh worker imports again, and says what is wrong
        return False
    return True


@contextlib.contextmanager
def _driver_asked() -> Iterator[None]:
    """Have ``torch.cuda.is_available`` ask the driver inside the block; see ASKS_THE_DRIVER."""
    chosen = os.environ.get(ASKS_THE_DRIVER)
    os.environ[ASKS_THE_DRIVER] = "1"
    try:
        yield
    finally:
        if chosen is None:
            del os.environ[ASKS_THE_DRIVER]
        else:
            os.environ[ASKS_THE_DRIVER] = chosen


def _fork(worker: RequestedWorker, printed: int) -> int | None:
    """Fork a worker and return its process id. In the worker itself, return None.

    The worker is forked by a child that ends at once. So the client becomes its parent, and can
    wait for its end.
    """
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        if os.fork():
            os._exit(0)
        os.close(reading)
        _take_over(worker, printed)
        os.write(writing, b"%d" % os.getpid())
        os.close(writing)
        return None
    os.close(writing)
    for descriptor in (worker.notices, worker.commands, worker.output, worker.errors):
        os.close(descriptor)
    with os.fdopen(reading, "rb") as pipe:
        pid = int(pipe.read())
    os.waitpid(between, 0)
    return pid


def _take_over(worker: RequestedWorker, printed: int) -> None:
    """Give this fork what a process of its own has: a session, output, variables, and random
    numbers of its own.
    """
    os.setsid()
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(worker.output, 1)
    os.dup2(worker.errors, 2)
    os.close(worker.output)
    os.close(worker.errors)
    size = os.fstat(printed).st_size
    if size:
        os.write(2, os.pread(printed, size, 0))
    os.chdir(worker.folder)
    for name, value in worker.variables.items():
        os.environ[name] = value
    _show_mark(worker.variables.get(MARK, ""))
    _choose_seeds()
    sys.argv[1:] = [str(worker.notices), str(worker.commands), worker.job]


def _choose_seeds() -> None:
    """Seed every random number generator again, as a start of the interpreter does."""
    random.seed()
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and hasattr(torch, "default_generator"):
        torch.default_generator.seed()
    if numpy is not None:
        numpy.random.seed()


def _show_mark(mark: str) -> None:
    """Write the mark where the system reads a process's variables (``/proc/PID/environ``): it shows
    those of the start of the program, and in those of the server the mark has the same length.
    """
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(") ")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
    variables = ctypes.string_at(start, end - start)
    name = f"{MARK}=".encode()
    at = variables.find(name) + len(name)
    if at >= len(name) and variables[at + len(mark) : at + len(mark) + 1] == b"\0":
        ctypes.memmove(start + at, mark.encode(), len(mark))


def _first_line(commands: int) -> bytes:
    """Return what the client sends first, to the end of a line or of the pipe, and what was read
    with it.
    """
    begun = b""
    while b"\n" not in begun:
        chunk = os.read(commands, 65536)
        if not chunk:
            break
        begun += chunk
    return begun


def _needs_own_imports(begun: bytes) -> bool:
    """Return whether torch is to be imported later, or in a special way, for this request."""
    try:
        request = CaptureRequest.from_json(begun.partition(b"\n")[0].decode())
        place = locate(request)
    except (ValueError, TypeError, KeyError, FxExplorerError):
        return True  # the fresh worker says what is wrong
    return bool(request.gpu) or place.is_script
