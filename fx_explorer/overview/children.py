"""Processes that the program forked or started, and what torch.compile did in them, counted beside
the program's own figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import breaks_hit, counted, first_line, listed
from fx_explorer.instruments.breaks.call_tree import computes_nothing
from fx_explorer.instruments.breaks.grouped import PLAIN_REASONS
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


@dataclass(frozen=True, slots=True)
class Children:
    """The processes. ``seen`` are those that recorded what they compiled; of ``unseen`` ones
    nothing can be known.
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
            key = (finding.file, finding.line, finding.cause, finding.text)
            if finding.kind == kind:
                known = together.get(key, 0)
                together[key] = (
                    max(known, finding.count) if kind == "guards" else known + finding.count
                )
        return [model.ChildFinding(0, 0, kind, *key, count) for key, count in together.items()]

    @property
    def left(self) -> list[model.ChildFinding]:
        """Return the functions run in eager mode that compute something."""
        return [finding for finding in self.of("left") if not computes_nothing(finding.text)]


def children(reader: SessionReader) -> Children:
    everyone = reader.rows(model.ChildProcess)
    seen, unseen = (
        tuple(process for process in everyone if bool(process.unseen) is is_unseen)
        for is_unseen in (False, True)
    )
    return Children(seen, unseen, tuple(reader.rows(model.ChildFinding)) if seen else ())


def finding_in_words(finding: model.ChildFinding) -> str:
    """Return ``a Python builtin acts outside the graph, in a child process``."""
    return f"{PLAIN_REASONS.get(finding.cause) or first_line(finding.text)}, in a child process"


def children_facts(reader: SessionReader) -> Iterator[Fact]:
    found = children(reader)
    if found.seen:
        processes = counted(len(found.seen), "child process")
        text = (
            f"{processes} compiled {counted(found.compilations, 'function')} into "
            f"{counted(found.graphs, 'graph')}"
        )
        breaks = [in_file(finding.file, finding.line) for finding in found.of("break")]
        text += (
            f", with {breaks_hit(len(breaks), found.graph_breaks)} at {listed(breaks, 5)}."
            if breaks
            else "."
        )
        detail = "They are counted, not shown: their graphs are not in this session. " + listed(
            map(_named, found.seen), 5
        )
        yield Fact(
            "graphs", "problem" if found.of("error") else "notice", text, detail, view="console"
        )
    if found.unseen:
        text = (
            f"What {counted(len(found.unseen), 'child process')} compiled, if anything, is "
            "not known."
        )
        told = listed(
            (f"{process.command or _named(process)}: {process.unseen}" for process in found.unseen),
            5,
        )
        yield Fact("graphs", "notice", text, told, view="console")


def _named(process: model.ChildProcess) -> str:
    return f"{process.beginning} process {process.pid}" + (
        f" ({process.command})" if process.command else ""
    )
