"""This module adapts Textual's driver to a terminal that was asked something before the app began:
input typed by then comes first, and late answers are not read as keys.

It also notices that the terminal is gone (its window was closed, ssh broke off) where no SIGHUP
says so. Textual continues without a terminal, and blocks once its queue of unwritten frames is
full; nobody could ever stop the app.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import sys
from collections.abc import Iterable
from typing import Protocol

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from fx_explorer.tui.terminal.beginning import TerminalAnswers
from fx_explorer.tui.terminal.input_bytes import InputBytes

TICK_S = 0.1
"""Seconds after which the reading thread checks whether it should end, as in Textual's driver."""

HELD_S = 0.03
"""Seconds to wait for the rest of a possible paste or answer, which is otherwise a key."""

LARGEST = 5000
"""Maximum number of columns, and of rows, that a terminal may report."""


class UndecodableInput(Message):
    """Posted once when the terminal sends bytes that are not text, so that keys or pastes may look
    wrong.
    """


class BackgroundReported(Message):
    """Posted when the terminal reports its background after the app had begun."""

    def __init__(self, is_light: bool) -> None:
        super().__init__()
        self.is_light = is_light


class AskedTerminal(Protocol):
    """An app's knowledge of its terminal."""

    terminal_answers: TerminalAnswers | None
    """The answers so far; None if the terminal was not asked."""
    typed_before: str


class AskedDriver(LinuxDriver):
    """Reads the terminal as Textual's driver does, except that the terminal's answers are removed
    from the input, and bytes that are not UTF-8 are replaced. Textual's own driver
    (``LinuxDriver.run_input_thread``, 8.2) would read an unknown answer as keys, and end at such a
    byte.
    """

    def run_input_thread(self) -> None:
        terminal: AskedTerminal = self._app  # type: ignore[assignment]
        self.begin_input()
        self._feed(self._input.sort_out(terminal.typed_before))
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                answers = terminal.terminal_answers
                wait_s = HELD_S if self._input.is_undecided else TICK_S
                if selector.select(wait_s):
                    self._read(answers, os.read(self.fileno, 4096))
                else:
                    if answers:
                        self._feed(self._input.sort_out(answers.give_back_key()))
                    self._feed(self._input.silence())
                self._process(self._parser.tick())
        with contextlib.suppress(EOFError, ParseError):
            for _ in self._parser.feed(""):
                pass

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again after Ctrl+Z. Textual would also do so for a SIGCONT without an
        earlier stop, and then read the terminal twice.
        """
        if self._must_signal_resume:
            super()._sigcont_application()

    def begin_input(self) -> None:
        """Start reading with an empty buffer, also after an editor has run."""
        self._parser = XTermParser(self._debug)
        self._input = InputBytes()
        self._told_undecodable = False

    def _read(self, answers: TerminalAnswers | None, read: bytes) -> None:
        """Pass on the input. A closed pipe gives none, and never will."""
        if not read:
            self.exit_event.wait(TICK_S)
            return
        text = self._input.decode(read)
        if self._input.replaced:
            self._tell_undecodable()
        if answers is None or answers.are_complete:
            self._feed(self._input.sort_out(text))
            return
        was_told = bool(answers.colour)
        self._feed(self._input.sort_out(answers.take(text)))
        is_light = answers.background_is_light
        if is_light is not None and not was_told:
            self.process_message(BackgroundReported(is_light))

    def _feed(self, text: str) -> None:
        for character in text:  # one by one, so that only the sequence that raises is lost
            self._process(self._parser.feed(character))

    def _process(self, parsed: Iterable[Message]) -> None:
        """Send the result of Textual's parser for the input. The parser raises at sequences that no
        terminal sends (a key beyond Unicode, a screen of no width), and cannot be used afterwards.
        """
        try:
            for message in parsed:
                if _is_possible(message):
                    self.process_message(message)
        except (ArithmeticError, ValueError, RuntimeError):
            self._parser = XTermParser(self._debug)
            self._tell_undecodable()

    def _tell_undecodable(self) -> None:
        if not self._told_undecodable:
            self._told_undecodable = True
            self.process_message(UndecodableInput())


def _is_possible(message: Message) -> bool:
    """Return whether a terminal can send this message: a valid size, and a key whose character can
    be encoded.
    """
    if isinstance(message, events.Resize):
        return 0 < message.size.width <= LARGEST and 0 < message.size.height <= LARGEST
    if isinstance(message, events.Key) and message.character:
        return not any("\ud800" <= letter <= "\udfff" for letter in message.character)
    return True


def terminal_is_gone() -> bool:
    """Return whether stdin's terminal has hung up. Costs microseconds."""
    stdin = sys.__stdin__
    if stdin is None or stdin.closed or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(stdin.fileno(), 0)  # a hang-up is told without asking for anything
    return any(
        event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0)
    )


def leave_at_once() -> None:
    """End without Textual's farewell, which would wait for ever for a terminal to take it."""
    os._exit(129)
