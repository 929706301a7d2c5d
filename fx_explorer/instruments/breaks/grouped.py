"""This module groups graph breaks by line and cause, however often each was hit, the costliest
first. Whose code each is in is said by break_owners.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.documents import Place, lines_of, place_of_path
from fx_explorer.analysis.measured_times import break_times
from fx_explorer.analysis.naming import function_of, plain_function
from fx_explorer.analysis.whole_session import not_in_text
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.instruments.breaks.break_cost import NO_COST, UNKNOWN_COST, BreakCost, break_costs
from fx_explorer.instruments.breaks.break_owners import (
    BreakInLibrary,
    BreakInTorch,
    BreakInWrapper,
    break_in_torch,
    break_in_wrapper,
    callers_of,
    in_library,
    library_files,
)
from fx_explorer.instruments.breaks.call_tree import call_trees
from fx_explorer.instruments.breaks.cut_tensors import CutTensors
from fx_explorer.instruments.breaks.not_resumed import together, why_not_resumed
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.reader import answered_once
from fx_explorer.torch_texts.reports import BACKEND_FAILED

# The ids belong to torch's registry and may change: any other id is told in torch's words.
PLAIN_REASONS: dict[str, str] = {
    "GB0007": "it calls code that Dynamo does not trace (C code, or a module it skips)",
    "GB0008": "it calls code that Dynamo does not trace (a module it skips)",
    "GB0009": "it calls code that Dynamo does not trace (a module it skips)",
    "GB0025": "the code asks for a graph break here (torch._dynamo.graph_break)",
    "GB0033": "an operation returns a Python value that depends on the tensor's content",
    "GB0036": "an operation's output size depends on the tensor's content",
    "GB0039": "the function was compiled too often for different inputs, so it runs in eager mode",
    "GB0059": "a Python builtin acts outside of the graph",
    "GB0069": "an import fails inside the compiled code",
    "GB0075": "a class is defined inside the compiled code",
    "GB0088": "an exception is raised here that nothing in the compiled code catches",
    "GB0098": "the function is excluded from compilation (torch.compiler.disable)",
    "GB0099": "the function is excluded from compilation (torch.compiler.disable)",
    "GB0105": "a tensor leaves for NumPy",
    "GB0123": "backward() is called inside the compiled code",
    "GB0124": "a tensor's value is taken into Python (.item())",
    "GB0170": "which branch runs depends on a tensor's value, unknown at compile time",
    "GB0291": "a logger is called",
    "GB8977": "a class is defined inside the compiled code",
}
"""torch's most frequent reasons (``torch/_dynamo/graph_break_registry.json``), without
torch-internal words.
"""


_RAISED_IN_PLAIN_WORDS = (
    ("_local_scalar_dense", "it needs the value of a tensor as a number"),
    ("DynamicOutputShape", "the size of a result depends on the values of a tensor"),
)
"""What a backend may raise that torch then makes a graph break (``output_graph.py``,
``_call_user_compiler``), without torch-internal words.
"""


def what_the_backend_raised(reason: str, where: str = "") -> str:
    """Return that the backend could not compile the graph, and why, with torch's words behind.
    ``where`` is put behind the graph: ``at model.py:19``.
    """
    text = " ".join(filter(None, ["the backend could not compile the graph", where]))
    for pattern, plain in _RAISED_IN_PLAIN_WORDS:
        if pattern in reason:
            return f"{text}: {plain} ({first_line(reason)})"
    return f"{text} ({first_line(reason)})"


class EagerRest(NamedTuple):
    """The rest of a function, which runs in eager mode."""

    function: str
    line: int
    """The line from which on the function runs in eager mode; 0 when it is not known."""

    @property
    def description(self) -> str:
        """Return ``the rest of Net.forward, from line 12 on,``, the subject of a sentence."""
        function = self.function or "the function"
        rest = f"the rest of {function.removeprefix('rest of ')}"
        if self.line:
            return f"{rest}, from line {self.line} on,"
        return rest


@dataclass(frozen=True, slots=True)
class DistinctBreak:
    """All hits (``GraphBreak``) with one cause on one line, merged."""

    registry_id: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    """What to try: torch's hints, or ours where the code that breaks is not the user's."""
    file: str
    line: int
    code: str
    count: int
    """How many times torch reported it."""
    compilations: tuple[str, ...]
    """Names of the compilations that it broke, each once."""
    place: Place | None
    """The user's line; None when its file is not in the session."""
    stack: int
    text: int
    """Text of the first hit: its stack, and torch's own report in full."""
    column: int = 0
    """The column where the code that breaks begins, from 1; 0 when torch does not give it."""
    carets: str = ""
    """A line to show under ``code``, with a caret below each character that breaks. Empty when
    torch does not give it.
    """
    chain: tuple[model.Frame, ...] = ()
    """The function that Python called, and the functions inlined into it down to the break. The
    innermost frame may be torch's.
    """
    resume_functions: tuple[str, ...] = ()
    """torch's names of the resume functions after the break, each once."""
    cost: BreakCost = NO_COST
    eager_rests: tuple[EagerRest, ...] = ()
    """Parts of functions that run in eager mode because torch cannot resume after the break, each
    once.
    """
    not_resumed: tuple[str, ...] = ()
    """Why torch cannot resume after the break, in the functions that run in eager mode for it, each
    reason once.
    """
    elsewhere: BreakInTorch | BreakInLibrary | BreakInWrapper | None = None
    """The owner of the code that breaks if it is not the user's: torch, which the line calls, a
    library, or DistributedDataParallel around the model.
    """
    torch_hints: tuple[str, ...] = ()
    """torch's hints without repetitions: torch repeats a hint when one report quotes another."""

    @property
    def is_wrappers(self) -> bool:
        """Return whether DistributedDataParallel causes the break, so that the user cannot change
        it.
        """
        return isinstance(self.elsewhere, BreakInWrapper)

    @property
    def loss(self) -> str:
        """Return a sentence on the parts that run in eager mode because torch cannot resume after
        the break; empty without any.
        """
        if not self.eager_rests:
            return ""
        rests = " and ".join(rest.description for rest in self.eager_rests[:2])
        more = len(self.eager_rests) - 2
        also = f" and {counted(more, 'other rest')}" if more > 0 else ""
        run = "runs" if len(self.eager_rests) == 1 else "run"
        why = f" ({together(self.not_resumed)})" if self.not_resumed else ""
        return f"torch cannot resume there{why}: {rests}{also} {run} in eager mode"

    @property
    def description(self) -> str:
        """Return torch's reason, in plain words where we have them."""
        plain = PLAIN_REASONS.get(self.registry_id) or first_line(self.reason)
        if self.registry_id == BACKEND_FAILED:
            plain = what_the_backend_raised(self.reason)
        if self.elsewhere:
            return self.elsewhere.describe(self.registry_id, plain)
        return plain

    @property
    def rank(self) -> tuple[object, ...]:
        """Return the sort key: the costliest break first, breaks in Python's own library and around
        the model last.
        """
        is_pythons_own = (
            isinstance(self.elsewhere, BreakInLibrary) and self.elsewhere.is_pythons_own
        )
        return not self.is_wrappers, not is_pythons_own, self.cost.rank


