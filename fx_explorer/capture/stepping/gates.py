"""This module makes a compilation wait for the user at gates, and carries out the commands that it
accepts there.

The thread that compiles waits on a queue, which costs nothing, while the worker's command thread
puts commands into it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.errors import FxExplorerError
from fx_explorer.model import GATE_WORDS, GATES, Command, Direction, Gate, Notice, Pause
from fx_explorer.session.undisturbed import undisturbed

Obey = Callable[[Command], str]
"""A function that carries out a command that does not continue the compilation, and returns its
result. It raises FxExplorerError to refuse.
"""


Allow = Callable[[Command], object]
"""A function that raises FxExplorerError for a command that cannot be given here."""


class LeftAtGate(BaseException):
    """Raised to leave the variant being compiled at a gate. It is not an ``Exception``, so that no
    caller handles it as an error.
    """


class Skipped(LeftAtGate):
    """Raised to run this graph in eager mode."""


class Aborted(LeftAtGate):
    """Raised to give up the present compilation."""


class AnotherVariant(LeftAtGate):
    """Raised to continue from an earlier stage instead of the present one."""

    def __init__(self, command: Command) -> None:
        super().__init__()
        self.command = command


class Gates:
    """Decides at which gates the compilation waits, and receives the user's commands. ``put`` may
    be called from any thread.
    """

    def __init__(self, pause: Pause, notify: Callable[[Notice], None]) -> None:
        self._stops: frozenset[Gate] = _STOPS[pause]
        self._notify = notify
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = False
        self._is_obeying = False
        self._is_interrupted = False
        """Whether the command that is being carried out is to be interrupted: a pass that loops, a
        compilation that takes too long.
        """
        self._is_over = False
        """Whether the client has let the worker go."""

    def put(self, command: Command) -> bool:
        """Give a command to the thread that waits. Returns False when none waits, or when the
        command interrupts the thread.
        """
        with self._lock:
            if self._is_obeying and command.kind in ("abort", "quit"):
                self._is_interrupted = command.kind == "abort"
                return False
            if self._waiting:
                self._commands.put(command)
            return self._waiting

    def pass_by(self, gate: Gate) -> None:
        """Do not wait at this gate from now on."""
        self._stops -= {gate}

    def arrive(self, gate: Gate) -> None:
        """Record that a stage is finished, before anything is done at its gate."""

    def stops_at(self, gate: Gate) -> bool:
        return gate in self._stops

    def wait(
        self,
        gate: Gate,
        compilation: str,
        direction: Direction,
        obey: Obey,
        allow: Allow = lambda _: None,
        published: str = "",
    ) -> None:
        """Wait until the user continues. Raises a subclass of LeftAtGate for any other decision.
        ``published`` names the stage that a backend has published, at its gate.
        """
        where: dict[str, Any] = {
            "gate": gate,
            "compilation": compilation,
            "direction": direction,
            "published": published,
        }
        is_within, self._is_obeying = (
            self._is_obeying,
            False,
        )  # a gate of a variant that was asked for
        self._open(where)
        try:
            with undisturbed.lifted():  # the program's handlers run while the user is waited for
                self._wait(compilation, obey, allow)
        finally:
            self._is_obeying = is_within
            self._close(where)

    def _wait(self, compilation: str, obey: Obey, allow: Allow) -> None:
        while True:
            command = self._commands.get()
            if self._is_refused(command, allow):
                continue
            if self._moves_on(command):
                self._answer("done", _GOING.get(command.kind, ""))
                return
            if command.kind == "skip":
                if compilation:
                    which = "this graph runs eagerly"
                else:
                    which = "all of them run eagerly"
                self._answer("done", which)
                raise Skipped
            if command.kind in ("abort", "quit"):
                self._is_over = command.kind == "quit"
                self._answer("done", "abandoned; what was captured is kept")
                raise Aborted
            self._obey(command, obey)

    def attend(self, obey: Obey) -> None:
        """Carry out commands after the program has ended, until the client lets the worker go."""
        self._open({})
        try:
            while not self._is_over and (command := self._commands.get()).kind != "quit":
                if command.kind in ("skip", "abort"):
                    self._answer(
                        "refused",
                        "Nothing is being compiled: there is nothing to skip or to abort.",
                    )
                elif command.kind in ("set", "again", "measure", "what_if", "steps"):
                    self._obey(command, obey)
                else:
                    self._answer(
                        "refused",
                        "All stages are finished. Restart from a stage of one of them to compile "
                        "another variant.",
                    )
                if not self._waiting:  # the requested variant stopped at gates of its own
                    self._open({})
        finally:
            self._close({})

    def _moves_on(self, command: Command) -> bool:
        if command.kind == "go":
            self._stops = frozenset()
        elif command.kind == "step":
            self._stops = frozenset(GATES)
        elif command.kind == "run_to" and command.gate:
            self._stops = frozenset((command.gate,))
        return command.kind in _GOING

    def _is_refused(self, command: Command, allow: Allow) -> bool:
        try:
            allow(command)
        except FxExplorerError as error:
            self._answer("refused", str(error))
            return True
        return False

    def _obey(self, command: Command, obey: Obey) -> None:
        """Carry out a command and answer it. If it raises AnotherVariant, it has answered
        already.
        """
        try:
            with self._obeying():
                done = obey(command)
        except FxExplorerError as error:
            self._answer("refused", str(error))
        except LeftAtGate:
            raise
        except BaseException:
            if not self._is_interrupted:
                raise
            self._is_interrupted = False
            self._answer("refused", "Stopped, as you asked.")
        else:
            self._answer("done", done)

    @contextlib.contextmanager
    def _obeying(self) -> Iterator[None]:
        self._is_obeying = True
        try:
            yield
        finally:
            self._is_obeying = False

    def wait_for_all(self, gate: Gate, obey: Obey, allow: Allow) -> None:
        """Wait as ``wait`` does, once for all graphs at the same gate."""
        self.wait(gate, "", "", obey, allow)

    def answer(self, text: str) -> None:
        """Tell the client that a command was carried out, before its consequences begin."""
        self._answer("done", text)

    def _answer(self, kind: Any, text: str) -> None:
        self._notify(Notice(kind, text=text))

    def _open(self, where: dict[str, Any]) -> None:
        with self._lock:
            self._waiting = True
        text = words(where.get("gate"), where.get("published", ""))
        self._notify(Notice("gate", state="begin", text=text, **where))

    def _close(self, where: dict[str, Any]) -> None:
        with self._lock:
            self._waiting = False
            while not self._commands.empty():  # the user gave it twice in a hurry
                self._commands.get_nowait()
        self._notify(Notice("gate", state="end", **where))


class GateReached(LeftAtGate):
    """Raised when a graph has reached the gate at which its compilation is to stop. It can continue
    from there later.
    """


class StopAfterGate(Gates):
    """Gates for a program instead of a person: the compilation never waits, and is left at the gate
    ``until``.
    """

    def __init__(self) -> None:
        super().__init__("", lambda notice: None)
        self.until: Gate | None = None

    def arrive(self, gate: Gate) -> None:
        if gate == self.until:
            raise GateReached


def words(gate: Gate | None, published: str = "") -> str:
    if gate:
        return f"paused after {published or GATE_WORDS[gate]}"
    return "finished; all stages are recorded"


_STOPS: dict[Pause, frozenset[Gate]] = {
    "": frozenset(),
    "dynamo": frozenset(("dynamo",)),
    "step": frozenset(GATES),
}

_GOING = {"go": "continuing", "step": "on to the next pause", "run_to": "on to that pause"}
