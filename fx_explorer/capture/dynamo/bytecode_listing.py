"""This module lists the bytecode before and after Dynamo, with jumps drawn as arrows, source lines
between the instructions, and explanations of Dynamo's generated names.

Hooks: ``convert_frame.register_bytecode_hook``, and ``OutputGraph.install_global_unsafe``
(torch/_dynamo/output_graph.py), through which a resume function gets the name that the bytecode
calls it by.

A line that went into the graph as a whole has no instruction left: the call of the graph is all
there is of it.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fx_explorer.capture.dynamo.bytecode_as_python import bytecode_as_python
from fx_explorer.capture.dynamo.bytecode_gutter import gutter
from fx_explorer.capture.dynamo.bytecode_instructions import (
    BytecodeInstruction,
    handled,
    instructions,
    stack_depths,
)
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.dynamo_code import RESUME, RecordedBytecode
from fx_explorer.capture.recording.function_names import (
    is_wrapper,
    name_of_compiled,
    qualified_name,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import OutputGraph, register_bytecode_hook
from fx_explorer.model import ArtifactKind, LineNode, LineSource

_UUID = re.compile(r"(?<=__compiled_fn_)(\d+)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b")
_MADE_UP = re.compile(
    r"\b(?:__compiled_fn_\w+|__resume_at_\w+|__import_\w+|__builtins_dict__\w*|graph_out_\d+)\b"
)
WIDEST_OPNAME = 15
"""Width of the column of opcode names. A longer name pushes its argument to the right: there are
three panes on a screen.
"""


@dataclass(frozen=True, slots=True)
class ListingRow:
    """One line of a bytecode listing."""

    text: str
    line: int
    """The source line of the row; 0 for none."""
    offset: int = -1
    """Offset of the instruction; -1 for a row without one."""


def resume_name_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Fill ``recording.dynamo_bytecode.resume_names`` while Dynamo installs its globals."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def install_global_unsafe(self: Any, name: str, value: Any) -> Any:
            with recording.noting("the name of a resume function", "dynamo"):
                code = _resumed_code(value)
                if code is not None:
                    recording.dynamo_bytecode.resume_names[name] = code.co_name
            return original(self, name, value)

        return install_global_unsafe

    return patched(OutputGraph, "install_global_unsafe", make)


def _resumed_code(value: object) -> types.CodeType | None:
    """Return the code of a resume function, or of the function that makes one when it is called
    with the variables they share.
    """
    if not isinstance(value, types.FunctionType):
        return None
    if RESUME.match(value.__code__.co_name):
        return value.__code__
    for cell in value.__closure__ or ():
        content = cell.cell_contents
        if isinstance(content, types.CodeType) and RESUME.match(content.co_name):
            return content
    return None


@contextlib.contextmanager
def bytecode_hook(recording: Recording) -> Iterator[None]:
    def hook(original: types.CodeType, modified: types.CodeType) -> None:
        with recording.noting("bytecode", "dynamo"):
            name = recording.compilation_name()
            # torch's own has the name of what it was made for.
            if not is_wrapper(original.co_filename, qualified_name(original)):
                recording.change_compilation(name, function=name_of_compiled(original))
            _add_bytecode(recording, "bytecode_original", original)
            _add_modified(recording, original, modified)

    handle = register_bytecode_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _add_modified(recording: Recording, original: types.CodeType, modified: types.CodeType) -> None:
    graph = graph_of(recording, modified)
    if graph:
        lines = format_line_ranges(source_lines(recording, graph, original))
    else:
        lines = ""
    known = _add_bytecode(recording, "bytecode_modified", modified, lines)
    recording.dynamo_bytecode.add(original, modified, known)
    if recording.request.record_trace:
        _add_python(recording, modified)
    if graph:
        link_calls(
            recording,
            known.artifact,
            [known.line_of[offset] for offset in call_offsets(modified)],
            graph,
        )


def _add_python(recording: Recording, modified: types.CodeType) -> None:
    names = recording.dynamo_bytecode.resume_names
    rows = listing(modified, recording.compilation_name(), names)
    text = bytecode_as_python(modified, "\n".join(row.text for row in rows), names)
    title = f"modified bytecode of {modified.co_name} as Python"
    recording.add_artifact(
        "bytecode_python", "dynamo", without_uuid(text), title=title, language="python"
    )


def _add_bytecode(
    recording: Recording, kind: ArtifactKind, code: types.CodeType, graph_lines: str = ""
) -> RecordedBytecode:
    rows = listing(
        code, recording.compilation_name(), recording.dynamo_bytecode.resume_names, graph_lines
    )
    title = f"{kind.removeprefix('bytecode_')} bytecode of {code.co_name}"
    artifact = recording.add_artifact(
        kind, "dynamo", "\n".join(row.text for row in rows), title=title, language="bytecode"
    )
    file = recording.sources.file(code.co_filename)
    recording.writer.add_all(_line_sources(artifact, file, rows))
    return RecordedBytecode(
        artifact, {row.offset: i for i, row in enumerate(rows, 1) if row.offset >= 0}
    )


def _line_sources(artifact: int, file: int, rows: Sequence[ListingRow]) -> Iterator[LineSource]:
    """Yield one row for each run of instructions of the same source line."""
    first = 1
    for line, group in itertools.groupby(row.line for row in rows):
        count = len(list(group))
        if line:
            yield LineSource(artifact, first, file, line, lines=count)
        first += count


def listing(
    code: types.CodeType,
    compilation: str = "",
    resume_names: dict[str, str] | None = None,
    graph_lines: str = "",
) -> list[ListingRow]:
    """Return the rows to show: one for each instruction, and one for the source line wherever a new
    line begins.

    ``resume_names``: global of Dynamo's → name of the resume function in it. ``graph_lines``: what
    the compiled graph stands for, in words.
    """
    shown = list(_with_lines(instructions(code)))
    row_of = {}
    for number, instruction in enumerate(shown):
        if isinstance(instruction, BytecodeInstruction):
            row_of[instruction.offset] = number
    of_bytecode = [row for row in shown if isinstance(row, BytecodeInstruction)]
    jumps = []
    for instruction in of_bytecode:
        target = instruction.target
        if target in row_of:
            jumps.append((row_of[instruction.offset], row_of[target]))
    longest = max(len(instruction.opname) for instruction in of_bytecode)
    widths = _Widths(len(str(max(row_of))), min(WIDEST_OPNAME, longest))
    handlers = handled(code)
    rows = _heading(code)
    explained = _Explained(compilation, resume_names or {}, graph_lines)
    for drawn, row in zip(gutter(len(shown), jumps), shown, strict=True):
        if isinstance(row, int):
            source = linecache.getline(code.co_filename, row).strip()
            text = f"{'':{widths.offset}} {drawn} # {row}  {source}"
            rows.append(ListingRow(text.rstrip(), row))
            continue
        remarks = [explained.once(row.argument), _handles(handlers.get(row.offset, []))]
        text = _instruction_text(row, drawn, widths, "; ".join(filter(None, remarks)))
        rows.append(ListingRow(text, row.line, row.offset))
    return rows


@dataclass(frozen=True, slots=True)
class _Widths:
    """Widths of the listing's columns, in characters."""

    offset: int
    opname: int


