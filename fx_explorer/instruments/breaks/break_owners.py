"""Whose code a graph break is in where it is not the user's: a library's, a wrapper's that torch
puts around a model, or torch's own (an optimizer's step, a hook, a layer).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.whole_session import not_in_text
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_FIELD
from fx_explorer.session.file_names import in_file

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
                f"Look at the call in {self.caller}: the functions it calls are compiled with it, "
                "and their breaks disappear if the call does."
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
            f"torch's DistributedDataParallel itself breaks the graph there ({self.what}), around "
            "your model and not inside it"
        )

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints in place of torch's, which ask to change DistributedDataParallel."""
        if not self.compiles_inside:
            return (NOTHING_INSIDE,)
        return (
            (
                "No change is needed: none of your lines causes it. torch.compile compiles the "
                "forward of the model inside separately."
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
    callers = callers_of(reader, hit.compilation)
    if "graphs" in not_in_text(reader) or not callers:
        return True
    graphs = reader.rows(model.Graph, stage="dynamo")
    later = {graph.compilation for graph in graphs if graph.compilation > hit.compilation}
    return any(callers_of(reader, row)[: len(callers)] == callers for row in later)


def callers_of(reader: SessionReader, compilation: int) -> tuple[model.Frame, ...]:
    """Return who called a compiled function, outermost first; empty where it is not known."""
    compilations = reader.by_ids(model.Compilation, [compilation])
    stacks = reader.by_ids(model.Stack, [row.stack for row in compilations if row.stack])
    return stacks[0].frames if stacks else ()


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
    "FSDP's hooks then run around compiled code, without graph breaks."
)


OF_PIPELINE = (
    "Compile the module of the stage instead of the schedule: "
    "PipelineStage(torch.compile(module), …). Sending and receiving then stay outside of the "
    "compiled code."
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
            return f"it calls {self.what}, which torch does not compile"
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
                "Call it outside of the compiled function, or leave it: torch causes the break, "
                "not your line."
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
