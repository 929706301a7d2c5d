"""This module describes how the user's program ended, and our own errors during the run, which are
never reported as the program's.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import signal
import site
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType, TracebackType

from fx_explorer.capture.stepping.gates import LeftAtGate
from fx_explorer.errors import SessionWriteError, TargetError, WorkerError
from fx_explorer.model import Compilation, Failure, Outcome
from fx_explorer.program import process_ending
from fx_explorer.program.explaining import (
    class_name,
    explain_refusal,
    one_line,
    print_traceback,
    ran_in_a_graph,
    ran_out_of_memory,
    shown,
    target_error_of,
    whole_text,
    without_our_frames,
)
from fx_explorer.program.usable_torch import TorchEnded
from fx_explorer.worker.progress import RequestProgress

ONLY_IN_EAGER_MODE = (
    "the compiled program does not raise, but its graphs do when PyTorch's operators run them: {}"
)


class Outcomes:
    """Makes the outcome of one request, from the program's end and our own errors."""

    def __init__(self, progress: RequestProgress) -> None:
        self._progress = progress
        self.plain_words: list[Callable[[BaseException], str]] = [explain_refusal]
        """Functions that reword an error's message, or return an empty text. The first that returns
        a text counts.
        """
        self.program: Outcome | None = None
        """How the user's program ended; None while it runs."""
        self.is_cancelled = False
        """Whether the client requested the stop, and not the user at a gate."""
        self._fault = ""
        """Our own error during a script's run; empty without one."""

    def of_program(self, program: Callable[[], None]) -> Outcome:
        """Run the program and return its outcome, whatever it does. The traceback of an exception
        is printed and stored.
        """
        self.program = self._of_program(program)
        return self.program

    def note_problem(self, text: str) -> None:
        """Note why we cannot record. The program continues."""
        self._fault = text

    def note_fault(self, error: BaseException) -> None:
        """Record an error of our own. The program continues."""
        self._fault = self._describe_fault(error)

    def of_fault(self, error: BaseException) -> Outcome:
        """Return the outcome for an error of our own outside the user's program."""
        text = self._describe_fault(error)
        if self.program:
            return replace(self.program, kind="incomplete", message=text)
        return Outcome("not_started", text, 4)

    @property
    def problem(self) -> str:
        """Return why the session is not complete; empty when it is."""
        if self._fault:
            return self._fault
        return str(self._progress.writer.failure or "")

    def checked(self, outcome: Outcome) -> Outcome:
        """Return the outcome, marked as incomplete when the session is."""
        if not self.problem:
            return outcome
        text = f"{self.problem} The program continued: {outcome.kind}"
        if outcome.message:
            text += f" ({outcome.message})"
        return Outcome("incomplete", text, outcome.exit_code)

    def _of_program(self, program: Callable[[], None]) -> Outcome:
        try:
            program()
        except BaseException as error:  # noqa: BLE001
            # the program may raise anything; it is printed, stored and reported
            with self._progress.original_functions.in_place():
                return self._of_error(error)
        earlier = self._progress.request.raised_inspecting
        if earlier:
            return Outcome("finished", ONLY_IN_EAGER_MODE.format(earlier))
        return Outcome("finished", "")

    def _of_error(self, error: BaseException) -> Outcome:
        """Return the outcome of a program that ended with an exception."""
        try:
            raise target_error_of(error)
        except process_ending.Cancelled:
            self.is_cancelled = True
            return Outcome("cancelled", f"cancelled while {self._progress.activity}")
        except LeftAtGate:
            return Outcome(
                "cancelled",
                f"aborted at a pause while {self._progress.activity}; what was captured is kept",
            )
        except SystemExit as leaving:
            return self._left(leaving)
        except TargetError as error:
            return Outcome("not_started", str(error), error.exit_code)
        except TorchEnded as ended:
            return Outcome("not_started", str(ended), WorkerError.exit_code)
        except BaseException as raised:  # noqa: BLE001 - as above
            return self._raised(raised)

    def _left(self, leaving: SystemExit) -> Outcome:
        """Return the outcome of ``sys.exit``. A target is a function that we call, so for it every
        ``sys.exit`` is early.
        """
        code, file, line = process_ending.exit_status(leaving), "", 0
        is_script = self._progress.place.is_script
        if is_script:
            file, line = left_early(without_our_frames(leaving.__traceback__))
        is_early = bool(file) or not is_script
        where = f" at {file}:{line}, before its end," if file else ""
        text = (
            f"the program called sys.exit({shown(leaving.code)}){where} while "
            f"{self._progress.activity}"
        )
        return Outcome("exited", text, code, is_early, file, line)

    def _raised(self, error: BaseException) -> Outcome:
        plain = next(filter(None, (words(error) for words in self.plain_words)), "")
        message = self._report(
            "program", error.with_traceback(without_our_frames(error.__traceback__))
        )
        message = plain or message
        if ran_out_of_memory(error):
            message += (
                ". Out of memory: the program asked for more than its limit or the machine "
                "allows. It happened"
            )
        if isinstance(error, KeyboardInterrupt):  # of which Python dies as of the signal
            text = f"the program was ended by SIGINT ({message}) while {self._progress.activity}"
            return Outcome("killed", text, -signal.SIGINT)
        text = f"{message} while {self._progress.activity}"
        was_in_eager_graph = self._was_in_eager_graph(error)
        if was_in_eager_graph:
            self._note_raised_inspecting(text)
        return Outcome("raised", text, 1, in_eager_graphs=was_in_eager_graph)

    def _note_raised_inspecting(self, text: str) -> None:
        """Record it in the session at once: at a pause there is no outcome yet. A failed write is
        in ``failure``.
        """
        with contextlib.suppress(SessionWriteError):
            self._progress.writer.set_meta("raised_inspecting", text)

    def _was_in_eager_graph(self, error: BaseException) -> bool:
        """Return whether an only inspected graph, or the backward of one, was running."""
        request = self._progress.request
        if request.build or request.gpu or not isinstance(error, Exception):
            return False
        return ran_in_a_graph(error) and self._progress.writer.count(Compilation) > 0

    def _describe_fault(self, error: BaseException) -> str:
        """Describe a fault, and name the functions that the program has replaced: they may be its
        cause.
        """
        replaced = self._progress.original_functions.describe()
        with self._progress.original_functions.in_place():
            what = f"failed while {self._progress.activity}: {self._report('worker', error)}. "
        if replaced:
            return f"fx-explorer {what}{replaced}; what was recorded so far is kept."
        return (
            f"fx-explorer itself {what}This is a bug in fx-explorer, not in the program; please "
            "report it with the traceback above."
        )

    def _report(self, where: str, error: BaseException) -> str:
        """Print the traceback as Python would, store it, and return its last line."""
        print_traceback(error)
        message = one_line(error)
        failure = Failure(0, 0, where, None, class_name(error), message)
        self._progress.writer.try_failure(failure, whole_text(error))
        return message


