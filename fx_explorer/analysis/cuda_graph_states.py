"""This module finds whether the graphs of a program that requested CUDA graphs run as CUDA graphs,
and if not, why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.naming import plain_code
from fx_explorer.model.rows.observation import (
    CUDA_GRAPH_HANDED_OVER,
    CUDA_GRAPH_LEFT_OUT,
    CUDA_GRAPH_REASON,
    CUDA_GRAPH_RUNS,
    CUDA_GRAPH_SKIP,
)
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.reports import parse_stack

State = Literal["captured", "in parts", "not recorded", "skipped", "not known"]
"""State of a graph. ``captured``: recorded while the program ran. ``in parts``: the same, except
for some operators. ``not recorded``: it ran, but no sizes occurred twice, when torch would record
it. ``skipped``: torch does not record it. ``not known``: it did not run on a GPU.
"""

MODES = ("reduce-overhead", "max-autotune")
"""The modes of torch.compile that ask for CUDA graphs."""

_SIZE = re.compile(r"Sym\((\w+)\)")

_NO_GRAPH = re.compile(r"(?:(?:skipping|disabling) cudagraphs due to )+")
"""Text that torch puts before a reason, even where the reason already begins with it."""

SKIPS_IN = (CUDA_GRAPH_SKIP, "compilation_metrics", "bwd_compilation_metrics")
"""Records with torch's reason for skipping a graph: a message that it printed, and metrics that
have the same words.
"""


@dataclass(frozen=True, slots=True)
class CudaGraphReason:
    """Why a graph or operator is not recorded, with the user's line if torch knows it."""

    text: str
    file: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True, slots=True)
class CudaGraph:
    """A CudaGraph describes what torch did with one compiled graph: whether it was recorded as a
    CUDA graph, how often, or why it was skipped.
    """

    name: str
    """``[0/0] forward``; ``[0/0]`` where the direction is not known."""
    state: State = "not known"
    reasons: tuple[CudaGraphReason, ...] = ()
    """Why it is skipped; ``in parts``: why operators are left out of the recording."""
    parts: int | None = None
    """Number of its recorded parts; None if torch does not split it."""
    recorded: int = 0
    """How often it was recorded: once for each size, and for each graph that it may run after."""
    replayed: int = 0
    sizes: int = 0
    """Number of sizes that it was called with; 0 where that is not known."""
    why_again: tuple[str, ...] = ()
    mutated: str = ""
    """Torch's words about inputs that it writes into, which decide when it runs; empty without."""
    changing: tuple[str, ...] = ()
    """Its input sizes that may change from call to call: ``size 0 of x``."""


@dataclass(frozen=True, slots=True)
class CudaGraphs:
    asked: str = ""
    """The option that requests CUDA graphs: ``mode="reduce-overhead"``; empty if none was seen."""
    graphs: tuple[CudaGraph, ...] = ()
    has_run: bool = False
    """Whether torch was seen to run any of them on a GPU, and so to record it or not."""


def cuda_graphs(reader: SessionReader) -> CudaGraphs:
    """Return the facts about CUDA graphs; empty if the program did not request them."""
    graphs = _handed_over(reader)
    for name, reason in _skips(reader):
        names = [graph for graph in graphs if _is_of(graph, name)]
        for graph_name in names or [name]:
            known = graphs.get(graph_name, CudaGraph(graph_name))
            if reason not in known.reasons:
                reasons = (*known.reasons, reason)
                graphs[graph_name] = replace(known, state="skipped", reasons=reasons)
    for name, reason in _left_out(reader):
        for graph_name in [graph for graph in graphs if _is_of(graph, name)]:
            known = graphs[graph_name]
            if known.state != "skipped" and reason not in known.reasons:
                graphs[graph_name] = replace(known, reasons=(*known.reasons, reason))
    for name, known in graphs.items():
        if known.parts == 0 and known.reasons:
            graphs[name] = replace(known, state="skipped")
    for row in _values(reader, CUDA_GRAPH_RUNS):
        name = str(row.get("graph", ""))
        known = graphs.get(name, CudaGraph(name))
        if known.state == "skipped":
            continue
        recorded = _number(row, "recorded")
        state: State = "not recorded"
        if recorded:
            state = "in parts" if known.reasons else "captured"
        graphs[name] = replace(
            known,
            state=state,
            recorded=recorded,
            replayed=_number(row, "replayed"),
            sizes=_number(row, "sizes"),
            why_again=_texts(row.get("why_again")),
        )
    has_run = any(graph.recorded or graph.sizes for graph in graphs.values())
    return CudaGraphs(_asked(reader), tuple(graphs.values()), has_run)


