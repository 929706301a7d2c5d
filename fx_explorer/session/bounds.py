"""This module limits what a program can put into a session: whatever it names, prints or raises,
the session stays small and can be opened.

What is longer keeps its beginning and its end, and says how much is left out between them.
"""

from __future__ import annotations

MAX_FIELD = 100_000
"""Maximum number of characters of one field of a row: a name, a message, a repr."""

MAX_TEXT = 32_000_000
"""Maximum number of characters of one text: a graph, generated code, a traceback, a source file."""

MAX_LINES = 1_000_000
"""Maximum number of lines of one text. Each takes 60 bytes of memory wherever it is shown, and a
text of empty lines packs to nothing.
"""

MAX_TRACEBACK = 400_000

FREELY = 16 << 20
MOST_INFLATED = 40
"""How many times larger a text of more than FREELY bytes may be than in the file: readers refuse a
higher ratio, and writers pack such a text less. A dump of MLIR passes inflates 13 times; zlib can
do 1,000 times.
"""


def shortened(text: str, most: int) -> str:
    """Return ``text`` with at most about ``most`` characters."""
    cut = len(text) - most
    if cut <= 0:
        return text
    end = most // 3
    return f"{text[: most - end]} … ({cut:,} characters are left out here) … {text[-end:]}"


def shortened_text(text: str) -> str:
    """Return a text for a session, with at most about ``MAX_TEXT`` characters in ``MAX_LINES``
    lines.
    """
    text = shortened(text, MAX_TEXT)
    left_out = text.count("\n") + 1 - MAX_LINES
    if left_out <= 0:
        return text
    end = MAX_LINES // 3
    *head, rest = text.split("\n", MAX_LINES - end - 1)
    return "\n".join(
        [*head, f"… ({left_out:,} lines are left out here) …", *rest.rsplit("\n", end)[1:]]
    )


def bounded(value: object) -> object:
    """Return a value for JSON with every text in it shortened, the keys of dictionaries too."""
    if isinstance(value, str):
        return shortened(value, MAX_FIELD)
    if isinstance(value, dict):
        return {bounded(key): bounded(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [bounded(item) for item in value]
    return value
