"""Notes that one hook leaves in the recording for another."""

from __future__ import annotations

import weakref
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fx_explorer.model import BackendEntry, PublishedStage, Stage


class BackendError(NamedTuple):
    """An error that a backend raised. ``stage`` is how far the compilation had come."""

    error: BaseException
    stage: Stage | None


@dataclass(frozen=True, slots=True)
class GuardedValue:
    """The value that a failed guard looked at."""

    source: str = ""
    """The value's source as torch names it: ``L['x']``, ``L['self'].power``, ``G['scale']``; empty
    for a global state.
    """
    old: str = ""
    """The old value, if the guard's text does not have it and it is still known."""
    new: str = ""


@dataclass(slots=True)
class FailedGuard:
    """A guard that failed before a recompile, in torch's words for the latest compilation it failed
    in.
    """

    reason: str
    value: GuardedValue
    times: int = 1
    """How many compilations of the function it failed in."""


class CountedEntry(Protocol):
    """A function that a backend made, which counts its calls."""

    @property
    def row(self) -> BackendEntry: ...

    def was_called(self, returned: object) -> None:
        """Count a call, and hold what it returned against the graph."""

    def write(self) -> None:
        """Bring its row up to date."""


@dataclass
class Published:
    """What backends have published into the session."""

    stages: dict[int, list[PublishedStage]] = field(default_factory=dict)
    """Row of a compilation → its stages, in the order of publishing."""
    runs: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    """(row of a compilation, entry, direction) → how many runs were told."""
    told: set[str] = field(default_factory=set)
    """What was wrong with something that was published, each thing once."""
    latest: str = ""
    """The compilation that published last; empty before."""
    entries: list[CountedEntry] = field(default_factory=list)
    """What backends have returned, and is counted in its calls."""
    _of_inductor: dict[int, tuple[weakref.ref[object], CountedEntry]] = field(default_factory=dict)
    """What Inductor has returned, by its identity: it has no hash."""

    def count_inductors(self, made: object, entry: CountedEntry) -> None:
        self._of_inductor[id(made)] = weakref.ref(made), entry

    def entry_of(self, made: object) -> CountedEntry | None:
        """Return the entry of what Inductor has returned; None for what is not counted."""
        reference, entry = self._of_inductor.get(id(made), (None, None))
        return entry if reference is not None and reference() is made else None


class CallAgain(Protocol):
    """Calls what was captured once more."""

    inputs: str
    """A short description of the inputs it is called with."""

    def __call__(self, watching: AbstractContextManager[object]) -> list[str]:
        """Call it inside ``watching`` with copies of its inputs, and put its state back.

        Returns sentences on what could not be put back. Raises what the program raises.
        """
        ...
