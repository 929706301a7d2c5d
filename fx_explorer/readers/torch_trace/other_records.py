"""This module turns records without a view of their own into documents: settings, caches, tables,
and records of newer torch releases.

vLLM's own come from vllm/compilation/backends.py and piecewise_backend.py:
``vllm_compilation_config``, ``vllm_piecewise_split_graph``, ``vllm_piecewise_compile_start`` before
each compile of a piece, ``vllm_submod_N`` (``vllm_subgraph_N`` before) once for a piece, and
``vllm_post_grad.N.PASS`` and ``vllm_patterns.PASS`` for its own passes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from fx_explorer.model import ArtifactKind, Metric, Stage
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.option_records import FUNCTORCH_CONFIG
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.printed_graph import PrintedGraph, read_graphs

_KNOWN: dict[str, tuple[Stage, str]] = {
    "dynamo_side_effects": ("dynamo", "Side effects"),
    "optimize_ddp_split_graph": ("dynamo", "Graph split for DDP"),
    "optimize_ddp_split_child": ("dynamo", "Part of the graph split for DDP"),
    "before_pre_grad_graph": ("pre_grad", "Before the pre-grad passes"),
    "runtime_wrapper_orchestration": ("joint", "AOTAutograd's wrapper"),
    "compiled_fn_wrapper": ("joint", "Wrapper of the compiled function"),
    "compiled_function_forward": ("joint", "Forward of the autograd function"),
    "compiled_function_backward": ("joint", "Backward of the autograd function"),
    "backward_prologue": ("joint", "Code that runs before the backward graph"),
    "backward_epilogue": ("joint", "Code that runs after the backward graph"),
    "make_fx_fail_partial": ("joint", "Graph up to the error"),
    "aot_forward_graph_fw_metadata": ("joint", "AOTAutograd's metadata"),
    FUNCTORCH_CONFIG: ("joint", "AOTAutograd's settings"),
    "before_joint_graph": ("joint", "Before the joint passes"),
    "before_post_grad_graph": ("post_grad", "Before the post-grad passes"),
    "fx_graph_runnable": ("post_grad", "Script that runs the graph"),
    "inductor_provenance_tracking_kernel_stack_traces": ("output_code", "Your lines by kernel"),
    "inductor_collective_schedule": ("output_code", "Order of collectives"),
    "triton_kernel_info": ("kernel", "Configurations of kernels"),
    "dynamo_guards": ("dynamo", "Guards, with the lines they come from"),
    "compiled_autograd_graph": ("dynamo", "Graph of compiled autograd"),
    "compiled_autograd_graph_pre_reordering": (
        "dynamo",
        "Graph of compiled autograd, before reordering",
    ),
    "compiled_autograd_compile_reasons": ("dynamo", "Why compiled autograd compiled"),
    "compiler_collective": ("dynamo", "Messages between the ranks"),
    "guard_on_data_dependent_error": ("dynamo", "A size that depends on data"),
    "get_local_code_state": ("dynamo", "Sizes that were dynamic in earlier runs"),
    "get_remote_code_state": (
        "dynamo",
        ("Sizes that were dynamic in earlier runs, of a remote cache"),
    ),
    "put_local_code_state": ("dynamo", "Dynamic sizes, stored for later runs"),
    "put_remote_code_state": (
        "dynamo",
        "Dynamic sizes, stored for later runs in a remote cache",
    ),
    "export": ("dynamo", "torch.export"),
    "before_recompile_pre_grad": ("pre_grad", "Before the pre-grad passes"),
    "after_recompile_pre_grad": ("pre_grad", "After the pre-grad passes"),
    "min_cut_information": ("joint", "What the partitioner weighed"),
    "aot_forward_graph_fw_subclass_metadata": (
        "joint",
        "AOTAutograd's metadata of tensor subclasses",
    ),
    "aot_inference_graph_after_hop_passes": (
        "forward",
        "After the passes over higher-order operators",
    ),
    "aot_saved_tensors_hooks_graphs": ("joint", "Graphs of hooks for saved tensors"),
    "eager_compile_backwards_failure": (
        "backward",
        "Why the backward was not compiled with the forward",
    ),
    "before_recompile_post_grad": ("post_grad", "Before the post-grad passes"),
    "after_recompile_post_grad": ("post_grad", "After the post-grad passes"),
    "inductor_post_to_pre_grad_nodes": ("post_grad", "The nodes from which each node was made"),
    "inductor_triton_kernel_to_post_grad_nodes": ("output_code", "What each kernel computes"),
    "inductor_runtime_and_tensor_meta": (
        "output_code",
        "Estimated times, and the tensors of each step",
    ),
    "inductor_graph_execution": ("output_code", "Order in which graphs ran"),
    "graph_execution": ("output_code", "Order in which graphs ran"),
    "inductor_aot_header_code": ("output_code", "Header of the generated C++"),
    "inductor_autotune_at_compile_time_code": ("output_code", "What is timed when it is compiled"),
    "fx_compute_nodes_runtime_estimation": ("post_grad", "Estimated times of nodes"),
    "inductor_spmd_graph_mismatch": ("post_grad", "Ranks whose graphs differ"),
    "scheduler_nodes_before_comm_overlap": ("schedule", "Before collectives are moved"),
    "overlap_scheduling_graph_before": ("post_grad", "Before collectives are moved"),
    "overlap_scheduling_graph_after": ("post_grad", "After collectives were moved"),
    "fx_bucketing_passes_all_gather_buckets": ("post_grad", "All-gathers merged into one"),
    "fx_bucketing_passes_reduce_scatter_buckets": (
        "post_grad",
        "Reduce-scatters merged into one",
    ),
}
"""Name of a record → the stage and title of its document. Others belong to Dynamo, under torch's
name.
"""

_BYTECODE: dict[str, ArtifactKind] = {
    "_ORIGINAL_BYTECODE": "bytecode_original",
    "_MODIFIED_BYTECODE": "bytecode_modified",
}
"""Suffix of a record's name, which begins with the function's → kind of the text."""

_STAGE_OF_CACHE: dict[str, Stage] = {"aotautograd": "joint", "fx_graph": "post_grad"}
"""Beginning of a cache record's name → the stage it is about."""

