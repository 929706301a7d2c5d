"""The answer about a line of source: breaks, kernels, saved tensors, guards and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    lines_of,
    source_document,
)
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.words import counted, share, value_text
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.references import (
    PLACE,
    SUGGESTED,
    is_file,
)
from fx_explorer.errors import UsageError
from fx_explorer.instruments.guards.guard_tree import CHANCE_WORDS, explained_checks
from fx_explorer.instruments.kernels.costs import source_heat
from fx_explorer.instruments.kernels.counts import describe_kind
from fx_explorer.instruments.memory.report import saved_tensors
from fx_explorer.instruments.passes.report import changes_of_report
from fx_explorer.overview.own_file import line_events
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.queries.kernels import kernels_of_each


def of_line(reader: SessionReader, where: str) -> Answer:
    """Return what torch made of a line: breaks, kernels with their share, nodes by graph, tensors
    saved for the backward, guards. Raises UsageError for a line that the session does not have.
    """
    place = source_place(reader, where)
    lines = lines_of(reader, place.document)
    text = lines[place.line].strip() if lines else ""
    path = reader.get(model.SourceFile, place.document.id).path
    number = place.line + 1
    events = line_events(reader, place.document).get(place.line, ())
    rows: list[Json] = [{"what": event.what, "text": event.text} for event in events]
    kernels = _kernels_of_line(reader, place)
    nodes = _nodes_of_line(reader, place)
    rows += kernels
    rows += _saved_on_line(reader, path, number)
    rows += _guards_of_line(reader, path, number)
    rows += _passes_of_line(reader, path, number)
    rows += nodes
    name = f"{place.document.title}:{number}"
    return Answer(
        text=_line_sentence(name, text, kernels, nodes),
        rows=rows,
        known_from="nodes: from their stack traces, and the compiler's links from stage to stage; "
        "kernels: from the nodes that the scheduler lists as their origins; guards: "
        "from torch's guard manager; saved tensors: outputs of the forward graph that "
        "the backward graph takes",
        figures={"file": path, "line": number, "code": text},
        next=_next_of_line(place, kernels),
    )


def source_place(reader: SessionReader, where: str) -> Place:
    """Return the line of a source file that is meant by ``model.py:12`` or a path with a line.
    Raises UsageError.
    """
    match = PLACE.fullmatch(where)
    if match is None or match["first"] is None:
        raise UsageError(f"a line is given as FILE:NUMBER, for example model.py:12, not {where!r}")
    number = int(match["first"])
    files = sources(reader)
    fitting = [document for document in files if is_file(reader, document, match["name"])]
    if not fitting:
        names = ", ".join(dict.fromkeys(document.title for document in files[:SUGGESTED]))
        raise UsageError(
            f"the session has no source file {match['name']!r}; it has: {names or 'none'}"
        )
    for document in fitting:
        # A log has the lines of nodes, and not the texts of files.
        if number >= 1 and (number <= document.line_count or not document.line_count):
            return Place(document, number - 1)
    title, count = fitting[0].title, fitting[0].line_count
    raise UsageError(f"{title} has {counted(count, 'line')}, so there is no line {number}")


def sources(reader: SessionReader) -> list[Document]:
    """Return the source files, the user's own first; also those whose text was not recorded."""
    files = reader.rows(model.SourceFile)
    files.sort(key=lambda file: (not file.text, not file.is_user))
    return [source_document(file) for file in files]


def _kernels_of_line(reader: SessionReader, place: Place) -> list[Json]:
    """Return the kernels that compute something of the line, the one that spends most on it first.
    Kernels of one name in several compilations are one row.
    """
    heat = source_heat(reader)
    line_heat = heat.files.get(place.document.id, {}).get(place.line)
    if line_heat is None:
        return []
    names = compilation_names(reader)
    shares = dict(line_heat.parts)
    computed = _nodes_by_kernel(reader, sorted(Selection(reader, place).below))
    rows: dict[tuple[str, str], Json] = {}
    for kernel in reader.by_ids(model.Kernel, line_heat.kernels):
        row = rows.setdefault((kernel.name, kernel.direction), _kernel_row_of_line(kernel))
        compilation = names.get(kernel.compilation, "")
        if compilation not in row["compilations"]:
            row["compilations"].append(compilation)
        if compilation == row["compilations"][0]:  # other versions have names of their own
            row["computes_of_this_line"] += computed.get(kernel.id, [])
        if heat.measure:
            row["share"] = round(row.get("share", 0.0) + shares[kernel.id], 4)
            row["share_of"] = f"the {heat.measure} of all kernels"
    return list(rows.values())


