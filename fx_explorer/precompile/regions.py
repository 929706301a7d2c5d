"""Annotated regions: keeping apart what ``regional_inductor`` would merge.

Regions with a plain string, or with differing ``inductor_configs`` and no name, are one region to torch when they touch
(torch/fx/passes/regional_inductor.py, ``_RegionScooper``): then one name, or the configs of one of them, stand for both.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator

import torch

from fx_explorer.capture.patching import patched

KEY = "compile_with_inductor"


def annotated_nodes(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Nodes marked for compilation, in the graph and in the graphs inside it."""
    for module in gm.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if KEY in (node.meta.get("custom") or {}):
                    yield node


def keep_apart(gm: torch.fx.GraphModule) -> int:
    """Name each region in the form that torch keeps apart; returns how many nodes are marked.

    Changes the metadata of ``gm``, which is the copy made for the compiler: not what the user's graph shows.
    """
    count = 0
    for node in annotated_nodes(gm):
        custom = node.meta["custom"]
        node.meta["custom"] = {**custom, KEY: _named(custom[KEY])}
        count += 1
    return count


def _named(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        return {"inductor_region": value}
    if "inductor_region" in value:
        return value
    configs = value.get("inductor_configs") or {}
    return {**value, "inductor_region": f"configs {sorted(configs.items())}"}


@contextlib.contextmanager
def own_configs() -> Iterator[None]:
    """Each region is compiled with its own ``inductor_configs`` in the block.

    torch takes the first it meets in the region's graph, and a placeholder there has the metadata of the node that computes
    it: where regions touch, that is the other region's (torch/fx/passes/regional_inductor.py, ``_compile_submod``).
    """
    module, name = importlib.import_module("torch.fx.passes.regional_inductor"), "_compile_inductor_marked_regions"
    with patched(module, name, _inputs_unmarked) if hasattr(module, name) else contextlib.nullcontext():
        yield


def _inputs_unmarked(compile_regions: Callable[..., object]) -> Callable[..., object]:
    def compile_unmarked(gm: torch.fx.GraphModule) -> object:
        for name, module in gm.named_modules():
            if name.rpartition(".")[2].startswith("__marked_inductor_submod") and isinstance(module, torch.fx.GraphModule):
                for node in module.graph.find_nodes(op="placeholder"):
                    node.meta.pop("custom", None)
        return compile_regions(gm)

    return compile_unmarked