def _with_lines(
    bytecode: Iterator[BytecodeInstruction],
) -> Iterator[BytecodeInstruction | int]:
    """Yield the instructions, and the number of a new source line before its first instruction."""
    line = 0
    for instruction in bytecode:
        if instruction.line != line:
            line = instruction.line
            yield line
        yield instruction


def _heading(code: types.CodeType) -> list[ListingRow]:
    if not RESUME.match(code.co_name):
        return []
    return [ListingRow(f"# {code.co_name}: {plain_resume(code.co_name)}", 0)]


def _instruction_text(
    instruction: BytecodeInstruction, drawn: str, widths: _Widths, remarks: str
) -> str:
    place = f"{instruction.offset:>{widths.offset}} {drawn}"
    call = f"{instruction.opname:<{widths.opname}} {without_uuid(instruction.argument)}"
    text = f"{place} {call}".rstrip()
    return f"{text}  # {remarks}" if remarks else text


def without_uuid(text: str) -> str:
    """Return a name without the UUID: ``__compiled_fn_1_f81d4fae_…`` → ``__compiled_fn_1``."""
    return _UUID.sub(r"\1", text)


class _Explained:
    """Explains each generated name of Dynamo's at its first use in the listing."""

    def __init__(self, compilation: str, resume_names: dict[str, str], graph_lines: str) -> None:
        self._compilation = compilation
        self._resume_names = resume_names
        self._graph_lines = graph_lines
        self._written = {""}

    def once(self, argument: str) -> str:
        """Return the explanation of a name at its first use; empty afterwards."""
        explanation = remark(argument, self._compilation, self._resume_names, self._graph_lines)
        if explanation in self._written:
            return ""
        self._written.add(explanation)
        return explanation


def _handles(stretches: list[tuple[int, int]]) -> str:
    if stretches:
        return "on an error in " + ", ".join(f"{first}-{last}" for first, last in stretches)
    return ""


