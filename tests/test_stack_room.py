"""These tests check that there is enough room on Python's stack, counted in page faults by the
operating system.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

from fx_explorer.stack_room import room_behind, with_room

CALLS, DEPTHS = 300, 220
"""At 220 depths of 80 bytes or more, some calls cross the end of a piece of 16 KB."""


def callee() -> None:
    pass


def most_faults(depths: int) -> int:
    """Return the page faults of ``CALLS`` calls, at the depth of the stack at which they are most."""

    def at(left: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(CALLS):
            callee()
        here = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        return max(here, at(left - 1)) if left else here

    return at(depths)


def roomy(depths: int) -> int:
    return most_faults(depths)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 keeps each frame by itself")
def test_calls_at_every_depth_map_no_memory() -> None:
    assert most_faults(DEPTHS) >= CALLS, "no depth is unlucky: the test shows nothing"
    assert with_room(roomy)(DEPTHS) < CALLS / 10


def test_room_is_given_for_as_long_as_the_block_takes() -> None:
    def function() -> int:
        return 3

    before = function.__code__
    with room_behind(function):
        assert function() == 3
        assert function.__code__.co_stacksize > before.co_stacksize or sys.version_info < (3, 11)
    assert function.__code__ is before


def test_code_that_somebody_else_has_given_meanwhile_stays() -> None:
    def function() -> int:
        return 3

    def other() -> int:
        return 4

    with room_behind(function):
        function.__code__ = other.__code__
    assert function() == 4


@pytest.mark.parametrize(
    "function", [len, "".join, type("Called", (), {"__call__": lambda self: 3})()]
)
def test_what_has_no_code_stays_as_it_is(function: Callable[..., object]) -> None:
    assert with_room(function) is function
    with room_behind(function):
        pass


def test_room_does_not_allow_deeper_recursion() -> None:
    """A program that recurses without end still gets Python's error, and the process lives."""
    program = """
from fx_explorer.stack_room import with_room

def forever():
    return forever()

try:
    with_room(forever)()
except RecursionError:
    print("told")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stdout == "told\n", ended.stderr
