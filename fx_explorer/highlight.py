"""Text from outside → lines of ``(text, kind)`` that are safe to show: what the screen and the
reports colour code by.

Kinds say what a piece of text is (``keyword``, ``string``, …), never how it looks. Lines are cut
one at a time by one regular expression a language (lexing.py): 5 µs a line, where Pygments takes 80
and must start at the top of the file.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, overload

from fx_explorer.lexing import EMBEDDED, LANGUAGES, Rules, rules_of

Kind = Literal[
    "text",
    "keyword",
    "constant",
    "builtin",
    "function",
    "type",
    "variable",
    "string",
    "number",
    "comment",
    "decorator",
    "label",
    "offset",
]
"""``variable``: names the compiler made (``buf0``, ``tmp3``, ``primals_1``). ``decorator``: also
C++ preprocessor lines. ``label``: JSON keys, IR buffers, jump targets. ``offset``: numbers that
count lines or bytes in a bytecode listing.
"""

Token = tuple[str, Kind]
Line = Sequence[Token]

__all__ = ["LANGUAGES", "Kind", "Line", "Lines", "Token", "lines", "printable", "printable_text"]

TAB_SIZE = 4
LONGEST_COLOURED = 4_000
"""A line with more characters than this is shown without colours: nobody reads it, and a page must
cost the same everywhere.
"""

_UNSAFE = re.compile(
    # C0 and C1 controls, then what reorders or hides text (bidirectional marks, zero-width
    # characters, tags), lone surrogates.
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return ``text`` on one line, with everything that could steer a terminal or hide in it made
    visible.

    Control characters become their pictures (escape is ␛, newline ␊), the rest of the unsafe ones
    their Python escape (``\\x9b``, ``\\u202e``). Tabs become spaces.
    """
    if "\t" in text:
        text = text.expandtabs(TAB_SIZE)
    if _UNSAFE.search(text):
        return _UNSAFE.sub(_visible, text)
    return text


