"""These tests check that the terminal is asked for its background once; its answer never becomes a
key, whatever it is and whenever it comes.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events
from textual.color import Color
from textual.message import Message
from textual.theme import Theme

from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.config import Config
from fx_explorer.tui.terminal import beginning
from fx_explorer.tui.terminal.beginning import QUESTION, TerminalAnswers, is_light
from fx_explorer.tui.terminal.driver import AskedDriver, BackgroundReported
from fx_explorer.tui.theme import DARK, LIGHT, default_theme
from tests.exhaustive import with_others
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

ROOT = Path(__file__).parents[2]
WHITE = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"
BLACK = "\x1b]11;rgb:0000/0000/0000\x07"
ATTRIBUTES = "\x1b[?62;22c"


@pytest.mark.parametrize(
    ("colour", "light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:fdfd/f6f6/e3e3", True),  # Solarized Light
        ("rgb:00/2b/36", False),  # Solarized Dark
        ("rgba:0000/0000/0000/cccc", False),
        ("#fbf1c7", True),
        ("#1e1e1e1e2e2e", False),
        ("chartreuse?", None),
    ],
)
def test_a_colour_is_light_or_dark_however_a_terminal_writes_it(
    colour: str, light: bool | None
) -> None:
    assert is_light(colour) is light


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_keys_typed_before_between_and_after_the_answers_are_kept(size: int) -> None:
    answers, text = TerminalAnswers(), f"ab{WHITE}c{ATTRIBUTES}d"
    kept = "".join(answers.take(text[start : start + size]) for start in range(0, len(text), size))
    assert (kept, answers.background_is_light, answers.are_complete) == ("abcd", True, True)


def test_an_escape_key_comes_through_when_nothing_follows_and_other_sequences_pass_at_once() -> (
    None
):
    answers = TerminalAnswers()
    assert answers.take("a\x1b") == "a"
    assert [answers.give_back_key(), answers.give_back_key()] == ["\x1b", ""]
    assert answers.take("\x1b[A\x1b[<0;3;4M\x1bOP") == "\x1b[A\x1b[<0;3;4M\x1bOP"
    assert answers.take("\x1b]1") == answers.give_back_key() == ""
    assert answers.take("x") == "\x1b]1x"


def test_a_terminal_that_knows_only_the_second_question_is_not_waited_for() -> None:
    answers = TerminalAnswers()
    assert answers.take(ATTRIBUTES) == ""
    assert answers.are_complete
    assert answers.background_is_light is None


def test_the_theme_goes_with_the_background_and_else_with_colorfgbg(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert [default_theme(light) for light in (True, False, None)] == [
        LIGHT.name,
        DARK.name,
        LIGHT.name,
    ]
    monkeypatch.delenv("COLORFGBG")
    assert default_theme(None) == DARK.name


class Terminal:
    """The other end of a pseudo-terminal: answers the question, or does not."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.asked = ""

    def answer(self, text: str) -> threading.Thread:
        """Answer with ``text`` once the question has come."""

        def listen() -> None:
            while QUESTION not in self.asked:
                self.asked += os.read(self.master, 1024).decode()
            os.write(self.master, text.encode())

        thread = threading.Thread(target=listen)
        thread.start()
        return thread

    @property
    def unread(self) -> bytes:
        """Return the unread bytes in the terminal's input."""
        return os.read(self.slave, 1024) if select.select([self.slave], [], [], 0)[0] else b""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    opened = Terminal()
    yield opened
    os.close(opened.master)
    os.close(opened.slave)


def ask(terminal: Terminal, **environ: str) -> beginning.TerminalQuestion | None:
    with (
        os.fdopen(os.dup(terminal.slave), "w") as out,
        os.fdopen(terminal.slave, closefd=False) as keyboard,
    ):
        with beginning.asked(keyboard, out, {"TERM": "xterm", **environ}) as asked:
            if asked:
                asked.wait()
    return asked


@pytest.mark.parametrize(("answer", "light"), [(WHITE, True), (BLACK, False)])
def test_a_terminal_is_asked_and_its_answer_is_heard_and_taken_out(
    terminal: Terminal, answer: str, light: bool
) -> None:
    before = termios.tcgetattr(terminal.slave)
    listening = terminal.answer(f"{answer}q{ATTRIBUTES}")
    asked = ask(terminal)
    listening.join()
    assert asked is not None
    assert asked.answers.background_is_light is light
    assert asked.typed == "q"
    assert terminal.unread == b""
    assert termios.tcgetattr(terminal.slave) == before


def test_a_terminal_that_does_not_answer_costs_a_short_time_and_nothing_else(
    terminal: Terminal,
) -> None:
    before = termios.tcgetattr(terminal.slave)
    began = time.monotonic()
    asked = ask(terminal)
    assert beginning.LIMIT_S <= time.monotonic() - began < beginning.LIMIT_S + 2
    assert asked is not None
    assert (asked.answers.background_is_light, asked.typed) == (None, "")
    assert termios.tcgetattr(terminal.slave) == before


