"""These tests check that any bytes from a terminal become keys, mouse reports and pastes, and that
the reading goes on.
"""

from __future__ import annotations

import os
import random
import termios
import threading
import time

import pytest
from textual import events

from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.config import Config
from fx_explorer.tui.terminal.driver import AskedDriver, UndecodableInput
from fx_explorer.tui.terminal.input_bytes import (
    LONGEST_ANSWER,
    LONGEST_PASTE,
    PASTE_BEGINS,
    PASTE_ENDS,
    PASTE_PAUSE_S,
    InputBytes,
)
from tests.exhaustive import rounds
from tests.tui.terminal_fuzzing import random_bytes
from tests.tui.test_terminal_background import RecordedDriver, Terminal

MUTATIONS = rounds(1_000, exhaustive=10_000)


class Clock:
    """Clock is a clock that stands still unless it is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def text_of(sent: bytes, size: int = 4096) -> str:
    """Return the text of bytes that come in pieces of a size, and of the silence after them."""
    read = InputBytes(Clock())
    parts = [sent[start : start + size] for start in range(0, len(sent), size)]
    return "".join(read.sort_out(read.decode(part)) for part in parts) + read.silence()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        ("naïve".encode("latin-1"), "na\ufffdve"),
        (b"\xe1\xe2x", "\ufffd\ufffdx"),
        (b"\xe2\x82x", "\ufffdx"),
        ("é€𝄞".encode(), "é€𝄞"),
        (b"\0q", "\0q"),
        (b"x\x1b[M !!y", "x\x1b[<0;1;1My"),
        (b"x\x1b[M#\xff\xe9y", "x\x1b[<3;223;201my"),
        (b"\x1b[M`\xc3\xa9\x1b[M !!", "\x1b[<64;163;137M\x1b[<0;1;1M"),
        (b"\x1b[M\x01ab", "\x1b[M\x01ab"),
        (b"\x1b[<0;3;4M\x1b[A\x1bOP", "\x1b[<0;3;4M\x1b[A\x1bOP"),
        (b"a\x1b]4;1;rgb:ff/ff/ff\x1b\\b", "ab"),
        (b"a\x1bP>|XTerm(388)\x1b\\b", "ab"),
        (b"a\x1b_Gi=31;OK\x1b\\b", "ab"),
        (b"a\x1b]52;c;aGk=\x07b", "ab"),
        (b"a\x1b]52;c;aGk=\x1b[Bb", "a\x1b[Bb"),
        (b"\x1bPx\x1b]x\x1b_x", "\x1bPx\x1b]x\x1b_x"),
        (b"a\x1b[200~p\xffq\x1b[31m\x00\x1b[201~b", "a\x1b[200~p\ufffdq[31m\x1b[201~b"),
        (b"\x1b[20\x1b[2~\x1b", "\x1b[20\x1b[2~\x1b"),
    ],
)  # fmt: skip
def test_bytes_become_the_same_text_in_pieces_of_any_size(
    sent: bytes, text: str, size: int
) -> None:
    assert text_of(sent, size) == text


def test_what_is_no_utf8_is_counted() -> None:
    read = InputBytes()
    read.decode(b"\xffa\xfe\xe2")
    assert read.replaced == 2
    read.decode(b"\x82\xac")  # the rest of a euro sign
    assert read.replaced == 2


def test_an_answer_without_an_end_is_left_out_and_keys_count_again() -> None:
    answer = b"\x1b]52;c;" + b"A" * LONGEST_ANSWER
    assert text_of(answer + b"qq").endswith("qq")
    read = InputBytes(Clock())
    assert read.sort_out(read.decode(b"\x1bP1$r")) == ""
    assert read.silence() == ""
    assert read.sort_out(read.decode(b"q")) == "q"


def test_a_paste_without_an_end_is_over_after_a_pause_and_is_bounded() -> None:
    clock = Clock()
    read = InputBytes(clock)
    for _ in range(3):
        assert read.sort_out(read.decode(b"\x1b[200~" + b"x" * LONGEST_PASTE)) == ""
    clock.now_s = PASTE_PAUSE_S - 1
    assert read.silence() == ""
    clock.now_s = PASTE_PAUSE_S
    assert read.silence() == PASTE_BEGINS + "x" * LONGEST_PASTE + PASTE_ENDS
    assert read.sort_out(read.decode(b"q")) == "q"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x1b[9999999999u",
        b"\x1b[55296u",
        b"\x1b[1:2;1u",
        b"\x1b[48;0;0;0;0t\x1b[<0;3;4M",
        b"\x1b[48;99999999;99999999;1;1t",
        b"\x1b[97;1;55296u",
        b"\xff",
    ],
)
async def test_keys_that_follow_what_no_terminal_sends_are_read(sent: bytes) -> None:
    messages = await read_by_app(sent + b"k")
    keys = [message for message in messages if isinstance(message, events.Key)]
    assert keys[-1].key == "k"
    for message in messages:
        if isinstance(message, events.Resize):
            assert message.size.width < 10_000
    for key in keys:
        (key.character or "").encode()


async def test_the_app_is_told_once_that_input_was_no_text() -> None:
    messages = await read_by_app(b"\xffa\xfeb\x1b[9999999999u")
    assert [type(message) for message in messages].count(UndecodableInput) == 1


async def read_by_app(sent: bytes) -> list[object]:
    """Return the events that the app's driver makes of bytes on a pseudo-terminal."""
    terminal = Terminal()
    driver = RecordedDriver(ExplorerApp(config=Config()), terminal.slave)
    attributes = termios.tcgetattr(terminal.slave)
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal.slave, termios.TCSANOW, attributes)
    reading = threading.Thread(target=driver.run_input_thread)
    reading.start()
    os.write(terminal.master, sent)
    os.write(terminal.master, b"\x1b[24~")  # F12 is the last
    until = time.monotonic() + 30
    while "f12" not in driver.keys and reading.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    driver.exit_event.set()
    reading.join()
    os.close(terminal.master)
    os.close(terminal.slave)
    return [
        message
        for message in driver.messages
        if not (isinstance(message, events.Key) and message.key == "f12")
    ]


class ParsingDriver(AskedDriver):
    """Parses without a terminal."""

    def process_message(self, message: object) -> None:
        if isinstance(message, events.Key):
            (message.character or "").encode()


async def test_no_mutated_input_raises() -> None:
    driver = ParsingDriver(ExplorerApp(config=Config()))
    driver.begin_input()
    for seed in range(MUTATIONS):
        sent = random_bytes(random.Random(seed), 40)
        driver._read(None, sent)
        driver._feed(driver._input.silence())
