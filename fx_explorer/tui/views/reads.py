"""How large the table of a view is going to be, from a count of rows: a large one is made beside
the screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.sql import rows_up_to

AT_ONCE_US = 40_000
"""A table that takes no longer is made before the next frame: nothing flickers."""


READING = "Reading {what} …"

UNREADABLE = "This could not be read."

FAILED = f"{UNREADABLE} Choose the view again to try once more."


@dataclass(frozen=True, slots=True)
class Reads:
    """The rows that a table is made of."""

    what: type
    """The rows that the user waits for."""
    noun: str
    cost_us: Mapping[type, float]
    """About how long each kind of row takes, in microseconds: measured for kernels, nodes and
    guards, estimated for the others.
    """

    def takes_long(self, reader: SessionReader) -> bool:
        """Return whether the table is too large to be made before the next frame. It costs a count
        that ends where that is known.
        """
        estimated_us = 0.0
        for row_type, one_us in self.cost_us.items():
            estimated_us += one_us * rows_up_to(reader, row_type, int(AT_ONCE_US / one_us) + 1)
        return estimated_us > AT_ONCE_US

    def words(self, reader: SessionReader) -> str:
        """Say what is being read: ``100,000 kernels``."""
        return counted(reader.count(self.what), self.noun)


READS: dict[str, Reads] = {
    "graphs": Reads(model.Node, "node", {model.Node: 0.7}),
    "guards": Reads(model.Guard, "guard", {model.Guard: 8}),
    "kernels": Reads(model.Kernel, "kernel", {model.Kernel: 22, model.LineNode: 1.8}),
    "memory": Reads(model.SavedTensor, "saved tensor", {model.SavedTensor: 30}),
    "modules": Reads(
        model.Node,
        "node",
        {model.Node: 0.7, model.Kernel: 22, model.LineNode: 1.8, model.SavedTensor: 30},
    ),
    "step_memory": Reads(model.Kernel, "kernel", {model.KernelCall: 400, model.Kernel: 50}),
    "regions": Reads(model.Node, "node", {model.Node: 0.15}),
    "ledger": Reads(model.LedgerStep, "step", {model.LedgerStep: 20}),
    "flame": Reads(model.Span, "phase", {model.Span: 20, model.PhaseLine: 20}),
    "profile": Reads(
        model.Kernel, "kernel", {model.ProfileTime: 60, model.Kernel: 25, model.LineNode: 3}
    ),
    "roofline": Reads(
        model.Kernel, "kernel", {model.Kernel: 40, model.LineNode: 1.8, model.LedgerStep: 10}
    ),
    "time": Reads(model.Span, "phase", {model.Span: 5}),
}
"""View → what may make it large. Tables of other views have few rows, or read them by page."""

OUTLINE_READS = Reads(
    model.Compilation,
    "compilation",
    {model.Compilation: 800, model.Kernel: 0.5, model.SourceFile: 40},
)
"""The outline beside the views. Of many kernels only the ranges are read."""

OVERVIEW_READS = Reads(model.Node, "node", {model.Node: 1, model.Kernel: 3, model.Compilation: 200})
"""The overview, which the app opens with."""

DOCUMENT_READS = Reads(
    model.Artifact, "text", {model.Artifact: 8, model.Graph: 40, model.Compilation: 100}
)
"""What a pane can show."""

FIND_READS = Reads(model.Node, "node", {model.Node: 0.5, model.Kernel: 8, model.SourceFile: 200})
"""All that is searched."""
