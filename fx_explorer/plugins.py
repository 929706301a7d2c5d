"""This module is the interface of plug-ins: what a package can add to fx-explorer, as dataclasses.

A package offers an object of one of them as an entry point, and it is used wherever fx-explorer's
own are::

    [project.entry-points."fx_explorer.views"]
    dtypes = "my_package:DTYPES"

=========== ========================= ===========================================================
offer       group of entry points     what it adds
=========== ========================= ===========================================================
FileReader  ``fx_explorer.readers``   a kind of file that becomes a session
ProblemKind ``fx_explorer.problems``  a kind of finding, in the overview, reports and ``diagnose``
GraphPane   ``fx_explorer.panes``     a text of a graph, linked line by line, beside the others
View        ``fx_explorer.views``     a table of the app (``v x``), and a section of reports
Section     ``fx_explorer.sections``  a section of reports alone
GpuFile     ``fx_explorer.gpus``      a GPU for ``--gpu``
=========== ========================= ===========================================================

Functions get a ``SessionReader``; what a session has are the dataclasses of ``fx_explorer.model``:
``reader.rows(model.Kernel)``. They run in fx-explorer's own process, which has no torch, and may be
called in any thread. ``interface`` is the version of this module that the plug-in was written for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fx_explorer import model
from fx_explorer.errors import SessionError
from fx_explorer.gpus import GpuFile
from fx_explorer.plugin_loading import INTERFACE
from fx_explorer.session import SessionReader, SessionWriter

__all__ = [
    "INTERFACE",
    "Column",
    "FileReader",
    "GpuFile",
    "GraphPane",
    "PaneText",
    "Problem",
    "ProblemKind",
    "Row",
    "Section",
    "SessionError",
    "SessionReader",
    "SessionWriter",
    "Table",
    "View",
    "model",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Makes a session of a kind of file that fx-explorer does not know."""

    interface: int
    words: str
    """The kind of file as a phrase after "it is": ``a log of my compiler``."""
    recognizes: Callable[[Path, bytes], bool]
    """Returns whether a file is of this kind, by its first 4,096 bytes."""
    read: Callable[[Path, SessionWriter], None]
    """Writes the file's content into a new session. Raises SessionError for a damaged file, with
    words that follow "cannot be read:".
    """


Urgency = Literal["failed", "wrong", "not compiled", "slow", "again", "minor"]
"""What a problem does to the program, the worst first. ``failed``: it does not run. ``wrong``: its
results differ. ``not compiled``: a part runs in eager mode. ``slow``: each call takes longer.
``again``: compiling takes longer. ``minor``: none of these.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a program."""

    text: str
    """What is wrong, as a sentence."""
    urgency: Urgency
    evidence: tuple[str, ...] = ()
    """What in the session shows it, a sentence each."""
    explanation: str = ""
    """Explanation for a reader who meets this for the first time."""
    remedies: tuple[str, ...] = ()
    """What can be done about it, a sentence each. They are shown as suggestions that were not
    tried.
    """
    file: str = ""
    """The user's file; empty without a place."""
    line: int = 0
    """The line of ``file``, from 1."""
    cost_s: float = 0.0
    """Seconds that it costs, which order problems of one urgency; 0 where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """Finds problems of one kind in a session."""

    interface: int
    looked_for: str
    """What is looked for, as a noun in the plural: ``unrolled loops``."""
    find: Callable[[SessionReader], Iterable[Problem]]
    needs: Literal["a capture", "graphs", "kernels", "graph breaks", "recompiles"] = "a capture"
    """What a session must have for it; in another, the report lists it as not looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneText:
    """A graph as text."""

    lines: tuple[str, ...]
    node_of_line: Mapping[int, int] = field(default_factory=dict)
    """Line, from 0 → id of the ``model.Node`` that it shows, which links it to the other panes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPane:
    """Writes a graph of a stage as text, for a pane of the app."""

    interface: int
    title: str
    """What the pane shows, after the graph's own title: ``as DOT``."""
    write: Callable[[SessionReader, model.Graph], PaneText]
    stages: tuple[model.Stage, ...] = ()
    """The stages whose graphs it can show: ``("post_grad",)``; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    title: str
    is_number: bool = False
    """Whether its cells are aligned right, and sorted by ``Row.numbers``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    cells: tuple[str, ...]
    """A text for each column."""
    detail: str = ""
    """The text below the list when the cursor is on the row."""
    node: int = 0
    """Id of the ``model.Node`` that enter leads to; 0 for none."""
    file: str = ""
    """The user's file whose ``line`` enter leads to, if there is no ``node``."""
    line: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Title of a column → the exact number of the cell, for sorting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of a view or a section."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    answer: str
    """The answer in one sentence, which stands above the rows."""
    empty: str
    """Why there are no rows, where there are none."""
    origin: str = ""
    """How the rows are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A table of the app, which ``v x`` lists, and a section of reports under its name."""

    interface: int
    title: str
    shows: str
    """One sentence on what the view shows."""
    table: Callable[[SessionReader], Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of reports: ``report --section NAME``, and a part of the page, of markdown and of
    the JSON report.
    """

    interface: int
    title: str
    shows: str
    """One sentence on what the section shows."""
    table: Callable[[SessionReader], Table]