# Whether a program that calls ``sys.exit`` had come to its end.

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def left_early(trace: TracebackType | None) -> tuple[str, int]:
    """Return file and line of the first of the user's frames that had more to do; ("", 0) when all
    were at their ends.

    ``trace`` begins with the script's own frame.

    It is judged by where the call stands in each of the user's functions. ``sys.exit(main())`` as
    the last statement of a script is its end; in the middle or in a loop it is not. A call within a
    library (click, argparse) counts by the user's lines that lead to it.
    """
    while trace is not None:
        code = trace.tb_frame.f_code
        if _is_users(code.co_filename) and not _is_at_end(code, trace.tb_lineno):
            return code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return "", 0


def _is_users(file: str) -> bool:
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    return not file.startswith((*libraries, *site.getsitepackages(), "<frozen"))


def _is_at_end(code: CodeType, line: int) -> bool:
    """Return whether ``line`` ends the function. True if that is not known: no source, a lambda, a
    comprehension.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    if code.co_name == "<module>":
        return is_last(tree.body, line)
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return is_last(node.body, line)
    return True


def _position_of(line: int, body: Sequence[ast.stmt]) -> int | None:
    for position, statement in enumerate(body):
        if statement.lineno <= line <= (statement.end_lineno or line):
            return position
    return None


def is_last(body: Sequence[ast.stmt], line: int) -> bool:
    """Return whether only definitions follow the statement at ``line`` in the block."""
    at = _position_of(line, body)
    if at is None:
        return False
    for after in body[at + 1 :]:
        if not isinstance(after, (*_FUNCTIONS, ast.ClassDef)):
            return False
    match body[at]:
        case ast.If(body=then, orelse=otherwise):
            return any(is_last(block, line) for block in (then, otherwise))
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return is_last(inner, line) or line < inner[0].lineno
        case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=final):
            blocks = [otherwise or tried, final, *(handler.body for handler in handlers)]
            return any(is_last(block, line) for block in blocks)
        case ast.While(test=ast.Constant(value=value), body=inner) if value:
            return inner[0].lineno <= line  # an endless loop has no other way out
        case ast.While() | ast.For() | ast.AsyncFor():
            return False
        case ast.Match(cases=cases):
            return any(is_last(case.body, line) for case in cases)
        case _:
            return True
