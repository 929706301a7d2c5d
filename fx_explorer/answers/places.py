"""Answers about one thing of a session: a line of the user's source, a node, a kernel, the lines of
a text; and a search. Each row says how its link is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents,
    lines_of,
    place_of_kernel,
    source_document,
    text_of,
)
from fx_explorer.analysis.graph_texts import graph_text
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.link_explanations import Explanation, explain
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.words import counted, listed, share, value_text
from fx_explorer.answers.answer import Answer, Json, Pages
from fx_explorer.answers.listings import (
    document_name,
    graph_documents,
    kernel_row,
    of_documents,
    of_kernels,
    place_text,
    text_number,
)
from fx_explorer.errors import UsageError
from fx_explorer.instruments.guards.guard_tree import CHANCE_WORDS, explained_checks
from fx_explorer.instruments.kernels.costs import kernel_costs, source_heat
from fx_explorer.instruments.memory.report import saved_tensors
from fx_explorer.overview.find import find
from fx_explorer.overview.own_file import line_events
from fx_explorer.report.compilation_entries import (
    kernel_configs,
    kernel_estimate,
    kernel_launches,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.queries.kernels import kernels_of_each
from fx_explorer.session.queries.nodes import nodes_beginning

SUGGESTED = 12
"""Number of names that a message lists where none fits."""

_PLACE = re.compile(r"(?P<name>.*?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?")
"""Matches a name, with a line or a range of lines: ``model.py:12``, ``model.py:12-40``."""


# A line of the source.


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
    rows += nodes
    name = f"{place.document.title}:{number}"
    return Answer(
        text=_line_sentence(name, text, kernels, nodes),
        rows=rows,
        known_from="nodes: their stack traces, and the compiler's links from stage to stage; "
        "kernels: the scheduler lists the nodes as their origins; guards: torch's guard manager; "
        "saved tensors: outputs of the forward graph that the backward graph takes",
        figures={"file": path, "line": number, "code": text},
        next=_next_of_line(place, kernels),
    )


def source_place(reader: SessionReader, where: str) -> Place:
    """Return the line of a source file that is meant by ``model.py:12`` or a path with a line.
    Raises UsageError.
    """
    match = _PLACE.fullmatch(where)
    if match is None or match["first"] is None:
        raise UsageError(f"a line is given as FILE:NUMBER, for example model.py:12, not {where!r}")
    number = int(match["first"])
    sources = _sources(reader)
    fitting = [document for document in sources if _is_file(reader, document, match["name"])]
    if not fitting:
        names = ", ".join(dict.fromkeys(document.title for document in sources[:SUGGESTED]))
        raise UsageError(
            f"the session has no source file {match['name']!r}; it has: {names or 'none'}"
        )
    for document in fitting:
        # A log has the lines of nodes, and not the texts of files.
        if number >= 1 and (number <= document.line_count or not document.line_count):
            return Place(document, number - 1)
    title, count = fitting[0].title, fitting[0].line_count
    raise UsageError(f"{title} has {counted(count, 'line')}, so there is no line {number}")


def _sources(reader: SessionReader) -> list[Document]:
    """Return the source files, the user's own first; also those whose text was not recorded."""
    files = reader.rows(model.SourceFile)
    files.sort(key=lambda file: (not file.text, not file.is_user))
    return [source_document(file) for file in files]


def _is_file(reader: SessionReader, document: Document, name: str) -> bool:
    path = reader.get(model.SourceFile, document.id).path
    if name in (path, document.title):
        return True
    wanted, parts = PurePath(name).parts, PurePath(path).parts
    return bool(wanted) and parts[-len(wanted) :] == wanted


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
    is_library_call = kernel.language == "extern"
    return {
        "what": "kernel",
        "name": kernel.name,
        "compilations": [],
        "direction": kernel.direction,
        "language": "library call" if is_library_call else kernel.language,
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
                "name": document_name(document),
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
            f"{text} that spend {share(total, 1)} of {first['share_of']} on it; most of that is in "
            f"{first['name']}."
        )
    return f"{text}; no times or bytes of them are known."


