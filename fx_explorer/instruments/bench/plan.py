"""The cells of a bench: every combination of what was asked for, at every size; and the session
that holds a bench and no capture.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.errors import UsageError
from fx_explorer.model import GUARD_FILTER, BenchCell, CaptureRequest, InputSize, Outcome
from fx_explorer.session import SessionWriter

UNCOMPILED = "uncompiled"

MODE_BACKENDS = ("inductor",)
"""Backends that take a mode."""


@dataclass(frozen=True)
class BenchPlan:
    """What is to be compared, and for how long."""

    request: CaptureRequest
    """What all contenders have in common."""
    backends: tuple[str, ...] = ("eager", "aot_eager", "inductor")
    modes: tuple[str, ...] = ("",)
    dynamics: tuple[bool | None, ...] = (None,)
    stances: tuple[str, ...] = ("",)
    sizes: tuple[tuple[InputSize, ...], ...] = ()
    """Each is one size with its values; every combination is measured."""
    threads: int = 0
    others: tuple[Contender, ...] = ()
    """Ways of running the program beside those."""
    budget_s: float | None = None
    """About how long the bench may take; None: until the figures are steady."""
    timeout_s: float | None = None
    """How long a cell may take to get ready, and for a round."""

    def contenders(self) -> list[Contender]:
        """Return the ways of running the program, the uncompiled one first, each once."""
        product = itertools.product(self.backends, self.modes, self.dynamics, self.stances)
        ways = (self._contender(*way) for way in product)
        return [
            Contender(UNCOMPILED, self.request, is_compiled=False),
            *dict.fromkeys(ways),
            *self.others,
        ]

    def _contender(self, backend: str, mode: str, dynamic: bool | None, stance: str) -> Contender:
        mode = mode if backend in MODE_BACKENDS else ""
        words = (backend, mode, "" if dynamic is None else f"dynamic={dynamic}", stance)
        takes_all = backend in MODE_BACKENDS and not mode
        options = {
            name: value
            for name, value in self.request.options.items()
            if takes_all or name == GUARD_FILTER
        }
        request = replace(
            self.request,
            backend=backend,
            mode=mode,
            dynamic=dynamic,
            stance=stance,
            options=options,
        )
        return Contender(" ".join(filter(None, words)), request)

    def combinations(self) -> Iterator[tuple[InputSize, ...]]:
        """Yield what inputs are given; nothing but the example without sizes."""
        yield from itertools.product(*self.sizes)

    def check(self) -> None:
        """Raise UsageError for what contradicts itself."""
        names = [size[0].name for size in self.sizes]
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice:
            raise UsageError(f"the size {twice} is given twice; name all its values in one option")
        if any(self.modes) and self.request.options.keys() - {GUARD_FILTER}:
            raise UsageError(
                "--modes and --option cannot be combined (torch.compile takes one of them)"
            )
        if any(self.modes) and not set(self.backends) & set(MODE_BACKENDS):
            raise UsageError(
                f"--modes are those of {' and '.join(MODE_BACKENDS)}, which is not among --backends"
            )


@dataclass(frozen=True)
class Contender:
    """One way of running the program."""

    name: str
    request: CaptureRequest
    is_compiled: bool = True

    def __hash__(self) -> int:
        return hash(self.name)

    def cell(self, sizes: tuple[InputSize, ...], bench: int) -> BenchCell:
        values: dict[str, object] = {size.name: size.value for size in sizes}
        return BenchCell(0, self.name, ", ".join(map(str, sizes)), values, self.is_compiled, bench)


def begin_session(writer: SessionWriter, plan: BenchPlan) -> None:
    """Write what every session has."""
    with writer.transaction():
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("request", asdict(plan.request))
        writer.set_meta(
            "started", datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        )
        writer.set_meta("target", {"name": Path(plan.request.target).name, "kind": "bench"})


def end_session(writer: SessionWriter, *, was_stopped: bool) -> None:
    """Write how it ended."""
    stopped = Outcome("cancelled", "the bench was stopped; what was measured before is kept")
    writer.set_meta("outcome", asdict(stopped if was_stopped else Outcome("finished")))
