"""This module reads ``/proc/PID/stat`` of Linux: a process's parent, its session, and which start
of a program it is.

Processes that a recorded program starts load this file by its path, before anything of theirs: it
imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NO_SITE = frozenset("EIS")
"""Options of Python that keep it from the environment, or from ``sitecustomize``."""


class ProcessStatus:
    """The fields of ``/proc/PID/stat`` (proc_pid_stat(5)) that say whose process it is."""

    __slots__ = ("group", "image", "parent", "pid", "session", "state")

    def __init__(self, text: str) -> None:
        number, _, rest = text.partition(" (")
        fields = rest.rpartition(") ")[2].split()  # a name may hold anything, parentheses too
        self.pid = int(number)
        self.state = fields[0]
        """State of the process, one letter. ``Z`` is a process that has ended and that its parent
        has not waited for.
        """
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.image = fields[25]
        """Address of the process's stack. Each ``execve`` chooses it at random, and a fork keeps
        it: it tells starts of programs apart. ``0`` where the system does not report it.
        """


def status_of(process: int | str = "self") -> ProcessStatus | None:
    """Return the status of a process; None if it has ended, and on systems without ``/proc``."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return ProcessStatus(file.read())
    except (OSError, ValueError, IndexError):
        return None


def can_follow_processes() -> bool:
    """Return whether this system reports which process started which."""
    status = status_of()
    return status is not None and status.image != "0"


def option_without_site(arguments: Sequence[str]) -> str:
    """Return the option of Python's command line that keeps our hook from being imported; empty if
    there is none.
    """
    for argument in arguments:
        if not argument.startswith("-"):
            break
        if argument.startswith("--"):
            continue
        letters = argument.partition("c")[0].partition("m")[0]
        if NO_SITE & set(letters):
            return argument
        if letters != argument:
            break  # what follows -c and -m is the program's
    return ""


def leave_mark(directory: str) -> None:
    """Mark in the directory that this process's compilations, if any, are recorded."""
    status = status_of()
    if status is not None:
        with open(mark_of(directory, status.image), "w", encoding="utf-8"):
            pass


def mark_of(directory: str, image: str) -> str:
    """Return the path of the file that ``leave_mark`` leaves for a start of a program."""
    return f"{directory}/{image}.recorded"