def _kernel_row_of_line(kernel: model.Kernel) -> Json:
    return {
        "what": "kernel",
        "name": kernel.name,
        "compilations": [],
        "direction": kernel.direction,
        "language": describe_kind(kernel),
        "computes_of_this_line": [],
    }


def _nodes_by_kernel(reader: SessionReader, nodes: Sequence[int]) -> dict[int, list[str]]:
    """Return kernel → names of the last nodes among ``nodes`` that it computes."""
    names: dict[int, list[str]] = {}
    rows = {node.id: node for node in reader.by_ids(model.Node, nodes)}
    for node, kernels in kernels_of_each(reader, nodes).items():
        is_last = not any(child.child in rows for child in reader.children([node]))
        if not is_last:
            continue
        for kernel in kernels:
            names.setdefault(kernel, []).append(rows[node].name)
    return names


def _saved_on_line(reader: SessionReader, path: str, number: int) -> Iterator[Json]:
    for saved in saved_tensors(reader):
        if saved["file"] == path and saved["line"] == number:
            yield {
                "what": "tensor saved for the backward",
                "name": saved["user_name"],
                "compilation": saved["compilation"],
                "value": f"{saved['dtype']}{saved['shape']}",
                "bytes": saved["bytes"],
                "text": saved["why"],
                "needed_by": saved["consumers"],
                "read_by": saved["read_by"],
            }


def _guards_of_line(reader: SessionReader, path: str, number: int) -> Iterator[Json]:
    """Yield the guards that the line asks for, without those that cannot fail."""
    for explained in explained_checks(reader):
        check = explained.check
        if check.line != number or check.file != path or explained.chance == "hardly":
            continue
        yield {
            "what": "guard",
            "name": explained.name,
            "compilation": explained.compilation,
            "text": explained.asks,
            "fails_when": CHANCE_WORDS.get(explained.chance, explained.chance),
        }


def _passes_of_line(reader: SessionReader, path: str, number: int) -> Iterator[Json]:
    """Yield each pass that made, changed or removed nodes of the line, with their names."""
    by_pass: dict[tuple[str, str], list[str]] = {}
    for row in changes_of_report(reader):
        lines = row["lines"]
        if isinstance(lines, list) and f"{path}:{number}" in lines:
            nodes = by_pass.setdefault((str(row["graph"]), str(row["pass"])), [])
            nodes.append(f"{row['did']} {row['node']}")
    for (graph, name), nodes in by_pass.items():
        yield {"what": "pass", "text": name, "graph": graph, "changes": nodes[:MOST_CHANGES]}


MOST_CHANGES = 12
"""Maximum number of nodes that are named of a pass."""


def _nodes_of_line(reader: SessionReader, place: Place) -> list[Json]:
    """Return a row for each graph with nodes of the line, or made from them, in the order of the
    stages.
    """
    nodes = reader.by_ids(model.Node, sorted(Selection(reader, place).below))
    by_graph: dict[int, list[str]] = {}
    for node in sorted(nodes, key=lambda node: node.id):
        value = value_text(node)
        text = f"{node.name} = {node.target}" if node.target != node.name else node.name
        by_graph.setdefault(node.graph, []).append(f"{text}  {value}".strip())
    rows: list[Json] = []
    for graph, texts in by_graph.items():
        document = document_of(reader, "graph", graph)
        rows.append(
            {
                "what": "nodes",
                "name": document.full_title,
                "number": graph,
                "count": len(texts),
                "nodes": texts,
            }
        )
    return rows


def _line_sentence(name: str, code: str, kernels: Sequence[Json], nodes: Sequence[Json]) -> str:
    if not nodes:
        return f"No graph node comes from {name}: {code}".removesuffix(": ")
    text = f"{name} has nodes in {counted(len(nodes), 'graph')} (all stages and compilations)"
    if not kernels:
        return f"{text}; no kernel is known to compute them."
    first = kernels[0]
    text += f", and {counted(len(kernels), 'kernel')}"
    total = sum(kernel.get("share", 0.0) for kernel in kernels)
    if total:
        return (
            f"{text} that spend {share(total, 1)} of {first['share_of']} on this line; most of "
            f"that is in {first['name']}."
        )
    return f"{text}; no times or bytes of them are known."


def _next_of_line(place: Place, kernels: Sequence[Json]) -> list[str]:
    questions = [f"kernel {kernels[0]['name']}"] if kernels else []
    first = max(1, place.line - 9)
    return [*questions, f"code {place.document.title}:{first}-{place.line + 11}"]