def _is_of(graph: str, name: str) -> bool:
    return graph == name or graph.startswith(f"{name} ")


def _asked(reader: SessionReader) -> str:
    """Return the option that requests CUDA graphs, as the user writes it; empty without one."""
    for row in reader.rows(model.OptionInForce, name="compile.mode"):
        mode = _json(row.value)
        if mode in MODES:
            return f'mode="{mode}"'
    for row in reader.rows(model.OptionInForce, name="compile.options"):
        options = _json(row.value)
        if isinstance(options, dict) and options.get("triton.cudagraphs"):
            return "triton.cudagraphs"
    if reader.count(model.Metric, name=CUDA_GRAPH_HANDED_OVER):
        return "triton.cudagraphs"
    return ""


def _handed_over(reader: SessionReader) -> dict[str, CudaGraph]:
    names = _names(reader)
    graphs: dict[str, CudaGraph] = {}
    for compilation, value in _rows(reader, CUDA_GRAPH_HANDED_OVER):
        name = f"{names.get(compilation, 'a graph')} {value.get('direction', '')}".strip()
        parts = value.get("parts")
        if not isinstance(parts, int):
            parts = None
        graphs[name] = CudaGraph(
            name,
            parts=parts,
            mutated=str(value.get("mutated") or ""),
            changing=_changing(reader, compilation, str(value.get("direction", ""))),
        )
    return graphs


def _changing(reader: SessionReader, compilation: int, direction: str) -> tuple[str, ...]:
    """Return the sizes that a graph takes as inputs, in words."""
    taken = set()
    for graph in reader.rows(model.Graph, compilation=compilation, stage="post_grad"):
        if graph.direction == direction:
            inputs = reader.rows(model.Node, graph=graph.id, op="placeholder")
            taken |= {match[1] for node in inputs if (match := _SIZE.fullmatch(node.value))}
    if not taken:
        return ()
    owners = reader.by_ids(model.Compilation, [compilation])
    owner = owners[0] if owners else None
    symbols = reader.rows(model.Symbol, compilation=compilation)
    return tuple(plain_code(symbol.source, owner) for symbol in symbols if symbol.name in taken)


def _skips(reader: SessionReader) -> Iterator[tuple[str, CudaGraphReason]]:
    """Yield each graph that is skipped, with the reason."""
    names = _names(reader)
    seen: set[tuple[str, CudaGraphReason]] = set()
    for kind in SKIPS_IN:
        for row in reader.rows(model.Metric, name=kind):
            if CUDA_GRAPH_REASON not in row.value:
                continue
            value = _json(row.value)
            if not isinstance(value, dict):
                continue
            text = value.get(CUDA_GRAPH_REASON)
            if not isinstance(text, str):
                continue
            name = str(value.get("graph", "")) or names.get(row.compilation, "a graph")
            skip = name, skip_reason(text)
            if skip not in seen:
                seen.add(skip)
                yield skip


def skip_reason(text: str) -> CudaGraphReason:
    """Return the reason in torch's message:
    ``skipping cudagraphs due to mutated inputs (1 instances). Found from :``, with a stack below.
    """
    first = " ".join(text.partition("\n")[0].split())
    why = _NO_GRAPH.sub("", first, count=1)
    return _with_line(why.partition(" Found from")[0].strip(" .:"), text)


def _left_out(reader: SessionReader) -> Iterator[tuple[str, CudaGraphReason]]:
    names = _names(reader)
    for compilation, value in _rows(reader, CUDA_GRAPH_LEFT_OUT):
        reason = _with_line(str(value.get("reason", "")), str(value.get("stack", "")))
        yield names.get(compilation, "a graph"), reason


def _with_line(why: str, stack: str) -> CudaGraphReason:
    frames = parse_stack(f"{stack}\n")
    if not frames:
        return CudaGraphReason(why)
    return CudaGraphReason(why, frames[-1].file, frames[-1].line, frames[-1].code)


def _names(reader: SessionReader) -> dict[int, str]:
    return {row.id: f"[{row.name}]" for row in reader.rows(model.Compilation)}


def _values(reader: SessionReader, name: str) -> Iterator[dict[str, object]]:
    for _, value in _rows(reader, name):
        yield value


def _rows(reader: SessionReader, name: str) -> Iterator[tuple[int, dict[str, object]]]:
    for row in reader.rows(model.Metric, name=name):
        value = _json(row.value)
        if isinstance(value, dict):
            yield row.compilation, value


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(map(str, value))


def _number(value: dict[str, object], name: str) -> int:
    number = value.get(name)
    return number if isinstance(number, int) else 0
