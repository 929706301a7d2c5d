"""Driving the compiler from the keyboard: what can be asked of a worker that waits, and why it cannot be asked now."""

from __future__ import annotations

from pathlib import Path

from textual import work
from textual.app import App

from fx_explorer.analysis.hand_marks import hand_marks, source_edit
from fx_explorer.analysis.settings import read_settings
from fx_explorer.model import GATE_WORDS, GATES, GRAPH_GATES, Changes, Command, Gate, PassFile
from fx_explorer.session import SessionReader
from fx_explorer.tui.capturing import Captures, MakeCapture
from fx_explorer.tui.commands import AT_A_GATE, AT_HAND, Keymap
from fx_explorer.tui.live import LiveCapture, Waiting
from fx_explorer.tui.marking import Markable, markables
from fx_explorer.tui.screens.ask import Ask
from fx_explorer.tui.screens.choose import Choice, Chooser, matching
from fx_explorer.tui.screens.explorer import Explorer
from fx_explorer.tui.ways import REDONE, Departure, departures

REFUSED_S = 20
"""Why something was refused is read in peace."""

NOTHING_WAITS = "The compiler is working: it listens at its next gate. X gives up what it compiles now."
NOTHING_LEFT = "Everything is compiled, and nothing waits. A takes another way from a stage that is finished."
SAVED = "This is a saved session: there is no compiler to drive. Open its target with fx-explorer TARGET."
NOTHING_MARKED = (
    "Nothing was marked by hand. Go to a node, or to a line of your source, and press m: then this shows the marks as a diff."
)
GONE = "The worker has ended. r captures again."


