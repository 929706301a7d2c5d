"""Which functions Python called, which of them were compiled, into how many graphs, and which run
in eager mode as a whole: the program around its graphs.

It is made of the rows of compilations (each knows where it was called), graphs and breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.lineage import root_name
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

_RESUME = "torch_dynamo_resume_in_"

_NO_REASON = "Unknown fail_and_restart_analysis"
"""torch's reason for a restart at a break after which it cannot resume."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function that torch.compile looked at. Its children are the functions that Python called
    from it between its graphs.
    """

    frame: str
    """torch's number of the frame: ``0``; ``0#2`` after a reset."""
    function: str
    """Qualified name; for a resume function, torch's name."""
    file: str
    line: int
    called_at: int
    """The caller's line; 0 for the first function of a tree."""
    compilations: tuple[model.Compilation, ...]
    """The first compilation, and those for other inputs. Attempts that were given up and other
    variants are left out.
    """
    graphs: tuple[model.Graph, ...]
    """Dynamo's graphs, one per compilation that has one."""
    breaks: tuple[model.GraphBreak, ...]
    """The breaks reported while it was compiled, also in attempts that were given up."""
    calls: tuple[FunctionCall, ...] = ()

    @property
    def is_resume(self) -> bool:
        return _short_name(self.function).startswith(_RESUME)

    @property
    def runs_in_eager(self) -> bool:
        """Return whether no part of the function was compiled in the end."""
        return bool(self.compilations) and self.compilations[-1].status in ("skipped", "failed")

    @property
    def restart_reasons(self) -> tuple[str, ...]:
        """Return why Dynamo started again, each reason once. Graph breaks are left out: they are
        shown with the break.
        """
        broke = {hit.reason for hit in self.breaks}
        if any(hit.skips_rest for hit in self.breaks):
            broke.add(_NO_REASON)
        reasons = (reason for row in self.compilations for reason in row.restart_reasons)
        return tuple(dict.fromkeys(reason for reason in reasons if reason not in broke))

    @property
    def has_graph(self) -> bool:
        """Return whether this call or a call below it has a graph."""
        return any(call.graphs for call in self.walk())

    def walk(self) -> Iterator[FunctionCall]:
        """Yield this function and all below it, in the order of the calls."""
        pending = [self]
        # no recursion: a function with 1,000 graph breaks has 1,000 rests, each below the one
        # before
        while pending:
            call = pending.pop()
            yield call
            pending += reversed(call.calls)


def call_trees(reader: SessionReader) -> list[FunctionCall]:
    """Return one tree for each function that uncompiled code called, in the order of the calls."""
    compilations = [row for row in reader.rows(model.Compilation) if not row.variant_of]
    stacks = reader.by_ids(model.Stack, (row.stack for row in compilations))
    return trees(
        compilations,
        {stack.id: stack.frames for stack in stacks},
        reader.rows(model.Graph, stage="dynamo", parent=0),
        reader.rows(model.GraphBreak),
    )


def trees(
    compilations: Sequence[model.Compilation],
    stacks: dict[int, tuple[model.Frame, ...]],
    graphs: Sequence[model.Graph],
    breaks: Sequence[model.GraphBreak],
) -> list[FunctionCall]:
    """Return the trees made of these rows."""
    counted = [row for row in compilations if row.status != "restarted"]
    by_name = {row.name: row.id for row in counted}
    whole = {row.id: by_name.get(_whole_name(row.name), row.id) for row in compilations}
    members: dict[str, list[model.Compilation]] = {}
    for row in counted:
        members.setdefault(frame_of(row.name), []).append(row)
    callers = {
        frame: _caller(counted, rows[0], stacks.get(rows[0].stack, ()))
        for frame, rows in members.items()
    }
    calls: dict[str | None, list[FunctionCall]] = {}
    for frame, rows in reversed(
        members.items()
    ):  # a caller was compiled before what it calls, so no function is below itself
        own = {row.id for row in rows}
        caller, line = callers[frame]
        call = FunctionCall(
            frame,
            rows[0].function,
            rows[0].file,
            rows[0].line,
            line,
            compilations=tuple(rows),
            graphs=_first_of_each([graph for graph in graphs if graph.compilation in own]),
            breaks=tuple(hit for hit in breaks if whole.get(hit.compilation) in own),
            calls=tuple(reversed(calls.pop(frame, []))),
        )
        calls.setdefault(caller, []).append(call)
    return calls.get(None, [])[::-1]


def frame_of(name: str) -> str:
    """Return ``0`` for ``0/1``, ``!1/0`` for ``!1/0/0``, ``0#2`` for ``0/1#2``."""
    number, mark, reset = root_name(name).partition("#")
    return f"{number.rpartition('/')[0]}{mark}{reset}"


def _whole_name(name: str) -> str:
    """Return the compilation that ``name`` was an attempt at: ``0/0`` for ``0/0_1``, which was
    given up.
    """
    return name.rpartition("_")[0] or name


def _first_of_each(graphs: Sequence[model.Graph]) -> tuple[model.Graph, ...]:
    """Return one graph per compilation: a graph that was edited by hand is listed twice."""
    return tuple({graph.compilation: graph for graph in reversed(graphs)}.values())[::-1]


