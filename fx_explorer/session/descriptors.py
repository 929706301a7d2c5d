"""Descriptors of ours in a process that also runs the user's program.

A daemon closes every descriptor that it does not know, and the next file it opens gets the lowest
number that is free: what we then write to that number goes into the user's file. So ours have
numbers above those that programs sweep, and before each use they are compared with the file that
they were opened for.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HIGHEST = 4096
"""Where ours begin when a process may open more than this: to fill the numbers below takes 2 ms.
Programs sweep up to 256 or 1,024 mostly, or up to their limit, above which ours are when it can be
raised for a moment.
"""

ROOM = 64
"""Numbers kept for what is ours."""

SPARE = 16
"""Numbers left to other threads while the rest is filled."""

_fstat = os.fstat
"""The function as it is before the program can put something else in its place."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A number, and the file that it stood for when it was opened."""

    number: int
    device: int
    inode: int

    @classmethod
    def of(cls, number: int) -> Descriptor:
        status = os.fstat(number)
        return cls(number, status.st_dev, status.st_ino)

    @property
    def is_ours(self) -> bool:
        """Return whether the number is still ours; false once the program has closed it, whatever
        has the number now. Costs half a microsecond.
        """
        try:
            status = _fstat(self.number)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def moved_up(number: int) -> Descriptor:
    """Move an open file to a high number, which programs that are started do not inherit."""
    with _limit_raised() as base:
        try:
            high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, base)
        except OSError:  # no number is left up there
            os.set_inheritable(number, False)
            return Descriptor.of(number)
    os.close(number)
    return Descriptor.of(high)


@contextlib.contextmanager
def high_numbers() -> Iterator[None]:
    """Give whatever is opened in the block, in this thread or another, a high number: the lower
    ones are taken meanwhile. This is for libraries that open files themselves, as SQLite does.
    """
    taken: list[int] = []
    with _limit_raised() as base:
        try:
            taken += _filled(base)
            yield
        finally:
            for number in taken:
                os.close(number)


def opened_since(before: frozenset[int], files: Iterable[Path]) -> tuple[Descriptor, ...]:
    """Find those of ``files`` that are open under numbers which were free ``before``."""
    places = set()
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            places.add((status.st_dev, status.st_ino))
    found = []
    for number in sorted(open_numbers() - before):
        with contextlib.suppress(OSError):  # another thread has closed it
            descriptor = Descriptor.of(number)
            if (descriptor.device, descriptor.inode) in places:
                found.append(descriptor)
    return tuple(found)


def open_numbers() -> frozenset[int]:
    """Return all numbers that are open in this process; none where the system does not tell."""
    try:
        listed = [int(name) for name in os.listdir("/dev/fd") if name.isdigit()]
    except OSError:
        return frozenset()
    return frozenset(number for number in listed if _is_open(number))


def _is_open(number: int) -> bool:
    """Return whether a listed number is open. The directory that was listed is not, any more, and
    the next file gets its number.
    """
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def never_freed(library_object: object) -> None:
    """Keep an object to the end of the process, and beyond Python's: a SQLite connection that is
    freed writes and closes.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library_object))


@contextlib.contextmanager
def _limit_raised() -> Iterator[int]:
    """Yield the number from which ours may begin. It is above the limit that the program sees,
    where the system lets us go there.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > HIGHEST:
        yield HIGHEST
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft + ROOM, hard))
    except (OSError, ValueError):  # not above what the system, or the administrator, allows
        yield max(3, soft - ROOM)
        return
    try:
        yield soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _filled(base: int) -> list[int]:
    """Return descriptors that are opened only so that no number below ``base`` is free."""
    taken: list[int] = []
    with contextlib.suppress(OSError):
        taken.append(os.open(os.devnull, os.O_RDONLY))
        while taken[-1] < base - 1:
            taken.append(os.dup(taken[0]))
        if taken[-1] >= base:
            os.close(taken.pop())
        return taken
    for number in taken[-SPARE:]:
        os.close(number)
    return taken[:-SPARE]
