"""Which kernel of one session is the counterpart of which of another, by the nodes they compute.

Kernels are looked up by their nodes and names, so that 100,000 on either side take a second or two.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice

from fx_explorer.analysis.kernels.counts import KernelUse

MOST_CANDIDATES = 64
"""Most kernels with one node, or one name, that a kernel is held against: a constant may be in all of
them.
"""


def paired(
    left: Sequence[KernelUse], right: Sequence[KernelUse]
) -> list[tuple[KernelUse | None, KernelUse | None]]:
    """Pair kernels with the same nodes, then those with half of them in common; kernels without
    known nodes are paired by name. Kernels of ``right`` alone come last.
    """
    free = _FreeKernels(right)
    partners: dict[int, int] = {}
    # The surest pairs first: who has a partner is not asked again.
    for candidates in (free.computing_the_same, free.sharing_half, free.of_one_name):
        for position, use in enumerate(left):
            if position not in partners:
                found = candidates(use)
                if found is not None:
                    partners[position] = found
                    free.take(found)
    of_both = [(use, right[partners[i]] if i in partners else None) for i, use in enumerate(left)]
    return [*of_both, *((None, right[i]) for i in free)]


class _FreeKernels:
    """The kernels of the second session that have no partner yet, by their position."""

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
        """Give a kernel a partner."""
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
        """Return the kernel with the most nodes in common, if these are half of the smaller one's."""
        common = Counter(i for node in {*use.nodes} for i in self._by_node.first(node))
        enough = [
            i for i in common if 2 * common[i] >= min(len(use.nodes), len(self._uses[i].nodes))
        ]
        return min(enough, key=lambda i: (-common[i], i), default=None)

    def of_one_name(self, use: KernelUse) -> int | None:
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
        self._found: defaultdict[Hashable, OrderedDict[int, None]] = defaultdict(OrderedDict)
        for key, position in entries:
            self._found[key][position] = None

    def first(self, key: Hashable) -> Iterable[int]:
        return islice(self._found.get(key, ()), MOST_CANDIDATES)

    def remove(self, key: Hashable, position: int) -> None:
        del self._found[key][position]
