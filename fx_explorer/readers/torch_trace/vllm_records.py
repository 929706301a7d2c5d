"""What vLLM adds to a log: how it cut the graph into pieces, and for which numbers of tokens it compiles each.

vllm/compilation/backends.py and piecewise_backend.py write them: ``vllm_compilation_config``, ``vllm_piecewise_split_graph``,
``vllm_piecewise_compile_start`` before each compile of a piece, ``vllm_submod_N`` (``vllm_subgraph_N`` before)
once for a piece, and ``vllm_post_grad.N.PASS`` and ``vllm_patterns.PASS`` for its own passes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.torch_texts.printed_graph import PrintedGraph, read_graphs

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
    """One compile of a piece."""

    piece: str
    tokens: str
    start_s: float
    cache: str = ""
    end_s: float = 0.0


@dataclass(slots=True)
class _Pieces:
    """What is known of one graph that vLLM cut."""

    first: Record
    nodes: dict[str, int] = field(default_factory=dict)
    """Piece → its operations."""
    shapes: dict[str, str] = field(default_factory=dict)
    """Piece → what is equal for pieces that compute the same on tensors of the same sizes."""
    compiles: list[_Compile] = field(default_factory=list)


class VllmRecords:
    """Makes documents of them, and one that sums them up."""

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
        language = (
            "python"
            if record.kind == "graph_dump"
            else "json"
            if record.payload.lstrip()[:1] in ("{", "[")
            else "text"
        )
        title = _TITLES.get(name) or f"vLLM: {name.removeprefix('vllm_')}"
        self._compilations.add_artifact(
            record, "listing", "dynamo", title, language, record.payload
        )

    def follow(self, record: Record) -> None:
        """Note a record that may belong to the compile of a piece: what the cache said, and that it went on until then."""
        pieces = self._found.get(self._compilations.id(record))
        if not pieces or not pieces.compiles:
            return
        last = pieces.compiles[-1]
        last.end_s = record.seconds
        name, _, said = record.name.rpartition("_cache_")
        if name in ("fx_graph", "aotautograd") and said in _CACHE_WORDS and last.cache != "hit":
            last.cache = said

    def _start(self, record: Record, pieces: _Pieces) -> None:
        content = json.loads(record.payload)
        piece = str(content.get("submod_name") or f"submod_{content.get('piecewise_index')}")
        first, last = content.get("compile_range_start"), content.get("compile_range_end")
        tokens = f"{first}" if content.get("is_single_size") else f"{first} to {last}"
        tokens += ", captured as a CUDA graph" if content.get("is_cudagraph_capture_size") else ""
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
        """Write the summaries."""
        for compilation, pieces in self._found.items():
            self._compilations.parts.pop(compilation, None)
            text = "\n".join(_summary(pieces))
            if text:
                self._compilations.add_artifact(
                    pieces.first, "listing", "dynamo", "vLLM's pieces", "text", text
                )


def _summary(pieces: _Pieces) -> list[str]:
    lines = []
    compiled = dict.fromkeys(one.piece for one in pieces.compiles)
    kinds: dict[str, list[str]] = {}
    for name, shape in pieces.shapes.items():
        kinds.setdefault(shape, []).append(name)
    if pieces.nodes:
        lines += [
            f"vLLM cut the graph into {len(pieces.nodes)} pieces, {len(kinds)} of them different. It compiles "
            f"{len(compiled)}, and runs the others as they are.",
            "",
            *(_equal_line(names, pieces.nodes[names[0]]) for names in kinds.values()),
            "",
        ]
    if pieces.compiles:
        spent = sum(max(0.0, one.end_s - one.start_s) for one in pieces.compiles)
        hits = sum(one.cache == "hit" for one in pieces.compiles)
        lines += [
            f"{len(pieces.compiles)} compiles took {spent:.2f} s in all; {hits} were answered by the cache.",
            "",
            *(_compile_line(one) for one in pieces.compiles),
        ]
    return lines


def _compile_line(one: _Compile) -> str:
    cache = _CACHE_WORDS.get(one.cache, "the log does not say what the cache did")
    return f"{one.piece:<12} tokens {one.tokens:<40} {max(0.0, one.end_s - one.start_s):8.2f} s   {cache}"


def _equal_line(names: list[str], operations: int) -> str:
    what = f"{operations} operation{'' if operations == 1 else 's'}"
    return f"{', '.join(names)}: {what}{', equal' if len(names) > 1 else ''}"


def _shape(graph: PrintedGraph) -> str:
    """Return a digest of what a piece computes: operations, sizes, and which takes what. Names do not count."""
    number = {node.name: i for i, node in enumerate(graph.nodes)}
    told: list[Any] = [
        (
            node.op,
            "" if node.op == "placeholder" else node.target,
            node.dtype,
            node.shape,
            [number[name] for name in node.inputs],
        )
        for node in graph.nodes
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
