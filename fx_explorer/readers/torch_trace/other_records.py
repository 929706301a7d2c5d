"""Records that become nothing else than a document: settings, caches, tables, and what a newer torch writes."""

from __future__ import annotations

import json

from fx_explorer.model import ArtifactKind, Metric, Stage
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter

_KNOWN: dict[str, tuple[Stage, str]] = {
    "dynamo_side_effects": ("dynamo", "Side effects"),
    "optimize_ddp_split_graph": ("dynamo", "Graph split for DDP"),
    "optimize_ddp_split_child": ("dynamo", "Part of the graph split for DDP"),
    "before_pre_grad_graph": ("pre_grad", "Before the pre-grad passes"),
    "runtime_wrapper_orchestration": ("joint", "AOTAutograd's wrapper"),
    "compiled_fn_wrapper": ("joint", "Wrapper of the compiled function"),
    "compiled_function_forward": ("joint", "Forward of the autograd function"),
    "compiled_function_backward": ("joint", "Backward of the autograd function"),
    "backward_prologue": ("joint", "What runs before the backward graph"),
    "backward_epilogue": ("joint", "What runs after the backward graph"),
    "make_fx_fail_partial": ("joint", "Graph up to the error"),
    "aot_forward_graph_fw_metadata": ("joint", "AOTAutograd's metadata"),
    "torch._functorch.config": ("joint", "AOTAutograd's settings"),
    "before_joint_graph": ("joint", "Before the joint passes"),
    "before_post_grad_graph": ("post_grad", "Before the post-grad passes"),
    "fx_graph_runnable": ("post_grad", "Script that runs the graph"),
    "inductor_provenance_tracking_kernel_stack_traces": ("output_code", "Your lines by kernel"),
    "inductor_collective_schedule": ("output_code", "Order of collectives"),
    "triton_kernel_info": ("kernel", "Configurations of kernels"),
}
"""Name of a record → where its document belongs, and what it is called. Others belong to Dynamo, under torch's name."""

_BYTECODE: dict[str, ArtifactKind] = {"_ORIGINAL_BYTECODE": "bytecode_original", "_MODIFIED_BYTECODE": "bytecode_modified"}
"""Ends of names that begin with the function's."""

_NOT_SHOWN = ("describe_storage", "describe_tensor", "describe_source")
"""Records that only serve to make the inputs of a graph again: they are counted, and not shown one by one."""


class OtherRecords:
    """Keeps them, and counts the kinds that are not known here."""

    def __init__(self, writer: SessionWriter, compilations: Compilations) -> None:
        self._writer = writer
        self._compilations = compilations
        self.counted: dict[str, int] = {}

    def add(self, record: Record) -> None:
        name = record.name or "a record without a kind"
        if name in _NOT_SHOWN:
            return
        for end, kind in _BYTECODE.items():
            if name.endswith(end):
                title = f"{kind.removeprefix('bytecode_')} bytecode of {name.removesuffix(end)}"
                self._compilations.add_artifact(record, kind, "dynamo", title, "bytecode", record.payload)
                return
        is_cache = "_cache_" in name
        if name not in _KNOWN and not is_cache:
            self.counted[name] = self.counted.get(name, 0) + 1
        if is_cache:
            self._cache(record, name)
        text = record.payload or json.dumps(record.content, indent=2, ensure_ascii=False)
        language = "json" if text.lstrip()[:1] in ("{", "[") else "text"
        stage, title = _KNOWN.get(name, ("dynamo", name))
        self._compilations.add_artifact(record, "listing", stage, title, language, text)

    def _cache(self, record: Record, name: str) -> None:
        self._writer.add(Metric(0, self._compilations.id(record), "cache_event", json.dumps(name)))
        if name.endswith("_hit") and record.compilation:
            self._compilations.of(record).cache_hits.add(name)
