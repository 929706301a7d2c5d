"""This module matches texts as difflib does, but in bounded time: some texts make difflib take the
cube of their length.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import accumulate

MOST_STEPS = 20_000_000
"""Maximum number of steps of one comparison: about two seconds. 30,000 lines of code with 1,000
changes take 4,300,000.
"""

Opcode = tuple[str, int, int, int, int]
"""An opcode as ``difflib.SequenceMatcher.get_opcodes`` has them."""


class BoundedMatcher(difflib.SequenceMatcher[str]):
    """A SequenceMatcher with a limit on its steps. Lines that are not matched by then count as
    replaced, so that the difference is correct, but may be longer than necessary.
    """

    b2j: dict[str, list[int]]
    """difflib's own attribute: the positions of each line in ``after``."""
    opcodes: list[Opcode] | None
    """difflib's own attribute: the opcodes."""

    def __init__(
        self, before: Sequence[str], after: Sequence[str], *, autojunk: bool = True
    ) -> None:
        super().__init__(None, before, after, autojunk)
        self._steps_until = [0, *accumulate(1 + len(self.b2j.get(line, ())) for line in before)]
        self._left = MOST_STEPS

    @property
    def is_cut(self) -> bool:
        """Return whether the steps ran out; known once the opcodes are."""
        return self._left <= 0

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        end = -1 if ahi is None else ahi
        self._left -= self._steps_until[end] - self._steps_until[alo]
        if self._left > 0:
            return super().find_longest_match(alo, ahi, blo, bhi)
        return difflib.Match(alo, blo, 0)


def changed_lines(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    """Return opcodes that turn ``before`` into ``after``. The common beginning and end are not
    searched, since most edits are small.
    """
    shorter = min(len(before), len(after))
    first = 0
    while first < shorter and before[first] == after[first]:
        first += 1
    rest = shorter - first
    last = 0
    while last < rest and before[-1 - last] == after[-1 - last]:
        last += 1
    end, new_end = len(before) - last, len(after) - last
    opcodes: list[Opcode] = []
    if first:
        opcodes.append(("equal", 0, first, 0, first))
    matcher = BoundedMatcher(before[first:end], after[first:new_end], autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        opcodes.append((kind, i + first, i_end + first, j + first, j_end + first))
    if last:
        opcodes.append(("equal", end, len(before), new_end, len(after)))
    return opcodes


def unified_diff(before: Sequence[str], after: Sequence[str], path: str) -> str:
    """Write the changes as ``difflib.unified_diff`` does, for ``patch -p1`` and ``git apply``.
    Lines have their ends.
    """
    if list(before) == list(after):
        return ""
    # Two empty texts, as nothing is compared here: get_grouped_opcodes groups the opcodes that the
    # matcher has already.
    matcher = BoundedMatcher((), ())
    matcher.opcodes = changed_lines(before, after)
    lines = [f"--- a/{path}\n", f"+++ b/{path}\n"]
    for group in matcher.get_grouped_opcodes():
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        lines += [f"@@ -{_range(i, i_end)} +{_range(j, j_end)} @@\n", *_hunk(group, before, after)]
    return "".join(map(_with_its_end, lines))


def _with_its_end(line: str) -> str:
    if line.endswith("\n"):
        return line
    return f"{line}\n\\ No newline at end of file\n"


def _hunk(group: Sequence[Opcode], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for kind, i, i_end, j, j_end in group:
        if kind == "equal":
            yield from (f" {line}" for line in before[i:i_end])
        else:
            yield from (f"-{line}" for line in before[i:i_end])
            yield from (f"+{line}" for line in after[j:j_end])


def _range(first: int, end: int) -> str:
    """Return a range as in a unified diff: from 1, without the count if it is one, and with the
    line before for an empty range.
    """
    count = end - first
    if count == 1:
        return f"{first + 1}"
    return f"{first + bool(count)},{count}"
