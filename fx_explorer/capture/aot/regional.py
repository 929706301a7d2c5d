"""This module records regional compilation (``--backend regional_inductor``), which compiles each
annotated region by itself.

``torch.fx.passes.regional_inductor`` cuts the annotated nodes out of AOTAutograd's forward and
backward graphs and gives each region to ``torch._inductor.standalone_compile``; everything else
stays eager. Hook: that function, which is looked up at call time. A region is traced once more on
the way into Inductor, always as if for inference; its graphs are recorded with the direction of the
graph it was cut from.

Annotations are read as torch does, and what torch would merge is kept apart, each region with its
own configs. To torch (torch/fx/passes/regional_inductor.py, ``_RegionScooper``) all nodes annotated
with a string, or with configs and no name, are one region where they touch. And a region is
compiled with the first configs in its graph, whose inputs carry the annotation of whatever made
them: the neighbour's (``_compile_submod``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fx_explorer.capture.inspecting import lowering_for_real, runnable_copy
from fx_explorer.capture.node_links import traced_links
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.stage_events import REGIONAL
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    backend_registry,
    inductor,
    inductor_config,
    register_backend,
)
from fx_explorer.capture.torch_compat.versions import separate_regions
from fx_explorer.errors import UsageError
from fx_explorer.model import Link, RegionLowering


@contextlib.contextmanager
def regional_backend(recording: Recording) -> Iterator[None]:
    """Register a backend ``regional_inductor`` with torch inside the block, and record each region
    that Inductor compiles.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(
                inductor,
                "standalone_compile",
                functools.partial(_recording_region, recording),
            )
        )
        if REGIONAL not in torch.compiler.list_backends(exclude_tags=()):
            register_backend(_backend_for(recording), name=REGIONAL)
            stack.callback(backend_registry._COMPILER_FNS.pop, REGIONAL, None)
            stack.callback(backend_registry._BACKENDS.pop, REGIONAL, None)
        yield


# the backend


def _backend_for(recording: Recording) -> Callable[..., Any]:
    """Return the backend as a plain function. By its module ``can_wait``
    (stepping/stepped_boundary.py) recognises that it is ours and not the program's.
    """

    def regional_inductor(
        module: torch.fx.GraphModule, inputs: Any, **arguments: Any
    ) -> Callable[..., Any]:
        return _backend(recording, module, inputs, **arguments)

    return regional_inductor


def _backend(
    recording: Recording, module: torch.fx.GraphModule, inputs: Any, **arguments: Any
) -> Callable[..., Any]:
    """Compile the Dynamo graph. While inspecting, the graph itself runs in place of the compiled
    function, as with the inductor backend.
    """
    from fx_explorer.capture.torch_compat.private_names import (
        aot_autograd,
        min_cut_rematerialization_partition,
    )

    eager = None if recording.request.build else runnable_copy(module)
    compiler = functools.partial(_compile_regions, recording, _names(module), _configs(arguments))
    compiled = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(module, inputs)
    return compiled if eager is None else eager


