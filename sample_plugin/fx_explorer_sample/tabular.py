"""A reader: the table that ``graph.print_tabular()`` prints, as a session with that graph."""

from __future__ import annotations

import re
from pathlib import Path

from fx_explorer.plugins import FileReader, SessionError, SessionWriter, model

TITLES = ("opcode", "name", "target", "args", "kwargs")

_WORD = re.compile(r"\w+")


def is_table(file: Path, beginning: bytes) -> bool:
    """Return whether the first line has the titles of the table's columns."""
    first = beginning.decode(errors="replace").partition("\n")[0]
    return tuple(first.split()) == TITLES


def read_table(file: Path, writer: SessionWriter) -> None:
    """Write the graph of a table. Raises SessionError for a table that is cut off."""
    lines = file.read_text(errors="replace").splitlines()
    if len(lines) < 3 or set(lines[1]) != {"-", " "}:
        raise SessionError("it has no rows below its titles")
    # tabulate draws a line below each column, as wide as the column.
    spans = [match.span() for match in re.finditer("-+", lines[1])]
    if len(spans) != len(TITLES):
        raise SessionError("its columns are not those of print_tabular")
    compilation = writer.add(
        model.Compilation(0, "0/0", 0, 0, "graph", file=str(file), line=1, status="ok")
    )
    nodes: list[model.Node] = []
    edges: list[tuple[int, int]] = []
    positions: dict[str, int] = {}
    for line in lines[2:]:
        op, name, target, args, kwargs = (line[start:end].strip() for start, end in spans)
        words = dict.fromkeys(_WORD.findall(f"{args} {kwargs}"))
        edges += [(positions[word], len(nodes)) for word in words if word in positions]
        positions[name] = len(nodes)
        nodes.append(model.Node(0, 0, 0, name, op, target, args.strip("()").rstrip(",")))
    calls = sum(node.op.startswith("call_") for node in nodes)
    graph = model.Graph(0, compilation, "dynamo", "", call_count=calls)
    writer.add_graph(graph, nodes, edges)


READER = FileReader(
    interface=1,
    words="a table of a graph (graph.print_tabular)",
    recognizes=is_table,
    read=read_table,
)
