"""The target is run from the keyboard: once more, when its file is saved, without weights; and it
is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from textual.worker import Worker, WorkerError

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import listed
from fx_explorer.errors import FxExplorerError
from fx_explorer.overview.ending import NO_COMPILER_HERE, RAISED_INSPECTING
from fx_explorer.session import SessionReader
from fx_explorer.tui.availability import CAPTURES_OTHERWISE
from fx_explorer.tui.commands import by_id
from fx_explorer.tui.content.live import LiveCapture, Waiting
from fx_explorer.tui.controllers.captures import MakeBuilt, MakeCapture
from fx_explorer.tui.controllers.changes import SourceFiles
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.keys import first_key

RUNNING = "A capture is running already; escape twice stops it."


class Capturing:
    """Runs one capture after another, and shows the results of each."""

    def __init__(
        self,
        services: Services,
        stepping: Stepping,
        source_files: SourceFiles,
        show: Callable[[SessionReader], None],
    ) -> None:
        """``show`` puts a session on screen."""
        self._services = services
        self._stepping = stepping
        self._source_files = source_files
        self._show = show
        self._following: Worker[None] | None = None
        """The task that follows the running capture, or followed the last one."""
        self._is_restarting = False
        """Whether a capture is being stopped for another one."""
        self._goes_on = False
        """Whether the capture continues without pausing, wherever a pause is set."""
        self.make_without_weights: MakeCapture | None = None
        """Makes captures with ``--no-weights``; None if that makes no difference."""
        self.make_built: MakeBuilt | None = None
        """Makes captures with ``--build``; None if that makes no difference."""
        self.make_traced: MakeCapture | None = None
        """Makes captures with ``--record-trace``; None if that makes no difference."""
        self.make_with_patterns: MakeCapture | None = None
        """Makes captures with ``--record-patterns``; None if that makes no difference."""
        self.watched: Sequence[Path] = ()
        """Files whose change means that the target changed."""
        self.asks_to_load: Path | None = None
        """Path of the target, if loading it can run code of its author: then the user is asked
        before a capture.
        """
        self.is_asking = False
        self.problem = ""
        """Why the last capture could not be made."""
        self._watch: FileWatch | None = None
        self._offered: tuple[SessionReader | None, str] = (None, "")
        """(session on screen, error of its program) for which a build is offered; None without an
        offer.
        """
        self._stop_asked: tuple[LiveCapture | None, Waiting | None] | None = None
        """The capture, and the pause, during which escape was pressed once."""

    @property
    def is_watching(self) -> bool:
        return self._watch is not None

    def begin(self, *, pauses: bool = True) -> None:
        """Run the capture from beginning to end; the screen follows it. ``pauses``: whether it
        pauses where a pause is set.
        """
        self._goes_on = not pauses
        if self._watch:
            self._watch.forget_changes()  # this capture has what was saved so far
        self._following = self._services.begin(
            self._capture, "capture", "capture", "capture the target", exclusive=True
        )

    async def _capture(self) -> None:
        services, captures = self._services, self._services.captures
        self.problem = ""
        try:
            await self._ask()
            for note in await captures.run(
                self._show, show_from_the_start=services.explorer.reader is None
            ):
                services.notify(note, timeout=10)
            await captures.linger(self._show)
        except Exception as error:  # noqa: BLE001 - told in the header, whatever it was
            if isinstance(error, FxExplorerError):
                self.problem = str(error)
            else:
                self.problem = f"{type(error).__name__}: {error}"
            if captures.reads_log:
                title = "the log could not be read"
            else:
                title = "the capture could not be made"
            services.notify(self.problem, title=title, severity="error", timeout=15)

    async def _ask(self) -> None:
        """Ask whether the target may be loaded. Raises UsageError when the user does not want
        that.
        """
        if self.asks_to_load is None:
            return
        self.is_asking = True
        try:
            await self._services.consents.ask_to_load(self.asks_to_load)
        finally:
            self.is_asking = False

    @property
    def _works(self) -> bool:
        """Return whether a capture is running and not waiting for the user."""
        captures = self._services.captures
        return (
            self._is_restarting or self.is_asking or (captures.is_running and not captures.waiting)
        )

    def restart(self, *, pauses: bool = True) -> None:
        """Capture again from the beginning. A compiler that waits is stopped first."""
        if self._works:
            self._services.notify(RUNNING)
        elif self._services.captures.is_running:
            self._is_restarting = True
            work = partial(self._stop_and_begin, pauses=pauses)
            self._services.begin(work, "restart", "restart", "capture again", exclusive=True)
        else:
            self.begin(pauses=pauses)

    async def _stop_and_begin(self, *, pauses: bool) -> None:
        try:
            await self._services.captures.stop()
            with contextlib.suppress(WorkerError):  # it was told where it failed
                if self._following:
                    await self._following.wait()
        finally:
            self._is_restarting = False
        self.begin(pauses=pauses)

    def go_on_without_pause(self) -> None:
        """Continue from the pause of a capture that should not pause."""
        if self._goes_on and not self._is_restarting and self._stepping.pauses:
            self._goes_on = False
            self._stepping.go_on()

    def begin_when_changed(self) -> None:
        """Capture again if a watched file was saved and no capture is running. A compiler that
        waits is stopped.
        """
        if self._watch and not self._works and self._watch.has_changed():
            self.restart()

    def run(self) -> None:
        """Continue from a pause without pausing again; elsewhere capture again."""
        captures = self._services.captures
        if not captures.can_run:
            message = (
                "This is a saved session: there is nothing to run again. Open its target "
                "with fx-explorer TARGET."
            )
            self._services.notify(message)
        elif captures.waiting and captures.is_running:
            self._stepping.go_on()
        elif captures.is_running:
            self._services.notify(RUNNING)
        else:
            self.begin()

    @property
    def ways_to_capture(self) -> frozenset[str]:
        """Return the commands that can capture the program again in another way."""
        makers = {
            "capture.without_weights": self.make_without_weights,
            "capture.built": self.make_built,
            "step.record_trace": self.make_traced,
            "step.record_patterns": self.make_with_patterns,
        }
        return frozenset(command for command, make in makers.items() if make is not None)

    def capture_without_weights(self) -> None:
        """Capture again with tensors that have no content (``--no-weights``)."""
        captures = self._services.captures
        if self.make_without_weights is None:
            self._services.notify(CAPTURES_OTHERWISE["capture.without_weights"])
        elif captures.is_running and not captures.waiting:
            self._services.notify(RUNNING)
        else:
            captures.make_by(self.make_without_weights)
            self.make_without_weights = None
            self.begin()

    def capture_trace(self) -> None:
        """Capture again with every instruction that Dynamo traces."""
        if self.make_traced is None:
            self._services.notify(CAPTURES_OTHERWISE["step.record_trace"])
        elif self._works:
            self._services.notify(RUNNING)
        else:
            self._services.captures.make_by(self.make_traced)
            self.make_traced = None
            self.restart(pauses=False)

    def capture_patterns(self) -> None:
        """Capture again with the patterns that do not match."""
        if self.make_with_patterns is None:
            self._services.notify(CAPTURES_OTHERWISE["step.record_patterns"])
        elif self._works:
            self._services.notify(RUNNING)
        else:
            self._services.captures.make_by(self.make_with_patterns)
            self.make_with_patterns = None
            self.restart(pauses=False)

    @property
    def raised_inspecting(self) -> str:
        """Return the error that the program raised in a graph that was only inspected, if it can be
        captured with a build; else an empty text.
        """
        reader = self._services.explorer.reader
        if reader is None or self.make_built is None:
            return ""
        return str(reader.meta("raised_inspecting") or "")

    def offer_build(self) -> None:
        """Show which key builds the graph that raised during inspection."""
        explorer, raised = self._services.explorer, self.raised_inspecting
        offered = (explorer.reader, raised)
        if explorer.reader is None or offered == self._offered:
            return
        self._offered = offered
        key = first_key(by_id("capture.built"), explorer.keymap)
        environment = explorer.reader.meta("environment") or {}
        needed = "" if environment.get("cxx") else f" ({NO_COMPILER_HERE})"
        text = f"The compiled program may not raise: {key} builds and runs it{needed}."
        fact = Fact("next", "notice", text, f"{RAISED_INSPECTING}.", view="console")
        facts = [fact] if raised else []
        explorer.show_of_app("next", facts)

    def capture_built(self) -> None:
        """Capture again with the kernels built, and run the compiled code."""
        if self.make_built is None:
            self._services.notify(
                "Only for a capture that builds nothing, of a program that is available and made "
                "for this machine."
            )
        elif self._works:
            self._services.notify(RUNNING)
        else:
            self._services.captures.make_by(partial(self.make_built, self.raised_inspecting))
            self.make_built = None
            self.restart(pauses=False)

    async def watch(self) -> None:
        """Watch the files of the program, or stop watching. If they have changed, capture again at
        once.
        """
        await self._source_files.look()
        files = await asyncio.to_thread(_existing, [*self.watched, *self._source_files.paths])
        old = self._source_files.old
        if not self._services.captures.can_run or not files:
            self._services.notify(
                "There is no file to watch: this is a saved session, or the target is not a file."
            )
        elif self._watch and not old.changed:
            self._watch = None
            self._services.notify("No longer watching.")
        else:
            self._watch = FileWatch(files)
            saving = (
                f"Watching {listed(path.name for path in files)}: saving one of them "
                "captures again."
            )
            if old.changed and not self._works:
                self._services.notify(
                    f"{old.description} it was captured, so it is captured again now. {saving}"
                )
                self.restart()
            else:
                self._services.notify(saving)

    async def stop(self) -> None:
        """Stop the capture when Escape is pressed twice: a single key pressed by mistake must not
        end the work of minutes.
        """
        captures = self._services.captures
        live, waiting = captures.live, captures.waiting
        asked = (live, waiting)
        if live and live.has_ended:
            # another variant: the program is through, and stays at hand
            self._stepping.abort_compile()
        elif self._stop_asked != asked:
            self._stop_asked = asked
            what = "reading" if captures.reads_log else "capture"
            message = f"The {what} continues. Escape again stops it, and keeps the results so far."
            if waiting:
                message = (
                    "The compiler is paused. Escape again stops the capture; r continues, c x "
                    "aborts the current compile."
                )
            self._services.notify(message)
        else:
            self._stop_asked = None
            await captures.stop()
            again = "" if captures.reads_log else " r captures again."
            self._services.notify(f"Stopped; everything found so far is kept.{again}")


def _existing(files: Sequence[Path]) -> list[Path]:
    return [file for file in dict.fromkeys(map(Path.absolute, files)) if file.is_file()]


# Watching files: they are looked at, which needs no dependency and works on every file system.

Signature = tuple[int, int]
"""(time of the last change in ns, size) of a file."""


class FileWatch:
    """Detects whether watched files were saved with different content.

    A file counts as changed once two looks in a row agree, since editors write in steps, and only
    if its content differs: touching a file is no change.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self._pending: tuple[Signature, ...] | None = None
        self.forget_changes()

    def forget_changes(self) -> None:
        """Accept the present content of the files: earlier changes no longer count."""
        self._seen = self._look()
        self._contents = self._read()
        self._pending = None

    def has_changed(self) -> bool:
        """Return whether different content was saved since the last call that returned True."""
        now = self._look()
        if now == self._seen:
            self._pending = None
            return False
        if now != self._pending:
            self._pending = now
            return False
        self._seen, self._pending = now, None
        before, self._contents = self._contents, self._read()
        return self._contents != before

    def _look(self) -> tuple[Signature, ...]:
        return tuple(map(_signature, self._files))

    def _read(self) -> tuple[bytes, ...]:
        return tuple(map(_content, self._files))


def _signature(file: Path) -> Signature:
    try:
        status = file.stat()
    except OSError:
        # Saving by renaming leaves a moment without the file.
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _content(file: Path) -> bytes:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return b""
