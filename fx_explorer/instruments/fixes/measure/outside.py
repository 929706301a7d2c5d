"""This module observes what a program does beyond its own values: files, processes, sockets,
clocks, identities, C libraries.

None of it shows in the program's values. ``OutsideEffects`` lists what reaches outside, by Python's
audit events, to be compared with the other program's list. ``HiddenCalls`` names what varies from
run to run or is kept out of sight, by listening to calls. That slows a program down, so only the
original is listened to, which runs without torch.compile.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from fx_explorer.program.place import is_users_file

_REACHES_OUT = (
    "os.",
    "shutil.",
    "subprocess.",
    "socket.",
    "sqlite3.connect",
    "urllib.Request",
    "http.client.",
    "smtplib.",
    "ftplib.",
    "signal.pthread_kill",
    "webbrowser.open",
    "mmap.__new__",
    "tempfile.",
    "fcntl.",
    "_thread.start_new_thread",
    "open",
)
_ONLY_LOOKS = frozenset(
    [
        "os.listdir",
        "os.scandir",
        "os.walk",
        "os.fwalk",
        "os.listxattr",
        "os.getxattr",
        "os.putenv",
        "os.unsetenv",
    ]
)


READS = "reads "
"""Prefix of an effect that only reads something outside."""


class OutsideEffects:
    """Records the effects of the user's code outside the process, while it is active. Python never
    removes an audit hook, so there is one for all instances.
    """

    _hearing: OutsideEffects | None = None
    _is_hooked = False

    @contextlib.contextmanager
    def recorded(self, found: list[str]) -> Iterator[None]:
        """Append each effect of the user's code inside the block to ``found``."""
        if not OutsideEffects._is_hooked:
            OutsideEffects._is_hooked = True
            sys.addaudithook(_hear)
        self.found = found
        OutsideEffects._hearing = self
        try:
            yield
        finally:
            OutsideEffects._hearing = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    hearing = OutsideEffects._hearing
    if hearing is None or not event.startswith(_REACHES_OUT) or event in _ONLY_LOOKS:
        return
    if event == "open" and not _writes(arguments) and not _is_data(arguments[0]):
        return
    if _is_of_the_user(sys._getframe(1)):
        hearing.found.append(_describe_event(event, arguments))


def _is_data(file: object) -> bool:
    """Return whether the file has a name and is not a Python source. Sources are read for
    tracebacks and warnings; a file without a name is a descriptor.
    """
    return isinstance(file, str | bytes | os.PathLike) and not os.fsdecode(file).endswith(".py")


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = (*arguments, None, None, None)[:3]
    by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    return by_mode or (
        isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    )


def _is_of_the_user(frame: types.FrameType | None) -> bool:
    """Return whether the user's code made this call, directly or through libraries.

    Calls by the compiler do not count, nor do calls by an import, which writes bytecode where there
    is none, and tries to even where it may not.
    """
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        return False
    while frame is not None:
        path = frame.f_code.co_filename
        if any(part in path for part in _COMPILERS):
            return False
        if is_users_file(path) and not path.startswith("<"):
            return True
        frame = frame.f_back
    return False


_COMPILERS = (
    *(
        os.path.join("torch", part) + os.sep
        for part in ("_dynamo", "_inductor", "_functorch", "_logging")
    ),
    str(Path(__file__).resolve().parents[3]) + os.sep,
)


def _describe_event(event: str, arguments: tuple[Any, ...]) -> str:
    if event == "open":
        if _writes(arguments):
            return f"opens {_short(arguments[0])} for writing"
        return f"{READS}{_short(arguments[0])}"
    shown = ", ".join(_short(argument) for argument in arguments[:2] if not callable(argument))
    return f"calls {event}({shown})"


def _short(value: object) -> str:
    if not isinstance(value, str | bytes | int | float | bool | None | list | tuple | PurePath):
        return type(value).__name__
    if isinstance(value, bytes | PurePath):
        text = os.fsdecode(value)
    else:
        text = str(value)
    if len(text) <= 80:
        return text
    return (
        f"…{text[-79:]}" if os.path.isabs(text) else f"{text[:79]}…"
    )  # the end of a path says which file it is


AS_LONG_AS_COMPILING_S = 1.1
"""Delay in seconds of the original's clocks when it runs once more. A program that compiles reads
its clocks later too, perhaps in another second.
"""

MOST_PLACES = 6
"""Maximum number of places of the program at which the original's clock is delayed."""

_in_the_places: list[object] = []


