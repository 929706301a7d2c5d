"""This module updates the main screen during a capture: header, pipeline and views are made again
when there is news.
"""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from pathlib import Path

from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, Renewed
from fx_explorer.tui.content.live import LiveCapture
from fx_explorer.tui.content.long_work import OVERVIEW_READS
from fx_explorer.tui.controllers.capturing import Capturing
from fx_explorer.tui.controllers.changes import Comparisons
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.leaving import Leaving
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.screens import header
from fx_explorer.tui.screens.pipeline_bar import StepState, pipeline
from fx_explorer.tui.start_times import StartClock
from fx_explorer.tui.terminal import driver

REST = 4
"""Smallest pause between two updates from a growing session, as a multiple of the time of an
update.
"""


class ScreenUpdates:
    """Keeps the main screen up to date with the capture, which it polls."""

    def __init__(
        self,
        services: Services,
        stepping: Stepping,
        capturing: Capturing,
        comparisons: Comparisons,
        kernel_builds: KernelBuilds,
        leaving: Leaving,
        target: str,
    ) -> None:
        """``target`` is the user's own text."""
        self._services = services
        self._explorer = services.explorer
        self._stepping = stepping
        self._capturing = capturing
        self._comparisons = comparisons
        self._kernel_builds = kernel_builds
        self._leaving = leaving
        self._target = target
        self._pipelined: Renewed[list[StepState]] = Renewed(
            BackgroundTask(self._explorer, "pipeline", "read the progress of the stages"),
            self._explorer.pipeline.show,
            lambda: None,
        )
        self._shown_state: tuple[object, ...] | None = None
        """The state that the header shows now."""
        self._clock: StartClock | None = None
        """Follows the start of the first capture, until the program is captured."""
        self._start_is_over = False
        self._data_version = -1
        self._next_look = 0.0

    def show(self, reader: SessionReader) -> None:
        """Put a session on screen."""
        self._data_version = reader.data_version()
        self._pipelined.forget()
        self._explorer.open(reader)
        self._show_pipeline(reader)
        if not self._services.captures.is_running:
            self._kernel_builds.prepare()

    def _show_pipeline(self, reader: SessionReader) -> None:
        waiting = self._services.captures.waiting
        running = self._services.captures.running_stages
        gate = waiting.gate if waiting else None
        make = functools.partial(pipeline, running=running, paused=gate)
        self._pipelined.renew(
            reader, make, takes_long=OVERVIEW_READS.takes_long(reader), given=(running, gate)
        )

    def look_now_and_then(self) -> None:
        """Poll the capture, unless a saved session is shown."""
        reader = self._explorer.reader
        if reader and self._shown_state and not self._services.captures.begins_by_itself:
            shown = self._shown_state[:2]
            is_still = not self._services.measuring.doing and not self._shown_state[-1]
            is_as_shown = is_still and shown == (reader, reader.data_version())
            if is_as_shown and not self._is_without_terminal():
                return
        self.look()

    def _is_without_terminal(self) -> bool:
        return not self._services.app.is_headless and driver.terminal_is_gone()

    def look(self) -> None:
        """Update header and pipeline; views are made again if the session has grown."""
        if self._is_without_terminal():
            self._leaving.leave_without_terminal()
            return
        self._stepping.show_answers()
        captures, explorer, capturing = self._services.captures, self._explorer, self._capturing
        waiting = captures.waiting
        if captures.incoming and waiting and explorer.reader is not captures.incoming:
            self.show(captures.incoming)  # what waits is what the user must see
        reader = self._services.stepped_session
        is_running = captures.is_running
        is_measuring = bool(self._services.measuring.doing)
        is_working = is_running and not waiting
        version = reader.data_version() if reader else 0
        state = (
            reader,
            version,
            capturing.problem,
            capturing.is_asking,
            capturing.is_watching,
            waiting,
            explorer.old,
            self._services.captures.has_worker,
            is_measuring,
        )
        if is_working:
            captures.look_at(explorer.cursor.compilation)
        if (
            is_working or is_measuring or state != self._shown_state
        ):  # a finished session, or one that waits, costs nothing to leave open
            self._shown_state = state
            live = captures.live if is_running else None
            explorer.header.show_capture(*self._header(reader, live))
            explorer.facts.show_why_empty(printable(capturing.problem))
            offered = ("capture.built",) if capturing.raised_inspecting else ()
            explorer.footer.show_first((*offered, *self._stepping.first_commands()))
            explorer.is_saved = not captures.has_worker
            explorer.show_waiting(waiting)
            if reader:
                self._look_into(reader, version)
                self._stepping.show_finished_stage()
                self._comparisons.renew_card()
                capturing.offer_build()
        self._follow_start()
        self._stepping.do_what_waited()
        capturing.go_on_without_pause()
        capturing.begin_when_changed()

    def _follow_start(self) -> None:
        """Show how far the start of the first capture is; remember how long it took when the
        program is captured.
        """
        live = self._services.captures.live
        if self._start_is_over or self._services.captures.reads_log:
            return
        page = self._explorer.views.page
        if live is None or live.waiting or live.has_ended:
            has_begun = live is not None or self._clock is not None
            self._start_is_over = has_begun
            if has_begun or self._capturing.problem:
                page.end_start()
            if self._clock and live and live.is_through:
                self._clock.end(live.elapsed_s)
            return
        if self._clock is None:
            self._clock = StartClock()
        self._clock.look(live.doing, live.elapsed_s)
        page.show_start(self._clock, live.elapsed_s, live.reading)

    def _look_into(self, reader: SessionReader, version: int) -> None:
        """Update pipeline and views with the session's present content, with pauses as long as that
        took.
        """
        if time.monotonic() < self._next_look:
            self._shown_state = None  # look again at the next tick
            return
        began = time.monotonic()
        self._show_pipeline(reader)
        if version != self._data_version and reader is self._explorer.reader:
            self._explorer.refresh_session()
        self._data_version = version
        self._next_look = time.monotonic() + REST * (time.monotonic() - began)

    def _header(
        self, reader: SessionReader | None, live: LiveCapture | None
    ) -> tuple[str, str, header.CaptureState]:
        """Return the target, the conditions and the state of the capture for the top line."""
        if reader:
            name = header.target_name(reader)
        else:
            name = printable(Path(self._target).name)
        state = self._state(reader, live)
        if self._capturing.is_watching:
            state = replace(state, words=f"{state.words} · watching")
        if self._explorer.old.words:
            words = f"{state.words} · {printable(self._explorer.old.words)}"
            state = replace(state, words=words, tone="notice")
        paused_in = live.waiting.compilation if live and live.waiting else ""
        conditions = header.conditions(reader, paused_in) if reader else ""
        return name, conditions, state

    def _state(self, reader: SessionReader | None, live: LiveCapture | None) -> header.CaptureState:
        problem = self._capturing.problem
        if problem:
            return header.CaptureState("✗", printable(problem), "problem")
        measuring = self._services.measuring
        if measuring.doing:
            words = f"{measuring.doing} · esc stops it"
            return header.running_state(words, measuring.elapsed_s)
        if live and live.waiting:
            return header.paused_state(live.waiting, self._stepping.keys_that_continue())
        if live:
            doing = live.doing
            if self._stepping.then_what:
                doing = f"{doing}, then {self._stepping.then_what}"
            return header.running_state(doing, live.elapsed_s)
        if reader:
            return header.ended_state(reader)
        if self._capturing.is_asking:
            return header.CaptureState("◇", "waits for your answer", "running")
        return header.CaptureState("▷", "starting", "running")
