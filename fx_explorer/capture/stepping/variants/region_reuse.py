"""Lower one region again, alone: the others are given from what an earlier variant compiled.

torch cuts the graph into regions as before and compiles each (regional.py). A region that has not
changed, and is not the one asked for, gets what ``torch._inductor.standalone_compile`` returned the
first time.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fx_explorer.capture.recording.rows.graphs import describe_value, node_value
from fx_explorer.capture.regional_annotations import configs_in_force
from fx_explorer.capture.stepping.variants.variant import Variant
from fx_explorer.errors import UsageError
from fx_explorer.model import GATES, Command, Gate


def check_region(origin: Variant, command: Command) -> None:
    """Raise UsageError when ``command`` asks for one region that ``origin`` did not compile, or
    from a gate where there is none.
    """
    if not command.region:
        return
    if command.gate != "partition":
        raise UsageError(
            "One region alone is lowered again from the partition: regions are cut out "
            "of its graphs."
        )
    if {"compile.backend", "compile.mode"} & command.changes.settings.keys():
        raise UsageError("Another backend or mode holds for the whole graph: leave the region out.")
    names, name = origin.region_names(command.direction), origin.row.name
    where = f" in the {command.direction}" if command.direction else ""
    if not names:
        raise UsageError(
            f"regional_inductor has compiled no named region of [{name}]{where}: go again "
            "from Dynamo with the backend "
            "regional_inductor first, with a region marked."
        )
    if command.region not in names:
        raise UsageError(
            f'[{name}] has no region "{command.region}"{where}; there are {", ".join(names)}.'
        )


def share_regions(origin: Variant, variant: Variant, gate: Gate) -> None:
    """Give ``variant``, which sets out from ``gate``, the regions of ``origin`` that it may take
    over, in each direction.
    """
    if GATES.index(gate) >= GATES.index("partition"):
        variant.regions, variant.lowered_with = dict(origin.regions), dict(origin.lowered_with)


def signature(module: torch.fx.GraphModule) -> str:
    """Return as text what a region is made from: equal texts lower to equal code under equal
    settings.
    """
    return "\n".join((repr(configs_in_force(module)), *_lines(module)))


def _lines(module: torch.fx.GraphModule) -> Iterator[str]:
    for node in module.graph.nodes:
        target = node.target if isinstance(node.target, str) else repr(node.target)
        yield (
            f"{node.name} {node.op} {target} {node.args} {node.kwargs} "
            f"{describe_value(node_value(node))}"
        )
        inner = getattr(module, target, None) if node.op == "get_attr" else None
        if isinstance(inner, torch.fx.GraphModule):
            yield from _lines(inner)
