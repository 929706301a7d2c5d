"""This module makes rows from a TORCH_TRACE log's records of Dynamo's work on a program, and of a
program compiled without Dynamo.

Dynamo tells graph breaks, recompiles, checks and dynamic sizes; without it torch tells what
torch.export made, and where its sizes came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fx_explorer.model import (
    NOT_MEASURED,
    Failure,
    Frame,
    FrontEnd,
    Graph,
    GraphBreak,
    GuardCheck,
    Metric,
    Origin,
    Recompile,
    Symbol,
    SymbolEvent,
    SymbolEventKind,
)
from fx_explorer.readers.torch_trace.compilation_records import Compilations, LogCompilation
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.places import Places, is_torch
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.printed_graph import read_graphs
from fx_explorer.torch_texts.printed_guard_tree import latency_us, origin_of, read_checks
from fx_explorer.torch_texts.reports import parse_break, parse_reason, version_of, what_failed

_EVENTS: dict[str, SymbolEventKind] = {
    "symbolic_shape_specialization": "specialized",
    "guard_added_fast": "constrained",
    "guard_added": "constrained",
    "propagate_real_tensors": "assumed",
    "propagate_real_tensors_provenance": "assumed",
}

EXPORT = "torch.export"
"""Name of the compilation of an exported program."""

_NOTED_LINE = re.compile(r"(?:.*#\s)?(?P<file>[^#\n]+?):(?P<line>\d+) in \S+")


class NotedCheck(NamedTuple):
    """A check that torch printed, with what follows from its text. Flat, since a model has
    thousands, and they come from another process.
    """

    kind: str
    source: str
    origin: Origin
    code: str
    value_type: str
    note: str
    file: str
    """The file that torch's remark names, whose beginning may be cut off; empty without one."""
    line: int


def read_guards(text: str) -> list[NotedCheck]:
    """Return the checks of a printed tree, in its order."""
    guards = []
    for check in read_checks(text.strip("\n")):
        noted = _NOTED_LINE.search(bounded(check.note))
        file, line = (noted["file"], int(noted["line"])) if noted else ("", 0)
        guards.append(
            NotedCheck(
                check.kind,
                check.source,
                origin_of(check),
                check.code,
                check.value_type,
                check.note,
                file,
                line,
            )
        )
    return guards


