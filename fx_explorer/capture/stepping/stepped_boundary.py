"""The boundary between two stages of a capture that is stepped through.

It gives again what an earlier variant made, and keeps what is made anew for a later one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fx_explorer.capture.graph_copies import become, snapshot
from fx_explorer.capture.recording.boundary import Compile, Key, LoweringRequest, T
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.at_gate import after_published, at_gate
from fx_explorer.capture.stepping.dynamo_graph import compile_segment
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variants.region_reuse import signature
from fx_explorer.capture.stepping.variants.variant import CompiledRegion
from fx_explorer.model import Direction, Gate, RegionLowering


class SteppedBoundary:
    """The ``Boundary`` (recording/boundary.py) of a capture that is stepped through."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper

    @property
    def is_outside(self) -> bool:
        return self.stepper.is_outside

    @property
    def settings(self) -> Mapping[str, object]:
        return self.stepper.settings.changes.settings

    def is_deferred(self, name: str) -> bool:
        return self.stepper.is_deferred(name)

    def set_aside(self, name: str, aside: str) -> None:
        if name in self.stepper.kept:
            self.stepper.rows.set_aside(self.stepper.kept[name], aside)

    def lowered_ahead(self, name: str, lowering: LoweringRequest) -> None:
        if name in self.stepper.kept:
            self.stepper.kept[name].lower_as(lowering)

    def captured(
        self,
        output_graph: Any,
        module: torch.fx.GraphModule,
        inputs: list[Any],
        compile_here: Compile,
    ) -> Any:
        return compile_segment(self.stepper, output_graph, module, inputs, compile_here)

    def pass_through(self, key: Key, make: Callable[[], T], copy: Callable[[T], T]) -> T:
        known: T | None = self.stepper.replay(key)
        if known is not None:
            return copy(known)
        made = make()
        self.stepper.keep(key, copy(made))
        return made

    def passes(
        self,
        gate: Gate,
        direction: Direction,
        module: torch.fx.GraphModule,
        run: Callable[[], torch.fx.GraphModule],
    ) -> torch.fx.GraphModule:
        """Return the graph after its passes. They change the graph they are given, so what another
        variant made is put into it.
        """
        key = (gate, direction)
        known = self._after_passes(key)
        if known is not None:
            become(module, known)
            made = module
        else:
            made = run()
            self.stepper.keep(key, snapshot(made))
        self.gate(gate, direction, made)
        return made

    def _after_passes(self, key: Key) -> Any:
        """Return the graph after its passes; for a variant that sets out from a later gate, also
        after the edits there.
        """
        gate, direction = key
        edited = self.stepper.replay(("pre_fusion", direction)) if gate == "post_grad" else None
        return self.stepper.replay(key) if edited is None else edited

    def lowered(
        self, direction: Direction, module: torch.fx.GraphModule, lower: Callable[[], Any]
    ) -> Any:
        stepper, key = self.stepper, ("lowered", direction)
        known = stepper.replay(key)
        if known is not None:
            return known
        with stepper.lazily():
            self.gate("partition", direction, module)
            began_s = stepper.spent_s()
            with stepper.lowering(key):
                made = lower()
            stepper.keep(key, made, stepper.spent_s() - began_s)
            return made

    def region(
        self,
        row: RegionLowering,
        module: torch.fx.GraphModule,
        compile_region: Callable[[], Any],
        again: Callable[[], None],
    ) -> Any:
        """Return what Inductor makes of a region, or what it made of an equal region of an earlier
        variant.
        """
        variant = self.stepper.variant
        if variant is None:
            return compile_region()
        key, made_from = (row.direction, row.subgraph), signature(module)
        known = variant.reusable_region(key, row.name, made_from)
        if known is not None:
            variant.spared_s += known.took_s
            again()
            return known.compiled
        began_s = variant.spent_s()
        with self.stepper.lowering((row.subgraph, row.direction)):
            compiled = compile_region()
        variant.regions[key] = CompiledRegion(
            row.name, made_from, compiled, variant.spent_s() - began_s
        )
        return compiled

    def gate(
        self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None
    ) -> None:
        at_gate(self.stepper, gate, direction, module)

    def published(self, stage: str, direction: Direction) -> None:
        after_published(self.stepper, stage, direction)


@contextlib.contextmanager
def stepping_hook(recording: Recording) -> Iterator[None]:
    """Hear, inside the block, what a user who steps through the stages is shown and may change."""
    from fx_explorer.capture.aot.tracing import tracing_hooks
    from fx_explorer.capture.stepping.after_the_program import deferred_until_reset

    stepper = stepper_of(recording)
    if stepper is None:
        yield
        return
    with tracing_hooks(recording), stepper.settings.in_force(), deferred_until_reset(stepper):
        yield


def stepper_of(recording: Recording) -> Stepper | None:
    """Return the stepper of a capture; None for one that nobody steps through."""
    return recording.boundary.stepper if isinstance(recording.boundary, SteppedBoundary) else None
