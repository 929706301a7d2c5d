"""This module handles the regions marked by hand in a session: which part of a selection can be
marked, the existing marks, and the edit of the user's source with the same marks.

A mark names nodes, a module or lines. In a source only statements can be marked, so the edit may
hold more than the mark did. It then says so.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import REGIONAL_KEY, region_value
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.selected_nodes import nodes_at
from fx_explorer.analysis.words import counted, listed
from fx_explorer.errors import UsageError
from fx_explorer.model.bounded_matching import unified_diff
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries.graphs import nodes_of_stage
from fx_explorer.session.queries.links import ancestors
from fx_explorer.session.queries.nodes import operation_names
from fx_explorer.source_edit.code import spliced
from fx_explorer.source_edit.edits import (
    code_of,
    imported_as,
    statements_on,
    whole_statements,
    wrapped,
)


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """The edit of the sources for all regions marked by hand."""

    diff: str
    """Unified diff of every file that is edited; empty when no region could be turned into an
    edit.
    """
    files: tuple[str, ...]
    """Paths of the files it edits."""
    remarks: tuple[str, ...]
    """Effects of the edit beyond the marks, and marks without an edit, with the reason."""


def hand_marks(reader: SessionReader, given: Iterable[model.Mark] = ()) -> list[model.Mark]:
    """Return every region marked by hand, each once. ``given`` are marks that wait in the worker
    and have no row yet.
    """
    marks: list[model.Mark] = []
    for variant in reader.rows(model.Compilation):
        _add(marks, model.Changes.from_json(variant.changes or {}).marks)
    _add(marks, given)
    names = {mark.name for mark in marks}
    # A mark that is known says more than the nodes it came to: a module, lines, its options.
    _add(marks, (mark for mark in _recorded(reader) if mark.name not in names))
    return marks


def _add(marks: list[model.Mark], more: Iterable[model.Mark]) -> None:
    marks += (mark for mark in more if mark not in marks)


def _recorded(reader: SessionReader) -> Iterator[model.Mark]:
    """Yield marks that show only by their effect in the session: the nodes that got the
    annotation.
    """
    for done in reader.rows(model.Intervention, kind="mark"):
        before, after = (_regions_by_node(reader, graph) for graph in (done.before, done.after))
        new = {node: region for node, region in after.items() if before.get(node) != region}
        for region in dict.fromkeys(new.values()):
            yield model.Mark(
                region, nodes=tuple(node for node, name in new.items() if name == region)
            )


def _regions_by_node(reader: SessionReader, graph: int) -> dict[str, str]:
    """Return name of each marked node of a graph → its region."""
    if not graph:
        return {}
    regions = {}
    for node in reader.nodes(reader.get(model.Graph, graph)):
        if _is_marked(node):
            regions[node.name] = region_value((node.annotations or {})[REGIONAL_KEY])
    return regions


def _is_marked(node: model.Node) -> bool:
    return REGIONAL_KEY in (node.annotations or {})


def source_edit(reader: SessionReader, marks: Sequence[model.Mark], folder: PurePath) -> SourceEdit:
    """Return the edit that makes these marks. Paths in the diff are relative to ``folder`` where
    the files are below it.
    """
    blocks: dict[str, list[StatementBlock]] = {}
    remarks: list[str] = []
    for mark in marks:
        placed = _placed_or_why(reader, mark)
        if isinstance(placed, str):
            remarks.append(f'Region "{mark.name}" is not in the diff: {placed}')
            continue
        path, block, more = placed
        blocks.setdefault(path, []).append(block)
        remarks += more
    diffs = ""
    for path, of_file in blocks.items():
        diff, why = _diff_or_why(reader, path, _shown(path, folder), of_file)
        diffs += diff
        if why:
            remarks.append(why)
    return SourceEdit(diffs, tuple(blocks), tuple(remarks))


def _placed_or_why(
    reader: SessionReader, mark: model.Mark
) -> tuple[str, StatementBlock, list[str]] | str:
    """Return where a mark goes, or why there is no edit for it."""
    try:
        path, block, more = _placed(reader, mark)
        # Tried alone, so that a mark that cannot be made does not cost the others of its file their
        # edit.
        marking_diff(_text(reader, path), path, block)
    except UsageError as error:
        return str(error)
    return path, block, more


def _diff_or_why(
    reader: SessionReader, path: str, shown: str, blocks: Sequence[StatementBlock]
) -> tuple[str, str]:
    try:
        return marking_diff(_text(reader, path), shown, *blocks), ""
    except UsageError as error:
        return "", f"{shown} is not in the diff: {error}"


def _shown(path: str, folder: PurePath) -> str:
    whole = PurePath(path)
    if whole.is_relative_to(folder):
        return str(whole.relative_to(folder))
    return whole.name


def _text(reader: SessionReader, path: str) -> str:
    """Return the text of a source file as it was captured. Raises UsageError if it was not
    stored.
    """
    source_files = reader.rows(model.SourceFile, path=path, limit=1)
    text = reader.text(source_files[0].text) if source_files else ""
    if not text:
        raise UsageError(f"the text of {path} was not kept.")
    return text


def _placed(reader: SessionReader, mark: model.Mark) -> tuple[str, StatementBlock, list[str]]:
    """Return file and lines for a mark, and remarks on it."""
    if mark.file:
        return (
            mark.file,
            StatementBlock(mark.name, mark.first_line, mark.last_line, mark.configs),
            [],
        )
    nodes = _nodes(reader, mark)
    path, first, last = _common_lines(reader, nodes)
    first, last = whole_statements(_text(reader, path), path, first, last)
    return (
        path,
        StatementBlock(mark.name, first, last, mark.configs),
        list(_beyond(reader, mark, nodes, path, range(first, last + 1))),
    )


def _nodes(reader: SessionReader, mark: model.Mark) -> list[model.Node]:
    """Return the Dynamo nodes that the mark names, in every graph with all of them. Raises
    UsageError without any.
    """
    marked: list[model.Node] = []
    for graph in reader.rows(model.Graph, stage="dynamo", parent=0):
        nodes = [node for node in reader.nodes(graph) if node.op.startswith("call_") and node.stack]
        wanted = set(mark.nodes) & {node.name for node in nodes}
        in_graph = [node for node in nodes if _names(mark, node)]
        if in_graph and {node.name for node in in_graph} >= wanted:
            marked += in_graph
    if not marked:
        raise UsageError("none of its nodes has a source line.")
    return marked


def _is_within(module: str, outer: str) -> bool:
    return bool(outer) and (module == outer or module.startswith(f"{outer}."))


def _names(mark: model.Mark, node: model.Node) -> bool:
    return node.name in mark.nodes or _is_within(node.module, mark.module)


def _common_lines(reader: SessionReader, nodes: Sequence[model.Node]) -> tuple[str, int, int]:
    """Return the innermost function that computes all the nodes, and which of its lines they come
    from.
    """
    rows = reader.by_ids(model.Stack, (node.stack for node in nodes))
    stacks = [row.frames for row in rows]
    shared = len(list(takewhile(_is_one, zip(*stacks, strict=False))))
    frames = [stack[shared] for stack in stacks if len(stack) > shared]
    # They are computed in different functions: what all of them share is the line that calls these.
    if len(frames) < len(stacks) or len({(frame.file, frame.function) for frame in frames}) > 1:
        frames = [stacks[0][shared - 1]] if shared else []
    if not frames:
        raise UsageError("its nodes come from functions that have no common caller in the source.")
    lines = [frame.line for frame in frames]
    return frames[0].file, min(lines), max(lines)


def _is_one(frames: Sequence[model.Frame]) -> bool:
    return len({(frame.file, frame.line, frame.function) for frame in frames}) == 1


def _beyond(
    reader: SessionReader,
    mark: model.Mark,
    nodes: Sequence[model.Node],
    path: str,
    lines: Iterable[int],
) -> Iterator[str]:
    file = reader.rows(model.SourceFile, path=path, limit=1)[0]
    of_lines: set[int] = set()
    for line in lines:
        of_lines.update(reader.nodes_at_source(file.id, line))
    names = operation_names(reader, sorted(of_lines), "dynamo")
    marked = {node.name for node in nodes}
    more = [name for name in names if name not in marked]
    if more:
        yield (
            f'Region "{mark.name}" will hold more than you marked, because its lines also compute '
            f"{listed(more)}."
        )
    if not file.is_user:
        yield f"{file_name(path)} belongs to an installed package: {path}"


# Regions marked by hand, as the edit of the user's source that marks them there: pure text in, a
# unified diff out.

MODULE, NAME = "torch.fx.traceback", "fx_traceback"


@dataclass(frozen=True, slots=True)
class StatementBlock:
    """A region, and the lines (from 1, both included) whose statements are to be in it."""

    name: str
    first_line: int
    last_line: int
    configs: Mapping[str, object] = field(default_factory=dict)
    """``torch._inductor.config`` entries for this region only."""

    @property
    def annotation(self) -> str:
        """Return the argument of ``annotate``, as Python."""
        if self.configs:
            configs = f', "inductor_configs": {self.configs!r}'
        else:
            configs = ""
        return f'{{"compile_with_inductor": {{"inductor_region": {_quoted(self.name)}{configs}}}}}'


def marking_diff(source: str, path: str, *blocks: StatementBlock) -> str:
    """Return the diff that puts ``with fx_traceback.annotate(…)`` around the statements of each
    block.

    Line ends and the file's indentation are kept. Raises UsageError when the lines of a block cut
    through a statement, or are not in one block of one function.
    """
    code = code_of(source, path)
    for block in blocks:
        # Asked of the text as the user has it, so that a message has the user's line numbers.
        statements_on(code, path, block.first_line, block.last_line)
    _check_nesting(blocks, path)
    _check_line_ends(source, path)
    marked = source
    above: list[int] = []
    for block in sorted(
        blocks, key=lambda block: block.last_line - block.first_line
    ):  # an inner region before an outer one
        # Each region so far has put one line above its first. One that begins on the same line is
        # inside this one, and moves its end only.
        first = block.first_line + sum(line < block.first_line for line in above)
        last = block.last_line + sum(line <= block.last_line for line in above)
        code = code_of(marked, path)
        header = f"with {NAME}.annotate({block.annotation}):"
        marked = spliced(marked, wrapped(code, header, *statements_on(code, path, first, last)))
        above.append(block.first_line)
    marked = spliced(marked, imported_as(code_of(marked, path), MODULE, NAME))
    return unified_diff(source.splitlines(True), marked.splitlines(True), path)


def _check_nesting(blocks: Sequence[StatementBlock], path: str) -> None:
    """Check that no block partly overlaps another: one ``with`` can contain another. Raises
    UsageError.
    """
    for block in blocks:
        for other in blocks:
            if block.first_line < other.first_line <= block.last_line < other.last_line:
                raise UsageError(
                    f'In {path}, region "{block.name}" ends on line {block.last_line}, in the '
                    f'middle of region "{other.name}": nest one region inside the other, or mark '
                    "them apart."
                )


def _check_line_ends(source: str, path: str) -> None:
    """Check for form feeds and Unicode separators, which end lines of a text, but not of Python.
    Raises UsageError.
    """
    if len(source.splitlines()) != len(re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", source)):
        raise UsageError(
            f"{path} has line ends other than \\n and \\r\\n: put annotate() there by hand."
        )


def _quoted(name: str) -> str:
    text = repr(name)
    if text.startswith("'") and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


@dataclass(frozen=True, slots=True)
class Markable:
    """One way to mark the selection. The mark has no name yet."""

    words: str
    detail: str
    mark: model.Mark
    compilation: str
    """Name of the compilation the Dynamo graph belongs to."""

    def named(self, name: str) -> model.Mark:
        return replace(self.mark, name=name)

    @property
    def suggestion(self) -> str:
        """Return a descriptive name for the region."""
        if self.mark.module:
            return self.mark.module.rpartition(".")[2]
        if self.mark.nodes:
            return self.mark.nodes[0]
        return f"line_{self.mark.first_line}"


def markables(reader: SessionReader, document: Document, lines: Sequence[int]) -> list[Markable]:
    """Return the ways to mark these lines of a document (from 0), the most literal first; empty
    when no Dynamo node belongs to them.
    """
    nodes = _dynamo_nodes(reader, document, lines)
    if not nodes:
        return []
    graph = reader.get(model.Graph, nodes[0].graph)
    owner = reader.get(model.Compilation, graph.compilation).name
    names = tuple(node.name for node in nodes)
    size = counted(len(names), "node")
    markables = [Markable(size, ", ".join(names), model.Mark("", nodes=names), owner)]
    if document.kind == "source":
        file = reader.get(model.SourceFile, document.id)
        first, last = min(lines) + 1, max(lines) + 1
        if first == last:
            range_of_lines = f"line {first}"
        else:
            range_of_lines = f"lines {first} to {last}"
        mark = model.Mark("", file=file.path, first_line=first, last_line=last)
        title = f"{range_of_lines} of {document.title}"
        markables.insert(0, Markable(title, f"now {size}", mark, owner))
    calls = [node for node in reader.nodes(graph) if node.op.startswith("call_")]
    for module in _modules(nodes):
        in_module = sum(_is_within(node.module, module) for node in calls)
        mark = model.Mark("", module=module)
        markables.append(Markable(f"module {module}", counted(in_module, "node"), mark, owner))
    return markables


def _dynamo_nodes(
    reader: SessionReader, document: Document, lines: Sequence[int]
) -> list[model.Node]:
    """Return the nodes of one Dynamo graph on these lines, or from which these lines come, in the
    order of the graph.
    """
    at: list[int] = []
    for line in lines:
        at += nodes_at(reader, Place(document, line))
    ids = nodes_of_stage(reader, {*at, *ancestors(reader, at)}, "dynamo")
    computed = [node for node in reader.by_ids(model.Node, ids) if node.op.startswith("call_")]
    return [node for node in computed if node.graph == computed[0].graph]


def _modules(nodes: Sequence[model.Node]) -> list[str]:
    """Return the modules that all these nodes are in, innermost first."""
    paths = [node.module.split(".") for node in nodes]
    # A node outside of all modules has an empty path, which splits into one empty part.
    alike = itertools.takewhile(
        lambda parts: len(set(parts)) == 1 and parts[0], zip(*paths, strict=False)
    )
    common = [parts[0] for parts in alike]
    return [".".join(common[:depth]) for depth in range(len(common), 0, -1)]