def _caller(
    compilations: Sequence[model.Compilation],
    called: model.Compilation,
    stack: Sequence[model.Frame],
) -> tuple[str | None, int]:
    """Return (frame, line) of the innermost caller that was compiled before; ``(None, 0)`` for
    none. If a file has several functions of one name, it is the last that begins before the line.
    """
    earlier = [row for row in compilations if row.id < called.id]
    for frame in reversed(stack):
        callers = [row for row in earlier if _may_be_in(row, frame)]
        if callers:
            caller = max(callers, key=lambda row: (row.line, row.id))
            return frame_of(caller.name), frame.line
    return None, 0


def _may_be_in(compilation: model.Compilation, frame: model.Frame) -> bool:
    """Say whether a frame may be of this compiled function: file and name agree, and the function
    begins before the line.
    """
    if compilation.file != frame.file or compilation.line > frame.line:
        return False
    return _short_name(compilation.function) == frame.function


def _short_name(function: str) -> str:
    return function.rpartition(".")[2]


# as text


def tree_lines(root: FunctionCall, *, marked: int = 0) -> list[str]:
    """Return one line per function, indented below its caller, with breaks under the function they
    split. ``▶`` marks the GraphBreak ``marked``.

    A resume function stands below the function it continues, at the same indentation: there may be
    many in a row.
    """
    lines: list[str] = []
    pending = [(root, 0)]
    while pending:
        call, depth = pending.pop()
        lines += _lines(call, depth, marked)
        for inner in reversed(call.calls):
            inner_depth = depth if inner.is_resume else depth + 1
            pending.append((inner, inner_depth))
    return lines


def _lines(call: FunctionCall, depth: int, marked: int) -> Iterator[str]:
    indentation = "  " * depth
    names = ", ".join(row.name for row in call.compilations)
    if call.graphs:
        made = counted(len(call.graphs), "graph")
    elif call.runs_in_eager:
        made = "runs in eager mode"
    else:
        made = "no graph"
    yield f"{indentation}{plain_function(call.function)}  [{names}]  {made}"
    for reason in call.restart_reasons:
        yield f"{indentation} ↻ Dynamo restarted: {reason}"
    for hit in call.breaks:
        mark = "▶" if hit.id == marked else "✗"
        yield f"{indentation}  {mark} {in_file(hit.file, hit.line)}  {hit.code.strip()}"


_NOTHING_TO_COMPILE = ("no tensor-related objects found in frame", "No ops traced for the FX graph")

MADE_BY_PYTHON = "Python generated this code, for a namedtuple or a dataclass: no change is needed"

_PLAIN_KINDS: dict[model.FallbackKind, str] = {
    "skipped": "Dynamo does not trace it",
    "limit": "it was compiled too often for different inputs; new ones run in eager mode",
    "failed": "compiling it failed, and torch is set to run it in eager mode instead",
}


@dataclass(frozen=True, slots=True)
class DistinctFallback:
    """All fallbacks of one function for one reason: the function runs in eager mode as a whole.

    ``DistinctBreak`` is the same for graph breaks, which cut a function that is compiled.
    """

    kind: model.FallbackKind
    function: str
    file: str
    line: int
    """The line where the function begins."""
    registry_id: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    count: int
    """How often torch fell back."""
    place: Place | None
    stack: int
    """Stack of the first call (a Stack)."""

    @property
    def has_nothing_to_compile(self) -> bool:
        """Return whether the function uses no tensors, so that compiling it would gain nothing."""
        return self.is_made_by_python or computes_nothing(self.reason)

    @property
    def is_made_by_python(self) -> bool:
        """Return whether Python generated the function: the constructor of a namedtuple (torch's
        words), or a method of a ``dataclass`` (CPython's Lib/dataclasses.py).
        """
        return self.reason == "frame is a namedtuple constructor" or self.function.startswith(
            "__create_fn__."
        )

    @property
    def description(self) -> str:
        if self.is_made_by_python:
            return MADE_BY_PYTHON
        if self.has_nothing_to_compile:
            return "it computes nothing with tensors"
        return self.explanation or f"{_PLAIN_KINDS[self.kind]}: {first_line(self.reason)}"


def computes_nothing(reason: str) -> bool:
    """Return whether torch's reason for leaving a function is that it works on no tensors."""
    return any(words in reason for words in _NOTHING_TO_COMPILE)


def distinct_fallbacks(reader: SessionReader) -> list[DistinctFallback]:
    """List the functions that run in eager mode, each once for its reason; those with something to
    compile first, then in the order they were met.
    """
    groups: dict[tuple[object, ...], list[model.Fallback]] = {}
    for row in reader.rows(model.Fallback):
        groups.setdefault((row.file, row.line, row.kind, row.registry_id or row.reason), []).append(
            row
        )
    return sorted(
        (_grouped(reader, rows) for rows in groups.values()),
        key=lambda fallback: fallback.has_nothing_to_compile,
    )


def _grouped(reader: SessionReader, rows: list[model.Fallback]) -> DistinctFallback:
    first = rows[0]
    return DistinctFallback(
        kind=first.kind,
        function=first.function,
        file=first.file,
        line=first.line,
        registry_id=first.registry_id,
        reason=first.reason,
        explanation=first.explanation,
        hints=first.hints,
        count=len(rows),
        place=place_of_path(reader, first.file, first.line),
        stack=first.stack,
    )
