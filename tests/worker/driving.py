"""This helper is a conversation with a real worker: commands are sent whenever it waits, and its
answers are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fx_explorer.client import Capture
from fx_explorer.model import (
    BytecodeRun,
    CaptureRequest,
    Command,
    Compilation,
    Notice,
    Outcome,
    Pause,
)
from fx_explorer.session import SessionReader

Line = Command | str | Callable[[], Command]
"""A command, a line to send as it is, or a function that does something first and returns a
command.
"""


@dataclass
class Conversation:
    outcome: Outcome
    answers: list[Notice] = field(default_factory=list)
    """``done`` and ``refused``, one for each line that was answered."""
    gates: list[str] = field(default_factory=list)
    """Gates at which the worker waited; ``end`` when the program had ended."""
    compilations: list[Compilation] = field(default_factory=list)
    runs: list[BytecodeRun] = field(default_factory=list)


async def converse(
    target: Path,
    lines: Iterable[Line],
    *,
    pause: Pause = "",
    send_while_busy: Command | None = None,
) -> Conversation:
    """Capture ``target`` and say ``lines``, one at a time; then go on, and quit at the end.

    ``send_while_busy``: a line to send once, without waiting, as soon as the program prints
    something.
    """
    busy = [send_while_busy] if send_while_busy else []
    capture = Capture(
        CaptureRequest(str(target), "", pause=pause, stay=True),
        on_output=lambda *_: busy and _send(capture, busy.pop()),
    )
    said: Iterator[Line] = iter(lines)
    conversation = Conversation(Outcome("finished"))
    await capture.start()
    try:
        await _follow(capture, said, conversation)
        conversation.outcome = await capture.cancel()
        with SessionReader(capture.session_path) as reader:
            conversation.compilations = reader.rows(Compilation)
            conversation.runs = reader.rows(BytecodeRun)
    finally:
        capture.discard()
    return conversation


async def _follow(capture: Capture, said: Iterator[Line], conversation: Conversation) -> None:
    is_waiting, last = False, ""
    async for notice in capture.notices():
        if notice.kind in ("done", "refused"):
            conversation.answers.append(notice)
        if notice.kind == "gate":
            is_waiting = notice.state == "begin"
            if is_waiting:
                conversation.gates.append(notice.gate or "end")
        if not is_waiting or not _is_asked(notice, conversation.gates[-1], last):
            continue
        line = next(said, None)
        if line is None and conversation.gates[-1] == "end":
            return
        last = _send(capture, line or Command("go"))


def _is_asked(notice: Notice, gate: str, last: str) -> bool:
    """Return whether the worker waits for the next line after this notice; a notice of progress is
    followed by another.
    """
    if notice.kind == "done":
        return gate == "end" or last in ("set", "mark", "pass", "what_if", "steps")
    return notice.kind in ("gate", "refused")


def _send(capture: Capture, line: Line) -> str:
    """Returns the kind of the command."""
    if isinstance(line, str):
        capture._worker.send(line)
        return ""
    command = line if isinstance(line, Command) else line()
    capture.send(command)
    return command.kind
