"""Blocks of one structure that are compiled one by one inside one large graph: layers of a
transformer. Compiling the block once, for all of them, takes a fraction of the time
(regional compilation).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, seconds, share
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.placement import module_in_code
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compile_seconds
from fx_explorer.session.queries.nodes import captured_by_module

LEAST_BLOCKS = 6
"""Number of blocks from which on compiling one for all is worth its extra calls."""

LEAST_SHARE = 0.6
"""Share of the graph's operations that the blocks must have."""

LEAST_SECONDS = 20.0
"""Compile time below which nothing is said: there is little to gain."""

LEAST_OPERATIONS = 200
"""Operations of a graph below which a long compile has another reason."""

_NUMBERED = re.compile(r"^(?P<list>(?:[^.]+\.)*?[^.\d][^.]*)\.(?P<index>\d+)(?:\.|$)")
"""Matches a module path up to its first number: ``model.layers`` and ``3``."""


@dataclass(frozen=True, slots=True)
class RepeatedBlocks:
    compilation: model.Compilation
    path: str
    """Path of the list of modules: ``model.layers``."""
    blocks: int
    operations: int
    """Operations of all blocks."""
    of_graph: int


def repeated_blocks(reader: SessionReader) -> list[RepeatedBlocks]:
    """Return the lists of modules, at least six of which are alike, that make up most of a
    compilation's operations.
    """
    totals: Counter[int] = Counter()
    of_block: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    for nodes in captured_by_module(reader, None):
        totals[nodes.compilation] += nodes.node_count
        match = _NUMBERED.match(nodes.module)
        if match:
            key = nodes.compilation, match["list"]
            of_block[key][int(match["index"])] += nodes.node_count
    compilations = {row.id: row for row in variants_in_use(reader)}
    blocks = []
    for (compilation, path), counts in of_block.items():
        if compilation not in compilations:
            continue
        _, alike = Counter(counts.values()).most_common(1)[0]
        operations = sum(counts.values())
        of_graph = totals[compilation]
        if alike >= LEAST_BLOCKS and operations >= LEAST_SHARE * of_graph:
            blocks.append(
                RepeatedBlocks(compilations[compilation], path, alike, operations, of_graph)
            )
    return blocks


def find_repeated_blocks(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each list of like blocks whose compilation takes long."""
    for repeated in repeated_blocks(reader):
        compile_s = compile_seconds(reader, repeated.compilation.id)
        if compile_s >= LEAST_SECONDS and repeated.of_graph >= LEAST_OPERATIONS:
            yield _finding(reader, repeated, compile_s)


def _finding(reader: SessionReader, repeated: RepeatedBlocks, compile_s: float) -> Finding:
    compilation = repeated.compilation
    of_blocks_s = compile_s * repeated.operations / repeated.of_graph
    function = plain_function(compilation.function)
    path = module_in_code(repeated.path)
    return Finding(
        kind="repeated block",
        text=(
            f"{repeated.blocks} blocks with the same structure ({path}) are compiled one by one, "
            f"inside the graph of {function}."
        ),
        urgency="again",
        severity="notice",
        topic="graphs",
        place=place_of_path(reader, compilation.file, compilation.line),
        view="graphs",
        evidence=(
            f"They have {share(repeated.operations, repeated.of_graph)} of its "
            f"{counted(repeated.of_graph, 'operation')}. Compiling it took {seconds(compile_s)}.",
        ),
        explanation=(
            "Compile time grows with the number of blocks. When each block is compiled "
            "separately, the code of the first one is reused for all (regional compilation)."
        ),
        remedies=(
            Remedy(
                f"Compile the blocks instead of the model: for block in {path}: block.compile(). "
                "Each call of a block then pays for its guards, and nothing is fused across "
                "blocks.",
                changes={"compile_modules": [f"{repeated.path}.*"]},
            ),
        ),
        count=repeated.blocks,
        cost=f"{seconds(of_blocks_s)} compiling",
        cost_s=of_blocks_s,
    )
