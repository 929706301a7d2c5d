"""DDPOptimizer cuts a graph into buckets (torch/_dynamo/backends/distributed.py): this module finds
them in a log.

torch writes ``optimize_ddp_split_child`` for each of them, then compiles their forwards one after
the other under the id of the whole compilation. No record says of which bucket it is: that the next
one has begun is seen by a record that one bucket has only once, or earlier.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.model import bucket_label
from fx_explorer.readers.torch_trace.records import Record

_CUT = "optimize_ddp_split_child"

_ORDER = (
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "inductor_pre_grad_graph",
    "aot_joint_graph",
    "aot_inference_graph",
    "aot_forward_graph",
    "aot_backward_graph",
)
"""Records that a bucket has once each, in this order, when its forward is compiled."""


@dataclass(slots=True)
class _Cut:
    count: int = 0
    number: int = 0
    """The bucket that is compiled, from 1."""
    reached: int = 0


class Buckets:
    """Knows which bucket each compilation is at."""

    def __init__(self) -> None:
        self._cuts: dict[str, _Cut] = {}

    def follow(self, record: Record) -> str | None:
        """Return the bucket that begins with this record; empty where there is none from here on,
        None where nothing changes.

        A backward is compiled after the compilation has ended, when it first runs.
        """
        if record.name == _CUT:
            self._cuts.setdefault(record.compilation, _Cut()).count += 1
        elif record.name in ("dynamo_output_graph", "compilation_metrics"):
            return "" if self._cuts.pop(record.compilation, None) else None
        elif record.name in _ORDER and record.compilation in self._cuts:
            return self._next(self._cuts[record.compilation], _ORDER.index(record.name))
        return None

    def _next(self, cut: _Cut, place: int) -> str | None:
        begins = not cut.number or place <= cut.reached
        cut.reached = place
        if not begins or cut.number >= cut.count:
            return None
        cut.number += 1
        return bucket_label(cut.number, cut.count)
