"""The app: opens at once, starts the capture beside itself, and shows what it finds as it comes.

It owns the capture, the config and the theme; what is on screen belongs to screens/.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on, work
from textual.app import App
from textual.notifications import Notify, SeverityLevel
from textual.theme import Theme
from textual.worker import WorkerFailed

from fx_explorer.analysis.words import counted
from fx_explorer.client import leftovers
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.session import SessionReader
from fx_explorer.trials.recapture import TrialWorker
from fx_explorer.tui import corner_message
from fx_explorer.tui.availability import SHOWN_ANYWAY, Compiler, Situation, needs_the_rest, why_not
from fx_explorer.tui.beside import Beside, Renewed
from fx_explorer.tui.bindings import bindings_of, clashes, first_key, textual_action, textual_keymap
from fx_explorer.tui.capturing import Captures, MakeCapture
from fx_explorer.tui.commands import COMMANDS, OF_VIEW, ON_TOP, by_id
from fx_explorer.tui.config import Config
from fx_explorer.tui.controllers import Controllers, Services, TrialRunners
from fx_explorer.tui.controllers.change.old_findings import LOOK_S
from fx_explorer.tui.controllers.consents import Consents
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.corner_message import CornerMessage
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.idle.later_imports import LaterImports
from fx_explorer.tui.inspector.levels import BuildWanted, CandidatesWanted
from fx_explorer.tui.key_table import KeyTable, moved_words
from fx_explorer.tui.screens.explorer import Explorer
from fx_explorer.tui.screens.menu import MenuScreen
from fx_explorer.tui.status import header
from fx_explorer.tui.status.live import LiveCapture
from fx_explorer.tui.status.pipeline import StepState, pipeline
from fx_explorer.tui.terminal import editing, terminal_lost
from fx_explorer.tui.terminal.background.answers import Answers
from fx_explorer.tui.terminal.background.driver import AskedDriver, BackgroundHeard
from fx_explorer.tui.terminal.clipboard import OSC52_LIMIT_BYTES, CopyDestination, copy
from fx_explorer.tui.terminal.late_keys import KeysUnderWay
from fx_explorer.tui.theme import THEMES, default_theme
from fx_explorer.tui.unreadable import TellsUnreadable, why
from fx_explorer.tui.views.reads import OVERVIEW_READS

if TYPE_CHECKING:
    from fx_explorer.tui.tour.panel import TourPanel
    from fx_explorer.tui.tour.walk import Walk

TICK_S = 0.1
"""How often the header's seconds and the pipeline are looked after while something runs."""

REST = 4
"""Between two looks at a growing session passes at least this many times what a look costs."""

MOVED_S = 8
"""What an old key is now is read in peace."""

SETTLED_S = 1.0
"""After the first paint, when nothing waits."""


