"""Answers about a kernel, about the lines of a text, and a search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents,
    lines_of,
    place_of_kernel,
    text_of,
)
from fx_explorer.analysis.graph_texts import graph_text
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.words import counted, listed
from fx_explorer.answers.answer import Answer, Json, Pages
from fx_explorer.answers.graphs_and_kernels import kernel_row, of_kernels
from fx_explorer.answers.others import of_documents
from fx_explorer.answers.references import (
    PLACE,
    SUGGESTED,
    documents_called,
    is_file,
    place_text,
    text_number,
)
from fx_explorer.errors import UsageError
from fx_explorer.instruments.decisions.figures import decisions_of_kernel
from fx_explorer.instruments.decisions.report import timed_choices_of_report
from fx_explorer.instruments.fusion.figures import pairs_of_kernel
from fx_explorer.instruments.fusion.loop_nest_reasons import nests_by_kernel, pairs_in_kernel
from fx_explorer.instruments.kernels.costs import kernel_costs
from fx_explorer.instruments.memory.saved_readers import saved_read_by
from fx_explorer.overview.find import find
from fx_explorer.overview.nested_graphs import nested_graphs
from fx_explorer.report.compilation_entries import (
    kernel_configs,
    kernel_estimate,
    kernel_launches,
)
from fx_explorer.session import SessionReader

MOST_FOUND = 2_000
"""Maximum number of places that a search looks for."""

MOST_INPUTS = 20_000
"""Maximum number of inputs of graphs whose names are compared."""

MOST_APART = 5
"""Maximum number of kernels in an answer that a kernel was not fused with."""


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
        row["why"] = _why(reader, kernel)
        row["reads_saved"] = [
            f"{saved.name}: {saved.dtype}[{', '.join(saved.shape)}], {saved.size_bytes} bytes"
            for saved in saved_read_by(reader, kernel.id)
        ]
        row["loop_nests"] = _loop_nests(reader, kernel)
        row["not_fused_with"] = _not_fused_with(reader, kernel)
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
        known_from="Inductor's scheduler and output code; seconds_are: the source of a time",
        next=[f"code {kernels[0].name}", *[f"line {at}" for at in first.get("lines", [])[:1]]],
    )


def _why(reader: SessionReader, kernel: model.Kernel) -> list[Json]:
    """Return what Inductor decided about a kernel."""
    return [
        {
            "about": explained.decision.kind,
            "sentence": explained.reason.text,
            "may_change_it": explained.reason.change,
        }
        for explained in decisions_of_kernel(reader, kernel.id)
    ] + [
        {"about": row["about"], "sentence": row["sentence"]}
        for row in timed_choices_of_report(reader, kernel.name)
    ]


def _loop_nests(reader: SessionReader, kernel: model.Kernel) -> list[Json]:
    """Return the loop nests of a C++ kernel that has several, and why they were not merged."""
    nests = nests_by_kernel(reader).get(kernel.id, [])
    pairs = pairs_in_kernel(reader, kernel.id)
    return [
        {
            "loops": nest.name,
            "over": nest.rows[0].loops,
            "lines": [f"{file}:{line}" for file, line in nest.lines],
            "computes": list(nest.computes),
            "shares_outer_loops_of": nest.rows[0].outer if nest.rows[0].is_outer_shared else "",
            "is_alone": nest.is_alone,
            "not_merged_with": {
                pair.second.name: pair.cause.text for pair in pairs if pair.first.name == nest.name
            },
        }
        for nest in nests
    ]


def _not_fused_with(reader: SessionReader, kernel: model.Kernel) -> list[Json]:
    """Return the kernels with which one could share memory accesses, and why they are apart."""
    rows: list[Json] = []
    for pair in pairs_of_kernel(reader, kernel.id)[:MOST_APART]:
        is_first = pair.first.kernel.id == kernel.id
        other = pair.second if is_first else pair.first
        rows.append(
            {
                "kernel": other.kernel.name,
                "is": "after it" if is_first else "before it",
                "why": pair.cause.text,
                "saved_bytes": pair.pair.saved_bytes,
            }
        )
    return rows


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
    match = PLACE.fullmatch(what)
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

    title = document.full_title
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
        if document.kind == "source" and is_file(reader, document, name)
    ]
    by_number = [each for each in every_document if text_number(each) == name.strip()]
    fitting = files or by_number or documents_called(every_document, name)
    if len(fitting) == 1 or (fitting and _are_one_text(fitting)):
        return fitting[0]
    shown = fitting or every_document
    names = [f"{text_number(document)} {document.full_title}" for document in shown]
    more = f"; {len(names) - SUGGESTED} more" if len(names) > SUGGESTED else ""
    if fitting:
        what = f"{name!r} matches {len(fitting)} texts; give the number of one"
    else:
        what = f"no text is called {name!r}; there are"
    raise UsageError(f"{what}: {'; '.join(names[:SUGGESTED])}{more}")


def _are_one_text(fitting: Sequence[Document]) -> bool:
    """Return whether they are kernels of one name: those of other versions have the same code."""
    return len({document.title for document in fitting}) == 1 and fitting[0].stage == "kernel"


def of_search(reader: SessionReader, typed: str) -> Answer:
    """Return inputs, nodes, kernels, lines and breaks that have all the words."""
    if not typed.strip():
        raise UsageError("find takes the text to search for: find relu")
    matches = find(reader, typed, MOST_FOUND)
    rows: list[Json] = [
        {
            "what": match.kind,
            "text": match.text,
            "detail": match.detail,
            "at": place_text(reader, match.place),
        }
        for match in matches
    ]
    words = typed.casefold().split()
    rows = [*_graphs_called(reader, words), *_inputs_called(reader, words), *rows][:MOST_FOUND]
    how_many = counted(len(rows), "place")
    if len(rows) == MOST_FOUND:
        how_many = f"The first {MOST_FOUND:,} places"
    return Answer(
        text=f"{how_many} with {typed!r}: nested graphs, inputs by your name, nodes and their "
        "arguments, kernels, lines and breaks.",
        rows=rows,
        known_from="names, arguments and lines of the session",
        next=_next_of_search(rows),
    )


_ASKED_ABOUT = {
    "node": "node",
    "input": "node",
    "graph": "nested",
    "kernel": "kernel",
    "line": "line",
    "break": "line",
}
"""Kind of a place → the question about it."""


def _next_of_search(rows: Sequence[Json]) -> list[str]:
    """Return the question about the first place of each kind."""
    questions: dict[str, str] = {}
    for row in rows:
        question = _ASKED_ABOUT.get(row["what"])
        if question is None or row["what"] in questions:
            continue
        name = str(row["at"] if question == "line" else row["text"]).split("  ")[0]
        if row["what"] == "input":
            name = str(row["detail"]).partition(" ")[0]
        if name:
            questions[row["what"]] = f"{question} {name}"
    return list(dict.fromkeys(questions.values()))


def _graphs_called(reader: SessionReader, words: Sequence[str]) -> Iterator[Json]:
    """Yield the graphs that others run whose name, or function, has all the words."""
    for nested in nested_graphs(reader):
        if all(word in nested.name.casefold() for word in words):
            document = document_of(reader, "graph", nested.graphs[0].id)
            yield {
                "what": "graph",
                "text": nested.name,
                "detail": f"{nested.operator}: runs {nested.runs} · graph {document.id}",
                "at": place_text(reader, Place(document, 0)),
            }


_MODULES = re.compile(r"\._modules\['(?P<name>[^']*)'\]")
"""Matches a module within a container, as torch's sources name it."""


def _inputs_called(reader: SessionReader, words: Sequence[str]) -> Iterator[Json]:
    """Yield the inputs of graphs whose name in the program has all the words: ``fc.weight``, where
    torch's own name of the node does not.
    """
    nodes = reader.rows(model.Node, op="placeholder", limit=MOST_INPUTS)
    names = InputNames(reader).of(nodes)
    for node in nodes:
        name = _MODULES.sub(r".\g<name>", names[node.id].name)
        is_known_by_torch = all(word in node.name.casefold() for word in words)
        if is_known_by_torch or not all(word in name.casefold() for word in words):
            continue
        document = document_of(reader, "graph", node.graph)
        yield {
            "what": "input",
            "text": name,
            "detail": f"{node.name} · {document.full_title}",
            "at": place_text(reader, Place(document, node.position)),
        }