_NOT_SHOWN = ("describe_storage", "describe_tensor", "describe_source")
"""Records that only serve to recreate the inputs of a graph: they are counted, and not shown one by
one.
"""


class OtherRecords:
    """Keeps records of further kinds as documents, and counts those of unknown kinds."""

    def __init__(self, writer: SessionWriter, compilations: Compilations) -> None:
        self._writer = writer
        self._compilations = compilations
        self.vllm = VllmRecords(compilations)
        self.counted: dict[str, int] = {}

    def add(self, record: Record) -> None:
        name = record.name or "a record without a kind"
        if name in _NOT_SHOWN:
            return
        if name.startswith("vllm_"):
            self.vllm.add(record)
            return
        self.vllm.follow(record)
        for end, kind in _BYTECODE.items():
            if name.endswith(end):
                title = f"{kind.removeprefix('bytecode_')} bytecode of {name.removesuffix(end)}"
                self._compilations.add_artifact(
                    record, kind, "dynamo", title, "bytecode", record.payload
                )
                return
        is_cache = "_cache_" in name
        if name not in _KNOWN and not is_cache:
            self.counted[name] = self.counted.get(name, 0) + 1
        if is_cache:
            self._cache(record, name)
        elif name == FUNCTORCH_CONFIG:
            self._compilations.options.add("functorch", record.payload)
        text = record.payload or json.dumps(record.content, indent=2, ensure_ascii=False)
        language = "json" if text.lstrip()[:1] in ("{", "[") else "text"
        stage, title = _KNOWN.get(
            name, (_STAGE_OF_CACHE.get(name.partition("_cache_")[0], "dynamo"), name)
        )
        self._compilations.add_artifact(record, "listing", stage, title, language, text)

    def _cache(self, record: Record, name: str) -> None:
        self._writer.add(Metric(0, self._compilations.id(record), "cache_event", json.dumps(name)))
        state = self._compilations.state(record)
        if name.endswith("_hit") and state:
            state.cache_hits.add(name)


# What vLLM adds to a log: the pieces that it cut a graph into.

_TITLES = {
    "vllm_compilation_config": "vLLM's configuration",
    "vllm_piecewise_split_graph": "vLLM: the graph in pieces",
    "vllm_compile_event": "vLLM: what is compiled",
}

_CACHE_WORDS = {
    "hit": "from the cache",
    "miss": "not in the cache",
    "bypass": "the cache was not asked",
}


@dataclass(slots=True)
class _Compile:
    """One compile of a piece of vLLM's graph."""

    piece: str
    tokens: str
    start_s: float
    cache: str = ""
    end_s: float = 0.0


@dataclass(slots=True)
class _Pieces:
    """vLLM's pieces of one graph, in the part of the log that has been read."""

    first: Record
    nodes: dict[str, int] = field(default_factory=dict)
    """Piece → its operations."""
    shapes: dict[str, str] = field(default_factory=dict)
    """Piece → a key that is equal for pieces with the same computation on the same sizes."""
    compiles: list[_Compile] = field(default_factory=list)