def _next_of_line(place: Place, kernels: Sequence[Json]) -> list[str]:
    questions = [f"kernel {kernels[0]['name']}"] if kernels else []
    first = max(1, place.line - 9)
    return [*questions, f"code {place.document.title}:{first}-{place.line + 11}"]


# A node, and the nodes of a graph.


def of_nodes(reader: SessionReader, name: str) -> Answer:
    """Return the nodes of a graph, in order. Raises UsageError unless one graph is meant."""
    document = _graph_called(reader, name)
    graph = reader.get(model.Graph, document.id)
    inputs = InputNames(reader)

    def read(start: int, stop: int) -> list[Json]:
        ids = range(graph.first_node + start, graph.first_node + stop)
        nodes = sorted(reader.by_ids(model.Node, ids), key=lambda node: node.id)
        own_names = inputs.of([node for node in nodes if node.op == "placeholder"])
        rows = []
        for node in nodes:
            row = _node_row(reader, node)
            own = own_names.get(node.id)
            if own and own.name != node.name:
                row["your_name"] = own.name
            rows.append(row)
        return rows

    title = document_name(document)
    calls = counted(graph.call_count, "operation")
    return Answer(
        text=f"{title} has {counted(graph.node_count, 'node')}, {calls}.",
        rows=Pages(graph.node_count, read),
        known_from="the FX graph, read while it was compiled",
        fields=("name", "your_name", "target", "arguments", "value", "at", "module"),
        next=[f"node NAME --match {graph.id}", f"code {document.id}"],
    )


def _node_row(reader: SessionReader, node: model.Node) -> Json:
    at = ""
    if node.file:
        path = reader.get(model.SourceFile, node.file).path
        at = f"{path}:{node.line}"
    return {
        "name": node.name,
        "op": node.op,
        "target": node.target,
        "arguments": node.arguments,
        "value": value_text(node),
        "stride": list(node.stride or ()),
        "device": node.device,
        "at": at,
        "module": node.module,
        "module_type": node.module_type,
        "annotations": node.annotations or {},
        "is_view": node.is_view or None,
    }


def _graph_called(reader: SessionReader, name: str) -> Document:
    """Return the graph of this number, or with these words in its name. Raises UsageError unless
    there is one.
    """
    graphs = graph_documents(reader)
    fitting = _called(graphs, name)
    if len(fitting) == 1:
        return fitting[0]
    shown = fitting or graphs
    listed_graphs = "; ".join(f"{graph.id} {document_name(graph)}" for graph in shown[:SUGGESTED])
    more = f"; {len(shown) - SUGGESTED} more" if len(shown) > SUGGESTED else ""
    if fitting:
        what = f"{name!r} fits {len(fitting)} graphs; give the number of one"
    else:
        what = f"no graph is called {name!r}; there are"
    raise UsageError(f"{what}: {listed_graphs or 'none'}{more}")


def _called(candidates: Sequence[Document], name: str) -> list[Document]:
    """Return those with this number; else with this name; else whose names have all the words."""
    wanted = name.strip().casefold()
    by_number = [document for document in candidates if str(document.id) == wanted]
    if by_number and candidates[0].kind == "graph":
        return by_number
    named = [
        document
        for document in candidates
        if wanted in (document_name(document).casefold(), document.title.casefold())
    ]
    if named:
        return named
    words = wanted.split()
    return [
        document for document in candidates if all(word in _names_of(document) for word in words)
    ]


def _names_of(document: Document) -> str:
    return f"{document_name(document)} {document.stage or ''}".casefold()