def describe_next_break(code: str, breaks: Sequence[DistinctBreak]) -> str:
    """Say which line breaks the graph in place of the line with ``code``; empty where that line
    breaks it still, or none does.
    """
    if not code or not breaks or any(broken.code == code for broken in breaks):
        return ""
    return f"this break is gone, and then {describe_line_and_reason(breaks[0])}"


def describe_line_and_reason(broken: DistinctBreak) -> str:
    """Return ``model.py:12 breaks the graph: a tensor's value is taken into Python``."""
    where = in_file(broken.file, broken.line) if broken.file else "code without a line"
    return f"{where} breaks the graph: {broken.description}"


@answered_once
def distinct_breaks(reader: SessionReader) -> list[DistinctBreak]:
    """Return the breaks, the costliest first, those in Python's own library and those around the
    model last, and ties in the order of their first hits.
    """
    groups: dict[tuple[str, int, str], list[model.GraphBreak]] = {}
    for hit in reader.rows(model.GraphBreak):
        groups.setdefault(hit.cause, []).append(hit)
    if not groups:
        return []
    known = _Known(reader)
    return sorted(
        (known.grouped(hits) for hits in groups.values()),
        key=lambda graph_break: graph_break.rank,
        reverse=True,
    )


class _Known:
    """Describes the graph breaks of one session. Data that all of them need is read once."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._names = compilation_names(reader)
        self._books = CutTensors(reader)
        self._libraries = library_files(reader)
        skipped = reader.rows(model.Compilation, status="skipped")
        self._skipped = {compilation.id for compilation in skipped}
        whole = {compilation.name for compilation in skipped}
        self._attempts_in_vain = {
            name for name in self._names.values() if name.rpartition("_")[0] in whole
        }
        self._has_graphs = "graphs" not in not_in_text(reader)
        self._costs = break_costs(self._books, call_trees(reader))
        self._times = break_times(reader)

    def grouped(self, hits: list[model.GraphBreak]) -> DistinctBreak:
        """Merge the hits of one break into a DistinctBreak. Its cause and place are those of the
        first hit; its cost is the sum over all.
        """
        first = hits[0]
        place = place_of_path(self._reader, first.file, first.line)
        chain = self._books.chain(first)
        stack = (*callers_of(self._reader, first.compilation), *chain)
        elsewhere = (
            break_in_wrapper(self._reader, first, chain)
            or break_in_torch(self._reader, first, chain)
            or in_library(first.file, stack, self._libraries)
        )
        own_hints = elsewhere.hints if elsewhere else ()
        torch_hints = tuple(dict.fromkeys(first.hints))
        resumed = [row.name for hit in hits for row in self._books.resume_functions(hit)]
        return DistinctBreak(
            registry_id=first.registry_id,
            reason=first.reason,
            explanation=first.explanation,
            hints=own_hints or torch_hints,
            torch_hints=torch_hints,
            file=first.file,
            line=first.line,
            code=first.code.strip(),
            count=len(hits),
            compilations=tuple(
                dict.fromkeys(
                    self._names.get(hit.compilation, "") for hit in hits if hit.compilation
                )
            ),
            place=place,
            stack=first.stack,
            text=first.text,
            column=first.column,
            carets=self._carets(first, place),
            chain=chain,
            resume_functions=tuple(dict.fromkeys(resumed)),
            cost=self._cost(hits),
            eager_rests=tuple(dict.fromkeys(self._eager_rests(hits))),
            not_resumed=tuple(dict.fromkeys(filter(None, map(self._why_not_resumed, hits)))),
            elsewhere=elsewhere,
        )

    def _eager_rests(self, hits: Sequence[model.GraphBreak]) -> Iterator[EagerRest]:
        """Yield the parts that run in eager mode because of these hits. A backend that raises for
        one graph mostly raises for the shorter one, too, and then the function is skipped as a
        whole.
        """
        for hit in hits:
            if hit.skips_rest and self._names.get(hit.compilation) not in self._attempts_in_vain:
                yield self._eager_rest(hit)

    def _why_not_resumed(self, hit: model.GraphBreak) -> str:
        """Return why torch cannot resume after a hit; empty where it resumes."""
        is_left_out = hit.compilation in self._skipped
        return why_not_resumed(self._reader, hit) if hit.skips_rest or is_left_out else ""

    def _eager_rest(self, hit: model.GraphBreak) -> EagerRest:
        """Return the part that runs in eager mode because of a hit: the rest of the compiled
        function, or of the inlined function that broke if its callers resume (nested graph breaks).
        """
        (compilation,) = self._reader.by_ids(model.Compilation, [hit.compilation]) or (None,)
        chain = self._books.chain(hit)
        function = function_of(compilation) if compilation else ""
        if self._books.resume_functions(hit) and len(chain) > 1:
            function = plain_function(chain[-1].function)
        return EagerRest(function, hit.rest_line)

    def _cost(self, hits: list[model.GraphBreak]) -> BreakCost:
        if not self._has_graphs:
            return UNKNOWN_COST
        counted = sum((self._costs[hit.id] for hit in hits if hit.id in self._costs), NO_COST)
        return replace(
            counted, run=next((self._times[hit.id] for hit in hits if hit.id in self._times), None)
        )

    def _carets(self, hit: model.GraphBreak, place: Place | None) -> str:
        lines = lines_of(self._reader, place.document) if place and hit.column else []
        line = lines[hit.line - 1] if 0 < hit.line <= len(lines) else ""
        end_column = hit.end_column if hit.end_line == hit.line else 0
        return carets(line, hit.column, end_column)


def carets(line: str, column: int, end_column: int) -> str:
    """Return ``   ^^^^^``, to stand under the line without its indentation: below the characters
    ``column`` to ``end_column``, both from 1.

    The carets go to the end of the line when ``end_column`` is 0, and are empty when ``column`` is
    0.

    A wide character takes two carets; a tab stays a tab.
    """
    code = line.strip()
    start = column - 1 - (len(line) - len(line.lstrip()))
    if not column or not 0 <= start < len(code):
        return ""
    end = min(len(code), start + end_column - column + 1) if end_column else len(code)
    before = ""
    for character in code[:start]:
        before += "\t" if character == "\t" else " " * _cells(character)
    return before + "^" * sum(map(_cells, code[start:end]))


def _cells(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 1