def printable_text(text: str) -> str:
    """Return a text of several lines made safe as ``printable`` does; newlines stay newlines."""
    return "\n".join(printable(line.removesuffix("\r")) for line in text.split("\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def lines(text: str, language: str) -> Lines:
    """Return the lines of ``text``, coloured as ``language`` when they are asked for. Unknown
    languages are plain text.
    """
    return Lines(text, language)


class _Enclosed(NamedTuple):
    """A stretch of text that does not follow the rules around it: a string or comment of several
    lines, or embedded code.
    """

    start: int
    stop: int
    rules: Rules | None
    """How the inside is coloured; None: all of it is of ``kind``."""
    kind: Kind


class Lines(Sequence[Line]):
    """A text by lines. Opening costs 10 ms per 100,000 lines, a line 5 µs, wherever it is.

    A text that ends with a newline has no empty last line; an empty text has no lines.
    """

    def __init__(self, text: str, language: str = "text") -> None:
        self.text = text
        self.language = language if language in LANGUAGES else "text"
        self._rules = rules_of(self.language)
        self._measure()

    def _measure(self) -> None:
        """Find where lines start and which blocks span several of them."""
        body = self.text.removesuffix("\n")
        lengths = list(map(len, body.split("\n"))) if self.text else []
        self.longest = max(lengths, default=0)
        """Characters in the longest line (tabs count as one)."""
        self._starts = array("Q", accumulate((length + 1 for length in lengths), initial=0))
        self._blocks = list(_find_blocks(self.text, self._rules))
        self._block_starts = [block.start for block in self._blocks]

    def append(self, text: str) -> None:
        """Add ``text`` at the end, where an unfinished last line continues."""
        self.text += text
        self._measure()

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self._line(n) for n in range(*index.indices(len(self)))]
        return self._line(range(len(self))[index])

    def __iter__(self) -> Iterator[Line]:
        return map(self._line, range(len(self)))

    def raw(self, number: int) -> str:
        """Return line ``number`` (from 0) as it is in the text, unsafe characters and all: for
        searching and copying.
        """
        return self.text[self._starts[number] : self._starts[number + 1] - 1].removesuffix("\r")

    def plain(self, number: int) -> str:
        """Return line ``number`` (from 0) as it is shown."""
        return printable(self.raw(number))

    def _line(self, number: int) -> Line:
        start = self._starts[number]
        stop = start + len(self.raw(number))
        if stop - start > LONGEST_COLOURED:
            return [(self.plain(number), "text")]
        tokens: list[Token] = []
        at = start
        for block in self._blocks_between(start, stop):
            tokens += _tokens(self.text[at : block.start], self._rules)
            inside = self.text[max(at, block.start) : min(block.stop, stop)]
            tokens += _tokens(inside, block.rules) if block.rules else [(inside, block.kind)]
            at = min(block.stop, stop)
        tokens += _tokens(self.text[at:stop], self._rules)
        return _safe(tokens)

    def _blocks_between(self, start: int, stop: int) -> Iterator[_Enclosed]:
        index = max(0, bisect_right(self._block_starts, start) - 1)
        while index < len(self._blocks) and self._blocks[index].start < stop:
            if self._blocks[index].stop > start:
                yield self._blocks[index]
            index += 1


def _tokens(text: str, rules: Rules) -> list[Token]:
    """Cut a text into tokens by the pattern of its language; what no token covers is plain text."""
    if rules.pattern is None:
        return [(text, "text")] if text else []
    tokens: list[Token] = []
    at = 0
    for match in rules.pattern.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        start, stop = match.span()
        if start > at:
            tokens.append((text[at:start], "text"))
        tokens.append((text[start:stop], kind))  # type: ignore[arg-type]  # group names are kinds; a test holds them to it
        at = stop
    if at < len(text):
        tokens.append((text[at:], "text"))
    return tokens


def _safe(tokens: list[Token]) -> Line:
    """Make unsafe characters visible; tabs are expanded by the column they are in."""
    if not _UNSAFE.search("".join([text for text, _ in tokens])):
        return tokens
    column = 0
    safe: list[Token] = []
    for text, kind in tokens:
        if "\t" in text:
            shown = printable(" " * (column % TAB_SIZE) + text)[column % TAB_SIZE :]
        else:
            shown = printable(text)
        column += len(shown)
        safe.append((shown, kind))
    return safe


def _find_blocks(text: str, rules: Rules) -> Iterator[_Enclosed]:
    """Yield strings and comments of several lines, in order. One pass by ``str.find`` takes some
    milliseconds for 5 MB.
    """
    at = outside = 0
    following = {opener: text.find(opener) for opener in rules.blocks}
    while True:
        openers = [(place, opener) for opener, place in following.items() if place >= 0]
        if not openers:
            return
        start, opener = min(openers)
        before = text[text.rfind("\n", outside, start) + 1 or outside : start]
        at = start + len(opener)
        if not _hides(before, rules):
            closer, kind = rules.blocks[opener]
            end = text.find(closer, at)
            end = len(text) if end < 0 else end
            at = outside = min(end + len(closer), len(text))
            yield from _block(start, end, at, before, opener, kind)
        for some, place in following.items():
            if 0 <= place < at:
                following[some] = text.find(some, at)


def _block(
    start: int, end: int, stop: int, before: str, opener: str, kind: str
) -> Iterator[_Enclosed]:
    called = EMBEDDED.search(before)
    if called is None:
        yield _Enclosed(start, stop, None, kind)  # type: ignore[arg-type]
        return
    language = "cpp" if called["call"].startswith("cpp") else "triton"
    inside = start + len(opener)
    yield _Enclosed(start, inside, None, "string")
    yield _Enclosed(inside, end, rules_of(language), "text")
    yield _Enclosed(end, stop, None, "string")


def _hides(before: str, rules: Rules) -> bool:
    """Return whether an opener after ``before`` is in a comment or in a string of one line, and so
    opens nothing.
    """
    tokens = _tokens(before, rules)
    if not tokens:
        return False
    text, kind = tokens[-1]
    return kind == "comment" or (
        kind == "string" and (len(text) < 2 or text[-1] != text.lstrip("rRbBuUfF")[0])
    )