class SteppingApp(App[int]):
    """Has a capture that may wait at gates, and the commands for it."""

    def __init__(self, make_capture: MakeCapture | None, keymap: Keymap) -> None:
        super().__init__()
        self.captures = Captures(make_capture)
        self.explorer = Explorer(keymap)

    # what happened

    def tell_answers(self) -> None:
        """Say what became of the commands."""
        answers = self.captures.live.answers if self.captures.live else ()
        while answers:
            answer = answers.popleft()
            if answer.kind == "refused":
                self.notify(answer.text, title="not done", severity="warning", timeout=REFUSED_S)
            elif answer.text:
                self.notify(answer.text)

    def first_commands(self) -> tuple[str, ...]:
        """What the footer begins with."""
        waiting = self.captures.waiting
        if waiting is None:
            return ()
        return AT_A_GATE if waiting.gate else AT_HAND

    # straight on

    def action_step(self) -> None:
        self._leave_gate(Command("step"), "on to the next gate")

    def action_go_on(self) -> None:
        self._leave_gate(Command("go"), "going on")

    def action_skip_graph(self) -> None:
        self._leave_gate(Command("skip"), "running this graph eagerly")

    @work(name="run to", group="choose", description="choose the gate to run to")
    async def action_run_to(self) -> None:
        if self._at_gate() is None:
            return
        choices = [Choice(f"after {GATE_WORDS[gate]}", gate, gate) for gate in GATES]
        gate = await self.push_screen_wait(Chooser("Go on until the compiler has come through", matching(choices)))
        if gate:
            self._leave_gate(Command("run_to", gate=gate), f"on to {GATE_WORDS[gate]}")

    def action_abort_compile(self) -> None:
        live = self._worker()
        if live and live.waiting == Waiting():
            self.notify(NOTHING_LEFT)
        elif live:
            self._send(Command("abort"), "giving up this graph")

    def _leave_gate(self, command: Command, doing: str) -> None:
        if self._at_gate():
            self._send(command, doing)

    # with changes

    @work(name="apply pass", group="choose", description="choose a pass file")
    async def action_apply_pass(self) -> None:
        waiting = self._at_rest()
        if waiting is None:
            return
        departure = None
        if waiting.gate not in GRAPH_GATES:
            departure = await self._choose_departure("Apply a pass to the graph")
            if departure is None:
                return
        gate = departure.gate if departure else waiting.gate
        assert gate is not None
        path = await self._ask_pass_file(gate)
        if path is None:
            return
        if departure:
            self._take_way(departure, Changes(passes=(PassFile(gate, str(path)),)))
        else:
            changes = Changes(passes=(PassFile(gate, str(path), waiting.direction),))
            self._send(Command("pass", changes=changes), f"applying {path.name}")

    async def _ask_pass_file(self, gate: Gate) -> Path | None:
        words = f"Python file with pass_(gm), for the graph after {GATE_WORDS[gate]}"
        typed = await self.push_screen_wait(Ask(words, "", verb="applies"))
        if not typed:
            return None
        path = Path(typed).expanduser().absolute()
        if not path.is_file():
            self.notify(f"There is no file {path}: give the path of a Python file that defines pass_(gm).", severity="warning")
            return None
        return path

    @work(name="change option", group="choose", description="choose options for what follows")
    async def action_change_option(self) -> None:
        if self._at_rest() is None:
            return
        settings = await self._choose_settings()
        if settings:
            self._send(Command("set", changes=Changes(settings)), f"setting {', '.join(settings)}")

    async def _choose_settings(self) -> dict[str, object]:
        from fx_explorer.tui.screens.settings import SettingsDialog  # not needed for the first paint

        reader = self.stepped_session
        return await self.push_screen_wait(SettingsDialog(read_settings(reader) if reader else []))

    @work(name="again from", group="choose", description="choose where to set out from")
    async def action_again_from(self) -> None:
        if self._at_rest() is None:
            return
        departure = await self._choose_departure("Compile again")
        if departure is None:
            return
        choices = [Choice("with other options", "choose them first", True), Choice("with the same options", "", False)]
        changes_options = await self.push_screen_wait(Chooser(departure.words, matching(choices)))
        if changes_options is None:
            return
        settings = await self._choose_settings() if changes_options else {}
        if settings or not changes_options:
            self._take_way(departure, Changes(settings))

    async def _choose_departure(self, title: str) -> Departure | None:
        reader = self.stepped_session
        found = departures(reader) if reader else []
        if not found:
            self.notify("Nothing has been compiled that another way could set out from.")
            return None
        choices = [Choice(departure.words, REDONE[departure.gate], departure) for departure in found]
        return await self.push_screen_wait(Chooser(title, matching(choices)))

    @work(name="mark region", group="choose", description="mark the selection as a region")
    async def action_mark_region(self) -> None:
        waiting = self._at_rest()
        if waiting is None:
            return
        found = self._markable_selection()
        if not found:
            self.notify("Nothing to mark: go to a node, or to a line of your source that Dynamo made nodes of.")
            return
        chosen = found[0]
        if len(found) > 1:
            choices = [Choice(one.words, one.detail, one) for one in found]
            picked = await self.push_screen_wait(Chooser("Mark as a region", matching(choices)))
            if picked is None:
                return
            chosen = picked
        name = await self.push_screen_wait(Ask(f"Name of the region ({chosen.words})", chosen.suggestion, verb="marks"))
        if name:
            self._mark(waiting, chosen, name)

    def action_export_marking(self) -> None:
        """Works on a saved session too: nothing is asked of the compiler."""
        from fx_explorer.tui.screens.source_edit import SourceEditScreen  # not needed for the first paint

        reader = self.stepped_session
        marks = hand_marks(reader, self.captures.live.marks if self.captures.live else ()) if reader else []
        if reader is None or not marks:
            self.notify(NOTHING_MARKED)
            return
        folder = Path.cwd()
        edit = source_edit(reader, marks, folder)
        if edit.files and not any(Path(file).is_relative_to(folder) for file in edit.files):
            folder = Path(edit.files[0]).parent
        self.push_screen(SourceEditScreen(edit, folder, self.explorer.keymap))

    def _mark(self, waiting: Waiting, chosen: Markable, name: str) -> None:
        """At Dynamo's gate the mark is put on its graph; elsewhere another way sets out from there."""
        changes = Changes(marks=(chosen.named(name),))
        if waiting.gate == "dynamo" and waiting.compilation in ("", chosen.compilation):
            self._send(Command("mark", changes=changes), f"marking {name}")
        else:
            self._take_way(Departure(chosen.compilation, "dynamo"), changes)

    def _markable_selection(self) -> list[Markable]:
        reader, place = self.explorer.reader, self.explorer.place
        if reader is None or place is None:
            return []
        return markables(reader, place.document, self.explorer.selected_lines or [place.line])

    def _take_way(self, departure: Departure, changes: Changes) -> None:
        command = Command("again", gate=departure.gate, compilation=departure.compilation, changes=changes)
        self._send(command, f"compiling {departure.words}")

    # who listens

    @property
    def stepped_session(self) -> SessionReader | None:
        """The session of the capture that is driven."""
        return self.captures.incoming or self.explorer.reader

    def _worker(self) -> LiveCapture | None:
        """The capture, if its worker is there; else the user is told why not."""
        live = self.captures.live
        if live and not live.is_over:
            return live
        self.notify(GONE if self.captures.can_run else SAVED)
        return None

    def _at_rest(self) -> Waiting | None:
        """Where the worker waits, at a gate or when all is done."""
        live = self._worker()
        if live and live.waiting is None:
            self.notify(NOTHING_WAITS)
        return live.waiting if live else None

    def _at_gate(self) -> Waiting | None:
        """The gate where the worker waits."""
        waiting = self._at_rest()
        if waiting and waiting.gate is None:
            self.notify(NOTHING_LEFT)
            return None
        return waiting

    def _send(self, command: Command, doing: str) -> None:
        live = self._worker()
        if live:
            live.send(command, doing)
            self.look()

    def look(self) -> None:
        """Show how things stand, now."""
        raise NotImplementedError
