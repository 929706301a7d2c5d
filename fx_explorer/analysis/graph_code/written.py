"""A graph written as a file: as code, as a table or as a script, with a first line that says which graph of what it is."""

from __future__ import annotations

import re
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.graph_code.script import graph_script
from fx_explorer.analysis.graph_code.texts import graph_text
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader

FileForm = Literal["code", "table", "script"]

FORMS: tuple[FileForm, ...] = ("code", "table", "script")

SIGN = "written by fx-explorer"
"""What every such file says near its beginning."""

STRANGERS = (
    "The session was not captured by you on this machine. Only torch's functions, Python's operators and plain values were "
    "taken over from it; read this all the same before you run it."
)


def written_graph(
    reader: SessionReader, graph: model.Graph, title: str, form: FileForm, *, is_own: bool = True
) -> str:
    """Return the text of the file. ``title`` is what the graph is called; ``is_own`` whether this user captured it."""
    origin = origin_in_words(reader, graph, title)
    if form == "script":
        return graph_script(reader, graph, [f"{origin}.", *([] if is_own else [STRANGERS])])
    return f"# {origin}\n\n{graph_text(reader, form, graph.id).text}"


def origin_in_words(reader: SessionReader, graph: model.Graph, title: str) -> str:
    """Say which graph of what it is, and who wrote it."""
    owner = next(iter(reader.by_ids(model.Compilation, [graph.compilation])), None)
    of = f" of [{owner.name}] {plain_function(owner.function)}" if owner else ""
    return printable(f"{title}{of}, {SIGN}")


def script_name(owner: str, title: str) -> str:
    """Return a name for the file: ``0_0_forward_post_grad.py``."""
    return re.sub(r"\W+", "_", f"{owner}_{title}".lower()).strip("_") + ".py"