def of_node(reader: SessionReader, name: str) -> Answer:
    """Return each node of this name: its value, where it comes from, what became of it, who uses
    it. Raises UsageError where no graph has it.
    """
    nodes = reader.rows(model.Node, name=name)
    if not nodes:
        near = nodes_beginning(reader, name[:4].casefold(), SUGGESTED)
        names = dict.fromkeys(node.name for node in reader.by_ids(model.Node, near))
        also = f"; there are {', '.join(names)}" if names else ""
        raise UsageError(f"no graph has a node {name!r}{also}. find TEXT searches all names")
    rows = [_whole_node(reader, node) for node in nodes]
    first = rows[0]
    text = f"{name} is in {counted(len(rows), 'graph')}"
    if first["at"]:
        text += f"; from {first['at']}"
    kernels = list(dict.fromkeys(kernel for row in rows for kernel in row["kernels"]))
    if kernels:
        text += f"; computed by {listed(kernels, 3)}"
    return Answer(
        text=f"{text}.",
        rows=rows,
        known_from="each link says how it is known: (…) after the name",
        next=[f"kernel {kernels[0]}"] if kernels else ["graphs"],
    )


def _whole_node(reader: SessionReader, node: model.Node) -> Json:
    document = document_of(reader, "graph", node.graph)
    place = Place(document, node.position)
    links: dict[str, list[str]] = {"from": [], "became": [], "kernel": [], "source": []}
    for explanation in explain(reader, place):
        links[explanation.relation].append(_link_text(explanation))
    below = Selection(reader, place).below
    kernels = dict.fromkeys(
        kernel.name
        for kernel in reader.by_ids(
            model.Kernel,
            sorted({k for ids in kernels_of_each(reader, below).values() for k in ids}),
        )
    )
    return {
        "graph": document_name(document),
        "number": node.graph,
        **_node_row(reader, node),
        "takes": _names(reader, reader.producers(node.id)),
        "used_by": _names(reader, reader.users(node.id)),
        "stack": _stack(reader, node),
        "comes_from": links["from"],
        "became": links["became"],
        "kernels": list(kernels),
    }


def _stack(reader: SessionReader, node: model.Node) -> list[str]:
    """Return the lines of the user's stack, outermost first, where it has several."""
    stacks = reader.by_ids(model.Stack, [node.stack]) if node.stack else []
    frames = stacks[0].frames if stacks else ()
    if len(frames) < 2:
        return []
    return [f"{frame.file}:{frame.line} in {frame.function}" for frame in frames]


def _names(reader: SessionReader, nodes: Sequence[int]) -> list[str]:
    return [node.name for node in reader.by_ids(model.Node, nodes)]


def _link_text(explanation: Explanation) -> str:
    """Return ``add_3 in [0/0] Forward graph (the same node, …)``."""
    where = document_name(explanation.place.document)
    return f"{explanation.name} in {where} ({explanation.text})"


# A kernel.


def of_kernel(reader: SessionReader, name: str) -> Answer:
    """Return each kernel of this name, its configurations, launches and estimate, and its code.
    Raises UsageError where there is none.
    """
    kernels = reader.rows(model.Kernel, name=name) or [
        kernel for kernel in reader.rows(model.Kernel) if name.casefold() in kernel.name.casefold()
    ]
    if not kernels:
        names = dict.fromkeys(row["kernel"] for row in of_kernels(reader).rows)
        shown = ", ".join(list(names)[:SUGGESTED])
        raise UsageError(f"no kernel is called {name!r}; there are: {shown or 'none'}")
    gpu = session_gpu(reader)
    costs = {cost.use.kernel.id: cost for cost in kernel_costs(reader)}
    rows = []
    for kernel in kernels:
        row: Json = {"kernel": kernel.name}
        if kernel.id in costs:
            row = kernel_row(reader, costs[kernel.id])
        place = place_of_kernel(reader, kernel)
        row["code_at"] = place_text(reader, place)
        row["configurations"] = kernel_configs(reader, kernel, gpu)
        row["launches"] = kernel_launches(reader, kernel)
        row["estimate"] = kernel_estimate(reader, kernel, gpu)
        row["code"] = _code_of(reader, kernel, place)
        rows.append(row)
    first = rows[0]
    lines = listed(first.get("lines", []), 3)
    text = f"{kernels[0].name}"
    if first.get("computes"):
        text += f" computes {listed(first['computes'], 6)}"
    if lines:
        text += f" of {lines}"
    if len(rows) > 1:
        text += f"; {counted(len(rows), 'kernel')} of this name"
    return Answer(
        text=f"{text}.",
        rows=rows,
        known_from="Inductor's scheduler and output code; seconds_are says where a time is from",
        next=[f"code {kernels[0].name}", *[f"line {at}" for at in first.get("lines", [])[:1]]],
    )