def take_free_places() -> None:
    """Fill the free blocks of this process's memory, so that new objects lie at other addresses
    than in another process and have another ``id()``.
    """
    for size in range(16, 512, 16):
        _in_the_places.extend(bytes(size) for _ in range(200))
    for power in range(9, 17):
        _in_the_places.extend(bytes(2**power + 1) for _ in range(16))
    _in_the_places.extend([] for _ in range(1000))


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Switch off profiling and tracing inside the block: an import of torch takes four times as
    long when it is traced.
    """
    profile, trace = sys.getprofile(), sys.gettrace()
    sys.setprofile(None)
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
        sys.setprofile(profile)


class HiddenCalls:
    """Records the calls in the user's code that return another value in each run, or whose effect
    cannot be seen.
    """

    def __init__(self, answers_later_s: float = 0.0) -> None:
        """Delay the calls whose answer varies by ``answers_later_s``, once at each of the first
        places that make one.
        """
        self.found: dict[str, None] = {}
        """Descriptions, in the order in which they were first met."""
        self._answers_later_s = answers_later_s
        self._asked_at: set[tuple[types.CodeType, int]] = set()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every call inside the block."""
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _called(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self._called_c(frame, argument)
        elif (
            event == "call"
            and frame.f_code.co_filename.endswith(_OF_CHANCE)
            and _is_called_by_the_user(frame.f_back)
        ):
            self.found[f"{PurePath(frame.f_code.co_filename).stem}.{frame.f_code.co_name}()"] = None
        elif (
            event == "call"
            and frame.f_code in _COUNT_THREADS
            and _is_called_by_the_user(frame.f_back)
        ):
            self.found[f"what threading.{frame.f_code.co_name} says later"] = None

    def _called_c(self, frame: types.FrameType, function: Any) -> None:
        """Record a call of a C function from the user's code if its answer varies or its effect
        cannot be seen.
        """
        path = frame.f_code.co_filename
        if function in _LOOKS_AT_THE_DISK and _is_called_by_the_user(_above_path_modules(frame)):
            self.found[f"what os.{function.__name__} says later"] = None
        if not _is_called_by_the_user(frame):
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, type):
            of_class = owner.__name__
        else:
            of_class = type(owner).__module__
        module = getattr(function, "__module__", None) or of_class
        name = f"{module}.{getattr(function, '__name__', '')}"
        if name in _VARIES:
            self.found[f"{name}()"] = None
            self._wait_at(frame)
        elif name in _ACTS_UNSEEN or str(module).partition(".")[0] in _WHOLE_MODULES:
            self.found[f"effects of {name} outside of the program's own values"] = None
        elif is_users_file(path) and _is_extension(str(module)):
            self.found[f"what {name} keeps inside"] = None

    def _wait_at(self, frame: types.FrameType) -> None:
        place = (frame.f_code, frame.f_lasti)
        if (
            self._answers_later_s
            and place not in self._asked_at
            and len(self._asked_at) < MOST_PLACES
        ):
            self._asked_at.add(place)
            time.sleep(self._answers_later_s)


def asks_for_what_varies(run: Mapping[str, Any]) -> bool:
    """Return whether this run of the original made a call that returns something else in each
    run.
    """
    return any(what.endswith("()") for what in run["hidden"])


def _above_path_modules(frame: types.FrameType | None) -> types.FrameType | None:
    """Return the frame that called into Python's own path modules: the caller of ``Path.exists()``
    or ``shutil.which()``.
    """
    while (
        frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PATH_MODULES
    ):
        frame = frame.f_back
    return frame


def _is_called_by_the_user(frame: types.FrameType | None) -> bool:
    return frame is not None and is_users_file(frame.f_code.co_filename)


def _is_extension(module: str) -> bool:
    """Return whether a module is an installed library written in C. Python's own modules, torch and
    NumPy do not count.
    """
    root = module.partition(".")[0]
    if (
        root in sys.stdlib_module_names
        or root in ("torch", "numpy", "NoneType")
        or root not in sys.modules
    ):
        return False
    file = getattr(sys.modules.get(module) or sys.modules[root], "__file__", "") or ""
    return file.endswith((".so", ".pyd", ".dylib"))


_PATH_MODULES = frozenset(["genericpath", "glob", "os", "pathlib", "posixpath", "shutil"])

_LOOKS_AT_THE_DISK = (os.stat, os.lstat, os.access, os.listdir, os.scandir, os.readlink, os.statvfs)
"""Functions whose answer changes when any process changes the disk."""

_COUNT_THREADS = frozenset([threading.active_count.__code__, threading.enumerate.__code__])

_VARIES = frozenset(
    [
        f"time.{name}"
        for name in (
            "time",
            "time_ns",
            "monotonic",
            "monotonic_ns",
            "perf_counter",
            "perf_counter_ns",
        )
    ]
    + [
        f"time.{name}"
        for name in (
            "process_time",
            "process_time_ns",
            "thread_time",
            "localtime",
            "gmtime",
            "ctime",
            "strftime",
        )
    ]
    + ["datetime.now", "datetime.utcnow", "datetime.today", "date.today"]
    + [
        "builtins.id",
        "os.urandom",
        "posix.urandom",
        "posix.getpid",
        "posix.getppid",
        "posix.times",
        "posix.getloadavg",
    ]
    + ["sys.getrefcount", "_thread.get_ident"]
)
"""Python functions that return another value in each run."""

_OF_THE_PROCESS = {
    "posix": (
        "write",
        "pwrite",
        "sendfile",
        "umask",
        "nice",
        "fork",
        "close",
        "dup2",
        "sched_setaffinity",
        "sched_setscheduler",
        "sched_setparam",
        "setpriority",
    ),
    "sys": ("setrecursionlimit", "setswitchinterval", "settrace", "setprofile"),
    "gc": ("collect", "disable", "enable", "freeze", "unfreeze", "set_threshold", "set_debug"),
    "_signal": ("signal", "alarm", "setitimer", "siginterrupt", "pthread_sigmask", "set_wakeup_fd"),
    "faulthandler": ("dump_traceback_later", "cancel_dump_traceback_later"),
    "atexit": ("register",),
    "_locale": ("setlocale",),
    "_thread": ("stack_size",),
    "time": ("tzset",),
}

_ACTS_UNSEEN = frozenset(
    f"{module}.{name}" for module, names in _OF_THE_PROCESS.items() for name in names
)
"""Python functions with effects that the comparison cannot see."""

_WHOLE_MODULES = frozenset(
    ["_ctypes", "ctypes", "_socket", "select", "resource", "_posixsubprocess"]
)

_OF_CHANCE = tuple(f"{os.sep}{name}.py" for name in ("uuid", "secrets"))
"""Files of Python modules whose functions return another value in each run."""