@pytest.mark.parametrize("term", ["dumb", "linux", ""])
def test_a_terminal_that_would_show_the_question_is_not_asked(
    terminal: Terminal, term: str
) -> None:
    assert ask(terminal, TERM=term) is None
    assert not select.select([terminal.master], [], [], 0)[0]


def test_what_is_no_terminal_is_not_asked() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as keyboard:
        with (
            os.fdopen(write, "w") as out,
            beginning.asked(keyboard, out, {"TERM": "xterm"}) as asked,
        ):
            assert asked is None
        assert keyboard.read() == ""
    with beginning.asked(None, io.StringIO(), {"TERM": "xterm"}) as asked:
        assert asked is None


class RecordedDriver(AskedDriver):
    """RecordedDriver reads a terminal as the app's driver does, and keeps the events for the app."""

    def __init__(self, app: ExplorerApp, fileno: int) -> None:
        super().__init__(app)
        self.fileno = fileno
        self.messages: list[Message] = []

    def process_message(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def keys(self) -> list[str]:
        return [message.key for message in self.messages if isinstance(message, events.Key)]


async def test_an_answer_that_comes_late_changes_the_theme_and_is_no_key(
    terminal: Terminal,
) -> None:
    app = ExplorerApp(config=Config())
    app.terminal_answers, app.typed_before = TerminalAnswers(), "j"
    driver = RecordedDriver(app, terminal.slave)
    attributes = termios.tcgetattr(terminal.slave)
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal.slave, termios.TCSANOW, attributes)
    reading = threading.Thread(target=driver.run_input_thread)
    reading.start()
    for part, keys in (
        ("\x1b", 2),
        ("k\x1b]11;rgb:ff", 3),
        ("ff/ffff/ffff\x1b", 3),
        (f"\\l{ATTRIBUTES}q\x1b[A", 6),
    ):
        os.write(terminal.master, part.encode())
        until = time.monotonic() + 10
        while len(driver.keys) < keys and time.monotonic() < until:
            time.sleep(0.02)
    driver.exit_event.set()
    reading.join()
    assert driver.keys == ["j", "escape", "k", "l", "q", "up"]
    assert [
        message.is_light for message in driver.messages if isinstance(message, BackgroundReported)
    ] == [True]


async def test_the_app_takes_the_theme_of_a_late_answer_unless_the_user_chose_one(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        driver.app.post_message(BackgroundReported(is_light=True))
        await driver.settle()
        assert driver.app.theme == LIGHT.name
    async with open_app(hand.path, config=Config(theme="dark")) as driver:
        driver.app.post_message(BackgroundReported(is_light=True))
        await driver.settle()
        assert driver.app.theme == DARK.name


class AppInTerminal:
    """AppInTerminal is the app as a user starts it, on a pseudo-terminal; ``answer`` is the
    terminal's answer to the question.
    """

    def __init__(self, session: Path, answer: str, typed: str = "") -> None:
        self.shown = b""
        self._answer, self._typed = answer.encode(), typed.encode()
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "XDG_CONFIG_HOME": "/nonexistent",
        }
        environment.pop("NO_COLOR", None)
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = [sys.executable, "-m", "fx_explorer", str(session)]
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        )
        os.close(slave)

    def until(self, seen: bytes, seconds: float = 60) -> bool:
        """Read what the app shows until it has shown ``seen``, or has ended. Returns whether it
        has.
        """
        stop = time.monotonic() + seconds
        while seen not in self.shown and time.monotonic() < stop:
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                read = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                break
            if QUESTION.encode() in self.shown + read and QUESTION.encode() not in self.shown:
                os.write(self.master, self._typed + self._answer)
            self.shown += read
        return seen in self.shown

    def leave(self) -> int:
        os.write(self.master, b"q")
        self.until(b"\x1b[?1004l")  # the last that Textual writes
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@pytest.mark.parametrize(
    ("answer", "theme"),
    with_others(
        [(f"{WHITE}{ATTRIBUTES}", LIGHT), ("", DARK)],
        [(f"{BLACK}{ATTRIBUTES}", DARK), (ATTRIBUTES, DARK)],
    ),
    ids=with_others(["white", "nothing"], ["black", "no colour"]),
)
def test_the_app_begins_in_the_theme_of_its_terminal_and_takes_what_was_typed_before(
    hand: Hand, answer: str, theme: Theme
) -> None:
    app = AppInTerminal(hand.path, answer, typed="4")
    try:
        red, green, blue = Color.parse(theme.background).rgb
        assert app.until(f"48;2;{red};{green};{blue}m".encode())
        assert app.until(b"No graph break and no recompile")
        assert app.leave() == 0
    finally:
        app.close()
