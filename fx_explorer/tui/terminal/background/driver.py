"""Textual's driver for a terminal that was asked something before the app began: what was typed by then
comes first, and answers that come late are no keys.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
from typing import Protocol

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from fx_explorer.tui.terminal.background.answers import Answers

TICK_S = 0.1
"""How long the reading thread waits before it looks whether it is to end, as in Textual's driver."""


class BackgroundHeard(Message):
    """Tells the app what the terminal said of its background after the app had begun."""

    def __init__(self, is_light: bool) -> None:
        super().__init__()
        self.is_light = is_light


class AskedTerminal(Protocol):
    """What an app knows of the terminal that it runs on."""

    terminal_answers: Answers | None
    """The answers so far; None where the terminal was not asked."""
    typed_before: str


class AskedDriver(LinuxDriver):
    """Reads the terminal as Textual's driver does (``LinuxDriver.run_input_thread``, 8.2), which would
    take an answer it does not know for keys.
    """

    def run_input_thread(self) -> None:
        terminal: AskedTerminal = self._app  # type: ignore[assignment]
        parser = XTermParser(self._debug)
        self._feed(parser, terminal.typed_before)
        decode = codecs.getincrementaldecoder("utf-8")().decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                answers = terminal.terminal_answers
                if selector.select(TICK_S):
                    self._read(parser, answers, decode(os.read(self.fileno, 4096)))
                elif answers:
                    self._feed(parser, answers.give_back_key())
                for message in parser.tick():
                    self.process_message(message)
        with contextlib.suppress(EOFError, ParseError):
            for _ in parser.feed(""):
                pass

    def _read(self, parser: XTermParser, answers: Answers | None, text: str) -> None:
        """Pass on what was read. Nothing comes of a pipe that was closed."""
        if answers is None or answers.are_complete or not text:
            self._feed(parser, text)
            return
        was_told = bool(answers.colour)
        self._feed(parser, answers.take(text))
        is_light = answers.background_is_light
        if is_light is not None and not was_told:
            self.process_message(BackgroundHeard(is_light))

    def _feed(self, parser: XTermParser, text: str) -> None:
        if text:  # an empty text would end the parser
            for message in parser.feed(text):
                self.process_message(message)
