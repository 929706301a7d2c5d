"""This module shows the first words in the terminal, and asks it for its background, before Textual
is loaded: importing it and painting its first frame takes 400 ms.

The question is sent before Textual is imported, which takes longer than an answer: nobody waits for
the terminal, unless it is far away. Answers are picked out of what is read from it; the keys are
left.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import sys
import termios
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from fx_explorer.highlight import printable
from fx_explorer.outside_file import read_outside
from fx_explorer.tui.terminal.input_bytes import InputBytes

RAISE = "\x1b[?1049h\x1b[2J\x1b[H"
"""Switches to the alternate screen and clears it. Textual switches to it as well, which then
changes nothing, and back at its end.
"""

LOWER = "\x1b[?1049l"


@contextlib.contextmanager
def splash(words: str) -> Iterator[None]:
    """Show ``words`` at once, until the app paints over them; remove them if the block fails."""
    sys.stdout.write(f"{RAISE} \x1b[1m{printable(words)}\x1b[0m")
    sys.stdout.flush()
    try:
        yield
    except BaseException:
        sys.stdout.write(LOWER)
        sys.stdout.flush()
        raise


def add_to_splash(lines: Iterable[str]) -> None:
    """Show further lines below the first words, as many and as much of each as the terminal has
    room for.
    """
    width, height = shutil.get_terminal_size()
    shown = [_cut(printable(line), max(0, width - 2)) for line in lines][: max(0, height - 3)]
    if shown:
        sys.stdout.write("\r\n" + "".join(f"\r\n {line}" for line in shown))
        sys.stdout.flush()


MOST_SHOWN = 1_000_000
"""Largest program in bytes whose text is shown before it is captured: reading a larger one would
hold up the first frame.
"""


def text_to_show(program: Path) -> str:
    """Return the text of a Python file, to be shown until it is captured. It is empty for another
    file, a large one, and one that cannot be read: the worker says what is wrong with it.
    """
    if program.suffix != ".py":
        return ""
    try:
        return read_outside(program, MOST_SHOWN).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def _cut(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    return f"{line[: max(0, width - 1)]}…"[:width]


QUESTION = "\x1b]11;?\x1b\\\x1b[c"
"""Asks for the background colour (OSC 11), and then for the terminal's attributes (DA1). Nearly
every terminal answers the second question, and answers come in order: after that one no further
answer is expected.
"""

_COLOUR = re.compile(r"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(r"\x1b\[\?[\d;]*c")
_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]*\x1b?)?)?)?|\[(?:\?[\d;]*)?)?\Z")
"""Matches the possible beginning of an answer, at the end of the input."""

_CHANNELS = re.compile(r"rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_HEX = re.compile(r"#([0-9a-fA-F]{2,4})([0-9a-fA-F]{2,4})([0-9a-fA-F]{2,4})")

LONGEST = 64
"""Maximum number of characters of an answer. Longer text is not an answer, and is passed on."""

MIDDLE_GREY = 0.5


class TerminalAnswers:
    """The terminal's answers so far. ``take`` receives all input from the terminal."""

    def __init__(self) -> None:
        self.colour = ""
        """The background in the terminal's notation; empty until it has answered."""
        self.are_complete = False
        self._held = ""

    @property
    def background_is_light(self) -> bool | None:
        """Return whether the background is light; None until the terminal has answered."""
        return is_light(self.colour) if self.colour else None

    def take(self, text: str) -> str:
        """Store the answers in ``text``, and return all other input."""
        if self.are_complete:
            return text
        text = self._held + text
        self._held = ""
        for colour in _COLOUR.findall(text):
            self.colour = self.colour or colour
        text = _COLOUR.sub("", text)
        if _ATTRIBUTES.search(text):
            self.are_complete = True
            return _ATTRIBUTES.sub("", text, count=1)
        begun = _BEGUN.search(text)
        if begun and len(begun[0]) <= LONGEST:
            self._held = begun[0]
            text = text[: begun.start()]
        return text

    def give_back_key(self) -> str:
        """Return a key that was held back as the possible beginning of an answer, because no more
        input came: Escape, or Alt with a bracket.
        """
        if self._held not in ("\x1b", "\x1b[", "\x1b]"):
            return ""
        key, self._held = self._held, ""
        return key


def is_light(colour: str) -> bool | None:
    """Return whether a colour in X11's notation (``rgb:ffff/ffff/ffff``, ``#ffffff``) is nearer to
    white than to black; None for any other text.
    """
    match = _CHANNELS.match(colour) or _HEX.fullmatch(colour)
    if match is None:
        return None
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in match.groups())
    return bool(
        0.2126 * red + 0.7152 * green + 0.0722 * blue > MIDDLE_GREY
    )  # weights of ITU-R BT.709


LIMIT_S = 0.15
REMOTE_LIMIT_S = 0.5
"""Seconds to wait for an answer over ssh, where it goes to the user and back."""

MUTE = ("", "dumb", "linux")
"""Values of TERM for terminals that do not understand the question. The console of Linux prints a
part of it.
"""


class TerminalQuestion:
    """A question to the terminal, with the answers so far."""

    def __init__(self, input_fd: int, limit_s: float) -> None:
        self._input_fd = input_fd
        self._until = time.monotonic() + limit_s
        self._decode = InputBytes().decode
        self.answers = TerminalAnswers()
        self.typed = ""
        """Input that the user typed meanwhile, which is for the app."""

    def wait(self) -> TerminalAnswers:
        """Read until the terminal has answered, or the time is over. Returns its answers."""
        while not self.answers.are_complete:
            left_s = self._until - time.monotonic()
            if not select.select([self._input_fd], [], [], max(0.0, left_s))[0]:
                break
            read = os.read(self._input_fd, 4096)
            if not read:
                break
            self.typed += self.answers.take(self._decode(read))
        return self.answers


@contextlib.contextmanager
def asked(
    terminal: TextIO | None, out: TextIO, environ: Mapping[str, str] = os.environ
) -> Iterator[TerminalQuestion | None]:
    """Ask the terminal at once. Until the block ends, it does not echo input. Yields None if there
    is no terminal to ask.
    """
    if (
        terminal is None
        or terminal.closed
        or not terminal.isatty()
        or environ.get("TERM", "") in MUTE
    ):
        yield None
        return
    input_fd = terminal.fileno()
    attributes = termios.tcgetattr(input_fd)
    quiet = termios.tcgetattr(input_fd)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(input_fd, termios.TCSANOW, quiet)
    try:
        out.write(QUESTION)
        out.flush()
        is_remote = bool(environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"))
        limit_s = REMOTE_LIMIT_S if is_remote else LIMIT_S
        yield TerminalQuestion(input_fd, limit_s)
    finally:
        termios.tcsetattr(input_fd, termios.TCSANOW, attributes)
