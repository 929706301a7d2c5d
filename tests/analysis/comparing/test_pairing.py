"""These tests check how kernels of two sessions are paired: the pairs are the same as by comparing
each with each, and many kernels are not slower.
"""

from __future__ import annotations

import random

from fx_explorer import model
from fx_explorer.instruments.diff import kernel_pairs as pairing
from fx_explorer.instruments.diff.kernel_pairs import paired
from fx_explorer.instruments.kernels.counts import KernelUse


def use(kernel_id: int, name: str, *nodes: str) -> KernelUse:
    return KernelUse(model.Kernel(kernel_id, 1, "forward", kernel_id, name, "triton"), nodes, 1)


Pairs = list[tuple[KernelUse | None, KernelUse | None]]


def by_comparing_each_with_each(left: list[KernelUse], right: list[KernelUse]) -> Pairs:
    """Compute the pairs by their definition."""
    free, partners = list(right), {}
    same = lambda one, other: bool(one.nodes) and {*one.nodes} == {*other.nodes}  # noqa: E731
    half = lambda one, other: 2 * common(one, other) >= min(len(one.nodes), len(other.nodes)) > 0  # noqa: E731
    name = lambda one, other: one.kernel.name == other.kernel.name  # noqa: E731
    for is_partner in (same, half, name):
        for one in left:
            candidates = [
                other for other in free if one.kernel.id not in partners and is_partner(one, other)
            ]
            if candidates:
                partners[one.kernel.id] = max(candidates, key=lambda other: common(one, other))
                free.remove(partners[one.kernel.id])
    return [(one, partners.get(one.kernel.id)) for one in left] + [(None, other) for other in free]


def common(one: KernelUse, other: KernelUse) -> int:
    return len({*one.nodes} & {*other.nodes})


def some_kernels(chance: random.Random, first_id: int) -> list[KernelUse]:
    """Return up to 12 kernels with few nodes and names, so that several kernels could pair with the
    same one.
    """
    nodes = [f"n{i}" for i in range(chance.randint(1, 8))]
    return [
        use(
            first_id + i,
            f"k{chance.randint(0, 4)}",
            *chance.sample(nodes, chance.randint(0, min(5, len(nodes)))),
        )
        for i in range(chance.randint(0, 12))
    ]


def test_the_pairs_are_those_of_comparing_each_kernel_with_each() -> None:
    chance = random.Random(16)
    for _ in range(500):
        left, right = some_kernels(chance, 1), some_kernels(chance, 101)
        assert paired(left, right) == by_comparing_each_with_each(left, right)


def test_each_kernel_is_looked_at_a_bounded_number_of_times_even_if_one_node_is_in_all(
    monkeypatch,
) -> None:  # type: ignore[no-untyped-def]
    looked_at = 0
    first = pairing._Index.first

    def counting(self: pairing._Index, key: object) -> list[int]:
        nonlocal looked_at
        found = list(first(self, key))
        looked_at += len(found)
        return found

    monkeypatch.setattr(pairing._Index, "first", counting)
    count = 2_000
    left = [use(i, "k", "everywhere", f"left{i}") for i in range(count)]
    right = [use(count + i, "k", "everywhere", f"right{i}") for i in range(count)]
    assert all(one and other for one, other in paired(left, right))
    assert looked_at <= 2 * count * pairing.MOST_CANDIDATES < count * count


def test_kernels_that_only_one_session_has_have_no_partner() -> None:
    gone, new = use(1, "gone", "a"), use(2, "new", "b")
    assert paired([gone], [new]) == [(gone, None), (None, new)]


def test_a_library_call_without_nodes_is_paired_by_its_name() -> None:
    one, other = use(1, "mm"), use(2, "mm")
    assert isinstance(one.kernel, model.Kernel)
    assert paired([one], [other]) == [(one, other)]
