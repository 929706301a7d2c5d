"""Picks a terminal's answers about itself out of what is read from it, and leaves the keys."""

from __future__ import annotations

import re

QUESTION = "\x1b]11;?\x1b\\\x1b[c"
"""Asks for the background colour (OSC 11), and then for the terminal's attributes (DA1). Nearly
every terminal answers the second question, and answers come in order: after that one nothing is to
be waited for.
"""

_COLOUR = re.compile(r"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(r"\x1b\[\?[\d;]*c")
_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]*\x1b?)?)?)?|\[(?:\?[\d;]*)?)?\Z")
"""What may be the beginning of an answer, at the end of what was read."""

_CHANNELS = re.compile(r"rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_HEX = re.compile(r"#([0-9a-fA-F]{2,4})([0-9a-fA-F]{2,4})([0-9a-fA-F]{2,4})")

LONGEST = 64
"""Characters of the longest answer. What is longer is no answer, and is let through."""

MIDDLE_GREY = 0.5


class Answers:
    """What the terminal has answered so far. ``take`` is given everything that is read from it."""

    def __init__(self) -> None:
        self.colour = ""
        """The background as the terminal writes it; empty while it has not said."""
        self.are_complete = False
        self._held = ""

    @property
    def background_is_light(self) -> bool | None:
        """Return None while the terminal has not said."""
        return is_light(self.colour) if self.colour else None

    def take(self, text: str) -> str:
        """Note the answers in ``text``, and return everything else in it."""
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
        """Return what was held back and is a key, since nothing came behind it: Escape, or Alt with
        a bracket.
        """
        if self._held not in ("\x1b", "\x1b[", "\x1b]"):
            return ""
        key, self._held = self._held, ""
        return key


def is_light(colour: str) -> bool | None:
    """Return whether a colour as X11 writes it (``rgb:ffff/ffff/ffff``, ``#ffffff``) is nearer to
    white than to black; None for what is no colour.
    """
    match = _CHANNELS.match(colour) or _HEX.fullmatch(colour)
    if match is None:
        return None
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in match.groups())
    return bool(
        0.2126 * red + 0.7152 * green + 0.0722 * blue > MIDDLE_GREY
    )  # weights of ITU-R BT.709
