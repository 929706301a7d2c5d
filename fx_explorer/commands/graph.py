"""This module is ``fx-explorer graph X [NAME]``: it prints a graph as Python code, as FX's own
table, as a script that runs it alone, or for a program that draws it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.documents import Document, documents_of, front_end_documents
from fx_explorer.analysis.graph_files import describe_origin
from fx_explorer.analysis.graph_texts import COLUMNS, table_row
from fx_explorer.analysis.words import counted
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.command_line.outputs import add_force_argument, text_output
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.output.formats import text_of
from fx_explorer.output.table import Table
from fx_explorer.output.terminal import Hanging, print_fitted, width_for
from fx_explorer.output_file import OutputFile
from fx_explorer.session import SessionReader

EPILOG = """\
NAME is the number of a graph in the list, its stage (dynamo, joint, forward, backward, post_grad),
or words of its title. Every recorded graph can be printed from the session alone, without the
program or torch. The script makes inputs, parameters and buffers of the same shapes, strides,
dtypes and devices with random content, and runs the graph in a Python that has torch. Its first
lines say what it cannot rebuild.

examples:
  fx-explorer graph model.py                                   list the graphs
  fx-explorer graph model.fxs joint                            the joint graph as Python
  fx-explorer graph model.fxs post_grad --format table         as gm.graph.print_tabular() prints it
  fx-explorer graph model.fxs forward --fold                   by module, repeated layers once
  fx-explorer graph model.fxs forward --module layers.0        what is in one of the modules
  fx-explorer graph model.fxs 4 --format script -o forward.py  to run alone: python forward.py
  fx-explorer graph model.fxs forward --format svg -o forward.svg   a picture, modules as boxes
  fx-explorer graph model.fxs forward --format dot | dot -Tsvg > forward.svg
