"""Driving the compiler from the keyboard: what can be asked of a worker that waits, and why it cannot be asked now."""

from __future__ import annotations

from textual.app import App

from fx_explorer.model import GATE_WORDS, GATES, Command
from fx_explorer.session import SessionReader
from fx_explorer.tui.capturing import Captures, MakeCapture
from fx_explorer.tui.commands import AT_A_GATE, AT_HAND, Keymap
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.live import LiveCapture, Waiting
from fx_explorer.tui.screens.choose import Choice, Chooser, matching
from fx_explorer.tui.screens.explorer import Explorer

REFUSED_S = 20
"""Why something was refused is read in peace."""

NOTHING_WAITS = "The compiler is working: it listens at its next gate. X gives up what it compiles now."
NOTHING_LEFT = "Everything is compiled, and nothing waits. A takes another way from a stage that is finished."
SAVED = "This is a saved session: there is no compiler to drive. Open its target with fx-explorer TARGET."
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

    @conversation("run to", "choose the gate to run to")
    async def action_run_to(self) -> None:
        if self._at_gate() is None:
            return
        choices = [Choice(f"after {GATE_WORDS[gate]}", gate, gate) for gate in GATES]
        gate = await ask(self, Chooser("Go on until the compiler has come through", matching(choices)))
        if gate:
            self._leave_gate(Command("run_to", gate=gate), f"on to {GATE_WORDS[gate]}")

    def action_abort_compile(self) -> None:
        live = self._worker()
        if live and live.waiting == Waiting():
            self.notify(NOTHING_LEFT)
        elif live:
            self._send(Command("abort"), "giving up what is being compiled")

    def _leave_gate(self, command: Command, doing: str) -> None:
        if self._at_gate():
            self._send(command, doing)

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
