"""What stands for a session, a place or a text in an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    graph_document,
)
from fx_explorer.analysis.whole_session import end_of_log, is_log
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names


def place_text(reader: SessionReader, place: Place | None) -> str:
    """Return ``model.py:12`` or ``[0/0] Forward graph:4``; empty for no place."""
    if place is None or not place.document.title:
        return ""
    return f"{place.document.full_title}:{place.line + 1}"


def describe_session(reader: SessionReader, name: str) -> dict[str, str]:
    """Return what every answer says of its session: its name, the program, torch, the device."""
    environment = reader.meta("environment") or {}
    program = reader.meta("target") or {}
    return {
        "session": name,
        "program": str(program.get("file") or program.get("name") or ""),
        "torch": str(environment.get("torch") or ""),
        "device": str(
            environment.get("virtual_gpu")
            or environment.get("gpu")
            or environment.get("device")
            or ""
        ),
        "ended": _ending(reader),
    }


def _ending(reader: SessionReader) -> str:
    """Return how the program ended; of a log, what it says at its end."""
    if is_log(reader):
        return end_of_log(reader)
    outcome = reader.meta("outcome") or {}
    return str(outcome.get("kind") or "not recorded")


def text_number(document: Document) -> str:
    """Return the number that identifies a text among several of one name: ``7`` for a graph, else
    ``text7``.
    """
    if document.kind == "graph":
        return str(document.id)
    beginning = "file" if document.kind == "source" else "text"
    return f"{beginning}{document.id}"


def code_questions(texts: Sequence[Document], *options: str) -> list[str]:
    """Return the questions that show the first of some texts."""
    return [" ".join(["code", text_number(text), *options]) for text in texts[:3]]


def graph_documents(reader: SessionReader) -> list[Document]:
    """Return every graph that has nodes, in the order torch.compile made them."""
    names = compilation_names(reader)
    graphs = [graph for graph in reader.rows(model.Graph) if graph.node_count]
    return [graph_document(graph, names.get(graph.compilation, "")) for graph in graphs]


SUGGESTED = 12
"""Number of names that a message lists where none fits."""

PLACE = re.compile(r"(?P<name>.*?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?")
"""Matches a name, with a line or a range of lines: ``model.py:12``, ``model.py:12-40``."""


def is_file(reader: SessionReader, document: Document, name: str) -> bool:
    """Return whether a name is that of a source file: its path, or the end of it."""
    path = reader.get(model.SourceFile, document.id).path
    if name in (path, document.title):
        return True
    wanted, parts = PurePath(name).parts, PurePath(path).parts
    return bool(wanted) and parts[-len(wanted) :] == wanted


def documents_called(candidates: Sequence[Document], name: str) -> list[Document]:
    """Return those with this number; else with this name; else whose names have all the words."""
    wanted = name.strip().casefold()
    by_number = [document for document in candidates if str(document.id) == wanted]
    if by_number and candidates[0].kind == "graph":
        return by_number
    named = [
        document
        for document in candidates
        if wanted in (document.full_title.casefold(), document.title.casefold())
    ]
    if named:
        return named
    words = wanted.split()
    return [
        document for document in candidates if all(word in _names_of(document) for word in words)
    ]


def _names_of(document: Document) -> str:
    return f"{document.full_title} {document.stage or ''}".casefold()
