"""This module finds the kernels of the backward that read a saved tensor: those to whose calls the
wrapper gives it, also as a view or under another name.

What is read follows from the wrapper that Inductor wrote, replayed statement by statement, and from
the names of a kernel's parameters: it writes an ``out_ptr``, reads an ``in_ptr`` and does both with
an ``in_out_ptr`` (torch/_inductor/codegen/common.py, ``KernelArgs``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import document_of
from fx_explorer.analysis.lineage import saving_variant, variants_in_use
from fx_explorer.analysis.words import listed, size
from fx_explorer.instruments.memory.graph_memory import (
    GraphMemory,
    WrapperKernelCall,
    graph_memory,
)
from fx_explorer.instruments.memory.replay import Replayed, TakenStorage
from fx_explorer.instruments.memory.session_memory import lowered_graphs, only_code
from fx_explorer.instruments.memory.sizes import UnreadableCode
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import calls_in_output_code, calls_of_output_code
from fx_explorer.session.reader import answered_once
from fx_explorer.torch_texts import bounded


@dataclass(frozen=True, slots=True)
class ReadingKernel:
    """A kernel of the backward that reads a saved tensor."""

    kernel: int
    """Id of the Kernel."""
    name: str
    line: str
    """The user's line whose backward most of it computes, ``model.py:12``; empty where it is not
    known.
    """
    code_line: int
    """Line of the backward's output code that calls it, from 1."""
    code_at: str = ""
    """The same with the text's name: ``[0/0] Output code · backward:812``."""
    works_in_place: bool = False
    """Whether it writes its result into the tensor's memory."""
    is_last: bool = False
    """Whether the memory is freed after it, and no later kernel is given it."""


@answered_once
def kernels_reading_saved(reader: SessionReader) -> dict[int, list[ReadingKernel]]:
    """Return row of a SavedTensor → the kernels that read it, in the order of the calls. A tensor
    is left out if the code of its backward is not known or cannot be read; a list is empty if no
    kernel is given the tensor.
    """
    readers: dict[int, list[ReadingKernel]] = {}
    paths = source_paths(reader)
    for compilation in variants_in_use(reader):
        saved_as = saving_variant(reader, compilation).id
        saved = reader.rows(model.SavedTensor, compilation=saved_as)
        if not saved:
            continue
        backward = _backward(reader, compilation)
        if backward is not None:
            readers.update(_readers(reader, backward, saved, paths))
    return readers


@dataclass(frozen=True, slots=True)
class _Backward:
    memory: GraphMemory
    kernels: Mapping[int, int]
    """Line of a call → id of the Kernel."""
    parameters: Mapping[int, Sequence[str]]
    """Line of a call → the parameters of its kernel; a library call is left out."""
    code: str
    """Name of the text of its output code."""


def _backward(reader: SessionReader, compilation: model.Compilation) -> _Backward | None:
    """Return the replayed backward of a compilation; None where there is none to read."""
    for lowered in lowered_graphs(reader, compilation):
        if lowered.direction != "backward":
            continue
        try:
            code = only_code(lowered.codes, compilation)
            memory = graph_memory(reader, compilation, lowered.graph, code)
        except UnreadableCode:
            return None
        kernels = dict(calls_of_output_code(reader, code.id))
        title = document_of(reader, "artifact", code.id).full_title
        return _Backward(memory, kernels, _parameters_by_call(reader, code), title)
    return None


def _parameters_by_call(reader: SessionReader, code: model.Artifact) -> dict[int, tuple[str, ...]]:
    rows = calls_in_output_code(reader, code.id)
    wanted = {artifact for _, _, artifact, _ in rows if artifact}
    sources = {row.id: reader.text(row.text) for row in reader.by_ids(model.Artifact, wanted)}
    parameters = {artifact: parameters_of(source) for artifact, source in sources.items()}
    return {line: parameters[artifact] for line, _, artifact, _ in rows if artifact in parameters}


_CPP = re.compile(r'extern "C"[^\n(]{0,1000}\((?P<parameters>[^)]*)\)')
_TRITON = re.compile(r"^def \w+\((?P<parameters>[^)]*)\):", re.MULTILINE)


def parameters_of(source: str) -> tuple[str, ...]:
    """Return the names of the parameters of a kernel in C++ or Triton; empty where they cannot be
    found.
    """
    text = bounded(source)
    match = _CPP.search(text) or _TRITON.search(text)
    if match is None:
        return ()
    names = []
    for parameter in match["parameters"].split(","):
        words = re.findall(r"\w+", parameter.partition(":")[0])
        names.append(words[-1] if words else "")
    return tuple(names)