"""

PICTURE = "svg"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fx_explorer.analysis.graph_files import FORMS

    parser.epilog = EPILOG
    add_target_argument(parser)
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="which graph (default: list them)"
    )
    parser.add_argument(
        "--format",
        choices=(*FORMS, PICTURE),
        default="code",
        help="code (default), table, script; svg, a picture with a box for each module; dot "
        "(Graphviz), graphml, model-explorer",
    )
    parser.add_argument(
        "--fold",
        action="store_true",
        help="a row for each module with its nodes and parameters; repeated layers are one row, "
        "with their differences",
    )
    parser.add_argument(
        "--module",
        metavar="PATH",
        default="",
        help="with --fold: only this module and its content, such as layers.0.mlp",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=None,
        help="write it here (default: stdout)",
    )
    add_force_argument(parser)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from fx_explorer.analysis.graph_files import SIGN

    is_folded = arguments.fold or arguments.module
    if is_folded and arguments.format != "code":
        raise UsageError(f"--fold prints its own table: leave out --format {arguments.format}")
    if is_folded and not arguments.name:
        raise UsageError("--fold needs one graph: give its NAME. Without it, graphs are listed")
    if arguments.output and not arguments.name:
        raise UsageError("-o needs one graph: give its NAME. Without -o, the graphs are listed")
    output = text_output(arguments.output, "graph", SIGN.encode(), arguments, "-o FILE")
    return answer_from(arguments, lambda reader: _answer(reader, arguments, output)) or 0


def _answer(
    reader: SessionReader, arguments: argparse.Namespace, output: OutputFile | None
) -> None:
    from fx_explorer.analysis.graph_files import written_graph
    from fx_explorer.session.ownership import is_own_session

    graphs = _graphs(reader)
    if not arguments.name:
        for document in graphs:
            print_fitted(_line(document))
        if not graphs:
            print_fitted(_no_graph(reader))
        return
    document = _requested_graph(reader, graphs, arguments.name)
    graph = reader.get(model.Graph, document.id)
    width = width_for(sys.stdout)
    if arguments.fold or arguments.module:
        given_width = None if output else width
        text = folded_graph_text(reader, graph, document.title, arguments.module, given_width)
        if output:
            output.write_text(text, "backslashreplace")
        else:
            sys.stdout.write(text)
        return
    if arguments.format == "table" and not output and width is not None:
        sys.stdout.write(graph_table_text(reader, graph, document.title, width))
        return
    if arguments.format == PICTURE:
        from fx_explorer.report.graph_svg import graph_svg  # not needed for other forms

        text = graph_svg(reader, graph, describe_origin(reader, graph, document.title))
    else:
        text = written_graph(
            reader, graph, document.title, arguments.format, is_own=is_own_session(reader.path)
        )
    if output:
        output.write_text(text, "backslashreplace")
    else:
        sys.stdout.write(printable_text(text))


def _no_graph(reader: SessionReader) -> str:
    """Return a message that there is no graph. A package of AOTInductor never has one: its
    documents are listed instead, with a remedy.
    """
    if (reader.meta("target") or {}).get("kind") != "package":
        return "No graph was recorded."
    titles = (document.title for document in _documents(reader))
    listed = "\n".join(printable(f"      {title}") for title in titles)
    return (
        "An AOTInductor package has no graph, only compiled code. For its graph, give the "
        "ExportedProgram it was made from (torch.export.save). Its documents, which the app "
        "shows:\n"
        f"{listed}"
    )


def _graphs(reader: SessionReader) -> list[Document]:
    graphs = [document for document in _documents(reader) if document.kind == "graph"]
    return [*graphs, *front_end_documents(reader)]


def _documents(reader: SessionReader) -> Iterator[Document]:
    """Yield the documents of all compilations."""
    for compilation in reader.rows(model.Compilation):
        yield from documents_of(reader, compilation)


def _line(document: Document) -> Hanging:
    owner = f"[{document.owner}] " if document.owner else ""
    nodes = counted(document.line_count, "node")
    return Hanging(f"{document.id:>4}  ", printable(f"{owner}{document.title}  ({nodes})"))


def _listed(graphs: list[Document]) -> str:
    return "\n".join(str(_line(document)) for document in graphs)


def _requested_graph(reader: SessionReader, graphs: list[Document], name: str) -> Document:
    """Return the graph of this number, title or stage, or the only one with these words in its
    title. Raises UsageError.
    """
    if not graphs:
        raise UsageError(f"there is no graph {name!r}. {_no_graph(reader)}")
    documents = _graphs_called(graphs, name)
    if not documents:
        raise UsageError(f"no graph is called {name!r}; there are:\n{_listed(graphs)}")
    if len(documents) > 1:
        raise UsageError(
            f"{name!r} matches {len(documents)} graphs; give the number of one:\n"
            f"{_listed(documents)}"
        )
    return documents[0]


def _graphs_called(graphs: list[Document], name: str) -> list[Document]:
    """Return the graphs that match a name: by number, else by title, by stage, or by words in
    it.
    """
    wanted = name.lower()
    by_number = [graph for graph in graphs if str(graph.id) == name]
    by_title = [
        graph for graph in graphs if wanted in (graph.title.lower(), graph.full_title.lower())
    ]
    by_stage = [graph for graph in graphs if graph.stage == wanted and not _is_part(graph)]
    if name.isdecimal():
        by_words = []
    else:
        by_words = [graph for graph in graphs if _title_matches(graph, wanted.split())]
    return by_number or by_title or by_stage or by_words


def _is_part(graph: Document) -> bool:
    return "·" in graph.title.removesuffix("· post-grad")


def _title_matches(graph: Document, words: list[str]) -> bool:
    text = f"{graph.full_title} {graph.stage}".lower()
    return all(word in text for word in words)


def graph_table_text(reader: SessionReader, graph: model.Graph, title: str, width: int) -> str:
    """Return the table in ``width`` cells, names and arguments shortened in the middle, below a
    line that identifies the graph.
    """
    rows = [table_row(node) for node in reader.nodes(graph)]
    table = Table(COLUMNS, rows, elsewhere="-o FILE")
    return text_of([f"# {describe_origin(reader, graph, title)}", "", table], width)


def folded_graph_text(
    reader: SessionReader, graph: model.Graph, title: str, module: str, width: int | None
) -> str:
    """Return the graph folded by module, or what is in one module, below a line that identifies it
    and one with the answer.
    """
    # not needed to list graphs
    from fx_explorer.instruments.modules.folded_listing import (
        describe_folded,
        folded_table,
        rows_inside,
    )
    from fx_explorer.instruments.modules.graph_folding import folded_graph
    from fx_explorer.instruments.profile.folded_times import graph_seconds

    folded = folded_graph(reader, graph.id)
    rows = rows_inside(folded, module) if module else folded.first_shown()
    seconds = graph_seconds(reader, graph)
    origin = f"# {describe_origin(reader, graph, title)}"
    if not folded.has_modules:
        return text_of([origin, "", describe_folded(folded)], width)
    table = folded_table(reader, graph, folded, rows, seconds)
    return text_of([origin, "", describe_folded(folded), "", table], width)
