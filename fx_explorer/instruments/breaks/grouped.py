"""This module groups graph breaks by line and cause, however often each was hit, the costliest
first, and says whose code each is in: the user's, a library's, torch's own (an optimizer's step, a
hook, a layer), or a wrapper that torch puts around a model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.documents import Place, lines_of, place_of_path
from fx_explorer.analysis.measured_times import break_times
from fx_explorer.analysis.naming import function_of, plain_function
from fx_explorer.analysis.whole_session import not_in_text
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.instruments.breaks.break_cost import NO_COST, UNKNOWN_COST, BreakCost, break_costs
from fx_explorer.instruments.breaks.call_tree import call_trees
from fx_explorer.instruments.breaks.cut_tensors import CutTensors
from fx_explorer.instruments.breaks.not_resumed import together, why_not_resumed
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_FIELD
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.reader import answered_once
from fx_explorer.torch_texts.reports import BACKEND_FAILED

# Breaks in code of a package or of Python, to which the user's line only led.

# Packages lie below Python's own folder, too. What is frozen into the interpreter is Python's.
_STANDARD_LIBRARY = re.compile(r".*[/\\]python3\.\d+t?[/\\](?!(site|dist)-packages[/\\])|<frozen ")


@dataclass(frozen=True, slots=True)
class BreakInLibrary:
    """A break in a file of a library or of Python, with the user's line that called it.

    A package is often the model itself, so such a break is described like one in the user's own
    code. Nobody changes Python's own library.
    """

    called_from: model.Frame
    is_pythons_own: bool
    """Whether the file is in Python's standard library."""

    @property
    def caller(self) -> str:
        """Return the user's file and line that call the package, such as ``train.py:9``."""
        return in_file(self.called_from.file, self.called_from.line)

    def describe(self, registry_id: str, plain: str) -> str:
        """Return torch's reason (``plain``), with the user's line that called the package."""
        whose = "Python's own code" if self.is_pythons_own else "a package"
        return f"{plain}, in {whose}, called from {self.caller}"

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints that replace torch's, if the user cannot change the code that breaks;
        otherwise empty.
        """
        if not self.is_pythons_own:
            return ()
        return (
            (
                f"Look at the call in {self.caller}: what it calls is compiled with it, and "
                "breaks go when the call does."
            ),
        )


def library_files(reader: SessionReader) -> frozenset[str]:
    """Return the paths of a session's source files that are not the user's."""
    return frozenset(file.path for file in reader.rows(model.SourceFile) if not file.is_user)


def in_library(
    file: str, stack: Sequence[model.Frame], libraries: Collection[str]
) -> BreakInLibrary | None:
    """Return the library that a break in ``file`` is in, with the user's line that called it. None
    for the user's own code, and where no line of the user's is known.

    ``stack``: who called the compiled function, and what was inlined into it down to the break,
    outermost first. ``libraries``: ``library_files``.
    """
    mine = (
        (frame for frame in reversed(stack) if frame.file not in libraries)
        if file in libraries
        else ()
    )
    found = next(iter(mine), None)
    if found:
        return BreakInLibrary(found, bool(_STANDARD_LIBRARY.match(file)))
    return None


# Graph breaks that torch's DistributedDataParallel makes around the user's model, before and
# after its forward. No line of the user's makes them, and no change of one takes them away.

_FILE = re.compile(r"[/\\]torch[/\\]nn[/\\]parallel[/\\]distributed\.py$")

_SKIPPED_WRAPPER = re.compile(
    r"module: torch\.nn\.parallel\.distributed, qualname: (?P<name>[\w.<>]+)"
)
"""Matches the debug context of a function of DistributedDataParallel that Dynamo does not look
into.
"""

_CALLED = re.compile(
    r"call_method \w+\((?:Logger\) (?P<logged>set_runtime_stats_and_log)|Reducer\) "
    r"(?P<reduced>\w+))"
)
"""Matches the debug context of a call of DistributedDataParallel's two helpers in C++. A log has no
chain of calls.
"""


NOTHING_INSIDE = (
    "Compile the model before it is wrapped: DistributedDataParallel(torch.compile(model))."
)


@dataclass(frozen=True, slots=True)
class BreakInWrapper:
    """A break in DistributedDataParallel's own code."""

    what: str
    """Name of the function that breaks, such as ``_pre_forward``."""
    compiles_inside: bool = True
    """Whether anything was compiled below DistributedDataParallel."""

    def describe(self, registry_id: str, plain: str) -> str:
        return (
            f"torch's DistributedDataParallel breaks there itself ({self.what}), around your "
            "model and not inside it"
        )

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints in place of torch's, which ask to change DistributedDataParallel."""
        if not self.compiles_inside:
            return (NOTHING_INSIDE,)
        return (
            (
                "Leave it: none of your lines makes it. torch.compile compiles the forward "
                "of the model inside by itself."
            ),
        )


def break_in_wrapper(
    reader: SessionReader, hit: model.GraphBreak, chain: Sequence[model.Frame]
) -> BreakInWrapper | None:
    """Return the break if it is in DistributedDataParallel's own code, before or after its call of
    the model.
    """
    what = _function_of_wrapper(reader, hit, chain)
    return BreakInWrapper(what, compiles_inside_wrapper(reader, hit)) if what else None


def _function_of_wrapper(
    reader: SessionReader, hit: model.GraphBreak, chain: Sequence[model.Frame]
) -> str:
    if chain and _FILE.search(chain[-1].file):
        return chain[-1].function
    text = reader.text(hit.text)[:MAX_FIELD] if hit.text else ""
    if skipped := _SKIPPED_WRAPPER.search(text):
        return skipped["name"].rpartition(".")[2]
    called = _CALLED.search(text)
    return (called["logged"] or called["reduced"]) if called else ""


