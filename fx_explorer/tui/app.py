"""The app: opens at once, starts the capture beside itself, and shows what it finds as it comes.

It owns the capture, the config and the theme; what is on screen belongs to screens/.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, work
from textual.app import App
from textual.notifications import SeverityLevel
from textual.theme import Theme
from textual.worker import Worker, WorkerFailed, WorkerState

from fx_explorer.analysis.words import counted
from fx_explorer.client import leftovers
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.session import SessionReader
from fx_explorer.tui import editing, hangup, header
from fx_explorer.tui.benching import BenchingApp
from fx_explorer.tui.bindings import bindings_of, clashes, first_key, textual_keymap
from fx_explorer.tui.capturing import MakeCapture
from fx_explorer.tui.clipboard import copy
from fx_explorer.tui.commands import COMMANDS, ON_TOP, by_id
from fx_explorer.tui.config import Config
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.late_keys import KeysUnderWay
from fx_explorer.tui.live import LiveCapture, Waiting
from fx_explorer.tui.pipeline import pipeline
from fx_explorer.tui.saving import save_session, suggested_name
from fx_explorer.tui.screens.ask import Ask
from fx_explorer.tui.screens.choose import Choice, Chooser, matching
from fx_explorer.tui.screens.explorer import Explorer
from fx_explorer.tui.screens.help import Help
from fx_explorer.tui.screens.quitting import Quitting
from fx_explorer.tui.theme import THEMES, default_theme
from fx_explorer.tui.unreadable import TellsUnreadable, why
from fx_explorer.tui.watching import FileWatch

if TYPE_CHECKING:
    from fx_explorer.mending import TryMend
    from fx_explorer.tui.screens.dynamic import TryDynamic
    from fx_explorer.tui.screens.measuring import MeasureBreaks

TICK_S = 0.1
"""How often the header's seconds and the pipeline are looked after while something runs."""

REST = 4
"""Between two looks at a growing session passes at least this many times what a look costs."""

TERMINATED = 128 + signal.SIGTERM

SETTLED_S = 1.0
"""After the first paint, when nothing waits."""