def _code_of(reader: SessionReader, kernel: model.Kernel, place: Place | None) -> str:
    """Return the code of a kernel; of a library call, the line that makes it."""
    if place is None:
        return ""
    if kernel.artifact:
        return text_of(reader, place.document)
    return lines_of(reader, place.document)[place.line].strip()


# Texts, and a search.


def of_code(reader: SessionReader, what: str) -> Answer:
    """Return the lines of a source file, of a graph as Python, or of code that torch wrote; without
    a name, the list of them. Raises UsageError where not one text is meant.
    """
    if not what:
        return of_documents(reader)
    match = _PLACE.fullmatch(what)
    name = match["name"] if match else what
    document = _text_called(reader, name)
    if document.kind == "graph":
        lines = graph_text(reader, "code", document.id).text.split("\n")
    else:
        lines = list(lines_of(reader, document))
    first, last = 1, len(lines)
    if match and match["first"]:
        first = int(match["first"])
        last = int(match["last"] or last)
    chosen = range(max(1, first), min(last, len(lines)) + 1)

    def read(start: int, stop: int) -> list[Json]:
        return [{"line": number, "text": lines[number - 1]} for number in chosen[start:stop]]

    title = document_name(document)
    return Answer(
        text=f"{title}: {counted(len(lines), 'line')} of {document.language}.",
        rows=Pages(len(chosen), read),
        known_from=_origin_of_text(document),
        next=[f"line {document.title}:NUMBER"] if document.kind == "source" else [],
    )


def _origin_of_text(document: Document) -> str:
    if document.kind == "source":
        return "the file as it was when it was captured"
    if document.kind == "graph":
        return "the recorded graph, written as Python"
    return "the text that torch wrote"


def _text_called(reader: SessionReader, name: str) -> Document:
    every_document = documents(reader)
    files = [
        document
        for document in every_document
        if document.kind == "source" and _is_file(reader, document, name)
    ]
    by_number = [each for each in every_document if text_number(each) == name.strip()]
    fitting = files or by_number or _called(every_document, name)
    if len(fitting) == 1 or (fitting and _are_one_text(fitting)):
        return fitting[0]
    shown = fitting or every_document
    names = [f"{text_number(document)} {document_name(document)}" for document in shown]
    more = f"; {len(names) - SUGGESTED} more" if len(names) > SUGGESTED else ""
    if fitting:
        what = f"{name!r} fits {len(fitting)} texts; give the number of one"
    else:
        what = f"no text is called {name!r}; there are"
    raise UsageError(f"{what}: {'; '.join(names[:SUGGESTED])}{more}")


def _are_one_text(fitting: Sequence[Document]) -> bool:
    """Return whether they are kernels of one name: those of other versions have the same code."""
    return len({document.title for document in fitting}) == 1 and fitting[0].stage == "kernel"


def of_search(reader: SessionReader, typed: str) -> Answer:
    """Return nodes, kernels, lines and breaks that have all the words."""
    if not typed.strip():
        raise UsageError("find takes the text to search for: find relu")
    matches = find(reader, typed)
    rows: list[Json] = [
        {
            "what": match.kind,
            "text": match.text,
            "detail": match.detail,
            "at": place_text(reader, match.place),
        }
        for match in matches
    ]
    return Answer(
        text=f"{counted(len(rows), 'place')} with {typed!r}: nodes, kernels, lines and breaks.",
        rows=rows,
        known_from="names and lines of the session",
        next=["node NAME", "kernel NAME", "line FILE:NUMBER"] if rows else [],
    )
