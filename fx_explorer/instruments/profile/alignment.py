"""Which call of generated code each thing that ran is, given both in their order.

The same code runs in the same order, so that mostly both lists are equal. They are not where the
process that was profiled generated other code (a choice that torch makes by measuring), or where
something runs that is no call. Then names that are in both lists once are anchors, as in a patience
diff. Between anchors, a name that is there equally often is taken in order; and of one that is not,
each that ran is shared out among the calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.instruments.profile.event_names import without_number
from fx_explorer.model import ProfileJoin


@dataclass(frozen=True, slots=True)
class Named:
    """Something that ran, or a call in generated code."""

    key: str
    is_library: bool
    """Whether it is a call of a library."""
    is_nameless: bool = False
    """Whether it ran under the name of a library's own kernel, as in a replayed CUDA graph: which
    operator that belongs to is told by its place alone.
    """


@dataclass(frozen=True, slots=True)
class Matched:
    """The calls that something may be, by their positions: one, or several among which it is shared
    out.
    """

    calls: tuple[int, ...]
    how: ProfileJoin


def align(ran: Sequence[Named], calls: Sequence[Named]) -> dict[int, Matched]:
    """Return position in ``ran`` → the calls it may be. What is no call is left out."""
    if [named.key for named in ran] == [named.key for named in calls]:
        return {at: Matched((at,), "order") for at in range(len(ran))}
    found: dict[int, Matched] = {}
    keys = (
        [without_number(named.key) for named in ran],
        [without_number(named.key) for named in calls],
    )
    for left in _by_keys(*keys, _Part(range(len(ran)), range(len(calls))), found):
        _by_place(ran, calls, left, found)
    return {at: _as_known(ran[at], calls, matched) for at, matched in found.items()}


def _as_known(ran: Named, calls: Sequence[Named], matched: Matched) -> Matched:
    """Say of a match to one generated kernel whether its whole name is the same."""
    call = calls[matched.calls[0]]
    is_same = ran.key == call.key or ran.is_nameless
    return matched if matched.how == "shared" or is_same else Matched(matched.calls, "similar")


@dataclass(frozen=True, slots=True)
class _Part:
    """Positions in both lists that belong to each other, ascending."""

    ran: Sequence[int]
    calls: Sequence[int]


def _by_keys(
    ran: Sequence[str], calls: Sequence[str], whole: _Part, found: dict[int, Matched]
) -> list[_Part]:
    """Match by keys, and return what is left of each part between anchors."""
    todo, left = [whole], []
    while todo:
        part = _trimmed(ran, calls, todo.pop(), found)
        if not part.ran or not part.calls:
            continue
        anchors = _anchors(ran, calls, part)
        if not anchors:
            left.append(_by_counts(ran, calls, part, found))
            continue
        ran_from = calls_from = 0
        for ran_at, call_at in [*anchors, (len(part.ran), len(part.calls))]:
            todo.append(_Part(part.ran[ran_from:ran_at], part.calls[calls_from:call_at]))
            if ran_at < len(part.ran):
                found[part.ran[ran_at]] = Matched((part.calls[call_at],), "order")
            ran_from, calls_from = ran_at + 1, call_at + 1
    return [part for part in left if part.ran and part.calls]


def _trimmed(
    ran: Sequence[str], calls: Sequence[str], part: _Part, found: dict[int, Matched]
) -> _Part:
    """Match what is alike at both ends."""
    first, last_ran, last_call = 0, len(part.ran), len(part.calls)
    while first < min(last_ran, last_call) and ran[part.ran[first]] == calls[part.calls[first]]:
        found[part.ran[first]] = Matched((part.calls[first],), "order")
        first += 1
    while (
        min(last_ran, last_call) > first
        and ran[part.ran[last_ran - 1]] == calls[part.calls[last_call - 1]]
    ):
        last_ran, last_call = last_ran - 1, last_call - 1
        found[part.ran[last_ran]] = Matched((part.calls[last_call],), "order")
    return _Part(part.ran[first:last_ran], part.calls[first:last_call])


def _anchors(ran: Sequence[str], calls: Sequence[str], part: _Part) -> list[tuple[int, int]]:
    """Return the places (in the part) of keys that are once in both, as many as are in the same
    order.
    """
    in_ran, in_calls = Counter(ran[at] for at in part.ran), Counter(calls[at] for at in part.calls)
    place = {calls[at]: place for place, at in enumerate(part.calls) if in_calls[calls[at]] == 1}
    pairs = [
        (at, place[ran[one]])
        for at, one in enumerate(part.ran)
        if in_ran[ran[one]] == 1 and ran[one] in place
    ]
    return _longest_ascending(pairs)


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest list of pairs whose second numbers ascend, too."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for at, (_, value) in enumerate(pairs):
        length = bisect_left(ends, value)
        before.append(at_end[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at_end[length : length + 1] = [at]
    found, at = [], at_end[-1] if at_end else -1
    while at != -1:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _by_counts(
    ran: Sequence[str], calls: Sequence[str], part: _Part, found: dict[int, Matched]
) -> _Part:
    """Match what no anchor parts any more, and return what is left: keys that are in one of the
    lists only.
    """
    by_key: dict[str, list[int]] = {}
    for at in part.calls:
        by_key.setdefault(calls[at], []).append(at)
    counts = Counter(ran[at] for at in part.ran)
    taken: Counter[str] = Counter()
    for at in part.ran:
        key = ran[at]
        there = by_key.get(key)
        if not there:
            continue
        if len(there) == 1:
            found[at] = Matched((there[0],), "order")
        elif counts[key] == len(there):
            found[at] = Matched((there[taken[key]],), "order")
        else:
            found[at] = Matched(tuple(there), "shared")
        taken[key] += 1
    left_calls = [at for at in part.calls if not taken[calls[at]]]
    return _Part([at for at in part.ran if ran[at] not in by_key], left_calls)


def _by_place(
    ran: Sequence[Named], calls: Sequence[Named], part: _Part, found: dict[int, Matched]
) -> None:
    """Match library kernels that have no operator's name to the library calls at their place."""
    libraries = tuple(at for at in part.calls if calls[at].is_library)
    for at in part.ran if libraries else ():
        if ran[at].is_nameless:
            found[at] = Matched(libraries, "order" if len(libraries) == 1 else "shared")
