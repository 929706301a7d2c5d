"""The kernels of two sessions of the same program, in pairs: which differ, and how.

Two sessions have no ids in common, so kernels are paired by what they compute. First those of the
same compilation and direction are paired that compute the same post-grad nodes, then those that
share half of them. A library call is paired by its node too. What is left then may be the
same code in another compilation: where a graph break is gone, those after it have other numbers.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.diff import DiffRow, comparable, text_diff
from fx_explorer.analysis.documents import Document, lines_of
from fx_explorer.instruments.kernels.counts import KernelUse, kernel_uses
from fx_explorer.session import SessionReader

Difference = Literal["same", "device", "sizes", "code", "only left", "only right"]
"""How the kernels differ. ``device``: only in the decorator's data about the device. ``sizes``:
only in integers, such as sizes and strides. ``code``: in the computation.
"""

IN_WORDS: dict[Difference, str] = {
    "same": "the same",
    "device": "the same code, for another device",
    "sizes": "the same code, with other sizes",
    "code": "the code differs",
    "only left": "only in the first",
    "only right": "only in the second",
}


ARROW = "  →  "
"""Separates the two names of a pair of kernels whose names differ."""


@dataclass(frozen=True, slots=True)
class KernelPair:
    """Two kernels that compute the same, or one without a counterpart."""

    compilation: str
    direction: model.Direction
    left: KernelUse | None
    right: KernelUse | None
    difference: Difference
    changed_lines: int = 0
    """Lines of code that differ; 0 for library calls."""
    is_cut: bool = False
    """Whether the comparison of the code was cut off, so that the number of changed lines may be
    too small.
    """

    @property
    def names(self) -> list[str]:
        """Return the names that the kernel has on either side, once where they are the same."""
        sides = (self.left, self.right)
        return list(dict.fromkeys(side.kernel.name for side in sides if side))

    @property
    def name(self) -> str:
        return ARROW.join(self.names)

    @property
    def is_library_call(self) -> bool:
        return all(side.kernel.language == "extern" for side in (self.left, self.right) if side)


def kernel_pairs(left: SessionReader, right: SessionReader) -> list[KernelPair]:
    """Return every kernel of both, in the order in which the first session calls them; kernels that
    only the second has come last.
    """
    pairs: list[tuple[_Key, _Pair]] = []
    of_left, of_right = _by_compilation(left), _by_compilation(right)
    for key in dict.fromkeys([*of_left, *of_right]):
        pairs += [(key, pair) for pair in paired(of_left.get(key, []), of_right.get(key, []))]
    pairs = _across_compilations(left, right, pairs)
    return [_kernel_pair(left, right, *key, *pair) for key, pair in pairs]


_Key = tuple[str, model.Direction]
_Pair = tuple[KernelUse | None, KernelUse | None]


def _across_compilations(
    left: SessionReader, right: SessionReader, pairs: Sequence[tuple[_Key, _Pair]]
) -> list[tuple[_Key, _Pair]]:
    """Pair kernels without a partner that have the same code in another compilation."""
    free: defaultdict[tuple[str, ...], deque[KernelUse]] = defaultdict(deque)
    if any(other is None for _, (_, other) in pairs):
        for key, (kernel_use, other) in pairs:
            if kernel_use is None and other is not None:
                free[_code_of(right, key[1], other)].append(other)
    rows, taken = [], set[int]()
    for key, (kernel_use, other) in pairs:
        if free and kernel_use and other is None:
            same = free.get(_code_of(left, key[1], kernel_use))
        else:
            same = None
        partner = same.popleft() if same else other
        if partner is not None and partner is not other:
            taken.add(partner.kernel.id)
        rows.append((key, (kernel_use, partner)))
    return [
        (key, pair) for key, pair in rows if pair[0] or (pair[1] and pair[1].kernel.id not in taken)
    ]


def _code_of(reader: SessionReader, direction: model.Direction, use: KernelUse) -> tuple[str, ...]:
    """Return the key by which two kernels are the same: their code; for library calls their
    name.
    """
    if use.kernel.artifact:
        code = _without_device(code_lines(reader, use.kernel))
    else:
        code = [use.kernel.name]
    return (direction, use.kernel.language, *code)


def _by_compilation(reader: SessionReader) -> dict[_Key, list[KernelUse]]:
    names = {compilation.id: compilation.name for compilation in reader.rows(model.Compilation)}
    uses: dict[_Key, list[KernelUse]] = defaultdict(list)
    for use in kernel_uses(reader):
        name = names.get(use.kernel.compilation, "")  # a damaged session lacks some
        uses[name, use.kernel.direction].append(use)
    return uses


def _kernel_pair(
    left: SessionReader, right: SessionReader, compilation: str, direction: model.Direction,
    kernel_use: KernelUse | None, other: KernelUse | None,
) -> KernelPair:  # fmt: skip
    return KernelPair(
        compilation, direction, kernel_use, other, *_difference(left, right, kernel_use, other)
    )


def _difference(
    left: SessionReader, right: SessionReader, kernel_use: KernelUse | None, other: KernelUse | None
) -> tuple[Difference, int, bool]:
    """Return (kind of difference, number of lines, whether the comparison was cut off)."""
    if other is None:
        return "only left", 0, False
    if kernel_use is None:
        return "only right", 0, False
    if not kernel_use.kernel.artifact or not other.kernel.artifact:
        if kernel_use.kernel.name == other.kernel.name:
            return "same", 0, False
        return "code", 0, False
    code, other_code = code_lines(left, kernel_use.kernel), code_lines(right, other.kernel)
    if code == other_code:
        return "same", 0, False
    bare, other_bare = _without_device(code), _without_device(other_code)
    if bare == other_bare:
        return "device", 0, False
    rows = text_diff(bare, other_bare)
    changed = sum(row.sign != " " for row in rows)
    if _without_sizes(bare) == _without_sizes(other_bare):
        return "sizes", changed, rows.is_cut
    return "code", changed, rows.is_cut


_WHOLE_NUMBER = re.compile(r"(?<![\w.])\d+L?(?![\w.])")
"""Matches integers, but not digits of a name or of a number with a decimal point, which is a
constant of the program and part of the computation.
"""


def code_diff(left: SessionReader, right: SessionReader, pair: KernelPair) -> list[DiffRow[str]]:
    """Return the difference line by line, without the text that names the device. Lines are empty
    for a missing kernel or a library call.
    """
    return text_diff(_bare_code(left, pair.left), _bare_code(right, pair.right))


def _bare_code(reader: SessionReader, use: KernelUse | None) -> list[str]:
    if use is None:
        return []
    return _without_device(code_lines(reader, use.kernel))


def code_lines(reader: SessionReader, kernel: model.Kernel) -> list[str]:
    """Return a generated kernel's code without its own name, because the number in the name depends
    on its position.
    """
    if not kernel.artifact:
        return []
    lines = comparable(lines_of(reader, Document("artifact", kernel.artifact)))
    if kernel.name:
        return [line.replace(kernel.name, "KERNEL") for line in lines]
    return lines


_ABOUT_DEVICE = re.compile(r"((?:triton|inductor)_meta)=.*")
"""Matches lines of a kernel's decorator on the device, on assumptions about arguments, and on
limits of the autotuner (``torch/_inductor/codegen/triton.py``).
"""


def _without_device(lines: Sequence[str]) -> list[str]:
    return [_ABOUT_DEVICE.sub(r"\1=DEVICE", line) for line in lines]


def _without_sizes(lines: Sequence[str]) -> list[str]:
    return [_WHOLE_NUMBER.sub("N", line) for line in lines]


def pair_counts(pairs: Sequence[KernelPair]) -> dict[Difference, int]:
    """Return the number of pairs of each kind, including kinds without any."""
    counts = Counter(pair.difference for pair in pairs)
    return {difference: counts[difference] for difference in IN_WORDS}


def count_pairs(left: SessionReader, right: SessionReader) -> dict[Difference, int]:
    """Return how many kernels of two sessions differ in which way."""
    return pair_counts(kernel_pairs(left, right))


# Counterparts: kernels of both sessions that compute the same nodes.

MOST_CANDIDATES = 64
"""Maximum number of kernels with the same node, or name, with which a kernel is compared: a
constant may be in all of them.
"""


def paired(left: Sequence[KernelUse], right: Sequence[KernelUse]) -> list[_Pair]:
    """Pair kernels with the same nodes, then those that share half of them; kernels without known
    nodes are paired by name. Kernels that only ``right`` has come last.

    Kernels are looked up by their nodes and names, so that 100,000 on either side take a second or
    two.
    """
    free = _FreeKernels(right)
    partners: dict[int, int] = {}
    # The surest pairs first: who has a partner is not asked again.
    for find_partner in (free.computing_the_same, free.sharing_half, free.take_same_name):
        for position, use in enumerate(left):
            if position not in partners:
                partner = find_partner(use)
                if partner is not None:
                    partners[position] = partner
                    free.take(partner)
    pairs: list[_Pair] = []
    for position, use in enumerate(left):
        counterpart = right[partners[position]] if position in partners else None
        pairs.append((use, counterpart))
    pairs += [(None, right[position]) for position in free]
    return pairs


class _FreeKernels:
    """The kernels of the second session without a partner, by their position."""

    def __init__(self, uses: Sequence[KernelUse]) -> None:
        self._uses = uses
        self._nodes = [frozenset(use.nodes) for use in uses]
        self._by_nodes = _Index((nodes, i) for i, nodes in enumerate(self._nodes) if nodes)
        self._by_node = _Index((node, i) for i, nodes in enumerate(self._nodes) for node in nodes)
        self._by_name = _Index((use.kernel.name, i) for i, use in enumerate(uses))
        self._free = dict.fromkeys(range(len(uses)))

    def __iter__(self) -> Iterator[int]:
        return iter(self._free)

    def take(self, position: int) -> None:
        """Remove a kernel from those without a partner, because it has been paired."""
        del self._free[position]
        nodes = self._nodes[position]
        if nodes:
            self._by_nodes.remove(nodes, position)
        for node in nodes:
            self._by_node.remove(node, position)
        self._by_name.remove(self._uses[position].kernel.name, position)

    def computing_the_same(self, use: KernelUse) -> int | None:
        return next(iter(self._by_nodes.first(frozenset(use.nodes))), None)

    def sharing_half(self, use: KernelUse) -> int | None:
        """Return the kernel with the most common nodes, if these are at least half of the smaller
        kernel's.
        """
        common: Counter[int] = Counter()
        for node in {*use.nodes}:
            common.update(self._by_node.first(node))
        enough = [
            i for i in common if 2 * common[i] >= min(len(use.nodes), len(self._uses[i].nodes))
        ]
        return min(enough, key=lambda i: (-common[i], i), default=None)

    def take_same_name(self, use: KernelUse) -> int | None:
        nodes = {*use.nodes}
        return min(
            self._by_name.first(use.kernel.name),
            key=lambda i: (-len(nodes & self._nodes[i]), i),
            default=None,
        )


class _Index:
    """Key → positions that have it, in their order."""

    def __init__(self, entries: Iterable[tuple[Hashable, int]]) -> None:
        # Not plain dicts: to find the first key of one is slow when those before it were deleted.
        self._positions: defaultdict[Hashable, OrderedDict[int, None]] = defaultdict(OrderedDict)
        for key, position in entries:
            self._positions[key][position] = None

    def first(self, key: Hashable) -> Iterable[int]:
        return islice(self._positions.get(key, ()), MOST_CANDIDATES)

    def remove(self, key: Hashable, position: int) -> None:
        del self._positions[key][position]