def _readers(
    reader: SessionReader,
    backward: _Backward,
    saved: Iterable[model.SavedTensor],
    paths: Mapping[int, str],
) -> Iterator[tuple[int, list[ReadingKernel]]]:
    by_argument = _kernels_by_argument(backward, paths)
    saved = list(saved)
    consumers = {row.id: row for row in reader.by_ids(model.Node, [s.consumer for s in saved])}
    for row in saved:
        consumer = consumers.get(row.consumer)
        name = consumer.name if consumer else row.name
        if name in backward.memory.arguments:
            yield row.id, by_argument.get(name, [])


def _kernels_by_argument(
    backward: _Backward, paths: Mapping[int, str]
) -> dict[str, list[ReadingKernel]]:
    memory = backward.memory
    storages = memory.replayed.storages
    kernels: dict[str, list[ReadingKernel]] = {}
    last_taken = _last_lines(memory.replayed)
    for step in memory.replayed.kernels:
        call = memory.calls.get(step.line)
        if call is None:
            continue
        parameters = backward.parameters.get(step.line, ())
        read = [taken for taken in step.takes if _is_read(taken, parameters)]
        for storage in dict.fromkeys(taken.storage for taken in read):
            if storages[storage].is_argument:
                kernel = ReadingKernel(
                    backward.kernels[step.line],
                    call.name,
                    _line_of(call, paths),
                    step.line,
                    code_at=f"{backward.code}:{step.line}",
                    works_in_place=_is_written(storage, read, parameters),
                    is_last=storages[storage].dies is not None
                    and last_taken.get(storage) == step.line,
                )
                kernels.setdefault(storages[storage].name, []).append(kernel)
    return kernels


def _last_lines(replayed: Replayed) -> dict[int, int]:
    """Return storage → the line of the last kernel call that is given it."""
    return {taken.storage: step.line for step in replayed.kernels for taken in step.takes}


def _is_written(storage: int, read: Iterable[TakenStorage], parameters: Sequence[str]) -> bool:
    """Return whether one of the arguments with this storage is read and written."""
    names = [
        parameters[taken.argument]
        for taken in read
        if taken.storage == storage and 0 <= taken.argument < len(parameters)
    ]
    return any(name.startswith("in_out_ptr") for name in names)


def _is_read(taken: TakenStorage, parameters: Sequence[str]) -> bool:
    """Return whether a call reads what an argument held before."""
    name = ""
    if 0 <= taken.argument < len(parameters):
        name = parameters[taken.argument]
    if name.startswith("out_ptr"):
        return False
    return name.startswith("in_out_ptr") or not taken.is_reused


def _line_of(call: WrapperKernelCall, paths: Mapping[int, str]) -> str:
    """Return the user's line of most of the nodes that a call computes."""
    places = Counter((node.file, node.line) for node in call.nodes if node.file in paths)
    for (file, line), _ in places.most_common(1):
        return in_file(paths[file], line)
    return ""


def describe_readers(kernels: Sequence[ReadingKernel] | None) -> str:
    """Return ``cpp_fused_tanh_2 (model.py:12) and extern_kernels.mm (model.py:14)``."""
    if kernels is None:
        return "unknown kernels: the code of the backward cannot be read"
    if not kernels:
        return "no kernel: the backward returns it, or needs only its size"
    names = dict.fromkeys(_shown_name(kernel) for kernel in kernels)
    return listed(names, len(names))


def _shown_name(kernel: ReadingKernel) -> str:
    return f"{kernel.name} ({kernel.line})" if kernel.line else kernel.name


def saved_as(reader: SessionReader, node: model.Node) -> model.SavedTensor | None:
    """Return the saved tensor that a node of the forward computes, or that an input of the backward
    is; None for any other node.
    """
    rows = _saved_by_node(reader)
    if not rows:
        return None
    nodes = [node.id, *(link.parent for link in reader.parents([node.id]))]
    return next((rows[near] for near in nodes if near in rows), None)


@answered_once
def _saved_by_node(reader: SessionReader) -> dict[int, model.SavedTensor]:
    rows = {}
    for row in reader.rows(model.SavedTensor):
        rows[row.producer] = rows[row.consumer] = row
    rows.pop(0, None)
    return rows


def describe_saved_node(reader: SessionReader, node: model.Node) -> str:
    """Return a sentence on a node whose value is saved for the backward, with the kernels that read
    it there; empty for any other node.
    """
    saved = saved_as(reader, node)
    if saved is None:
        return ""
    kernels = kernels_reading_saved(reader).get(saved.id)
    return (
        f"Saved for the backward ({size(saved.size_bytes)}), where it is read by "
        f"{describe_readers(kernels)}."
    )


def saved_read_by(reader: SessionReader, kernel: int) -> list[model.SavedTensor]:
    """Return the saved tensors that a kernel of the backward reads."""
    rows = []
    for saved, kernels in kernels_reading_saved(reader).items():
        if any(reading.kernel == kernel for reading in kernels):
            rows.append(saved)
    return sorted(reader.by_ids(model.SavedTensor, rows), key=lambda row: -row.size_bytes)
