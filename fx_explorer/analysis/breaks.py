"""Graph breaks, grouped: one entry for each user line and cause, however often it was hit."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.words import first_line
from fx_explorer.session import SessionReader

PLAIN_REASONS: dict[str, str] = {
    "GB0007": "it calls something that Dynamo does not look into (C code, or a module it skips)",
    "GB0008": "it calls something that Dynamo does not look into (a module it skips)",
    "GB0009": "it calls something that Dynamo does not look into (a module it skips)",
    "GB0025": "a cut was asked for here (torch._dynamo.graph_break)",
    "GB0033": "an operation returns a Python value that depends on the tensor's content",
    "GB0036": "an operation's output size depends on the tensor's content",
    "GB0039": "the function was compiled too often for different inputs and is left to Python",
    "GB0059": "a Python builtin acts outside the graph",
    "GB0088": "an exception is raised here that nothing in the compiled code catches",
    "GB0098": "the function is kept out of compilation (torch.compiler.disable)",
    "GB0099": "the function is kept out of compilation (torch.compiler.disable)",
    "GB0105": "a tensor leaves for NumPy",
    "GB0123": "backward() is called inside the compiled code",
    "GB0124": "a tensor's value is taken into Python (.item())",
    "GB0170": "the way on depends on a tensor's value, which is not known while compiling",
    "GB0219": "the backend could not compile the graph",
    "GB0291": "a logger is called",
}
"""torch's commonest reasons (``torch/_dynamo/graph_break_registry.json``) for somebody who knows no torch-internal word."""


@dataclass(frozen=True, slots=True)
class DistinctBreak:
    """All hits of one cause on one line."""

    registry_id: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    """Each once; torch repeats them when a report quotes another."""
    file: str
    line: int
    code: str
    count: int
    """How many times torch reported it."""
    compilations: tuple[str, ...]
    """Names of the compilations it cut, each once."""
    place: Place | None
    """The user's line, when its file is in the session."""
    stack: int
    text: int
    """Of the first hit: its Stack, and torch's own report whole."""

    @property
    def in_words(self) -> str:
        """torch's reason, plainly where we know how."""
        return PLAIN_REASONS.get(self.registry_id) or first_line(self.reason)


def distinct_breaks(reader: SessionReader) -> list[DistinctBreak]:
    """In the order they were first hit."""
    names = compilation_names(reader)
    groups: dict[tuple[str, int, str], list[model.GraphBreak]] = {}
    for hit in reader.rows(model.GraphBreak):
        groups.setdefault(_cause(hit), []).append(hit)
    return [_grouped(reader, hits, names) for hits in groups.values()]


def _cause(hit: model.GraphBreak) -> tuple[str, int, str]:
    """The same as ``totals.DISTINCT_BREAK`` says in SQL."""
    return hit.file, hit.line, hit.registry_id or hit.reason


def _grouped(reader: SessionReader, hits: list[model.GraphBreak], names: dict[int, str]) -> DistinctBreak:
    first = hits[0]
    return DistinctBreak(
        registry_id=first.registry_id,
        reason=first.reason,
        explanation=first.explanation,
        hints=tuple(dict.fromkeys(first.hints)),
        file=first.file,
        line=first.line,
        code=first.code.strip(),
        count=len(hits),
        compilations=tuple(dict.fromkeys(names.get(hit.compilation, "") for hit in hits if hit.compilation)),
        place=place_of_path(reader, first.file, first.line),
        stack=first.stack,
        text=first.text,
    )


def compilation_names(reader: SessionReader) -> dict[int, str]:
    return dict(reader.query("SELECT id, name FROM compilation"))
