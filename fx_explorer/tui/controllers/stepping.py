"""This module lets the user step through the compiler, and through Dynamo's bytecode, from the
keyboard: which commands a waiting worker accepts, and why it does not now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.stage_work import works_at
from fx_explorer.model import GATE_WORDS, GATES, Command, Compilation, Direction, Gate
from fx_explorer.session import SessionReader
from fx_explorer.tui.availability import NO_RECORD
from fx_explorer.tui.commands import AT_A_GATE, AT_HAND, Keymap, by_id
from fx_explorer.tui.content.live import LiveCapture, Waiting
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation, needs_no_dialog_soon
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.dialogs.dialog import Consent
from fx_explorer.tui.failures import explained
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.panes.overview_pane import key_of

if TYPE_CHECKING:
    from fx_explorer.analysis.step_record import StepRecord

REFUSED_S = 20
"""Seconds that the reason for a refusal is shown."""

NOTHING_WAITS = (
    "The compiler is running: it takes commands at its next pause. c x aborts the current compile."
)
NOTHING_LEFT = (
    "Everything is compiled; nothing is paused. c a compiles another variant from a finished stage."
)
SAVED = (
    "This is a saved session: there is no compiler to step through. 3 shows what each stage did. "
    "Open its target with fx-explorer TARGET to step."
)
GONE = "The worker has ended. r captures again."

RECORD_LOOK_S = 0.1
"""Seconds between two looks at the session while the worker records bytecode steps."""

READ_S = 15

OF_INDUCTOR: frozenset[Gate] = frozenset(
    ("pre_grad", "post_grad", "pre_fusion", "post_fusion", "output_code")
)
"""Gates that exist only when Inductor compiles."""

WITH_INDUCTOR = frozenset(("", "inductor", "regional_inductor"))
"""Backends that end in Inductor; the empty name is a backend that is not known yet."""

IF_IT_CALLS_INDUCTOR = "only if your backend calls Inductor"


class Stepping:
    """Tells a worker that waits at a gate how to continue, and shows the effects of each stage and
    the bytecode.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.app = services.app
        self._shows_next_stage = False
        """Whether the next pause is shown together with the effect of the stage before it."""
        self._then: Callable[[], Awaitable[None]] | None = None
        self._then_what = ""
        """Called once every graph has been compiled."""

    # what happened

    def show_answers(self) -> None:
        """Show the results of the commands."""
        answers = self._services.captures.live.answers if self._services.captures.live else ()
        while answers:
            answer = answers.popleft()
            if answer.kind == "refused":
                self._services.notify(
                    answer.text, title="not done", severity="warning", timeout=REFUSED_S
                )
            elif answer.text:
                self._services.notify(answer.text)

    def first_commands(self) -> tuple[str, ...]:
        """Return the commands with which the footer begins."""
        waiting = self._services.captures.waiting
        if waiting is None:
            return ()
        return AT_A_GATE if waiting.gate else AT_HAND

    def keys_that_continue(self) -> tuple[tuple[str, str, str], ...]:
        """Return (key, words, fewer words) of the two commands that lead on from a pause."""
        keymap = self._services.explorer.keymap
        step, go = key_of("step.next", keymap), key_of("capture.run", keymap)
        return (step, "next stage", "step"), (go, "compile to the end", "run")

    def show_finished_stage(self) -> None:
        """After a step, show the effect of the stage that it finished; all stages, if none is left
        to step through.
        """
        waiting, reader = self._services.captures.waiting, self._services.explorer.reader
        if (
            self._shows_next_stage
            and waiting
            and reader is self._services.stepped_session
            and reader
        ):
            self._shows_next_stage = False
            self._services.begin(
                self._show_stage(reader, waiting),
                "stage",
                "stage",
                "show what a stage did",
                exclusive=True,
            )

    async def _show_stage(self, reader: SessionReader, waiting: Waiting) -> None:
        explorer = self._services.explorer
        with explained(explorer):
            if waiting.gate is None:
                await explorer.action_show_view("stages")
                return
            works = await asyncio.to_thread(
                works_at, reader.path, waiting.compilation, waiting.gate, waiting.direction
            )
            if works and reader is explorer.reader:
                is_inductors = self._backends() <= WITH_INDUCTOR
                key = next_key(
                    explorer.keymap, waiting.gate, waiting.direction, is_inductors=is_inductors
                )
                await explorer.show_stage(works, key)

    # what needs the rest

    @property
    def pauses(self) -> bool:
        """Return whether the compiler waits at a gate, with stages still ahead."""
        waiting = self._services.captures.waiting
        return waiting is not None and waiting.gate is not None

    async def go_on_then(self, what: str, then: Callable[[], Awaitable[None]]) -> bool:
        """Ask whether to continue to the end, for an action that needs all stages, and carry it out
        when everything is compiled. ``what`` completes “continues, then …”. Returns whether it
        continues.
        """
        question = f"Compile to the end, then {what}?"
        consent = Consent(question, "This needs the stages that come after the pause.")
        if not await ask(self.app, consent) or not self.pauses:
            return False
        self._then, self._then_what = then, what
        self._shows_next_stage = False
        self.send(Command("go"), "continuing")
        return True

    def send_then(self, command: Command, doing: str, then: Callable[[], Awaitable[None]]) -> None:
        """Send the worker a command, and call ``then`` when it is done and everything is
        compiled.
        """
        self._then, self._then_what = then, ""
        self.send(command, doing)

    @property
    def then_what(self) -> str:
        """Return what is carried out once everything is compiled; empty without anything."""
        return self._then_what if self._then else ""

    def do_what_waited(self) -> None:
        """Carry out the action that waited until everything was compiled; drop it if the capture
        ends before.
        """
        live, then = self._services.captures.live, self._then
        if (
            then is None
            or live is None
            or self.pauses
            or (live.waiting is None and not live.is_over)
        ):
            return
        self._then = None
        if not live.is_over or self._services.explorer.reader is not None:
            self._services.begin(
                then(), "then", "then", "do the work that waited for the compiler", exclusive=True
            )

    # straight on

    def step(self) -> None:
        self._shows_next_stage = self._leave_gate(Command("step"), "on to the next pause")

    def go_on(self) -> None:
        self._shows_next_stage = False
        self._leave_gate(Command("go"), "continuing")

    def skip_graph(self) -> None:
        self._leave_gate(Command("skip"), "running this graph eagerly")

    @conversation("run to", "choose the pause to run to")
    async def run_to(self) -> None:
        if self._at_gate() is None:
            return
        ahead, backends = self._gates_ahead(), self._backends()
        unsure = OF_INDUCTOR if backends and not backends & WITH_INDUCTOR else frozenset[Gate]()
        choices = []
        for gate_ahead in ahead:
            detail = IF_IT_CALLS_INDUCTOR if gate_ahead in unsure else gate_ahead
            choices.append(Choice(f"after {GATE_WORDS[gate_ahead]}", detail, gate_ahead))
        gate = await ask(self.app, Chooser("Continue to the pause", matching(choices)))
        if gate:
            self._shows_next_stage = self._leave_gate(
                Command("run_to", gate=gate), f"on to {GATE_WORDS[gate]}"
            )

    def _gates_ahead(self) -> list[Gate]:
        """Return the gates ahead. Inductor publishes no stage of its own. Another backend may call
        Inductor, which is not known before: Inductor's gates come last then.
        """
        backends = self._backends()
        if not backends - WITH_INDUCTOR:
            return [gate for gate in GATES if gate != "backend"]
        if backends & WITH_INDUCTOR:
            return list(GATES)
        return sorted(GATES, key=OF_INDUCTOR.__contains__)

    def _backends(self) -> set[str]:
        reader = self._services.stepped_session
        if reader:
            return {row.backend for row in reader.rows(Compilation)}
        return set()

    def abort_compile(self) -> None:
        live = self._worker()
        if live and live.waiting == Waiting():
            self._services.notify(NOTHING_LEFT)
        elif live:
            self.send(Command("abort"), "aborting the current compile")

    def _leave_gate(self, command: Command, doing: str) -> bool:
        """Continue from a gate. Returns whether the worker waits at one."""
        if self._at_gate() is None:
            return False
        self.send(command, doing)
        return True

    # who listens

    def _worker(self) -> LiveCapture | None:
        """Return the capture, if its worker exists; else tell the user why not."""
        live = self._services.captures.live
        if live and not live.is_over:
            return live
        if self._services.captures.can_run:
            self._services.notify(GONE)
        else:
            self._services.notify(SAVED)
        return None

    def at_rest(self) -> Waiting | None:
        """Return the pause at which the worker waits, at a gate or when all is done; else None."""
        live = self._worker()
        if live and live.waiting is None:
            self._services.notify(NOTHING_WAITS)
        return live.waiting if live else None

    @property
    def rests(self) -> bool:
        """Return whether the program has ended and its worker waits, so that a variant can be
        compiled.
        """
        live = self._services.captures.live
        if live is None or live.is_over or live.waiting is None:
            return False
        return not live.waiting.gate

    def _at_gate(self) -> Waiting | None:
        """Return the gate at which the worker waits; None if it does not."""
        waiting = self.at_rest()
        if waiting and waiting.gate is None:
            self._services.notify(NOTHING_LEFT)
            return None
        return waiting

    def send(self, command: Command, doing: str) -> None:
        """Send a command to the worker, and show ``doing``, its activity from now on."""
        live = self._worker()
        if live:
            live.send(command, doing)
            self._services.look()

    # the bytecode

    @conversation("bytecode steps", "step through the bytecode")
    async def step_through_bytecode(self) -> None:
        from fx_explorer.analysis.step_record import read_record  # not for the first paint
        from fx_explorer.tui.screens.step_record_screen import StepScreen

        explorer = self._services.explorer
        reader = explorer.reader
        if reader is None:
            return
        record = await asyncio.to_thread(read_record, reader) or await self._record(reader)
        if record is None:
            return
        screen = StepScreen(reader, record, explorer.keymap, _first_step_at(record, explorer.place))
        left = await ask(self.app, screen)
        if left and explorer.view == "source":
            await explorer.go(left)

    @conversation("Dynamo's trace", "step through Dynamo's trace")
    async def step_through_trace(self) -> None:
        from fx_explorer.analysis.dynamo_trace import first_point, read_trace
        from fx_explorer.instruments.trace.view import why_empty
        from fx_explorer.tui.screens.trace_screen import TraceScreen  # not for the first paint

        explorer = self._services.explorer
        reader = explorer.reader
        if reader is None:
            return
        record = await asyncio.to_thread(read_trace, reader)
        if record is None:
            self._services.notify(why_empty(reader), timeout=READ_S)
            return
        place, version = explorer.place, explorer.cursor.version
        point = await asyncio.to_thread(first_point, record, reader, place, version)
        left = await ask(self.app, TraceScreen(reader, record, explorer.keymap, point))
        if left and explorer.view == "source":
            await explorer.go(left)

    async def _record(self, reader: SessionReader) -> StepRecord | None:
        """Make the worker call the program once more, and return the record; None if that is
        impossible. The worker's answer is reported as usual.
        """
        from fx_explorer.analysis.step_record import read_record

        live = self._services.captures.live
        if live is None or live.is_over or reader is not self._services.stepped_session:
            self._services.notify(NO_RECORD, timeout=READ_S)
            return None
        if self.at_rest() is None:
            return None
        self.send(Command("steps"), "recording what the bytecode does")
        needs_no_dialog_soon(self.app)
        while live.waiting is None and not live.is_over:
            await asyncio.sleep(RECORD_LOOK_S)
        if live.is_over:
            return None
        return await asyncio.to_thread(read_record, reader)


