"""This module reads annotated regions as torch does, and keeps apart what ``regional_inductor``
would merge, each with its own configs.

To torch (torch/fx/passes/regional_inductor.py, ``_RegionScooper``) all nodes annotated with a
string, or with configs and no name, are one region where they touch. And a region is compiled with
the first configs in its graph, whose inputs carry the annotation of whatever made them: the
neighbour's (``_compile_submod``).
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import regions_kept_apart
from fx_explorer.errors import UsageError

KEY = "compile_with_inductor"
"""The key of ``node.meta["custom"]`` that marks nodes for Inductor."""

_SUBGRAPH = "__marked_inductor_submod"


@dataclass(frozen=True)
class _SeparateRegion:
    """Stands as ``inductor_region`` while torch cuts regions out: those are one whose ``key`` is
    equal.
    """

    key: str
    as_written: object = field(compare=False)


def annotated_nodes(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Yield the nodes marked for compilation, in the graph and in the graphs inside it."""
    for module in gm.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if KEY in (node.meta.get("custom") or {}):
                    yield node


def region_name(node: torch.fx.Node) -> str | None:
    """Return the region a node is in; empty for one without a name; None when it is in none, as are
    inputs and outputs. An input carries the annotation of whatever made it, be it in another
    region.
    """
    custom = node.meta.get("custom")
    if node.op in ("placeholder", "output") or not isinstance(custom, dict) or KEY not in custom:
        return None
    value = written_value(custom[KEY])
    if isinstance(value, dict):
        return str(value.get("inductor_region", ""))
    return value if isinstance(value, str) else ""


@contextlib.contextmanager
def kept_apart(gm: torch.fx.GraphModule) -> Iterator[int]:
    """Keep regions of ``gm`` with different names or configs apart for ``regional_inductor`` inside
    the block, and let it compile each with its own configs. Yields how many nodes are marked.

    The metadata of ``gm`` itself is changed; in the graphs that are cut out of it stands what the
    user wrote. Raises UsageError for regions that wait for each other: torch cuts each out as if it
    were the only one.
    """
    count, labels = 0, {}
    for node in annotated_nodes(gm):
        written = node.meta["custom"][KEY]
        node.meta["custom"] = {**node.meta["custom"], KEY: _separate(written)}
        count += 1
        labels[_label(written)] = True
    module, name = (
        importlib.import_module("torch.fx.passes.regional_inductor"),
        "_compile_inductor_marked_regions",
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(regions_kept_apart())
        if hasattr(module, name):
            stack.enter_context(patched(module, name, _as_written))
        try:
            yield count
        except (
            AssertionError
        ) as error:  # fuse_as_graphmodule (torch/fx/passes/utils/fuser_utils.py)
            if "dependency cycles" not in str(error):
                raise
            raise UsageError(
                f"regions {', '.join(labels)}: two of them each need what the other computes, so "
                "they cannot be cut out. Give the later part of one a name of its own, or both the "
                "same name."
            ) from error


def _label(written: object) -> str:
    name = written.get("inductor_region") if isinstance(written, dict) else written
    if not isinstance(name, str):
        return "without a name"
    return f'"{name}"'


def configs_in_force(gm: torch.fx.GraphModule) -> dict[str, object] | None:
    """Return ``inductor_configs`` of the first node of a region that has some, inputs included:
    torch goes by that.
    """
    for node in gm.graph.nodes:
        value = (node.meta.get("custom") or {}).get(KEY)
        if isinstance(value, dict) and "inductor_configs" in value:
            return dict(value["inductor_configs"])
    return None


def written_value(value: object) -> object:
    """Return the annotation as the user wrote it, also inside ``kept_apart``."""
    region = value.get("inductor_region") if isinstance(value, dict) else None
    return region.as_written if isinstance(region, _SeparateRegion) else value


def _separate(written: object) -> dict[str, Any]:
    fields = dict(written) if isinstance(written, dict) else {"inductor_region": written}
    apart = _SeparateRegion(
        repr((fields.get("inductor_region"), fields.get("inductor_configs"))), written
    )
    return {**fields, "inductor_region": apart}


def _as_written(compile_regions: Callable[..., object]) -> Callable[..., object]:
    """Give the regions, which are cut out by now, the user's annotations, and their inputs none."""

    def compile_as_written(gm: torch.fx.GraphModule) -> object:
        for name, module in gm.named_modules():
            if name.rpartition(".")[2].startswith(_SUBGRAPH) and isinstance(
                module, torch.fx.GraphModule
            ):
                for node in module.graph.find_nodes(op="placeholder"):
                    node.meta.pop("custom", None)
                for node in annotated_nodes(module):
                    custom = node.meta["custom"]
                    node.meta["custom"] = {**custom, KEY: written_value(custom[KEY])}
        return compile_regions(gm)

    return compile_as_written
