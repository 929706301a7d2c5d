"""This module turns the terminal's bytes into text, without raising for any input.

What is no UTF-8 (a paste of Latin-1, a meta key that sets the eighth bit) is replaced and counted.
Mouse reports of the old form, whose bytes are no text, are put in the form of today. Answers that
nobody here waits for are left out, and a paste ends even where its end was lost.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from time import monotonic

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"

LONGEST_PASTE = 100_000
"""Maximum number of characters of a paste that are kept; the rest is dropped."""

PASTE_PAUSE_S = 5.0
"""Seconds without input after which a paste ends, so that keys work again."""

LONGEST_ANSWER = 4096
"""Maximum number of characters of a terminal's answer. A longer one has lost its end: from there
on, input is keys again.
"""

_MOUSE = b"\x1b[M"
"""Beginning of a mouse report. Button, column and row follow, each a byte from 32 on (xterm,
ctlseqs, "Mouse Tracking").
"""

_MOUSE_BEGUN = re.compile(rb"\x1b\[M[\s\S]{0,2}\Z")

_ESCAPE_BEGUN = re.compile(rb"\x1b\[?\Z")

_SPECIAL = re.compile(r"\x1b(?:\[200~|\](?=\d)|P(?=[\d!$+>|])|_(?=G))")
"""Matches the beginning of a paste, or of an answer (OSC, DCS, APC). The next character
distinguishes an answer from Alt with a key.
"""

_ANSWER_ENDS = re.compile(r"\x07|\x9c|\x1b\\|(?=\x1b[^\\])")
"""Matches BEL or ST. Another escape sequence ends an answer as well, and is read."""

_BEGUN = re.compile(r"\x1b(?:\[(?:2(?:0(?:[01])?)?)?|[\]P_])?\Z")
"""Matches the possible beginning of ``_SPECIAL`` or of a paste's end, at the end of the input."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class InputBytes:
    """The input of one terminal, in pieces of any size: characters, reports and answers may be
    split between them.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last_s = clock()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._report = b""
        """The beginning of a mouse report, at the end of the input."""
        self._reported = 0
        """How much of that beginning was already returned as text."""
        self._held = ""
        """The possible beginning of a paste, of its end, or of an answer."""
        self._answer_size = 0
        """Characters of the answer that is being received; 0 for none."""
        self._paste: list[str] | None = None
        self._paste_size = 0
        self.replaced = 0
        """How often bytes that are not UTF-8 were replaced."""

    @property
    def is_undecided(self) -> bool:
        """Return whether a key may be held back, which ``silence`` returns."""
        return bool(self._held) and self._paste is None

    def decode(self, read: bytes) -> str:
        """Return the bytes as text, with mouse reports in the form of SGR, which is text."""
        self._last_s = self._clock()
        read, given = self._report + read, self._reported
        begun = _MOUSE_BEGUN.search(read)
        if begun:
            self._report, read = begun[0], read[: begun.start()]
            self._reported = 0 if read else given
        else:
            escape = _ESCAPE_BEGUN.search(read)
            self._report = escape[0] if escape else b""
            self._reported = len(self._report)
        return self._text_of(read)[given:] if read else ""

    def _text_of(self, read: bytes) -> str:
        first, *others = read.split(_MOUSE)
        text = self._decoded(first)
        for other in others:
            report = _as_sgr(other[:3])
            text += report + self._decoded(other[3:]) if report else self._decoded(_MOUSE + other)
        return text

    def _decoded(self, part: bytes) -> str:
        text = self._utf8.decode(part)
        self.replaced += text.count("\N{REPLACEMENT CHARACTER}")
        return text

    def sort_out(self, text: str) -> str:
        """Return the keys, reports and complete pastes in a text, without answers."""
        text, self._held = self._held + text, ""
        kept: list[str] = []
        while text:
            if self._paste is not None:
                text = self._take_paste(text, kept)
            elif self._answer_size:
                text = self._skip_answer(text)
            else:
                text = self._take_keys(text, kept)
        return "".join(kept)

    def silence(self) -> str:
        """Return the text that was held back, because no more input came."""
        if self._paste is not None:
            is_over = self._clock() - self._last_s >= PASTE_PAUSE_S
            return self._end_paste() if is_over else ""
        held = self._held + self._decoded(self._report)[self._reported :]
        self._held, self._answer_size, self._report, self._reported = "", 0, b"", 0
        return held

    def _take_keys(self, text: str, kept: list[str]) -> str:
        """Store the keys before the next paste or answer, and return the text after its
        beginning.
        """
        special = _SPECIAL.search(text)
        if special is None:
            kept.append(self._without_beginning(text))
            return ""
        kept.append(text[: special.start()])
        if special[0] == PASTE_BEGINS:
            self._paste, self._paste_size = [], 0
        else:
            self._answer_size = 1
        return text[special.end() :]

    def _without_beginning(self, text: str) -> str:
        """Hold back the possible beginning of a sequence, and return the rest."""
        begun = _BEGUN.search(text)
        self._held = begun[0] if begun else ""
        return text[: len(text) - len(self._held)]

    def _skip_answer(self, text: str) -> str:
        end = _ANSWER_ENDS.search(text, 0, LONGEST_ANSWER)
        if end:
            self._answer_size = 0
            return text[end.end() :]
        if text.endswith("\x1b"):  # the beginning of ST, or of another sequence
            self._held, text = "\x1b", text[:-1]
        skipped = text[: LONGEST_ANSWER - self._answer_size]
        self._answer_size += len(skipped)
        if self._answer_size >= LONGEST_ANSWER:
            self._answer_size = 0
        return text[len(skipped) :]

    def _take_paste(self, text: str, kept: list[str]) -> str:
        assert self._paste is not None
        content, end, rest = text.partition(PASTE_ENDS)
        if not end:
            content = self._without_beginning(content)
        room = LONGEST_PASTE - self._paste_size
        self._paste.append(content[:room])
        self._paste_size += min(len(content), room)
        if end:
            kept.append(self._end_paste())
        return rest

    def _end_paste(self) -> str:
        """Return the paste with its marks. Nothing inside it can be read as another sequence."""
        content = _CONTROLS.sub("", "".join(self._paste or ()))
        self._paste, self._held = None, ""
        return f"{PASTE_BEGINS}{content}{PASTE_ENDS}"


def _as_sgr(report: bytes) -> str:
    """Return an old mouse report in the form used since xterm 277; empty for any other text."""
    if len(report) < 3 or min(report) < 32:
        return ""
    button, column, row = (byte - 32 for byte in report)
    is_release = button & 0b11 == 0b11 and not button & 0b1100000
    final = "m" if is_release else "M"
    return f"\x1b[<{button};{column};{row}{final}"
