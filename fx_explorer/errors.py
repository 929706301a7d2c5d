"""Every error fx-explorer raises on purpose.

::

    FxExplorerError               exit code
    ├── UsageError                    2   the command line or the target does not say what to do
    │   ├── TargetError               2   the target was not found, or does not say what to compile
    │   │   └── UnreadableProgramError    5   a .pt2 file is broken, of another torch, or no program
    │   └── PassProblem               2   a pass file is unusable, or its graph cannot be compiled
    ├── ProgramError                  3   the user's own program raised; its traceback is kept
    ├── WorkerError                   4   the worker process died, timed out or could not be started
    ├── SessionError                  5   a session or log cannot be read
    │   ├── NotASessionError          5   the file is something else, or damaged beyond reading
    │   ├── NewerSessionError         5   written by a newer fx-explorer
    │   └── OlderSessionError         5   written by an older fx-explorer
    └── SessionWriteError             4   the session file cannot be written (full disk, read-only)

A message says what happened, where, and what to do next. A user's mistake never shows a traceback
of ours.
"""

from __future__ import annotations


class FxExplorerError(Exception):
    """Base class of all our errors. ``exit_code`` is the exit code of the command line."""

    exit_code = 1


class UsageError(FxExplorerError):
    exit_code = 2


class TargetError(UsageError):
    pass


class UnreadableProgramError(TargetError):
    exit_code = 5


class PassProblem(UsageError):
    pass


class ProgramError(FxExplorerError):
    exit_code = 3


class WorkerError(FxExplorerError):
    exit_code = 4


class SessionError(FxExplorerError):
    exit_code = 5


class NotASessionError(SessionError):
    pass


class NewerSessionError(SessionError):
    pass


class OlderSessionError(SessionError):
    pass


class SessionWriteError(FxExplorerError):
    exit_code = 4