class VllmRecords:
    """Makes documents from vLLM's records, and one summary per graph."""

    def __init__(self, compilations: Compilations) -> None:
        self._compilations = compilations
        self._found: dict[int, _Pieces] = {}

    def add(self, record: Record) -> None:
        name = record.name
        pieces = self._found.setdefault(self._compilations.id(record), _Pieces(record))
        if name == "vllm_piecewise_compile_start":
            self._start(record, pieces)
            return
        if name == "vllm_piecewise_split_graph":
            self._split(record, pieces)
        if record.kind == "graph_dump":
            language = "python"
        elif record.payload.lstrip()[:1] in ("{", "["):
            language = "json"
        else:
            language = "text"
        title = _TITLES.get(name) or f"vLLM: {name.removeprefix('vllm_')}"
        self._compilations.add_artifact(
            record, "listing", "dynamo", title, language, record.payload
        )

    def follow(self, record: Record) -> None:
        """Note a record that may belong to the compile of a piece: the answer of the cache, and
        that the compile lasted until then.
        """
        pieces = self._found.get(self._compilations.id(record))
        if not pieces or not pieces.compiles:
            return
        last = pieces.compiles[-1]
        last.end_s = record.seconds
        name, _, outcome = record.name.rpartition("_cache_")
        if name in ("fx_graph", "aotautograd") and outcome in _CACHE_WORDS and last.cache != "hit":
            last.cache = outcome

    def _start(self, record: Record, pieces: _Pieces) -> None:
        content = json.loads(record.payload)
        piece = str(content.get("submod_name") or f"submod_{content.get('piecewise_index')}")
        first, last = content.get("compile_range_start"), content.get("compile_range_end")
        if content.get("is_single_size"):
            tokens = f"{first}"
        else:
            tokens = f"{first} to {last}"
        if content.get("is_cudagraph_capture_size"):
            tokens += ", captured as a CUDA graph"
        if pieces.compiles:
            pieces.compiles[-1].end_s = max(pieces.compiles[-1].end_s, record.seconds)
        pieces.compiles.append(_Compile(piece, tokens, record.seconds))
        self._compilations.parts[self._compilations.id(record)] = f"{piece}, tokens {tokens}"

    def _split(self, record: Record, pieces: _Pieces) -> None:
        for graph in read_graphs(record.payload)[:1]:
            for child in graph.children:
                pieces.nodes[child.name] = sum(node.op.startswith("call_") for node in child.nodes)
                pieces.shapes[child.name] = _shape(child)

    def finish(self) -> None:
        """Write the summary of each graph that vLLM cut into pieces."""
        for compilation, pieces in self._found.items():
            self._compilations.parts.pop(compilation, None)
            text = "\n".join(_summary(pieces))
            if text:
                self._compilations.add_artifact(
                    pieces.first, "listing", "dynamo", "vLLM's pieces", "text", text
                )


def _summary(pieces: _Pieces) -> list[str]:
    lines = []
    compiled = dict.fromkeys(compile_record.piece for compile_record in pieces.compiles)
    kinds: dict[str, list[str]] = {}
    for name, shape in pieces.shapes.items():
        kinds.setdefault(shape, []).append(name)
    if pieces.nodes:
        lines += [
            f"vLLM split the graph into {len(pieces.nodes)} pieces, of which {len(kinds)} are "
            f"different. It compiles {len(compiled)}, and runs the others in eager mode.",
            "",
        ]
        lines += [_equal_line(names, pieces.nodes[names[0]]) for names in kinds.values()]
        lines.append("")
    if pieces.compiles:
        spent = sum(map(_seconds_of, pieces.compiles))
        hits = sum(compile_record.cache == "hit" for compile_record in pieces.compiles)
        lines += [
            (
                f"{len(pieces.compiles)} compiles took {spent:.2f} s in all; {hits} came from the "
                "cache."
            ),
            "",
        ]
        lines += [_compile_line(compile_record) for compile_record in pieces.compiles]
    return lines


def _seconds_of(compile_record: _Compile) -> float:
    return max(0.0, compile_record.end_s - compile_record.start_s)


def _compile_line(compile_record: _Compile) -> str:
    cache = _CACHE_WORDS.get(compile_record.cache, "the log does not have the cache's answer")
    return (
        f"{compile_record.piece:<12} tokens {compile_record.tokens:<40} "
        f"{_seconds_of(compile_record):8.2f} s   {cache}"
    )


def _equal_line(names: list[str], operations: int) -> str:
    noun = "operation" if operations == 1 else "operations"
    equal = ", equal" if len(names) > 1 else ""
    return f"{', '.join(names)}: {operations} {noun}{equal}"


def _shape(graph: PrintedGraph) -> str:
    """Return a digest of a piece's computation: operations, sizes, and their inputs. Names do not
    count.
    """
    number = {node.name: i for i, node in enumerate(graph.nodes)}
    computed: list[Any] = []
    for node in graph.nodes:
        target = "" if node.op == "placeholder" else node.target
        inputs = [number[name] for name in node.inputs]
        computed.append((node.op, target, node.dtype, node.shape, inputs))
    return hashlib.sha256(json.dumps(computed).encode()).hexdigest()
