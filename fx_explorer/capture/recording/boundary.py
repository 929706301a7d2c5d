"""This module describes boundaries: a boundary is the point where one stage of a compilation ends
and the next begins.

The hooks of each stage (dynamo/, aot/, inductor/) give the boundary what they are about to make. It
has it made, or gives what was made before. Hooks know nothing else of stepping. In a capture that
nobody steps through, everything is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from fx_explorer.model import Direction, Gate, RegionLowering

Key = tuple[str, Direction]
"""The key of a result: the result at a gate, or ``lowered`` for a direction's compiled function."""

T = TypeVar("T")
Compile = Callable[[torch.fx.GraphModule], Any]
"""A function that gives a graph to the backend."""


@dataclass(frozen=True, slots=True)
class LoweringRequest:
    """A request to lower a graph that was captured earlier and may have been edited since."""

    compiler: Callable[[torch.fx.GraphModule, Sequence[Any]], Any]
    module: torch.fx.GraphModule
    inputs: Sequence[Any]
    users_compiler: Any = None
    """The user's own compiler, which can be asked what it supports; None for Inductor."""


class Boundary(Protocol):
    @property
    def is_outside(self) -> bool:
        """Return whether the current compile is a repetition, after Dynamo has finished the
        frame.
        """

    @property
    def settings(self) -> Mapping[str, object]:
        """Return the options that the user set during the capture: full name → value."""

    def is_deferred(self, name: str) -> bool:
        """Return whether the graph of this compilation still waits for its turn."""

    def set_aside(self, name: str, aside: str) -> None:
        """Rename the attempt ``name`` to ``aside``."""

    def lowered_ahead(self, name: str, lowering: LoweringRequest) -> None:
        """Receive how the graph of a function captured ahead of time is about to be lowered."""

    def captured(
        self,
        output_graph: Any,
        module: torch.fx.GraphModule,
        inputs: list[Any],
        compile_here: Compile,
    ) -> Any:
        """Return the backend's result for a graph that Dynamo has captured. ``compile_here`` is
        Dynamo's own call of the backend.
        """

    def pass_through(self, key: Key, make: Callable[[], T], copy: Callable[[T], T]) -> T:
        """Return the result of a stage: from ``make``, or a stored one. ``copy`` copies a result,
        so that torch may change the copy and leave the stored one unchanged.
        """

    def passes(
        self,
        gate: Gate,
        direction: Direction,
        module: torch.fx.GraphModule,
        run: Callable[[], torch.fx.GraphModule],
    ) -> torch.fx.GraphModule:
        """Return the graph after its passes, which ``run`` runs on ``module``."""

    def lowered(
        self, direction: Direction, module: torch.fx.GraphModule, lower: Callable[[], Any]
    ) -> Any:
        """Return the compiled function of a forward or backward graph."""

    def region(
        self,
        row: RegionLowering,
        module: torch.fx.GraphModule,
        compile_region: Callable[[], Any],
        again: Callable[[], None],
    ) -> Any:
        """Return Inductor's result for one region. ``again`` is called if a stored result is
        used.
        """

    def gate(
        self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None
    ) -> None:
        """Receive the graph of a finished stage. ``module`` may still be changed."""

    def published(self, stage: str, direction: Direction) -> None:
        """Record that a backend has published a stage of its own."""


class StraightThrough:
    """The boundary of a capture without stepping: every stage runs, and nothing waits."""

    is_outside = False
    settings: Mapping[str, object] = {}

    def is_deferred(self, name: str) -> bool:
        return False

    def set_aside(self, name: str, aside: str) -> None:
        pass

    def lowered_ahead(self, name: str, lowering: LoweringRequest) -> None:
        pass

    def captured(
        self,
        output_graph: Any,
        module: torch.fx.GraphModule,
        inputs: list[Any],
        compile_here: Compile,
    ) -> Any:
        return compile_here(module)

    def pass_through(self, key: Key, make: Callable[[], T], copy: Callable[[T], T]) -> T:
        return make()

    def passes(
        self,
        gate: Gate,
        direction: Direction,
        module: torch.fx.GraphModule,
        run: Callable[[], torch.fx.GraphModule],
    ) -> torch.fx.GraphModule:
        return run()

    def lowered(
        self, direction: Direction, module: torch.fx.GraphModule, lower: Callable[[], Any]
    ) -> Any:
        return lower()

    def region(
        self,
        row: RegionLowering,
        module: torch.fx.GraphModule,
        compile_region: Callable[[], Any],
        again: Callable[[], None],
    ) -> Any:
        return compile_region()

    def gate(
        self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None
    ) -> None:
        pass

    def published(self, stage: str, direction: Direction) -> None:
        pass
