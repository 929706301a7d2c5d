"""This module is the app: it opens at once, starts the capture in the background, and shows its
data as they come.

It owns the capture, the config and the theme, and hands on what is typed and asked for; what is on
screen belongs to screens/, and what a key does to a controller (controllers/).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on, work
from textual.app import App
from textual.notifications import Notify, SeverityLevel
from textual.theme import Theme
from textual.worker import WorkerFailed

from fx_explorer.client.history import history_to_keep
from fx_explorer.client.interrupted import news_of_leftovers
from fx_explorer.highlight import printable, printable_text
from fx_explorer.plugin_loading import PluginFault, telling_faults
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker
from fx_explorer.tui.commands import COMMANDS, ON_TOP, by_id
from fx_explorer.tui.config import Config
from fx_explorer.tui.content.shown_levels import BuildWanted, CandidatesWanted
from fx_explorer.tui.controllers import Controllers, Services, TrialRunners
from fx_explorer.tui.controllers.captures import Captures, MakeBuilt, MakeCapture
from fx_explorer.tui.controllers.changes import LOOK_S
from fx_explorer.tui.controllers.services import Consents
from fx_explorer.tui.conversation import (
    BelowWanted,
    CopyWanted,
    DifferenceWanted,
    ViewShown,
)
from fx_explorer.tui.failures import CORNER_STYLE, CornerMessage, TellsUnreadable, explained, why
from fx_explorer.tui.idle import LaterImports
from fx_explorer.tui.keys import KeyTable, bindings_of, clashes, textual_keymap
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.screens.explorer import Explorer
from fx_explorer.tui.screens.menu import MenuScreen
from fx_explorer.tui.terminal.beginning import TerminalAnswers
from fx_explorer.tui.terminal.driver import AskedDriver, BackgroundReported, UndecodableInput
from fx_explorer.tui.theme import THEMES, default_theme
from fx_explorer.tui.typed_keys import KeysReleased, KeysUnderWay, held_keys

if TYPE_CHECKING:
    from fx_explorer.tui.screens.tour_panel import TourPanel
    from fx_explorer.tui.tour_steps import GuidedTour

TICK_S = 0.1
"""Seconds between two updates of the header's time and the pipeline while a capture runs."""

SETTLED_S = 1.0
"""Seconds after the start at which ``_settle_memory`` runs: the first paint is over by then."""


