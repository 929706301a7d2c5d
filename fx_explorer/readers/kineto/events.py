"""The events of a trace, one after the other, of a text that comes in pieces: a trace of 500 MB is
never in memory as a whole.

A trace is ``{…, "traceEvents": [{…}, {…}]}``, or only the list (the JSON Array Format of
"Trace Event Format", which Chrome and Perfetto read). What is no event is skipped and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

LONGEST_EVENT = 8 << 20
"""Characters. What continues for longer is skipped."""

LONGEST_HEAD = 16 << 20
"""Characters before the events: properties of the devices, and what the program noted itself."""

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BEGINNING = re.compile(r'\{\s*"(?:ph|name|cat|pid|ts)"\s*:')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()

Event = dict[str, object]


class EventStream:
    """Yields events. What was passed over is known afterwards."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._has_more = True
        self.head = ""
        """What stands before the events."""
        self.is_trace = False
        """Whether a list of events was found."""
        self.is_whole = False
        """Whether the list of events was closed: what ends before that was cut off."""
        self.skipped = 0
        """Places at which something stood that is no event."""

    def events(self) -> Iterator[Event]:
        if not self._find_list():
            return
        while True:
            self._skip_between()
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "]":
                self.is_whole = True
                return
            found = self._next()
            if isinstance(found, dict):
                yield found
            elif found is not None:
                self.skipped += 1

    def _find_list(self) -> bool:
        while self._has_more and len(self._text) < LONGEST_HEAD:
            found = _EVENTS.search(self._text)
            if found:
                self.head, self._at, self.is_trace = self._text[: found.start()], found.end(), True
                return True
            if self._text.lstrip()[:1] == "[":
                self._at, self.is_trace = self._text.index("[") + 1, True
                return True
            if self._text.strip() and self._text.lstrip()[:1] != "{":
                return False
            self._read()
        return False

    def _read(self) -> bool:
        """Take one more piece of text in; False where there is none."""
        piece = next(self._pieces, None)
        if piece is None:
            self._has_more = False
            return False
        self._text = self._text[self._at :] + piece if self.is_trace else self._text + piece
        self._at = 0
        return True

    def _skip_between(self) -> None:
        while True:
            found = _BETWEEN.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._read():
                return

    def _next(self) -> object:
        """Return what stands here; None where it is no JSON, or continues behind the end."""
        while True:
            try:
                found, self._at = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(self._text) - 16 or error.msg.startswith(
                    ("Unterminated", "Invalid \\")
                )
                if is_cut and len(self._text) - self._at < LONGEST_EVENT and self._read():
                    continue
            except (ValueError, RecursionError):
                pass  # a number of thousands of digits, a depth that no event has
            else:
                return found
            if self._is_cut_off():
                return None
            self.skipped += 1
            self._to_next_beginning()
            return None

    def _is_cut_off(self) -> bool:
        """Return whether the text ends within the event, and go to the end if so."""
        if self._has_more or _BEGINNING.search(self._text, self._at + 1):
            return False
        self._at = len(self._text)
        return True

    def _to_next_beginning(self) -> None:
        """Go on where the next event seems to begin."""
        self._at += 1
        while not (found := _BEGINNING.search(self._text, self._at)):
            self._at = max(self._at, len(self._text) - 64)
            if not self._read():
                self._at = len(self._text)
                return
        self._at = found.start()


def devices(head: str) -> list[str]:
    """Return the names of the GPUs that stand before the events; none where that cannot be read."""
    found = re.search(r'"deviceProperties"\s*:\s*', head)
    if not found:
        return []
    try:
        listed, _ = _DECODER.raw_decode(head, found.end())
    except (ValueError, RecursionError):
        return []
    if isinstance(listed, list):
        names = [one.get("name") for one in listed if isinstance(one, dict)]
    else:
        names = []
    return [name for name in names if isinstance(name, str)]
