"""What torch says of a program that is compiled without Dynamo: what torch.export made, and where
its sizes came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fx_explorer.model import Failure, FrontEnd, Graph
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.dynamo_records import EXPORT
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.printed_graph import read_graphs

_AFTER_GRAPH = "\nGraph signature:"
"""Begins what follows the graph in the text of an ExportedProgram."""

_FAILURES = {
    "missing_fake_kernel": "MissingFakeKernel",
    "mismatched_fake_kernel": "MismatchedFakeKernel",
}


@dataclass(frozen=True, slots=True)
class _Expression:
    """An expression of sizes, and the line that asked for it."""

    record: Record
    text: str


class ProgramRecords:
    """Makes rows and documents of them."""

    def __init__(
        self,
        writer: SessionWriter,
        compilations: Compilations,
        graphs: GraphRecords,
        places: Places,
    ) -> None:
        self._writer = writer
        self._compilations = compilations
        self._graphs = graphs
        self._places = places
        self._expressions: dict[str, list[_Expression]] = {}

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return {
            "exported_program": self._exported,
            "expression_created": self._expression,
            "link": self._link,
            "dump_file": self._file,
            **dict.fromkeys(_FAILURES, self._fake_kernel),
        }

    def _begin(self, record: Record) -> None:
        if not record.compilation:
            self._compilations.begin_without_frame(record, EXPORT)

    def _exported(self, record: Record) -> None:
        self._begin(record)
        self._compilations.add_artifact(
            record, "listing", "dynamo", "Exported program", "python", record.payload
        )
        printed, _, _ = record.payload.partition(_AFTER_GRAPH)
        found = read_graphs(printed)
        if found:
            graph = self._graphs.add_printed(found[0], Graph(0, 0, "front_end", "", "export"))
            self._writer.add(FrontEnd(0, "export", "made", graph))

    def _expression(self, record: Record) -> None:
        content = _fields(record)
        self._begin(record)
        arguments = ", ".join(str(one) for one in content.get("arguments") or ())
        user = self._places.user_frame(self._places.frames(content.get("user_stack")))
        where = f"   {user.file}:{user.line}: {user.code}" if user else ""
        text = f"{content.get('result')} = {content.get('method')}({arguments}){where}"
        self._expressions.setdefault(record.compilation, []).append(_Expression(record, text))

    def _fake_kernel(self, record: Record) -> None:
        content = _fields(record)
        self._begin(record)
        if record.kind == "missing_fake_kernel":
            about = "has no fake kernel"
        else:
            about = "computes something else than its fake kernel says"
        message = ": ".join(
            filter(None, (f"{content.get('op')} {about}", str(content.get("reason") or "")))
        )
        row = Failure(
            0,
            self._compilations.id(record),
            "compiler",
            None,
            _FAILURES[record.kind],
            message[:400],
        )
        self._writer.add(row)

    def _link(self, record: Record) -> None:
        content = _fields(record)
        title = f"Link: {content.get('name')}"
        self._compilations.add_artifact(
            record, "listing", "dynamo", title, "text", str(content.get("url"))
        )

    def _file(self, record: Record) -> None:
        title = f"Generated file {_fields(record).get('name')}"
        self._compilations.add_artifact(
            record, "listing", "dynamo", title, "python", record.payload
        )

    def finish(self) -> None:
        """Write how the expressions of sizes came about, as one document of each compilation."""
        for found in self._expressions.values():
            text = "\n".join(one.text for one in found)
            title = "How expressions of sizes came about"
            self._compilations.add_artifact(
                found[0].record, "listing", "dynamo", title, "text", text
            )


def _fields(record: Record) -> dict[str, Any]:
    return record.content if isinstance(record.content, dict) else {}
