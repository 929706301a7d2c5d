"""Where one stage of a compilation ends and the next begins: whoever steps through a capture stands there.

The hooks of each stage (dynamo/, aot/, inductor/) bring what they are about to make to the boundary, which has it made or gives
what was made before. They know nothing else of stepping. In a capture that nobody steps through, everything goes straight
through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import torch

from fx_explorer.model import Direction, Gate, RegionLowering

Key = tuple[str, Direction]
"""What a stage makes: a gate, or ``lowered`` for a direction's compiled function."""

T = TypeVar("T")
Compile = Callable[[torch.fx.GraphModule], Any]
"""Gives a graph to the backend."""


class Boundary(Protocol):
    @property
    def is_outside(self) -> bool:
        """Whether what is compiled now is compiled once more: Dynamo is through with its frame."""

    @property
    def settings(self) -> Mapping[str, object]:
        """What was set meanwhile, by full name."""

    def is_deferred(self, name: str) -> bool:
        """Whether the graph of this compilation still waits for its turn."""

    def set_aside(self, name: str, aside: str) -> None:
        """The attempt called ``name`` is called ``aside`` from now on."""

    def captured(self, output_graph: Any, module: torch.fx.GraphModule, inputs: list[Any], compile_here: Compile) -> Any:
        """What Dynamo's call of the backend, ``compile_here``, gives for a graph that it has captured."""

    def pass_through(self, key: Key, make: Callable[[], T], copy: Callable[[T], T]) -> T:
        """What a stage makes. ``copy``: made of it so that torch may go on to change the one and not the other."""

    def passes(
        self, gate: Gate, direction: Direction, module: torch.fx.GraphModule, run: Callable[[], torch.fx.GraphModule]
    ) -> torch.fx.GraphModule:
        """The graph after its passes, which ``run`` runs on ``module``."""

    def lowered(self, direction: Direction, module: torch.fx.GraphModule, lower: Callable[[], Any]) -> Any:
        """The compiled function of a forward or backward graph."""

    def region(
        self, row: RegionLowering, module: torch.fx.GraphModule, compile_region: Callable[[], Any], again: Callable[[], None]
    ) -> Any:
        """What Inductor makes of one region; ``again`` is called when it has made it before."""

    def gate(self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None) -> None:
        """A stage is finished; ``module`` may still be changed."""


class StraightThrough:
    """Nobody steps: everything is made, and nothing waits."""

    is_outside = False
    settings: Mapping[str, object] = {}

    def is_deferred(self, name: str) -> bool:
        return False

    def set_aside(self, name: str, aside: str) -> None:
        pass

    def captured(self, output_graph: Any, module: torch.fx.GraphModule, inputs: list[Any], compile_here: Compile) -> Any:
        return compile_here(module)

    def pass_through(self, key: Key, make: Callable[[], T], copy: Callable[[T], T]) -> T:
        return make()

    def passes(
        self, gate: Gate, direction: Direction, module: torch.fx.GraphModule, run: Callable[[], torch.fx.GraphModule]
    ) -> torch.fx.GraphModule:
        return run()

    def lowered(self, direction: Direction, module: torch.fx.GraphModule, lower: Callable[[], Any]) -> Any:
        return lower()

    def region(
        self, row: RegionLowering, module: torch.fx.GraphModule, compile_region: Callable[[], Any], again: Callable[[], None]
    ) -> Any:
        return compile_region()

    def gate(self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None) -> None:
        pass
