"""This module records processes that the program forks or starts: each one that compiles something
writes its own session beside ours.

A forked one has our recorder already, which starts again there. A Python that is started finds
``in_children/sitecustomize.py`` through its environment, and records from its first use of
torch.compile on.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from os import getpid  # at once: the program may replace it
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from fx_explorer.model import Beginning
from fx_explorer.model.secret_arguments import without_secrets
from fx_explorer.process_status import can_follow_processes, leave_mark, option_without_site
from fx_explorer.session import SessionWriter

DIRECTORY = "children"
"""Directory beside the session, with ``PID-N.fxs`` of each process, and a ``*.json`` for each
process that cannot be recorded.
"""

REQUEST = "request.json"

VARIABLE = "FX_EXPLORER_CHILDREN"
"""Environment variable with that directory, for processes that are started."""

HOOK = str(Path(__file__).resolve().parent / "in_children")

OWN_CHILDREN = ("torch/_inductor/", "torch/testing/", "triton/")
"""Code that starts processes for the compiler itself: pools that compile, assemblers."""

_LAUNCHERS = (
    "sh",
    "bash",
    "dash",
    "zsh",
    "env",
    "nice",
    "nohup",
    "setsid",
    "stdbuf",
    "taskset",
    "time",
    "timeout",
    "xargs",
)
"""Programs that start the program which their arguments name."""


def watch(session: Path, request: str) -> Path:
    """Make the processes that the program starts from now on record their compilations, and return
    the directory of their sessions.

    ``request`` is what they record, as JSON. The client finds out which processes did not record
    (client/descendants.py); where the system does not tell it, it goes by how they were started.
    """
    directory = session.with_name(DIRECTORY)
    directory.mkdir(exist_ok=True)
    (directory / REQUEST).write_text(request, encoding="utf-8")
    os.environ[VARIABLE] = str(directory)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (HOOK, os.environ.get("PYTHONPATH"))))
    if can_follow_processes():
        leave_mark(str(directory))
    else:
        sys.addaudithook(_Starts(directory))
    return directory


def keep_from_dynamo(skip_code: Callable[[CodeType], object]) -> None:
    """Have Dynamo skip our audit hook. Python calls it within compiled functions too, where Dynamo
    would look at its every frame.
    """
    hearing: list[Any] = [_Starts.__call__, *globals().values()]
    for function in hearing:
        if isinstance(function, FunctionType):
            skip_code(function.__code__)


def new_session(directory: Path) -> Path:
    """Return a path that no other process has."""
    return directory / f"{getpid()}-{time.monotonic_ns()}.fxs"


def describe_process(writer: SessionWriter, beginning: Beginning) -> None:
    if beginning == "started":
        command = command_line()
    else:
        command = " ".join(without_secrets(sys.argv).words)
    writer.set_meta("process", {"pid": getpid(), "beginning": beginning, "command": command})


def command_line() -> str:
    return " ".join(without_secrets(sys.orig_argv).words)


def note_unseen(directory: Path, command: str, why: str) -> None:
    """Write down that a process may compile without being recorded. Never raises: nothing here may
    harm the program.
    """
    row = {"pid": 0, "command": command, "why": why}
    try:
        (directory / f"{getpid()}-{time.monotonic_ns()}.json").write_text(
            json.dumps(row), encoding="utf-8"
        )
    except OSError as error:
        print(f"fx-explorer: a child process could not be recorded: {error}", file=sys.__stderr__)


class _Starts:
    """_Starts notices, by Python's audit events, started Pythons that have their own environment or
    options. It is for systems that do not report what a process does.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, event: str, details: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            program, words, _, environment = details
        elif event in ("os.posix_spawn", "os.exec"):
            program, words, environment = details
        else:
            return
        command = _command_arguments(words) or [_text(program)]
        why = _why_unseen(_text(program or command[0]), command, environment)
        if why and not _is_of_compiler(sys._getframe(1)):
            note_unseen(self._directory, " ".join(without_secrets(command).words), why)


def _why_unseen(program: str, command: list[str], environment: Mapping[Any, Any] | None) -> str:
    """Return why a program cannot be recorded; empty for a program that is not Python, or that will
    find our hook.
    """
    # A shell has its whole command in one word.
    if os.path.basename(program) in _LAUNCHERS:
        words = [program, *" ".join(command).split()]
    else:
        words = [program]
    if not any(map(_is_python, words)):
        return ""
    if environment is not None and HOOK not in _path_of(environment).split(os.pathsep):
        return "it was started with its own environment"
    option = option_without_site(command[1:])
    if option:
        return f"it was started with {option}, which makes Python ignore its environment"
    return ""


def _is_python(program: str) -> bool:
    """Return whether a program is Python: by its name, or because it is a script whose first line
    says so, such as ``torchrun``.
    """
    if program == sys.executable or os.path.basename(program).startswith("python"):
        return True
    found = shutil.which(program)
    if not found:
        return False
    try:
        with open(found, "rb") as file:
            start = file.readline(200)
    except OSError:
        return False
    return start.startswith(b"#!") and b"python" in start


def _path_of(environment: Mapping[Any, Any]) -> str:
    return _text(environment.get("PYTHONPATH") or environment.get(b"PYTHONPATH") or "")


def _command_arguments(words: Any) -> list[str]:
    if isinstance(words, str | bytes | os.PathLike):
        return [_text(words)]
    if isinstance(words, Iterable):
        return [_text(word) for word in words]
    return []


def _text(value: object) -> str:
    if isinstance(value, str | bytes | os.PathLike):
        return os.fsdecode(value)
    return str(value)


def _is_of_compiler(frame: FrameType | None) -> bool:
    """Return whether the first caller outside the standard library is the compiler."""
    standard = os.path.dirname(os.__file__)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not (
            file.startswith((standard, "<frozen")) and "site-packages" not in file
        ):
            return any(part in file.replace(os.sep, "/") for part in OWN_CHILDREN)
        frame = frame.f_back
    return False
