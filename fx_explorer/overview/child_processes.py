"""This module counts what torch.compile did in child processes of the program, beside the program's
own figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.words import breaks_hit, counted, first_line, listed
from fx_explorer.instruments.breaks.call_tree import computes_nothing
from fx_explorer.instruments.breaks.grouped import PLAIN_REASONS
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


@dataclass(frozen=True, slots=True)
class Children:
    """Children are the program's child processes. Those in ``seen`` recorded their compilations;
    those in ``unseen`` could not.
    """

    seen: tuple[model.ChildProcess, ...]
    unseen: tuple[model.ChildProcess, ...]
    findings: tuple[model.ChildFinding, ...]

    @property
    def everyone(self) -> tuple[model.ChildProcess, ...]:
        return self.seen + self.unseen

    @property
    def graphs(self) -> int:
        return sum(process.graphs for process in self.seen)

    @property
    def graph_breaks(self) -> int:
        return sum(process.graph_breaks for process in self.seen)

    @property
    def recompiles(self) -> int:
        return sum(process.recompiles for process in self.seen)

    @property
    def compilations(self) -> int:
        return sum(process.compilations for process in self.seen)

    def of(self, kind: model.FindingKind) -> list[model.ChildFinding]:
        """Return each place, cause and text once, however many processes have it. ``count`` is the
        sum over all; for guards, the maximum.
        """
        together: dict[tuple[str, int, str, str], int] = {}
        for finding in self.findings:
            if finding.kind != kind:
                continue
            key = (finding.file, finding.line, finding.cause, finding.text)
            before = together.get(key, 0)
            if kind == "guards":
                together[key] = max(before, finding.count)
            else:
                together[key] = before + finding.count
        return [model.ChildFinding(0, 0, kind, *key, count) for key, count in together.items()]

    @property
    def left(self) -> list[model.ChildFinding]:
        """Return the functions run in eager mode that compute something."""
        return [finding for finding in self.of("left") if not computes_nothing(finding.text)]


def children(reader: SessionReader) -> Children:
    """Return the program's child processes, with the findings of those that recorded."""
    everyone = reader.rows(model.ChildProcess)
    seen = tuple(process for process in everyone if not process.unseen)
    unseen = tuple(process for process in everyone if process.unseen)
    if not seen:
        return Children(seen, unseen, ())
    return Children(seen, unseen, tuple(reader.rows(model.ChildFinding)))


def describe_finding(finding: model.ChildFinding) -> str:
    """Return ``a Python builtin acts outside of the graph, in a child process``."""
    return f"{PLAIN_REASONS.get(finding.cause) or first_line(finding.text)}, in a child process"


def children_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what the child processes compiled, and which ones could not be recorded."""
    processes = children(reader)
    if processes.seen:
        text = (
            f"{counted(len(processes.seen), 'child process')} compiled "
            f"{counted(processes.compilations, 'function')} into "
            f"{counted(processes.graphs, 'graph')}"
        )
        breaks = [in_file(finding.file, finding.line) for finding in processes.of("break")]
        if breaks:
            hits = breaks_hit(len(breaks), processes.graph_breaks)
            text += f", with {hits} at {listed(breaks, 5)}"
        detail = "They are counted but not shown: their graphs are not in this session. "
        detail += listed(map(_named, processes.seen), 5)
        severity: Severity = "problem" if processes.of("error") else "notice"
        yield Fact("graphs", severity, f"{text}.", detail, view="console")
    if processes.unseen:
        unseen = counted(len(processes.unseen), "child process")
        text = f"It is not known what {unseen} compiled."
        reasons = (
            f"{process.command or _named(process)}: {process.unseen}"
            for process in processes.unseen
        )
        yield Fact("graphs", "notice", text, listed(reasons, 5), view="console")


def _named(process: model.ChildProcess) -> str:
    name = f"{process.beginning} process {process.pid}"
    if process.command:
        name += f" ({process.command})"
    return name
