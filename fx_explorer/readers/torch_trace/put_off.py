"""Records that are decoded after all others were found: graphs, guards and generated code.

They are most of a log and most of the work, and are looked at one by one. What they say of their compilation by being there is
noted at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fx_explorer.model import Stage
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.graph_records import STAGE_OF
from fx_explorer.readers.torch_trace.records import Record

_TELLS_OF: dict[str, tuple[Stage, ...]] = {
    **{name: (stage,) for name, (stage, _, _) in STAGE_OF.items()},
    "inductor_output_code": ("schedule", "output_code", "kernel"),
    "inductor_provenance_tracking_node_mappings": (),
    "dynamo_cpp_guards_str": (),
}
"""Name of a record → the stages that it shows to have been reached."""


class PutOff:
    """Keeps the records of each compilation without their texts. It is given none of no compilation."""

    def __init__(self, compilations: Compilations) -> None:
        self._compilations = compilations

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return dict.fromkeys(_TELLS_OF, self._keep)

    def _keep(self, record: Record) -> None:
        compilations = self._compilations
        if "dynamo" in _TELLS_OF[record.name]:
            compilations.graph_of_attempt(record)
        state = compilations.of(record)
        state.seen.update(_TELLS_OF[record.name])
        part = record.subgraph or compilations.parts.get(state.row.id, "")
        state.put_off.append(replace(record, payload="", subgraph=part))