def _settle_memory() -> None:
    """Exclude the objects that exist now from garbage collection, because they stay until the app
    ends.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)


class ExplorerApp(TellsUnreadable, App[int]):
    """Shows ``session``; or runs the capture that ``make_capture`` makes and shows its session
    while it grows.

    It begins and ends, takes keys in, and passes on what widgets ask for.
    """

    TITLE = "fx-explorer"
    BINDINGS = bindings_of("app")
    CSS = CORNER_STYLE
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        *,
        session: Path | None = None,
        make_capture: MakeCapture | None = None,
        make_without_weights: MakeCapture | None = None,
        make_traced: MakeCapture | None = None,
        make_with_patterns: MakeCapture | None = None,
        make_built: MakeBuilt | None = None,
        read_log: MakeCapture | None = None,
        target: str = "",
        watched: Iterable[Path] = (),
        config: Config | None = None,
        runners: TrialRunners | None = None,
        trial_worker: TrialWorker | None = None,
        trusts_sessions: bool = False,
        asks_to_load: Path | None = None,
        tour: GuidedTour | None = None,
    ) -> None:
        """``target`` is the user's own text; ``watched`` are the files whose change means a change
        of it. ``read_log`` makes the reader of a log for the app.

        ``runners``, ``trial_worker``: what runs the program again for a trial. ``trusts_sessions``:
        the user agreed to run what a session holds that was captured elsewhere (``--trust``).
        ``asks_to_load``: the target, where to load it can run code of whoever made it. ``tour``:
        lead through the guided tour.
        """
        self.config = config or Config()
        # Before Textual begins: to change the theme of an app that runs is to parse and apply all
        # its styles once more.
        theme = f"fx-{self.config.theme}" if self.config.theme else default_theme()
        self.set_reactive(App.theme, theme)
        super().__init__(driver_class=AskedDriver)
        self.terminal_answers: TerminalAnswers | None = None
        """The terminal's answers about itself; None if it was not asked."""
        self.typed_before = ""
        """Input that came while the terminal was asked."""
        self.captures = Captures(make_capture, read_log)
        self.explorer = Explorer(self.config.keys)
        self.explorer.linked.kernel_marks.is_on = self.config.mark_kernels
        consents = Consents(self, trusts_sessions=trusts_sessions)
        self.services = Services(
            self,
            self.captures,
            self.explorer,
            consents,
            self.look,
            trial_worker or TrialWorker(),
            self._write_past_screen,
        )
        session_name = session.name if session else ""
        name = target or session_name
        self.controllers = Controllers(
            self.services, runners or TrialRunners(), name, tour, self.config.after_fix
        )
        self.controllers.capturing.make_without_weights = make_without_weights
        self.controllers.capturing.make_traced = make_traced
        self.controllers.capturing.make_with_patterns = make_with_patterns
        self.controllers.capturing.make_built = make_built
        self.controllers.capturing.watched = tuple(watched)
        self.controllers.capturing.asks_to_load = asks_to_load
        self._session = session
        self._has_tour = tour is not None
        self._keys = KeysUnderWay()
        self._key_table = KeyTable(
            [command for command in COMMANDS if tour or command.group != "Tour"], self.config.keys
        )
        self.later_imports = LaterImports()
        self._until_end = contextlib.ExitStack()
        self._told_unreadable: set[str] = set()

    # start

    @on(BackgroundReported)
    def use_reported_background(self, event: BackgroundReported) -> None:
        """Use the theme for the background that the terminal has reported only now."""
        if not self.config.theme:
            self.theme = default_theme(event.is_light)

    @on(UndecodableInput)
    def input_undecodable(self) -> None:
        """Tell the user why keys or a paste may look wrong."""
        self.notify(
            "The terminal sent bytes that are not UTF-8, or an unknown key. They were replaced or "
            "left out.",
            title="terminal input",
            severity="warning",
        )

    @property
    def available_themes(self) -> dict[str, Theme]:
        return {**super().available_themes, **{theme.name: theme for theme in THEMES}}

    async def on_mount(self) -> None:
        self._until_end.enter_context(telling_faults(self._tell_plugin_fault))
        self.set_keymap(textual_keymap(self.config.keys))
        with (
            self.batch_update()
        ):  # one frame with everything: an empty one before it costs as much again
            await self.push_screen(self.explorer)
            self._begin()

    def _begin(self) -> None:
        """Report errors of the config, show the session or begin the capture, and start the regular
        updates.
        """
        for problem in (*self.config.problems, *self._clash_messages()):
            self.notify(problem, title="config", severity="warning", timeout=10)
        if self._session:
            self.controllers.screen_updates.show(SessionReader(self._session))
        if self.captures.begins_by_itself:
            for file in self.controllers.capturing.watched[:1]:
                self.explorer.views.page.show_target(file)
            self.controllers.capturing.begin()
        if not self.is_headless:
            self.controllers.leaving.leave_on_signals()
        self.set_interval(TICK_S, self._look_now_and_then)
        self.set_interval(LOOK_S, self.controllers.source_files.begin_to_look)
        self.look()
        if not self.is_headless:
            self._tell_leftovers()
        self.call_after_refresh(self.later_imports.begin)
        self.set_timer(SETTLED_S, _settle_memory)
        # Another thread (a find, a copy) gives way to a key at once.
        sys.setswitchinterval(0.001)

    @work(
        name="leftovers", group="leftovers", description="look for captures that were interrupted"
    )
    async def _tell_leftovers(self) -> None:
        for line in await asyncio.to_thread(lambda: news_of_leftovers(history_to_keep())):
            self.notify(line, title="interrupted capture", severity="warning", timeout=12)

    def on_unmount(self) -> None:
        self.later_imports.stop()
        self._until_end.close()

    def _tell_plugin_fault(self, fault: PluginFault) -> None:
        """Tell the user of a plug-in that fails. It may be called in any thread."""
        self.notify(fault.sentence, title="a plug-in fails", severity="warning", timeout=20)

    def _clash_messages(self) -> list[str]:
        commands_of_key = clashes(
            [command for command in COMMANDS if command.scope not in ON_TOP], self.config.keys
        )
        messages = []
        for key, commands in commands_of_key.items():
            ids = " and ".join(command.id for command in commands)
            messages.append(f"the key {key} is assigned to {ids}")
        return messages

    def report_unreadable(self, error: BaseException) -> bool:
        """Return whether ``error`` comes from the session: then the user is told, and the readable
        part stays on screen.
        """
        if self.captures.is_running:
            unreadable = None
        else:
            unreadable = why(self.explorer.reader, error)
        if unreadable is None:
            return False
        message = str(unreadable)
        if message not in self._told_unreadable:
            self._told_unreadable.add(message)
            self.notify(message, title="the session cannot be read", severity="error", timeout=20)
        return True

    def _handle_exception(self, error: Exception) -> None:
        """End the app after an exception that reached Textual, since it has ended the message loop
        of a widget; if the session is the cause, with a sentence. An exception in a background task
        ends only the task.
        """
        if isinstance(error, WorkerFailed) and self.report_unreadable(error):
            return
        if self.captures.is_running:
            unreadable = None
        else:
            unreadable = why(self.explorer.reader, error)
        if unreadable is None:
            super()._handle_exception(error)
        else:
            self.exit(
                return_code=unreadable.exit_code,
                message=f"fx-explorer: {printable(str(unreadable))}",
            )

    # the capture

    def _look_now_and_then(self) -> None:
        with explained(self.explorer):  # Textual ends the app for an exception in a timer
            self.controllers.screen_updates.look_now_and_then()
            if self._has_tour:
                self.controllers.tour.look()

    def look(self) -> None:
        """Update the screen with the state of the capture."""
        self.controllers.screen_updates.look()

    async def action_cancel(self) -> None:
        """Stop the present activity on Escape, and keep its results."""
        view = self.explorer.views.body
        if self.explorer.views.stop_reading():
            return
        if view and view.find_pattern:
            view.stop_find()
            view.find("")
        elif self.explorer.views.leave_row():
            return
        elif self.explorer.linked_selection.region:
            self.explorer.narrow(None)
        elif await self.controllers.measurements.stop():
            return
        elif self.controllers.kernel_levels.stop():
            self.notify("Cancelled what was being compiled.")
        elif self.captures.is_running:
            await self.controllers.capturing.stop()

    # commands

    async def on_event(self, event: events.Event) -> None:
        """Pass a key that was typed while a dialog opened to the dialog."""
        if not isinstance(event, events.Key):
            await super().on_event(event)
        elif not held_keys(self).takes(event):
            await self._process_key(event)

    @on(KeysReleased)
    async def deliver_held_keys(self) -> None:
        """Process the keys that were typed while a dialog opened."""
        held = held_keys(self)
        while key := held.next_released():
            await self._process_key(key)

    async def _process_key(self, event: events.Key) -> None:
        if not event.is_forwarded:
            waits = self._keys.has_one_of(self._key_table.leaders, self.screen)
            self._keys.sent(event, self.screen)
            # behind a key that opens a menu: that menu is to have it, not the list with the focus
            if waits:
                (self.focused or self.screen)._forward_event(event)
                return
            if self.screen is not self.explorer:
                held_keys(self).follow(event, self.focused or self.screen, self)
        elif self._keys.is_late(event, self.screen):
            self.post_message(events.Key(event.key, event.character))
            return
        elif await self._check_bindings(event.key, priority=True):
            return
        await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """Handle keys that are not Textual bindings: those that open menus, and those that the user
        has assigned to commands.
        """
        event.prevent_default()
        if await self._check_bindings(event.key) or self.screen is not self.explorer:
            return
        menu, command = self._key_table.lookup(event.key, event.character or "")
        if menu:
            await self.push_screen(MenuScreen(menu, self.controllers.command_runs.why_not))
        elif command:
            await self.action_run_command(command.id)

    @on(MenuScreen.Chosen)
    async def menu_chosen(self, event: MenuScreen.Chosen) -> None:
        """Carry out the command chosen in a menu, before keys that were typed after it."""
        if self.screen is event.menu:
            await self.pop_screen()
            await self.action_run_command(event.command.id)

    async def action_call_controller(self, command_id: str) -> None:
        """Have a controller carry out a command."""
        await self.controllers.carry_out(by_id(command_id))

    async def action_run_command(self, command_id: str) -> None:
        """Run a command for a click in the footer, or a choice in a menu."""
        await self.controllers.command_runs.run(command_id)

    def action_help(self) -> None:
        from fx_explorer.tui.screens.help import Help  # not needed for the first paint

        absent = self.explorer.absent_commands()
        self.push_screen(Help(self.explorer.help_topic(), self.config.keys, absent))

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
        """Show a message literally, never as markup: messages contain names and errors from
        outside.
        """
        lasts_s = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.post_message(
            Notify(CornerMessage(printable_text(message), title, severity, lasts_s, markup=False))
        )

    def _write_past_screen(self, text: str) -> None:
        """Write sequences that make the terminal do something."""
        if self._driver is not None:
            self._driver.write(text)

    async def action_quit(self) -> None:
        """Quit, also for Textual's own keys and signals. In the tour there is no question about the
        sample's capture.
        """
        leaving = self.controllers.leaving
        if self.controllers.tour.is_going_on:
            await leaving.leave()
        else:
            await leaving.quit()

    # what is asked for

    @on(ViewShown)
    async def view_shown(self, event: ViewShown) -> None:
        await self.controllers.command_runs.view_shown(event.view)

    @on(DifferenceWanted)
    async def difference_wanted(self, event: DifferenceWanted) -> None:
        await self.controllers.comparisons.show_differences(event.aspect)

    @on(Pane.Followed)
    async def links_followed(self, event: Pane.Followed) -> None:
        await self.controllers.navigation.follow_link(event)

    @on(BelowWanted)
    async def below_wanted(self) -> None:
        await self.controllers.kernel_levels.show_levels()

    @on(BuildWanted)
    def build_wanted(self, event: BuildWanted) -> None:
        self.controllers.kernel_builds.want(event)

    @on(CandidatesWanted)
    def candidates_wanted(self, event: CandidatesWanted) -> None:
        self.controllers.kernel_levels.compile_configurations(event)

    @on(CopyWanted)
    def copy_wanted(self, event: CopyWanted) -> None:
        self.controllers.exports.copy_text(event.text)

    async def on_tour_panel_picked(self, event: TourPanel.Picked) -> None:
        await self.action_run_command(event.command)