def _configs(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return ``mode`` and ``options`` of torch.compile, which apply to every region; the region's
    own configs take precedence.
    """
    mode = arguments.get("mode")
    of_mode = inductor.list_mode_options(mode) if mode else {}
    return {**of_mode, **(arguments.get("options") or {})}


def _names(module: torch.fx.GraphModule) -> list[str]:
    """Return the names of the regions in ``module``, in order."""
    names: dict[str, None] = {}
    for node in module.graph.nodes:
        name = region_name(node)
        if name is not None:
            names[name] = None
    return list(names)


def _compile_regions(
    recording: Recording,
    names: list[str],
    configs: dict[str, Any],
    module: torch.fx.GraphModule,
    *inputs: Any,
) -> torch.fx.GraphModule:
    from torch.fx.passes.regional_inductor import regional_inductor

    present = set(_names(module))
    with inductor_config.patch(configs), keep_regions_separate(module):
        compiled: torch.fx.GraphModule = regional_inductor(module, *inputs)
    with recording.noting("regions that were not compiled", "output_code"):
        recording.writer.add_all(
            _absent(recording, [name for name in names if name not in present])
        )
    return compiled


def _absent(recording: Recording, names: Iterable[str]) -> Iterator[RegionLowering]:
    direction = recording.here.direction
    for name in names:
        reason = f"no node of the {direction} graph belongs to it"
        yield RegionLowering(0, recording.variant_id(), direction, name, "", 0, reason=reason)


# each region


def _recording_region(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def standalone_compile(module: Any, *args: Any, **kwargs: Any) -> Any:
        if recording.request.build or not isinstance(module, torch.fx.GraphModule):
            eager = None
        else:
            eager = runnable_copy(module)
        subgraph = _subgraph_name(module)
        if not subgraph:
            return _run_eagerly(original(module, *args, **kwargs), eager)
        made = _compiled_or_reused(
            recording, module, subgraph, lambda: original(module, *args, **kwargs)
        )
        return _run_eagerly(made, eager)

    return standalone_compile


def _run_eagerly(compiled: Any, eager: Callable[..., Any] | None) -> Any:
    """Make ``eager`` run when a program calls Inductor's result directly, not through
    torch.compile: while inspecting nothing is built.
    """
    name = next((name for name in ("inner_fn", "_compiled_fn") if hasattr(compiled, name)), "")
    if eager is not None and name:
        setattr(compiled, name, functools.partial(_as_a_list, eager))
    return compiled


def _as_a_list(eager: Callable[..., Any], *inputs: Any) -> list[Any]:
    with torch.no_grad():
        results = eager(*inputs)
    if isinstance(results, (tuple, list)):
        return list(results)
    return [results]


def _compiled_or_reused(
    recording: Recording, module: torch.fx.GraphModule, subgraph: str, make: Callable[[], Any]
) -> Any:
    """Return the compiled region, from Inductor now or from an earlier lowering of an equal
    region.
    """
    row = _row(recording, module, subgraph)

    def again() -> None:
        with recording.noting(f"region {subgraph}", "output_code"):
            recording.writer.add(replace(row, is_reused=True))

    return recording.boundary.region(
        row, module, lambda: _compile_region(recording, module, row, make), again
    )


def _compile_region(
    recording: Recording, module: torch.fx.GraphModule, row: RegionLowering, make: Callable[[], Any]
) -> Any:
    with contextlib.ExitStack() as stack:
        with recording.noting(f"region {row.subgraph}"):
            stack.enter_context(recording.here.inside(_segment(recording, module, row.subgraph)))
        stack.enter_context(_recorded(recording, row))
        stack.enter_context(lowering_for_real())
        return make()


def _subgraph_name(module: object) -> str:
    """Return torch's name for the region that is being compiled; empty when ``module`` is not a
    region.

    ``_get_regional_inductor_subgraph_name`` (torch/fx/traceback.py) says it; releases without that
    function have the name only in the variables of the caller, ``_compile_submod``.
    """
    if not isinstance(module, torch.fx.GraphModule) or not _names(module):
        return ""
    name_of_region = getattr(torch.fx.traceback, "_get_regional_inductor_subgraph_name", None)
    if name_of_region is not None:
        return str(name_of_region() or "")
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_compile_submod":
        frame = frame.f_back
    if frame is None:
        return ""
    return str(getattr(frame.f_locals.get("node"), "target", ""))


def _segment(recording: Recording, module: torch.fx.GraphModule, subgraph: str) -> Segment:
    """Return a segment for the graphs of one region, in which each node has the row of the outer
    graph's node.
    """
    direction = recording.here.direction
    outer = recording.segment().aot.get(direction)
    by_name = outer.by_name if outer else {}
    ids = {node: by_name[node.name] for node in module.graph.nodes if node.name in by_name}
    if outer:
        cut_out = RecordedGraph(
            outer.graph, module, ids, {node.name: row for node, row in ids.items()}
        )
    else:
        cut_out = None
    return Segment(dynamo=cut_out, subgraph=subgraph)


def traced_region(segment: Segment, module: torch.fx.GraphModule) -> RecordedGraph | None:
    """Return AOTAutograd's graph of a region, with each node mapped to the row of the outer graph
    that it came from.
    """
    cut_out = segment.dynamo
    if cut_out is None:
        return None
    positions = {node: position for position, node in enumerate(module.graph.nodes)}
    nodes = list(positions)
    parents: dict[torch.fx.Node, int] = {}
    for link in traced_links(replace(cut_out, module=module, ids=positions, nested={}), segment):
        if nodes[link.child] not in parents:
            parents[nodes[link.child]] = link.parent
            segment.traced_how[link.parent] = link.how
    return RecordedGraph(
        cut_out.graph, module, parents, {node.name: row for node, row in parents.items()}
    )


def as_traced(segment: Segment, links: Iterable[Link]) -> Iterator[Link]:
    """Replace the evidence of a region's links by the evidence of the step over the traced graph,
    which has no rows.
    """
    for link in links:
        yield replace(link, how=segment.traced_how.get(link.parent, link.how))


def _row(recording: Recording, module: torch.fx.GraphModule, subgraph: str) -> RegionLowering:
    nodes = [node for node in module.graph.nodes if region_name(node) is not None]
    name, configs = region_name(nodes[0]) or "", configs_in_force(module)
    return RegionLowering(
        0, recording.variant_id(), recording.here.direction, name, subgraph, len(nodes), configs
    )


@contextlib.contextmanager
def _recorded(recording: Recording, row: RegionLowering) -> Iterator[None]:
    """Record one row when the block ends, whether it succeeded or raised."""
    began, subgraph = time.perf_counter(), row.subgraph
    try:
        yield
    except Exception as error:
        row = replace(
            row, subgraph="", reason=one_line(f"Inductor failed: {type(error).__name__}: {error}")
        )
        raise
    finally:
        with recording.noting(f"region {subgraph}", "output_code"):
            recording.writer.add(replace(row, duration_s=time.perf_counter() - began))


# How regions are annotated.


KEY = "compile_with_inductor"
"""The key of ``node.meta["custom"]`` that marks nodes for Inductor."""

_SUBGRAPH = "__marked_inductor_submod"


@dataclass(frozen=True)
class _SeparateRegion:
    """Takes the place of ``inductor_region`` while torch cuts regions out: nodes with an equal
    ``key`` are one region.
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
    """Return the region of a node; empty for a region without a name; None for a node in no region,
    such as inputs and outputs. The annotation of an input belongs to the node that made it, perhaps
    in another region.
    """
    custom = node.meta.get("custom")
    if node.op in ("placeholder", "output") or not isinstance(custom, dict) or KEY not in custom:
        return None
    value = written_value(custom[KEY])
    if isinstance(value, dict):
        return str(value.get("inductor_region", ""))
    return value if isinstance(value, str) else ""


@contextlib.contextmanager
def keep_regions_separate(gm: torch.fx.GraphModule) -> Iterator[int]:
    """Keep regions of ``gm`` with different names or configs separate for ``regional_inductor``
    inside the block, and make it compile each with its own configs. Yields how many nodes are
    marked.

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
        stack.enter_context(separate_regions())
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
                f"regions {', '.join(labels)}: two of them need each other's results, so they "
                "cannot be cut out. Rename the later part of one, or give both the same name."
            ) from error


def _label(written: object) -> str:
    if isinstance(written, dict):
        name = written.get("inductor_region")
    else:
        name = written
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
    """Return the annotation as the user wrote it, also inside ``keep_regions_separate``."""
    if isinstance(value, dict):
        region = value.get("inductor_region")
    else:
        region = None
    if isinstance(region, _SeparateRegion):
        return region.as_written
    return value


def _separate(written: object) -> dict[str, Any]:
    if isinstance(written, dict):
        fields = dict(written)
    else:
        fields = {"inductor_region": written}
    apart = _SeparateRegion(
        repr((fields.get("inductor_region"), fields.get("inductor_configs"))), written
    )
    return {**fields, "inductor_region": apart}


def _as_written(compile_regions: Callable[..., object]) -> Callable[..., object]:
    """Restore the user's annotations in the regions, which are cut out by now, and remove those of
    their inputs.
    """

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