def remark(
    argument: str, compilation: str, resume_names: dict[str, str], graph_lines: str = ""
) -> str:
    """Return the explanation of a name that Dynamo generated; empty for other names."""
    match = _MADE_UP.search(argument)
    name = match[0] if match and argument[:1] not in "'\"" else ""
    if name.startswith("__compiled_fn_"):
        return f"the compiled graph [{compilation}]{graph_lines and f': {graph_lines}'}"
    if name in resume_names:
        return f"{resume_names[name]}: {plain_resume(resume_names[name])}"
    if name.startswith("__import_"):
        return "the module " + name.removeprefix("__import_").replace("_dot_", ".")
    if name.startswith("__builtins_dict__"):
        return "Python's builtins"
    if name.startswith("graph_out_"):
        return "what the compiled graph returned"
    return ""


def plain_resume(name: str) -> str:
    """Describe a resume function: ``torch_dynamo_resume_in_f_at_12`` → ``the rest of f after line
    12``.
    """
    function, _, line = name.removeprefix("torch_dynamo_resume_in_").rpartition("_at_")
    return f"the rest of {function} after line {line}"


# Where modified bytecode calls the compiled graph, and which source lines that stands for.

COMPILED_GRAPH = "__compiled_fn_"


def graph_of(recording: Recording, code: types.CodeType) -> RecordedGraph | None:
    """Return Dynamo's graph that the new ``code`` calls. None when it calls none or several, which
    could not be told apart.
    """
    names = {
        instruction.argument for instruction in instructions(code) if _loads_graph(instruction)
    }
    segment = recording.of(recording.compilation_name()).segment
    if segment and len(names) == 1:
        return segment.dynamo
    return None


def link_calls(
    recording: Recording, artifact: int, rows: Iterable[int], graph: RecordedGraph
) -> None:
    """Link these lines of the listing to every node of the graph."""
    nodes = list(graph.ids.values())
    links: list[LineNode] = []
    for row in rows:
        links += [LineNode(artifact, row, node, "call_site") for node in nodes]
    recording.writer.add_all(links)


def call_offsets(code: types.CodeType) -> list[int]:
    """Return the offsets of the instructions that fetch a compiled graph, and of those that call
    it.
    """
    bytecode = list(instructions(code))
    depths = stack_depths(code)
    offsets = []
    for position, instruction in enumerate(bytecode):
        if _loads_graph(instruction):
            offsets.append(instruction.offset)
            offsets += itertools.islice(_calls_after(bytecode, position, depths), 1)
    return offsets


def _loads_graph(instruction: BytecodeInstruction) -> bool:
    return instruction.opname.startswith("LOAD_") and instruction.argument.startswith(
        COMPILED_GRAPH
    )


def _calls_after(
    bytecode: Sequence[BytecodeInstruction], loaded: int, depths: dict[int, int]
) -> Iterator[int]:
    """Yield the offsets of the calls that may use the loaded value. According to the stack's
    depths, the first one consumes it.
    """
    lowest = depths.get(bytecode[loaded].offset)
    if lowest is None:
        return
    for instruction, after in zip(bytecode[loaded + 1 :], bytecode[loaded + 2 :], strict=False):
        if instruction.opname.startswith("CALL"):
            depth = depths.get(after.offset, lowest + 2)
            if depth <= lowest + 1:
                yield instruction.offset


def source_lines(recording: Recording, graph: RecordedGraph, code: types.CodeType) -> list[int]:
    """Return the lines of the function of ``code`` from which nodes of the graph come, including
    lines that call inlined functions.
    """
    of_function = {line for _, _, line in code.co_lines() if line}
    traces = {str(node.meta["stack_trace"]) for node in graph.ids if node.meta.get("stack_trace")}
    lines = set()
    for trace in traces:
        for frame in recording.sources.parse(trace):
            if frame.file == code.co_filename and frame.line in of_function:
                lines.add(frame.line)
    return sorted(lines)


def format_line_ranges(lines: Sequence[int]) -> str:
    """Return the lines as text, ``lines 12-15, 18``; empty for none."""
    stretches: list[list[int]] = []
    for line in lines:
        if stretches and stretches[-1][-1] == line - 1:
            stretches[-1].append(line)
        else:
            stretches.append([line])
    texts = []
    for stretch in stretches:
        first, last = stretch[0], stretch[-1]
        if first == last:
            texts.append(str(first))
        else:
            texts.append(f"{first}-{last}")
    if not texts:
        return ""
    noun = "line" if len(lines) == 1 else "lines"
    return f"{noun} {', '.join(texts)}"