def _settle_memory() -> None:
    """What exists now stays: keep the garbage collector from walking through it while the user moves about."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)


class ExplorerApp(TellsUnreadable, BenchingApp):
    """Shows ``session``; or runs what ``make_capture`` makes and shows its session while it grows."""

    TITLE = "fx-explorer"
    BINDINGS = bindings_of("app")
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        *,
        session: Path | None = None,
        make_capture: MakeCapture | None = None,
        make_without_weights: MakeCapture | None = None,
        target: str = "",
        watched: Iterable[Path] = (),
        config: Config | None = None,
        try_mend: TryMend | None = None,
        measure_breaks: MeasureBreaks | None = None,
        try_dynamic: TryDynamic | None = None,
    ) -> None:
        """``target`` is what the user typed; ``watched`` are the files whose change means that it changed."""
        self.config = config or Config()
        # Before Textual begins: to change the theme of an app that runs is to parse and apply all its styles once more.
        self.set_reactive(App.theme, f"fx-{self.config.theme}" if self.config.theme else default_theme())
        super().__init__(make_capture, self.config.keys, try_mend, measure_breaks, try_dynamic)
        self._without_weights = make_without_weights
        self._session = session
        self._keys = KeysUnderWay()
        self._told: tuple[object, ...] | None = None
        """What the header says already."""
        self._target = target or (session.name if session else "")
        self._watched = tuple(watched)
        self._data_version = -1
        self._next_look = 0.0
        self._watch: FileWatch | None = None
        self.left_behind = ""
        """What of the program runs on when the app has ended, in words."""
        self._told_unreadable: set[str] = set()
        self._problem = ""
        """Why the last capture could not be made."""
        self._stop_asked: Waiting | None = None
        """The pause during which escape was pressed once."""

    # start

    @property
    def available_themes(self) -> dict[str, Theme]:
        return {**super().available_themes, **{theme.name: theme for theme in THEMES}}

    async def on_mount(self) -> None:
        self.set_keymap(textual_keymap(self.config.keys))
        with self.batch_update():  # one frame with everything: an empty one before it costs as much again
            await self.push_screen(self.explorer)
            self._begin()

    def _begin(self) -> None:
        for problem in (*self.config.problems, *self._clash_messages()):
            self.notify(problem, title="config", severity="warning", timeout=10)
        if self._session:
            self._show(SessionReader(self._session))
        if self.captures.can_run:
            self.capture()
        self._leave_on_signals()
        self.set_interval(TICK_S, self._look_now_and_then)
        self.look()
        if not self.is_headless:
            self._tell_leftovers()
        self.set_timer(SETTLED_S, _settle_memory)
        # Another thread (a find, a copy) gives way to a key at once.
        sys.setswitchinterval(0.001)

    @work(name="leftovers", group="leftovers", description="look for captures that were interrupted")
    async def _tell_leftovers(self) -> None:
        for line in await asyncio.to_thread(leftovers.news):
            self.notify(line, title="interrupted capture", severity="warning", timeout=30)

    def _leave_on_signals(self) -> None:
        """A closed terminal or a kill ends like ``q``: the worker is stopped, temporary files go."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave_on_sigterm)
        loop.add_signal_handler(signal.SIGHUP, self._leave_without_terminal)

    @work(name="terminate", group="leave", exclusive=True, description="leave: asked to by a signal")
    async def _leave_on_sigterm(self) -> None:
        """Nobody can be asked: what is not saved stays in its temporary place, and the next start names it."""
        await self._leave(TERMINATED, keep_unsaved=True)

    @work(name="leave", group="leave", exclusive=True, description="leave: the terminal is gone")
    async def _leave_without_terminal(self) -> None:
        await self.close_builds()
        await self.captures.stop_and_tidy(keep_unsaved=True)
        hangup.leave_at_once()

    def _clash_messages(self) -> list[str]:
        found = clashes([command for command in COMMANDS if command.scope not in ON_TOP], self.config.keys)
        return [f"the key {key} is given to {' and '.join(c.id for c in commands)}" for key, commands in found.items()]

    def tell_unreadable(self, error: BaseException) -> bool:
        """Whether ``error`` is the session's: it is told then, and what can be read stays on screen."""
        unreadable = None if self.captures.is_running else why(self.explorer.reader, error)
        if unreadable is None:
            return False
        message = str(unreadable)
        if message not in self._told_unreadable:
            self._told_unreadable.add(message)
            self.notify(message, title="the session cannot be read", severity="error", timeout=20)
        return True

    def _handle_exception(self, error: Exception) -> None:
        """What reached Textual has ended the pump of a widget, so the app ends: with a sentence when the session is why.

        Work beside the screen ends nothing but itself."""
        if isinstance(error, WorkerFailed) and self.tell_unreadable(error):
            return
        unreadable = None if self.captures.is_running else why(self.explorer.reader, error)
        if unreadable is None:
            super()._handle_exception(error)
        else:
            self.exit(return_code=unreadable.exit_code, message=f"fx-explorer: {printable(str(unreadable))}")

    # the capture

    @work(name="capture", group="capture", exclusive=True, exit_on_error=False, description="capture the target")
    async def capture(self) -> None:
        """Run the capture from beginning to end; the screen follows it."""
        self._problem = ""
        for note in await self.captures.run(self._show, show_from_the_start=self.explorer.reader is None):
            self.notify(note, timeout=10)
        await self.captures.linger(self._show)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What goes wrong beside the screen is told on it."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and event.worker.name == "capture" and error:
            self._problem = str(error) if isinstance(error, FxExplorerError) else f"{type(error).__name__}: {error}"
            self.notify(self._problem, title="the capture could not be made", severity="error", timeout=15)

    def _show(self, reader: SessionReader) -> None:
        self._data_version = reader.data_version()
        self.explorer.open(reader)
        self._show_pipeline(reader)
        if not self.captures.is_running:
            self.prepare_builds()

    def _show_pipeline(self, reader: SessionReader) -> None:
        waiting = self.captures.waiting
        self.explorer.show_pipeline(pipeline(reader, self.captures.running_stages, waiting.gate if waiting else None))

    def _look_now_and_then(self) -> None:
        with self.explorer.explained():  # Textual ends the app for an exception in a timer
            self.look()

    def look(self) -> None:
        """Header and pipeline are always right; views are made again when the session has grown."""
        if not self.is_headless and hangup.terminal_is_gone():
            self._leave_without_terminal()
            return
        self.tell_answers()
        captures = self.captures
        waiting = captures.waiting
        if captures.incoming and waiting and self.explorer.reader is not captures.incoming:
            self._show(captures.incoming)  # what waits is what the user must see
        reader = self.stepped_session
        is_running = captures.is_running
        is_working = is_running and not waiting
        version = reader.data_version() if reader else 0
        told = (reader, version, self._problem, bool(self._watch), waiting)
        if is_working or told != self._told:  # a finished session, or one that waits, costs nothing to leave open
            self._told = told
            self.explorer.show_header(*self._header(reader, captures.live if is_running else None))
            self.explorer.show_first(self.first_commands())
            self.explorer.show_waiting(waiting)
            if reader:
                self._look_into(reader, version)
        if self._watch and not is_running and self._watch.has_changed():
            self.capture()

    def _look_into(self, reader: SessionReader, version: int) -> None:
        """Pipeline and views from what is in the session now, with pauses as long as it took."""
        if time.monotonic() < self._next_look:
            self._told = None  # look again at the next tick
            return
        began = time.monotonic()
        self._show_pipeline(reader)
        if version != self._data_version and reader is self.explorer.reader:
            self.explorer.refresh_session()
        self._data_version = version
        self._next_look = time.monotonic() + REST * (time.monotonic() - began)

    def _header(self, reader: SessionReader | None, live: LiveCapture | None) -> tuple[str, str, header.State]:
        name = header.target_name(reader) if reader else printable(Path(self._target).name)
        if self._problem:
            state = header.State("✗", printable(self._problem), "problem")
        elif live and live.waiting:
            state = header.paused_state(live.waiting)
        elif live:
            state = header.running_state(live.doing, live.elapsed_s)
        elif reader:
            state = header.ended_state(reader)
        else:
            state = header.State("▷", "starting", "running")
        if self._watch:
            state = header.State(state.glyph, f"{state.words} · watching", state.tone)
        return name, header.conditions(reader) if reader else "", state

    def action_capture_again(self) -> None:
        if not self.captures.can_run:
            self.notify("This is a saved session: there is nothing to run again. Open its target with fx-explorer TARGET.")
        elif self.captures.waiting and self.captures.is_running:
            self.action_go_on()
        elif self.captures.is_running:
            self.notify("A capture is running already; escape stops it.")
        else:
            self.capture()

    def action_capture_without_weights(self) -> None:
        if self._without_weights is None:
            self.notify("This holds for a capture with --gpu that feeds the program real tensors, and has its target at hand.")
        elif self.captures.is_running and not self.captures.waiting:
            self.notify("A capture is running already; escape stops it.")
        else:
            self.captures.make_by(self._without_weights)
            self._without_weights = None
            self.capture()

    def action_watch(self) -> None:
        if not self.captures.can_run or not self._watched:
            self.notify("There is no file to watch: this is a saved session, or a target that is no file.")
        elif self._watch:
            self._watch = None
            self.notify("No longer watching.")
        else:
            self._watch = FileWatch(self._watched)
            self.notify(f"Watching {', '.join(path.name for path in self._watched)}: saving it captures again.")

    async def action_cancel(self) -> None:
        """Escape: stop what is running, keep what was found."""
        view = self.explorer.body
        if view and view.find_pattern:
            view.stop_find()
            view.find("")
        elif self.stop_building():
            self.notify("Cancelled what was being compiled.")
        elif self.captures.is_running:
            await self._stop_what_runs()

    async def _stop_what_runs(self) -> None:
        """Where the user has stopped the compiler at a gate, one key pressed in error must not end it all."""
        live = self.captures.live
        waiting = self.captures.waiting
        if live and live.has_ended:
            self.action_abort_compile()  # another way: the program is through, and stays at hand
        elif waiting and self._stop_asked is not waiting:
            self._stop_asked = waiting
            self.notify("The compiler waits at a gate. Escape again stops the capture; c goes on, X gives up what it compiles.")
        else:
            await self.captures.stop()
            self.notify("Stopped; everything found so far is kept. r captures again.")

    @conversation("save", "save the session")
    async def action_save(self) -> None:
        reader = self.explorer.reader
        if reader is None:
            self.notify("There is no session to save yet.")
            return
        if self.captures.is_running:
            self.notify("The capture is still running: save it when it is over.")
            return
        name = await ask(self, Ask("Save the session as", suggested_name(self._target)))
        if name:
            self._save(reader.path, name)

    def _save(self, session: Path, name: str) -> bool:
        try:
            path = save_session(session, Path(name).expanduser())
        except FxExplorerError as error:
            self.notify(str(error), severity="error", timeout=10)
            return False
        self.captures.note_saved(session)
        self.notify(f"Saved {path}. Open it again with: fx-explorer {path}", timeout=10)
        return True

    # commands

    async def on_event(self, event: events.Event) -> None:
        """A key that was typed while a dialog opened goes into the dialog."""
        if isinstance(event, events.Key):
            if not event.is_forwarded:
                self._keys.sent(event, self.screen)
            elif self._keys.is_late(event, self.screen):
                self.post_message(events.Key(event.key, event.character))
                return
        await super().on_event(event)

    async def action_run_command(self, command_id: str) -> None:
        """A click in the footer, or a choice in the palette."""
        command = by_id(command_id)
        focused = self.focused or self.explorer
        namespaces: dict[str, object] = {"app": self, "explorer": self.explorer, "lines": focused}
        await self.run_action(command.action, namespaces[command.scope])  # type: ignore[arg-type]

    @conversation("commands", "list the commands")
    async def action_list_commands(self) -> None:
        """Textual's own palette ends the app when a page is turned in an empty list, or is closed twice (8.2)."""
        commands = [command for command in COMMANDS if command.id != "app.palette" and command.scope not in ON_TOP]
        choices = [
            Choice(f"{command.title} ({first_key(command, self.config.keys)})", command.help, command.id)
            for command in commands
        ]
        chosen = await ask(self, Chooser("Find a command, and run it", matching(choices)))
        if chosen:
            await self.action_run_command(chosen)

    def action_help(self) -> None:
        self.push_screen(Help(self.explorer.help_topic(), self.config.keys))

    def action_toggle_theme(self) -> None:
        dark, light = THEMES
        self.theme = light.name if self.theme == dark.name else dark.name

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Messages carry names and errors from outside: shown as they are, never as markup."""
        super().notify(printable_text(message), title=title, severity=severity, timeout=timeout, markup=False)

    def _write_to_terminal(self, text: str) -> None:
        """Past the screen: for sequences that make the terminal do something."""
        if self._driver is not None:
            self._driver.write(text)

    def on_explorer_copy_wanted(self, event: Explorer.CopyWanted) -> None:
        try:
            copied = copy(event.text, self._write_to_terminal)
        except OSError as error:
            self.notify(f"nothing was copied: {error}", severity="error")
            return
        what = counted(event.text.count("\n") + 1, "line")
        self.notify(f"{what} {copied}" if not copied.problem else f"{what} {copied} ({copied.problem})")

    def on_explorer_edit_wanted(self, event: Explorer.EditWanted) -> None:
        try:
            editing.edit(self, event.path, event.line)
        except FxExplorerError as error:
            self.notify(str(error), severity="warning", timeout=8)

    async def action_quit(self) -> None:
        """No process stays behind: the worker's whole group is ended before we leave. What is not saved is asked about."""
        if any(isinstance(screen, Quitting) for screen in self.screen_stack):
            return
        unsaved = self.captures.count_unsaved()
        if unsaved:
            self._ask_and_quit(unsaved)
        else:
            await self._leave()

    @work(name="quit", group="quit", exclusive=True, description="ask what to do with a capture that is not saved")
    async def _ask_and_quit(self, compilations: int) -> None:
        what = f"The capture of {Path(self._target).name or 'the program'} ({counted(compilations, 'compilation')})"
        answer = await ask(self, Quitting(what))
        if answer == "discard" or (answer == "save" and await self._save_all()):
            await self._leave()

    async def _save_all(self) -> bool:
        """Whether the user named a place and the session is there. What still runs is stopped: a file holds what there is."""
        name = await ask(self, Ask("Save the session as", suggested_name(self._target)))
        if not name or self.captures.live is None:
            return False
        if self.captures.is_running:
            await self.captures.stop()
        return self._save(self.captures.live.session_path, name)

    async def _leave(self, exit_code: int = 0, *, keep_unsaved: bool = False) -> None:
        """Whatever goes wrong with the worker: the app ends."""
        try:
            await self.close_builds()
            self.left_behind = await self.captures.stop_and_tidy(keep_unsaved=keep_unsaved)
        finally:
            self.exit(exit_code, return_code=exit_code)