def _settle_memory() -> None:
    """Keep the garbage collector from walking through what exists now while the user moves about,
    because it stays.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)


class ExplorerApp(TellsUnreadable, App[int]):
    """Shows ``session``; or runs what ``make_capture`` makes and shows its session while it grows.

    What a key does is a controller's (``controllers/``); here is what keeps the screen true.
    """

    TITLE = "fx-explorer"
    BINDINGS = bindings_of("app")
    CSS = corner_message.STYLE
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        *,
        session: Path | None = None,
        make_capture: MakeCapture | None = None,
        make_without_weights: MakeCapture | None = None,
        read_log: MakeCapture | None = None,
        target: str = "",
        watched: Iterable[Path] = (),
        config: Config | None = None,
        runners: TrialRunners | None = None,
        trial_worker: TrialWorker | None = None,
        trusts_sessions: bool = False,
        asks_to_load: Path | None = None,
        tour: Walk | None = None,
    ) -> None:
        """``target`` is what the user typed; ``watched`` are the files whose change means that it
        changed. ``read_log`` makes what reads a log while the app shows what was found.

        ``runners``, ``trial_worker``: what runs the program again for a trial. ``trusts_sessions``:
        the user agreed to run what a session holds that was captured elsewhere (``--trust``).
        ``asks_to_load``: the target, where to load it can run code of whoever made it. ``tour``: lead through
        the guided tour.
        """
        self.config = config or Config()
        # Before Textual begins: to change the theme of an app that runs is to parse and apply all
        # its styles once more.
        self.set_reactive(App.theme, f"fx-{self.config.theme}" if self.config.theme else default_theme())
        super().__init__(driver_class=AskedDriver)
        self.terminal_answers: Answers | None = None
        """What the terminal says of itself; None where it was not asked."""
        self.typed_before = ""
        """What was typed while the terminal was asked."""
        self.captures = Captures(make_capture, read_log)
        self.explorer = Explorer(self.config.keys)
        self.explorer.linked.kernel_marks.is_on = self.config.mark_kernels
        consents = Consents(self, trusts_sessions=trusts_sessions)
        self.services = Services(self, self.captures, self.explorer, consents, self.look, trial_worker or TrialWorker())
        self._target = target or (session.name if session else "")
        self.controllers = Controllers(
            self.services, runners or TrialRunners(), self._show, self._target, tour, self.config.after_fix
        )
        self.controllers.capturing.make_without_weights = make_without_weights
        self.controllers.capturing.watched = tuple(watched)
        self.controllers.capturing.asks_to_load = asks_to_load
        self._pipelined: Renewed[list[StepState]] = Renewed(
            Beside(self.explorer, "pipeline", "read how far the stages are"), self.explorer.show_pipeline, lambda: None
        )
        self._session = session
        self._keys = KeysUnderWay()
        self._key_table = KeyTable([one for one in COMMANDS if tour or one.group != "Tour"], self.config.keys)
        self.later_imports = LaterImports()
        self._told: tuple[object, ...] | None = None
        """What the header says already."""
        self._data_version = -1
        self._next_look = 0.0
        self._told_unreadable: set[str] = set()
        self._told_moved: set[str] = set()
        """Old keys that were told."""
        self._not_wanted: set[tuple[Path, str]] = set()
        """Session and command: the user did not want to go on for it."""

    # start

    @on(BackgroundHeard)
    def background_heard(self, event: BackgroundHeard) -> None:
        """Take the theme that goes with the background, which the terminal has told only now."""
        if not self.config.theme:
            self.theme = default_theme(event.is_light)

    @property
    def available_themes(self) -> dict[str, Theme]:
        return {**super().available_themes, **{theme.name: theme for theme in THEMES}}

    async def on_mount(self) -> None:
        self.set_keymap(textual_keymap(self.config.keys))
        with self.batch_update():  # one frame with everything: an empty one before it costs as much again
            await self.push_screen(self.explorer)
            self._begin()

    def _begin(self) -> None:
        """Tell what is wrong with the config, show the session or begin the capture, and start what
        looks for news.
        """
        for problem in (*self.config.problems, *self._clash_messages()):
            self.notify(problem, title="config", severity="warning", timeout=10)
        if self._session:
            self._show(SessionReader(self._session))
        if self.captures.begins_by_itself:
            self.controllers.capturing.begin()
        if not self.is_headless:
            self.controllers.leaving.leave_on_signals()
        self.set_interval(TICK_S, self._look_now_and_then)
        self.set_interval(LOOK_S, self.controllers.old_findings.begin_to_look)
        self.look()
        if not self.is_headless:
            self._tell_leftovers()
        self.call_after_refresh(self.later_imports.begin)
        self.set_timer(SETTLED_S, _settle_memory)
        # Another thread (a find, a copy) gives way to a key at once.
        sys.setswitchinterval(0.001)

    @work(name="leftovers", group="leftovers", description="look for captures that were interrupted")
    async def _tell_leftovers(self) -> None:
        for line in await asyncio.to_thread(leftovers.news):
            self.notify(line, title="interrupted capture", severity="warning", timeout=12)

    def on_unmount(self) -> None:
        self.later_imports.stop()

    def _clash_messages(self) -> list[str]:
        found = clashes([command for command in COMMANDS if command.scope not in ON_TOP], self.config.keys)
        return [f"the key {key} is given to {' and '.join(c.id for c in commands)}" for key, commands in found.items()]

    def tell_unreadable(self, error: BaseException) -> bool:
        """Return whether ``error`` is the session's: it is told then, and what can be read stays on
        screen.
        """
        unreadable = None if self.captures.is_running else why(self.explorer.reader, error)
        if unreadable is None:
            return False
        message = str(unreadable)
        if message not in self._told_unreadable:
            self._told_unreadable.add(message)
            self.notify(message, title="the session cannot be read", severity="error", timeout=20)
        return True

    def _handle_exception(self, error: Exception) -> None:
        """End the app for what reached Textual, since it has ended the pump of a widget: with a
        sentence when the session is why. Work beside the screen ends nothing but itself.
        """
        if isinstance(error, WorkerFailed) and self.tell_unreadable(error):
            return
        unreadable = None if self.captures.is_running else why(self.explorer.reader, error)
        if unreadable is None:
            super()._handle_exception(error)
        else:
            self.exit(return_code=unreadable.exit_code, message=f"fx-explorer: {printable(str(unreadable))}")

    # the capture

    def _show(self, reader: SessionReader) -> None:
        self._data_version = reader.data_version()
        self._pipelined.forget()
        self.explorer.open(reader)
        self._show_pipeline(reader)
        if not self.captures.is_running:
            self.controllers.kernel_builds.prepare()

    def _show_pipeline(self, reader: SessionReader) -> None:
        waiting = self.captures.waiting
        running, gate = self.captures.running_stages, waiting.gate if waiting else None
        make = functools.partial(pipeline, running=running, paused=gate)
        self._pipelined.renew(reader, make, takes_long=OVERVIEW_READS.takes_long(reader), given=(running, gate))

    def _look_now_and_then(self) -> None:
        with self.explorer.explained():  # Textual ends the app for an exception in a timer
            self.look()
            self.controllers.tour.look()

    def look(self) -> None:
        """Bring header and pipeline up to date; views are made again when the session has grown."""
        if not self.is_headless and terminal_lost.terminal_is_gone():
            self.controllers.leaving.leave_without_terminal()
            return
        self.controllers.stepping.tell_answers()
        captures = self.captures
        waiting = captures.waiting
        if captures.incoming and waiting and self.explorer.reader is not captures.incoming:
            self._show(captures.incoming)  # what waits is what the user must see
        reader = self.services.stepped_session
        is_running = captures.is_running
        is_working = is_running and not waiting
        version = reader.data_version() if reader else 0
        capturing = self.controllers.capturing
        old = self.explorer.old
        told = (reader, version, capturing.problem, capturing.is_asking, capturing.is_watching, waiting, old)
        if is_working:
            captures.look_at(self.explorer.compilation_looked_at)
        if is_working or told != self._told:  # a finished session, or one that waits, costs nothing to leave open
            self._told = told
            self.explorer.show_header(*self._header(reader, captures.live if is_running else None))
            self.explorer.facts.say_why_empty(printable(capturing.problem))
            self.explorer.show_first(self.controllers.stepping.first_commands())
            self.explorer.show_waiting(waiting)
            if reader:
                self._look_into(reader, version)
                self.controllers.stepping.show_finished_stage()
                self.controllers.since_last.look()
        self.controllers.stepping.do_what_waited()
        capturing.go_on_without_pause()
        capturing.begin_when_changed()

    def _look_into(self, reader: SessionReader, version: int) -> None:
        """Bring pipeline and views up to date with what is in the session now, with pauses as long
        as that took.
        """
        if time.monotonic() < self._next_look:
            self._told = None  # look again at the next tick
            return
        began = time.monotonic()
        self._show_pipeline(reader)
        if version != self._data_version and reader is self.explorer.reader:
            self.explorer.refresh_session()
        self._data_version = version
        self._next_look = time.monotonic() + REST * (time.monotonic() - began)

    def _header(self, reader: SessionReader | None, live: LiveCapture | None) -> tuple[str, str, header.CaptureState]:
        """Return the target, the conditions and the state of the capture for the top line."""
        name = header.target_name(reader) if reader else printable(Path(self._target).name)
        problem = self.controllers.capturing.problem
        if problem:
            state = header.CaptureState("✗", printable(problem), "problem")
        elif live and live.waiting:
            state = header.paused_state(live.waiting)
        elif live:
            state = header.running_state(live.doing, live.elapsed_s)
        elif reader:
            state = header.ended_state(reader)
        elif self.controllers.capturing.is_asking:
            state = header.CaptureState("◇", "waits for your answer", "running")
        else:
            state = header.CaptureState("▷", "starting", "running")
        if self.controllers.capturing.is_watching:
            state = header.CaptureState(state.glyph, f"{state.words} · watching", state.tone)
        if self.explorer.old.words:
            state = header.CaptureState(state.glyph, f"{state.words} · {printable(self.explorer.old.words)}", "notice")
        paused_in = live.waiting.compilation if live and live.waiting else ""
        return name, header.conditions(reader, paused_in) if reader else "", state

    async def action_cancel(self) -> None:
        """Stop what is running on Escape, and keep what was found."""
        view = self.explorer.body
        if self.explorer.stop_reading():
            return
        if view and view.find_pattern:
            view.stop_find()
            view.find("")
        elif self.explorer.leave_row():
            return
        elif self.explorer.linked_selection.region:
            self.explorer.narrow(None)
        elif self.controllers.stop_measuring():
            return
        elif self.controllers.stop_compiling():
            self.notify("Cancelled what was being compiled.")
        elif self.captures.is_running:
            await self.controllers.capturing.stop()

    # commands

    async def on_event(self, event: events.Event) -> None:
        """Pass a key that was typed while a dialog opened to the dialog."""
        if isinstance(event, events.Key):
            if not event.is_forwarded:
                waits = self._keys.has_one_of(self._key_table.leaders, self.screen)
                self._keys.sent(event, self.screen)
                if waits:  # behind a key that opens a menu: that menu is to have it, not the list with the focus
                    (self.focused or self.screen)._forward_event(event)
                    return
            elif self._keys.is_late(event, self.screen):
                self.post_message(events.Key(event.key, event.character))
                return
            elif await self._check_bindings(event.key, priority=True):
                return
        await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """Answer the keys that are no bindings of Textual's: those that open menus, and old ones."""
        event.prevent_default()
        if await self._check_bindings(event.key) or self.screen is not self.explorer:
            return
        menu, command, was = self._key_table.lookup(event.key, event.character or "")
        if menu:
            note = moved_words(by_id(was), event.key, self.config.keys) if was and self._is_news(event.key) else ""
            await self.push_screen(MenuScreen(menu, self.why_not, note))
        elif command:
            if was:
                self._tell_moved(was, event.key)
            await self.action_run_command(command.id)

    @on(MenuScreen.Chosen)
    async def menu_chosen(self, event: MenuScreen.Chosen) -> None:
        """Carry out what was chosen in a menu, before any key that was typed behind it."""
        if self.screen is event.menu:
            await self.pop_screen()
            await self.action_run_command(event.command.id)

    async def action_old_key(self, command_id: str, key: str) -> None:
        """Do what a key of the release before did on the screen that is on top."""
        self._tell_moved(command_id, key)
        await self.run_action(textual_action(by_id(command_id)), self.screen)

    def _tell_moved(self, command_id: str, key: str) -> None:
        """Say what an old key is now, the first time that it is pressed."""
        if self._is_news(key):
            self.notify(moved_words(by_id(command_id), key, self.config.keys), timeout=MOVED_S)

    def _is_news(self, key: str) -> bool:
        """Return whether it was not told yet what this key is now."""
        is_news = key not in self._told_moved
        self._told_moved.add(key)
        return is_news

    def why_not(self, command_id: str) -> str:
        """Return why a command does nothing now; empty when it does."""
        return why_not(command_id, self._situation())

    def _situation(self) -> Situation:
        captures, explorer = self.captures, self.explorer
        live, waiting = captures.live, captures.waiting
        is_there = live is not None and not live.is_over
        compiler: Compiler = "none" if not is_there else "works" if not waiting else "pauses" if waiting.gate else "rests"
        panes = len(explorer.linked.panes) if explorer.view == "source" else 0
        active = explorer.linked.active
        shows_graph = bool(panes and active and active.document and active.document.kind == "graph")
        has_gpu = self.controllers.capturing.make_without_weights is not None
        tours = self.controllers.tour.is_going_on
        return Situation(explorer.reader, compiler, captures.can_run, has_gpu, panes, shows_graph, tours)

    async def action_carry_out(self, action: str) -> None:
        """Carry out a command of a controller's."""
        await self.controllers.carry_out(action)

    async def action_run_command(self, command_id: str) -> None:
        """Run a command for a click in the footer, or a choice in the palette. What needs a stage that
        is still ahead asks whether to go on first, while the compiler pauses.
        """
        is_view = command_id.startswith("view.") and command_id != "view.candidates"  # views are shown first: view_shown
        if is_view or not self._asks_to_go_on(command_id):
            await self._run_command(command_id)
        else:
            await self._go_on_then(command_id)

    @on(Explorer.ViewShown)
    async def view_shown(self, event: Explorer.ViewShown) -> None:
        """Ask whether to go on, over a view that is empty because its stage is still ahead."""
        if self._asks_to_go_on(f"view.{event.view}"):
            await self._go_on_then(f"view.{event.view}")

    def _asks_to_go_on(self, command_id: str) -> bool:
        """Return whether a command needs a stage that is ahead. What can be shown anyway asks once a
        capture.
        """
        reader = self.services.stepped_session
        was_told = reader is not None and (reader.path, command_id) in self._not_wanted
        return not was_told and needs_the_rest(command_id, replace(self._situation(), reader=reader))

    @conversation("go on first", "ask whether to go on, for what needs the rest")
    async def _go_on_then(self, command_id: str) -> None:
        words = f"“{by_id(command_id).title}”"
        reader = self.services.stepped_session
        if await self.controllers.stepping.go_on_then(words, lambda: self._run_command(command_id)):
            return
        is_shown = command_id in SHOWN_ANYWAY
        if reader and (is_shown or command_id.startswith("view.")):
            self._not_wanted.add((reader.path, command_id))
        if is_shown:
            await self._run_command(command_id)

    async def _run_command(self, command_id: str) -> None:
        command = by_id(command_id)
        focused = self.focused or self.explorer
        namespaces: dict[str, object] = {"app": self, "explorer": self.explorer, "lines": focused}
        await self.run_action(textual_action(command), namespaces[command.scope])  # type: ignore[arg-type]

    @conversation("commands", "list the commands")
    async def action_list_commands(self) -> None:
        """Show our list of commands. Textual's own palette ends the app when a page is turned in an
        empty list, or is closed twice (8.2).
        """
        commands = [command for command in COMMANDS if command.id != "app.palette" and command.scope not in ON_TOP]
        if not self.controllers.tour.is_going_on:
            commands = [command for command in commands if command.group != "Tour"]
        choices: list[Choice[str]] = []
        others: list[Choice[str]] = []
        for command in commands:
            reason = self.why_not(command.id)
            name = f"{command.title} ({first_key(command, self.config.keys)})"
            (others if reason else choices).append(Choice(name, f"not now: {reason}" if reason else command.help, command.id))
        here = [command_id for command_id, _ in OF_VIEW.get(self.explorer.view, ())]
        choices.sort(key=lambda choice: here.index(choice.value) if choice.value in here else len(here))
        chosen = await ask(self, Chooser("Find a command, and run it", matching([*choices, *others])))
        if chosen:
            await self.action_run_command(chosen)

    def action_help(self) -> None:
        from fx_explorer.tui.screens.help import Help  # not needed for the first paint

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
        """Show a message as it is, never as markup: messages carry names and errors from
        outside.
        """
        lasts_s = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.post_message(Notify(CornerMessage(printable_text(message), title, severity, lasts_s, markup=False)))

    def _write_to_terminal(self, text: str) -> None:
        """Write past the screen: sequences that make the terminal do something."""
        if self._driver is not None:
            self._driver.write(text)

    def on_explorer_copy_wanted(self, event: Explorer.CopyWanted) -> None:
        if len(event.text) > OSC52_LIMIT_BYTES:
            self._copy_long(event.text)
            return
        try:
            self._tell_copied(copy(event.text, self._write_to_terminal), event.text)
        except OSError as error:
            self._tell_not_copied(error)

    @work(name="copy", group="copy", description="copy a long text")
    async def _copy_long(self, text: str) -> None:
        """Copy what no terminal takes, beside the screen: to write it may take a while."""
        try:
            self._tell_copied(await asyncio.to_thread(copy, text, None), text)
        except OSError as error:
            self._tell_not_copied(error)

    def _tell_not_copied(self, error: OSError) -> None:
        self.notify(f"nothing was copied: {error}", severity="error")

    def _tell_copied(self, copied: CopyDestination, text: str) -> None:
        what = counted(text.count("\n") + 1, "line")
        self.notify(f"{what} {copied}" if not copied.problem else f"{what} {copied} ({copied.problem})")

    def on_explorer_edit_wanted(self, event: Explorer.EditWanted) -> None:
        try:
            editing.edit(self, event.path, event.line)
        except FxExplorerError as error:
            self.notify(str(error), severity="warning", timeout=8)

    async def action_quit(self) -> None:
        """Quit, also for Textual's own keys and signals. In the tour nobody is asked about its sample's capture."""
        leaving = self.controllers.leaving
        await (leaving.leave() if self.controllers.tour.is_going_on else leaving.quit())

    # what the panes ask for

    async def on_tour_panel_picked(self, event: TourPanel.Picked) -> None:
        await self.action_run_command(event.command)

    @on(BuildWanted)
    def build_wanted(self, event: BuildWanted) -> None:
        self.controllers.kernel_builds.want(event)

    @on(Explorer.DifferenceWanted)
    async def difference_wanted(self, event: Explorer.DifferenceWanted) -> None:
        await self.controllers.since_last.show(event.aspect)

    @on(CandidatesWanted)
    def candidates_wanted(self, event: CandidatesWanted) -> None:
        self.controllers.configurations.want(event)