def _first_step_at(record: StepRecord, place: Place | None) -> int:
    """Return the first step at a line of the bytecode; the very first step without one."""
    if place is None or place.document.kind != "artifact":
        return 0
    wanted = place.document.id, place.line + 1
    return next(
        (i for i, step in enumerate(record.steps) if (step.artifact, step.line) == wanted), 0
    )


# Which key continues from a pause, and to what.

_NEXT: Mapping[Gate, str] = {
    "dynamo": "the pre-grad passes",
    "pre_grad": "AOTAutograd",
    "joint": "the partitioner, which makes a forward and a backward graph",
    "partition": "Inductor's passes over the {graph}",
    "post_grad": "lowering: loops and library calls instead of operations",
    "pre_fusion": "fusion: which loops become one",
    "post_fusion": "code generation",
    "output_code": "the rest: the next graph, or the end",
}


def next_key(keymap: Keymap, gate: Gate, direction: Direction, *, is_inductors: bool) -> str:
    """Return ``. continues to fusion: …``. The next stage of a backend other than Inductor is not
    known.
    """
    key = first_key(by_id("step.next"), keymap)
    if not key:
        return ""
    if not is_inductors or gate not in _NEXT:
        return f"{key} continues."
    done = "; the forward is finished" if (gate, direction) == ("partition", "backward") else ""
    graph = f"{direction} graph" if direction else "graph"
    return f"{key} continues to {_NEXT[gate].format(graph=graph)}{done}."