class DynamoRecords:
    """Makes rows of Dynamo's records."""

    def __init__(self, writer: SessionWriter, compilations: Compilations, places: Places) -> None:
        self._writer = writer
        self._compilations = compilations
        self._places = places
        self._causes: set[tuple[int, str, str, int]] = set()
        """Breaks that are recorded already: the cause for which Dynamo gives up a frame may be
        reported twice.
        """
        self._symbols: dict[int, set[str]] = {}
        self._known_events: set[SymbolEvent] = set()

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return {
            "dynamo_graph_break_reason": self._break,
            "recompile_reasons": self._recompile,
            "dynamo_cpp_guards_str": self._guards,
            "create_symbol": self._symbol,
            "create_unbacked_symbol": self._symbol,
            **dict.fromkeys(_EVENTS, self._event),
        }

    def _break(self, record: Record) -> None:
        report = parse_break(record.payload)
        compilation = self._compilations.id(record)
        cause = (compilation, report.registry_id or report.reason, report.file, report.line)
        if report.is_given_up and cause in self._causes:
            return
        self._causes.add(cause)
        state = self._compilations.state(record)
        if state:
            state.has_broken = True
        user = self._places.user_frame(report.frames)
        code = report.frames[-1].code if report.frames else ""
        file, line = report.file, report.line
        if user:
            code = user.code
        if user and is_torch(report.file):
            file, line = user.file, user.line
        self._places.file(file)
        self._compilations.name_after(record, user)
        row = GraphBreak(
            0,
            compilation,
            report.registry_id,
            report.reason,
            report.explanation,
            report.hints,
            file,
            line,
            code,
            stack=self._places.stack(report.frames),
            text=self._writer.text(record.payload),
            chain=self._places.stack(_inlined(state, report.frames)),
            skips_rest=report.skips_rest,
        )
        self._writer.add(row)

    def _recompile(self, record: Record) -> None:
        rows: dict[str, Recompile] = {}
        reasons = sorted(_reasons(record.payload), key=version_of, reverse=True)
        for text in reasons:
            about = what_failed(text)
            if about in rows:
                rows[about] = replace(rows[about], times=rows[about].times + 1)
                continue
            reason = parse_reason(text)
            user = self._places.user_frame(reason.frames)
            if user:
                file, line = user.file, user.line
            else:
                file, line = self._places.complete(reason.file), reason.line
            rows[about] = Recompile(
                0, self._compilations.id(record), reason.of, text, reason.guard, file, line
            )
        self._writer.add_all(rows.values())

    def _guards(self, record: Record) -> None:
        record = record.stripped()
        text = record.payload
        compilation = self._compilations.id(record)
        self._compilations.add_artifact(record, "guard_tree", "dynamo", "guard tree", "text", text)
        self._writer.add_all(self._checks(compilation, record.parse(read_guards)))
        latency = latency_us(text)
        if latency is not None:
            self._writer.add(Metric(0, compilation, "guard_check_ns", json.dumps(latency * 1000)))

    def _checks(self, compilation: int, guards: Iterable[NotedCheck]) -> Iterable[GuardCheck]:
        for position, guard in enumerate(guards):
            file, line = "", 0
            if guard.file:
                path = self._places.complete(guard.file)
                if path.startswith("/"):
                    file, line = path, guard.line
            yield GuardCheck(
                0,
                compilation,
                0,
                position,
                guard.kind,
                guard.source,
                guard.origin,
                guard.code,
                value_type=guard.value_type,
                note=guard.note,
                file=file,
                line=line,
                cost_ns=NOT_MEASURED,
            )

    def _symbol(self, record: Record) -> None:
        content = _fields(record)
        self._begin(record)
        compilation = self._compilations.id(record)
        source, value = str(content.get("source") or ""), content.get("val")
        value_text = "" if value is None else str(value)
        sources = (source,) if source else ()
        name = str(content.get("symbol"))
        self._symbols.setdefault(compilation, set()).add(name)
        self._compilations.note_hint(compilation, name, value_text)
        row = Symbol(
            0,
            compilation,
            name,
            source,
            value_text,
            str(content.get("vr")),
            self._places.stack(self._user(content)),
            sources,
            attempt=record.attempt,
        )
        self._writer.add(row)

    def _event(self, record: Record) -> None:
        self._begin(record)
        content, compilation = _fields(record), self._compilations.id(record)
        if record.kind == "symbolic_shape_specialization":
            expression, reason = str(content.get("value")), str(content.get("reason") or "")
        else:
            expression, reason = str(content.get("expr")), str(content.get("result") or "")
        symbols = re.findall(r"\b[a-z]+\d+\b", str(content.get("symbol") or expression))
        known = self._symbols.get(compilation, ())
        names = tuple(dict.fromkeys(symbol for symbol in symbols if symbol in known))
        frames = self._user(content)
        user = self._places.user_frame(frames)
        if user and not is_torch(user.file):
            place = (user.file, user.line)
        else:
            place = ("", 0)
        event = SymbolEvent(
            0,
            compilation,
            _EVENTS[record.kind],
            names,
            expression,
            reason,
            *place,
            attempt=record.attempt,
        )
        if event not in self._known_events:  # the same is asked again and again, at the same line
            self._known_events.add(event)
            self._writer.add(replace(event, stack=self._places.stack(frames)))

    def _begin(self, record: Record) -> None:
        """Begin a compilation for a record without a frame: such sizes come from
        ``torch.export``.
        """
        if not record.compilation:
            self._compilations.begin_without_frame(record, EXPORT)

    def _user(self, content: dict[str, Any]) -> tuple[Frame, ...]:
        """Return the user's stack. torch.export leaves it empty, and has the whole stack down to
        its own functions.
        """
        return self._places.frames(content.get("user_stack")) or self._places.frames(
            content.get("stack")
        )


def _inlined(state: LogCompilation | None, frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the compiled function and the functions inlined into it, outermost first: torch prints
    the callers, too. None if it is not among the frames.
    """
    if state is None:
        return ()
    compiled = (state.row.file, state.row.function)
    for at in reversed(range(len(frames))):
        if (frames[at].file, frames[at].function) == compiled:
            return frames[at:]
    return ()


def _fields(record: Record) -> dict[str, Any]:
    if not isinstance(record.content, dict):
        return {}
    return record.content


def _reasons(payload: str) -> list[str]:
    """Return the reasons: a list of texts if several compiled codes failed, one text for one."""
    try:
        reasons = json.loads(payload)
    except (ValueError, RecursionError):
        return [payload]
    if not isinstance(reasons, list):
        return [str(reasons)]
    return [str(reason) for reason in reasons]


# A program that is compiled without Dynamo.


_AFTER_GRAPH = "\nGraph signature:"
"""Beginning of the part after the graph in the text of an ExportedProgram."""

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
    """Makes rows and documents of records about exported programs, symbolic expressions, links,
    files and failed fake kernels.
    """

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
        graphs = read_graphs(printed)
        if graphs:
            graph = self._graphs.add_printed(graphs[0], Graph(0, 0, "front_end", "", "export"))
            self._writer.add(FrontEnd(0, "export", "made", graph))

    def _expression(self, record: Record) -> None:
        content = _fields(record)
        self._begin(record)
        arguments = ", ".join(str(argument) for argument in content.get("arguments") or ())
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
            about = "returns another result than its fake kernel"
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
        """Write the origin of the expressions of sizes, as one document per compilation."""
        for expressions in self._expressions.values():
            text = "\n".join(expression.text for expression in expressions)
            title = "How each size expression was derived"
            self._compilations.add_artifact(
                expressions[0].record, "listing", "dynamo", title, "text", text
            )
