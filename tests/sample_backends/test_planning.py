"""These tests check that buffers in use at the same time never share memory, and that simplified
loops visit the same elements.
"""

from __future__ import annotations

import itertools
import random

from sample_backends.small_backend.lowering.loops import simplified
from sample_backends.small_backend.lowering.planning import planned


def test_a_dead_buffer_gives_its_place_to_the_next() -> None:
    lifetimes = {0: (0, 1), 1: (1, 2), 2: (2, 3)}
    assert planned({0: 100, 1: 50, 2: 100}, lifetimes) == {
        0: 0,
        1: 112,
        2: 0,
    }  # 112: the cache line after 100


def test_buffers_that_live_together_never_overlap() -> None:
    chosen = random.Random(5)
    for _ in range(200):
        count = chosen.randrange(1, 20)
        lengths = {k: chosen.randrange(1, 200) for k in range(count)}
        lifetimes = {
            k: (begin, begin + chosen.randrange(6))
            for k in range(count)
            for begin in [chosen.randrange(20)]
        }
        starts = planned(lengths, lifetimes)
        for one, other in itertools.combinations(range(count), 2):
            live_together = (
                lifetimes[one][0] <= lifetimes[other][1]
                and lifetimes[other][0] <= lifetimes[one][1]
            )
            places = (
                range(starts[one], starts[one] + lengths[one]),
                range(starts[other], starts[other] + lengths[other]),
            )
            assert not live_together or max(each.start for each in places) >= min(
                each.stop for each in places
            )
        assert all(start % 16 == 0 for start in starts.values())


def walked(sizes: tuple[int, ...], strides: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return the positions of all operands in each round of the loops."""
    rounds = itertools.product(*map(range, sizes))
    return {
        tuple(sum(k * step for k, step in zip(at, of, strict=True)) for of in strides)
        for at in rounds
    }


def test_simplified_loops_walk_the_same_way() -> None:
    chosen = random.Random(11)
    for _ in range(300):
        rank = chosen.randrange(5)
        sizes = tuple(chosen.choice([1, 2, 3]) for _ in range(rank))
        strides = [tuple(chosen.choice([0, 1, 2, 3, 6, 9]) for _ in range(rank)) for _ in range(3)]
        inner = chosen.randrange(rank + 1)
        fewer, walks = simplified(sizes, strides, inner)
        assert walked(fewer, walks) == walked(sizes, strides)
        assert fewer[len(fewer) - inner :] == sizes[rank - inner :]


def test_a_contiguous_tensor_is_walked_in_one_loop() -> None:
    assert simplified((2, 3, 4), [(12, 4, 1), (12, 4, 1)], 0) == ((24,), [(1,), (1,)])


def test_a_broadcast_row_keeps_two_loops() -> None:
    assert simplified((2, 3, 4), [(12, 4, 1), (0, 0, 1)], 0) == ((6, 4), [(4, 1), (0, 1)])