def compiles_inside_wrapper(reader: SessionReader, hit: model.GraphBreak) -> bool:
    """Return whether a graph was made of what a wrapper calls: by a later compilation, below the
    line that calls the wrapper. True where a log does not say it.
    """
    callers = _callers(reader, hit.compilation)
    if "graphs" in not_in_text(reader) or not callers:
        return True
    graphs = reader.rows(model.Graph, stage="dynamo")
    later = {graph.compilation for graph in graphs if graph.compilation > hit.compilation}
    return any(_callers(reader, row)[: len(callers)] == callers for row in later)


def _callers(reader: SessionReader, compilation: int) -> tuple[model.Frame, ...]:
    """Return who called a compiled function, outermost first; empty where it is not known."""
    compilations = reader.by_ids(model.Compilation, [compilation])
    stacks = reader.by_ids(model.Stack, [row.stack for row in compilations if row.stack])
    return stacks[0].frames if stacks else ()


# The ids belong to torch's registry and may change: any other id is told in torch's words.
PLAIN_REASONS: dict[str, str] = {
    "GB0007": "it calls something that Dynamo does not look into (C code, or a module it skips)",
    "GB0008": "it calls something that Dynamo does not look into (a module it skips)",
    "GB0009": "it calls something that Dynamo does not look into (a module it skips)",
    "GB0025": "the code asks for a graph break here (torch._dynamo.graph_break)",
    "GB0033": "an operation returns a Python value that depends on the tensor's content",
    "GB0036": "an operation's output size depends on the tensor's content",
    "GB0039": "the function was compiled too often for different inputs, so it runs in eager mode",
    "GB0059": "a Python builtin acts outside the graph",
    "GB0069": "an import fails inside the compiled code",
    "GB0075": "a class is defined inside the compiled code",
    "GB0088": "an exception is raised here that nothing in the compiled code catches",
    "GB0098": "the function is kept out of compilation (torch.compiler.disable)",
    "GB0099": "the function is kept out of compilation (torch.compiler.disable)",
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
        stack = (*_callers(self._reader, first.compilation), *chain)
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


# The last folder of that name, since one above it may be called torch, too.
_IN_TORCH = re.compile(r"[/\\](?P<part>torch[/\\](?!.*[/\\]torch[/\\]).+)$")

_SKIPPED_FUNCTION = re.compile(
    r"qualname: (?P<name>[\w.<>]+), name: \S+, filename: `(?P<file>[^`]+)`"
)
"""Matches the debug context of a function that Dynamo skips
(``torch/_dynamo/variables/functions.py``).
"""

ASKED_FOR = "GB0025"
"""The id of a break that a call of ``torch._dynamo.graph_break`` asks for."""


OF_FSDP = (
    "Compile each block before fully_shard wraps it: block.compile(), then fully_shard(block). "
    "FSDP's hooks then run around compiled code, and break no graph."
)


OF_PIPELINE = (
    "Compile the module of the stage in place of the schedule: "
    "PipelineStage(torch.compile(module), …). Sending and receiving then stay outside of what is "
    "compiled."
)


@dataclass(frozen=True, slots=True)
class BreakInTorch:
    """A break in torch's own code, or at a function of torch's that Dynamo does not trace."""

    what: str
    """Name and place of the function in torch: ``_use_grad (torch/optim/optimizer.py:79)``."""
    is_inside: bool
    """Whether Dynamo was tracing torch's code when it broke."""

    def describe(self, registry_id: str, plain: str) -> str:
        if not self.is_inside:
            return f"it calls {self.what}, which torch keeps out of compilation"
        if registry_id == ASKED_FOR:
            return f"torch itself asks for a graph break in {self.what}, which this line calls"
        return f"{plain}, in torch's own {self.what}, which this line calls"

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints for the user. torch's own are meant for the author of the code that
        breaks.
        """
        if "distributed/fsdp" in self.what:
            return (OF_FSDP,)
        if "distributed/pipelining" in self.what:
            return (OF_PIPELINE,)
        return (
            (
                "Call it outside of the compiled function, or leave it: the break is made by "
                "torch, and not by your line."
            ),
        )


def break_in_torch(
    reader: SessionReader, hit: model.GraphBreak, chain: Sequence[model.Frame]
) -> BreakInTorch | None:
    """Return the break if it is in torch's own code. None for a break in the user's code, or in
    another library's.
    """
    inner = chain[-1] if chain else None
    # torch reports the user's line, and its chain continues into the code that breaks.
    if inner is not None and (inner.file, inner.line) != (hit.file, hit.line):
        part = _part(reader, inner.file)
        if part:
            return BreakInTorch(f"{inner.function} ({part}:{inner.line})", True)
        return None
    skipped = _SKIPPED_FUNCTION.search(reader.text(hit.text)[:MAX_FIELD]) if hit.text else None
    part = _part(reader, skipped["file"]) if skipped else ""
    if skipped and part:
        return BreakInTorch(f"{skipped['name']} of torch", False)
    return None


def _part(reader: SessionReader, path: str) -> str:
    """Return the path of a file of torch's within torch, such as ``torch/optim/optimizer.py``;
    empty for any other file, also of the user's in a folder of that name.
    """
    match = _IN_TORCH.search(path)
    known = reader.rows(model.SourceFile, path=path, limit=1)
    if match and not (known and known[0].is_user):
        return match["part"].replace("\\", "/")
    return ""
