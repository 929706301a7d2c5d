"""A ``Capture`` runs one capture from the outside: the worker process, its pipes, the session file,
and the end of it all. ``temporary_capture`` gives one whose session is looked at once and then
gone: what a trial is made of.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.client import session_files
from fx_explorer.client.child_sessions import add_children
from fx_explorer.client.console import Console
from fx_explorer.client.descendants import describe_descendants
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.client.history import History, Hold, KeptCapture, project_of
from fx_explorer.client.process_outcomes import (
    IMPORTING_TORCH,
    EndedWorker,
    failure_of,
    outcome_of,
    with_problem,
)
from fx_explorer.client.session_files import files_of, place_session, session_file
from fx_explorer.client.worker_process import GRACE_S, WorkerProcess, next_line
from fx_explorer.errors import SessionError, SessionWriteError, UsageError
from fx_explorer.model import CaptureRequest, Command, Notice, Outcome
from fx_explorer.model.checked_json import checked
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import (
    mark_as_captured_here,
    remember_request,
    remember_session,
    whole_request,
)
from fx_explorer.session.queries.compilations import has_compiled
from fx_explorer.session.writer import finish_session

MAX_SHOWN = 200
"""Maximum number of bytes that are quoted of a line on the pipe that is no notice."""


class Capture:
    """Starts a worker for ``request`` (its ``session`` is filled in here) and follows it to the
    end.

    The session file exists from ``start()`` on and can be read while it grows. When the worker is
    gone, its process group is killed, so nothing it started stays behind. With ``output`` the
    finished session is moved there; without, it stays in a temporary directory until ``discard()``,
    and so does one of a target that could not be started: it must not replace a good session.

    With ``history`` the finished session is kept there as well: moved without an ``output``, else
    copied. Where that fails, ``history_problem`` says why, and all is as without a history.

    With ``request.stay`` the worker waits for commands (``send``) when the program has ended: the
    session is then as complete as if it were over, but for its place; ``cancel()`` lets the worker
    go, and the outcome stays that of the program.

    ``on_output(stream, bytes)`` hears what the program prints, as it comes.
    """

    def __init__(
        self,
        request: CaptureRequest,
        python: str = sys.executable,
        timeout: float | None = None,
        output: Path | None = None,
        on_output: Callable[[str, bytes], None] | None = None,
        environment: Mapping[str, str] | None = None,
        force: bool = False,
        fork_server: ForkServer | None = None,
        history: History | None = None,
    ) -> None:
        """``environment`` are variables that the worker gets beside our own. With ``force``, a file
        at ``output`` is replaced even when it is no session. The worker is a fork of
        ``fork_server`` where it can be; what the next one needs is imported there when the program
        has ended.

        Raises UsageError when ``output`` cannot be written, and SessionWriteError when there is no
        temporary directory.
        """
        request = whole_request(request)
        never = files_of(request.target)
        self.output = session_file(output, force=force, never=never) if output else None
        if self.output:
            self.output.check()
        self.python = python
        self.timeout = timeout
        self._on_output = on_output
        self._directory, self._lock = session_files.new_capture_directory()
        self.session_path = self._directory / "session.fxs"
        remember_session(self.session_path)
        self._history = history
        self._project = project_of(request.target) if history else ""
        self._hold: Hold | None = None
        self.kept: KeptCapture | None = None
        """The capture in the history, once it is kept there."""
        self.history_problem = ""
        """Why it could not be kept in the history; empty for none."""
        self.request = replace(request, session=str(self.session_path))
        remember_request(self.request)
        self.outcome: Outcome | None = None
        self._notices: asyncio.Queue[Notice | None] = asyncio.Queue()
        self._fork_server = fork_server
        self._worker = WorkerProcess(
            python, environment, directory=self._directory, fork_server=fork_server
        )
        self._activity = ""
        self._last_words = ""
        self._last_output = b""
        self._took_s = 0.0
        """Seconds that the program took, set when it has ended while its worker stays; 0 before."""
        self._held_since = 0.0
        self._waited_s = 0.0
        """What the worker waited for the user at gates; that is no time of the program's."""
        self._is_dismissed = False
        self._is_interrupted = False
        self._is_kept = False
        self._last_note = ""
        self.stopped_by = 0
        """Signal for which the capture was cancelled by the code that awaits it; 0 for none."""
        self.left_behind = ""
        """What of the program runs on when its capture is over, in words."""

    async def start(self) -> None:
        """Create the session and start the worker. Raises SessionWriteError when there is no room
        for either.
        """
        self._began = time.monotonic()
        try:
            self._writer = self._create_session()
        except SessionWriteError:
            self.discard()
            raise
        self._console = Console(self._writer, self._hear)
        self._supervisor = asyncio.create_task(self._supervise(), name="worker supervisor")

    async def notices(self) -> AsyncIterator[Notice]:
        """Yield notices as they come; the last one is the outcome. There can be one listener."""
        while (notice := await self._notices.get()) is not None:
            yield notice

    async def wait(self) -> Outcome:
        """Wait for the end. The session is complete, and in its place, when this returns."""
        # Whoever waits may be cancelled; the worker is followed to its end all the same.
        await asyncio.shield(self._supervisor)
        assert self.outcome is not None
        return self.outcome

    def send(self, command: Command) -> None:
        """Give the worker a command; the answer is a notice, ``done`` or ``refused``. None comes
        when the worker is gone.
        """
        self._worker.send(command.to_json())

    async def cancel(self, grace_s: float = GRACE_S) -> Outcome:
        """Stop the worker: politely first, by force after ``grace_s``. Does nothing to one that has
        ended.

        A worker that only waits for more commands is let go; how its program ended stays what it
        was.
        """
        if self._took_s:
            self._is_dismissed = True
            await self._worker.dismiss(Command("quit").to_json(), grace_s)
        else:
            await self._worker.stop("cancelled", grace_s)
        return await self.wait()

    def interrupt(self) -> None:
        """Do what Ctrl-C does to a program that runs alone: raise KeyboardInterrupt in the user's
        program, which may handle it.
        """
        self._is_interrupted = True
        self._worker.signal(signal.SIGINT)

    @property
    def is_temporary(self) -> bool:
        """Return whether ``discard`` deletes what was captured, because nobody said where to keep
        it, and no history keeps it.
        """
        is_for_history = self._history is not None and not self.history_problem
        return self.output is None and not is_for_history

    @property
    def kept_name(self) -> str:
        """Return ``history:17``, once the capture is kept there; empty before, and elsewhere."""
        return self.kept.name if self.kept else ""

    def keep(self) -> None:
        """Leave the session in its temporary place; the next start of fx-explorer reports it."""
        self._is_kept = True

    def discard(self) -> None:
        """Delete the temporary session, when it was not moved to its place. One that could not be
        moved is kept: the outcome tells where.
        """
        self._leave_directory()
        if self._hold:
            self._hold.release()

    def _leave_directory(self) -> None:
        if not self._is_kept:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._lock.release()

    def forget(self) -> None:
        """Discard the session, and remove it from the history: another capture takes its place."""
        self.discard()
        if self._history and self.kept:
            with contextlib.suppress(UsageError):  # it is open in another process
                self._history.forget(self.kept)

    def _create_session(self) -> SessionWriter:
        writer = SessionWriter(self.session_path)
        with writer.transaction():
            writer.set_meta("fx_explorer", __version__)
            writer.set_meta("request", asdict(self.request))
            writer.set_meta("build", self.request.build)
            writer.set_meta(
                "started",
                datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            )
        return writer

    async def _supervise(self) -> None:
        """Run the worker, decide on an outcome whatever happens, and put the session in its place.
        The last notice is the outcome.
        """
        try:
            returncode = await self._run()
        except OSError as error:
            reason = (
                f"cannot start {self.python}: {error.strerror or error}. Choose a Python "
                "interpreter with --python."
            )
            self.outcome = Outcome("not_started", reason, 4)
            await asyncio.to_thread(self._complete, self.outcome, None)
        except Exception as error:  # noqa: BLE001
            # ours; what was captured is put in its place all the same
            failed = (
                f"fx-explorer itself failed while it followed the program: {type(error).__name__}: "
                f"{error}. Please report it."
            )
            self.outcome = Outcome("incomplete", failed, 4)
            await asyncio.to_thread(self._complete, self.outcome, None)
        else:
            await asyncio.to_thread(self._end, returncode)
        finally:
            self._prepare_next()
            # It comes before the outcome, behind which nobody listens.
            if self._last_note:
                self._notices.put_nowait(Notice("note", text=self._last_note))
            self.outcome = outcome = self.outcome or Outcome(
                "cancelled", "fx-explorer itself was stopped"
            )
            self._notices.put_nowait(
                Notice("outcome", text=outcome.message, seconds=time.monotonic() - self._began)
            )
            self._notices.put_nowait(None)

    async def _run(self) -> int:
        """Run the worker to its end, and return its exit status."""
        if self._fork_server is not None and self._fork_server.is_importing:
            self._notices.put_nowait(Notice("worker", text=IMPORTING_TORCH))
        console_writer = asyncio.create_task(self._console.keep_writing(), name="console writer")
        try:
            return await self._worker.run(
                self.request.to_json(),
                self.timeout,
                notices=self._read_notices,
                stdout=lambda pipe: self._console.read("stdout", pipe),
                stderr=lambda pipe: self._console.read("stderr", pipe),
            )
        finally:
            console_writer.cancel()

    # what it says

    async def _read_notices(self, reader: asyncio.StreamReader) -> None:
        """Read to the end of the pipe, whatever comes: a worker whose notices nobody takes waits
        for ever.
        """
        while line := await next_line(reader):
            try:
                notice = checked(Notice.from_json(line.decode()))
            except (ValueError, TypeError, RecursionError):
                self._console.add(
                    "", [f"a notice of the worker could not be read: {line[:MAX_SHOWN]!r}"]
                )
                continue
            if notice.kind == "outcome":
                self._last_words = notice.text
                continue
            if notice.kind == "worker":
                self._activity = notice.text
            if notice.kind == "gate":
                await self._heed_gate(notice)
            self._notices.put_nowait(notice)

    async def _heed_gate(self, notice: Notice) -> None:
        """Note that the worker waits for the user, or continues; without a gate, its program has
        ended.
        """
        if notice.state == "end":
            # Once its program has ended, the worker is held for good: what is asked of it then has
            # no limit.
            if not self._took_s:
                self._waited_s += time.monotonic() - self._held_since
                self._worker.time_limit.go_on()
            return
        self._held_since = time.monotonic()
        self._worker.time_limit.hold()
        if notice.gate is None and not self._took_s:
            self._took_s = self._worked_s()
            self._prepare_next()
            with contextlib.suppress(
                SessionWriteError
            ):  # it is written again at the end, which tells
                await asyncio.to_thread(self._writer.set_meta, "finished", self._took_s)

    def _prepare_next(self) -> None:
        """Have imported what the next capture needs, now that the program needs no processor."""
        if self._fork_server is not None:
            self._fork_server.prepare(self.python)

    def _worked_s(self) -> float:
        return time.monotonic() - self._began - self._waited_s

    def _hear(self, stream: str, chunk: bytes) -> None:
        if stream == "stderr":
            self._last_output = (self._last_output + chunk)[-2000:]
        if self._on_output:
            self._on_output(stream, chunk)

    # the end

    def _end(self, returncode: int) -> None:
        """Decide on the outcome from the worker's exit code and the files it left, and move the
        session to its place.
        """
        stacks = _read_if_there(self._directory / "stacks.txt")
        last_words = self._last_words or _read_if_there(self._directory / "outcome.json")
        said = self._last_output.decode(errors="backslashreplace").strip().splitlines()
        remains = EndedWorker(
            returncode,
            last_words,
            self._activity,
            stacks,
            self._worker.stopped,
            self._is_interrupted,
            self.timeout or 0.0,
            self.python,
            said[-1] if said else "",
            self.stopped_by,
            "TORCHELASTIC_RUN_ID" in os.environ,
        )
        if self._worker.left_the_group:
            self._console.add("", [self._describe_left_processes()])
        elif self._worker.left_output_open:
            text = (
                "a process that the program started, and that left its process group, still holds "
                "the program's output open"
            )
            self._console.add("", [text])
        self.outcome = (self._outcome_of_program() if self._is_dismissed else None) or outcome_of(
            remains
        )
        self._complete(self.outcome, remains)

    def _describe_left_processes(self) -> str:
        """Return a sentence on the program's processes that are still running. It becomes a note,
        too, for users who do not look at the console.
        """
        what = describe_descendants(self._worker.left_the_group)
        told = f"the program started processes that left its process group: {what}."
        if self._worker.stopped:
            self.left_behind = ""
        else:
            self.left_behind = f"{told} They continue to run, as without fx-explorer."
        text = self.left_behind or f"{told} They were ended with the program."
        self._last_note = text
        return text

    def _outcome_of_program(self) -> Outcome | None:
        """Return the outcome that a worker wrote when its program had ended and it stayed."""
        with contextlib.suppress(SessionError), SessionReader(self.session_path) as reader:
            known = reader.meta("outcome")
            return Outcome.from_json(known) if known else None
        return None

    def _complete(self, outcome: Outcome, remains: EndedWorker | None) -> None:
        """Write the last rows, and move the session, merged into one file, to its place."""
        problem = ""
        has_found = outcome.kind != "cancelled" or self._has_compiled()
        try:
            self._write_end(self._writer, outcome, remains)
        except SessionWriteError as error:
            problem = str(error)
        self._writer.close()
        if self.output is not None and self.output.path.exists() and not has_found:
            self.discard()
            self.session_path = self.output.path
            problem = f"Nothing was compiled; {self.output.path} keeps its previous content."
        elif self.output is not None and outcome.kind != "not_started":
            try:
                place_session(self.session_path, self.output)
                self.session_path = self.output.path
                remember_session(self.session_path)
                if problem:  # there was no room where the session was; here there is
                    self._write_end_elsewhere(outcome, remains)
                    problem = ""
                self._keep_in_history(is_moved=False)
                self._leave_directory()
            except SessionWriteError as error:
                problem = str(error)
                self._is_kept = self.session_path.exists()
                # The outcome says where it is, so the next start need not.
                session_files.note_reported(self._directory)
        elif has_found and outcome.kind != "not_started":
            self._keep_in_history(is_moved=True)
            if problem and self.kept:  # as above
                self._write_end_elsewhere(outcome, remains)
                problem = ""
        if problem:
            self.outcome = with_problem(outcome, problem)

    def _keep_in_history(self, *, is_moved: bool) -> None:
        """Keep the finished session in the history; where that is not possible, note why."""
        if self._history is None:
            return
        try:
            self.kept, self._hold = self._history.keep(
                self.session_path, self.request.target, self._project, is_moved=is_moved
            )
        except SessionWriteError as error:
            self.history_problem = f"the capture could not be kept in the history: {error}"
            return
        if is_moved:
            self.session_path = self.kept.session
            remember_session(self.session_path)
            self._leave_directory()

    def _has_compiled(self) -> bool:
        """Return whether the program has compiled anything; true also where that is not known."""
        with contextlib.suppress(SessionError), SessionReader(self.session_path) as reader:
            return has_compiled(reader)
        return True

    def _write_end(
        self, writer: SessionWriter, outcome: Outcome, remains: EndedWorker | None
    ) -> None:
        failure = failure_of(outcome, remains) if remains else None
        with writer.transaction():
            self._console.finish(writer)
            add_children(writer, Path(self.request.session), self._worker.unknown_processes)
            if failure and remains:
                writer.add(
                    replace(failure, text=writer.text(remains.stacks) if remains.stacks else 0)
                )
            writer.set_meta("finished", self._took_s or self._worked_s())
            writer.set_meta("outcome", outcome.to_json())
        mark_as_captured_here(self.session_path, writer)

    def _write_end_elsewhere(self, outcome: Outcome, remains: EndedWorker | None) -> None:
        with SessionWriter(self.session_path) as writer:
            self._write_end(writer, outcome, remains)
        finish_session(self.session_path)


def _read_if_there(file: Path) -> str:
    try:
        return file.read_text(errors="backslashreplace")
    except FileNotFoundError:
        return ""


@contextlib.asynccontextmanager
async def temporary_capture(
    request: CaptureRequest,
    python: str,
    timeout_s: float | None,
    environment: Mapping[str, str] | None = None,
    fork_server: ForkServer | None = None,
) -> AsyncIterator[Capture]:
    """Start a capture. Its session is there until the block is left, and its worker ends with a
    block that is cancelled or raises. Raises SessionWriteError when there is no room for a session.
    """
    capture = Capture(request, python, timeout_s, environment=environment, fork_server=fork_server)
    await capture.start()
    try:
        yield capture
    except BaseException:
        await capture.cancel()
        raise
    finally:
        capture.discard()
