"""This module explains recompiles: which compilation was repeated, what had changed, how to avoid
it, and where torch gave up.

Where ``torch.compile`` was given something else, torch compares what it compiles with
(``BACKEND_MATCH``, torch/_dynamo/guards.py): a backend, or its own object for Inductor, which holds
the other arguments, too (``_TorchCompileInductorWrapper``, torch/__init__.py). It says the name of
each; which argument differs is in the recorded calls.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.diff import describe_graphs
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.naming import plain_code, plain_function
from fx_explorer.analysis.whole_session import is_text
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.recompiles.avoided_recompiles import (
    NO_REMEDY,
    remedy,
    remedy_of_objects,
)
from fx_explorer.instruments.recompiles.call_sizes import local_source, sizes_then
from fx_explorer.instruments.recompiles.guard_changes import GuardChange, change_of
from fx_explorer.instruments.recompiles.nearest_versions import FunctionVersions
from fx_explorer.model.rows.observation import INSTANCES
from fx_explorer.model.setting_values import as_python
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.reader import answered_once
from fx_explorer.torch_texts import bounded

_BACKENDS = re.compile(
    r"Cached backend: (?P<old>.*?) \(id=.*?New backend: (?P<new>.*?) \(id=", re.S
)

_INDUCTOR = "_TorchCompileInductorWrapper"

_WRAPPER = re.compile(
    r"_TorchCompileWrapper\(compiler='(?P<backend>.*)', dynamic=(?P<dynamic>\w+)\)"
)

_COMPARED = ("compile.dynamic", "compile.mode", "compile.options", "compile.backend")


def with_arguments(
    reader: SessionReader, change: GuardChange, reason: str, function: model.Compilation | None
) -> GuardChange:
    """Return a change of the backend, with the changed arguments of torch.compile added as far as
    they are known.
    """
    if change.kind != "backend":
        return change
    named = _BACKENDS.search(bounded(reason))
    if named is None:
        return change
    (old, old_dynamic), (new, new_dynamic) = _wrapped(named["old"]), _wrapped(named["new"])
    if old != new:
        words = f"torch.compile was given the backend {new}, and {old} before"
        return replace(change, old=old, new=new, words=words)
    if old_dynamic != new_dynamic:
        dynamic = f"dynamic={new_dynamic} ({old_dynamic} before)"
        words = f"torch.compile was called for it again, with {dynamic}"
        return replace(change, kind="arguments", words=words)
    if named["new"] != _INDUCTOR:
        words = f"torch.compile was given another backend object with the same name ({new})"
        return replace(change, words=words)
    given = _given_otherwise(reader, function) if function else []
    arguments = listed(given) if given else "other arguments than before"
    words = f"torch.compile was called for it again, with {arguments}"
    return replace(change, kind="arguments", words=words)


def _wrapped(name: str) -> tuple[str, str]:
    """Split torch's description of a compiler into the name of its backend and the value of the
    argument ``dynamic``, which is empty where it was not given.
    """
    if name == _INDUCTOR:
        return "inductor", ""
    wrapper = _WRAPPER.match(name)
    if wrapper:
        return (wrapper["backend"], wrapper["dynamic"])
    return (name, "")


def _given_otherwise(reader: SessionReader, function: model.Compilation) -> list[str]:
    """Return ``dynamic=True at train.py:9 (None before)`` for each argument of torch.compile that
    differs between calls for this function.
    """
    given = []
    for name in _COMPARED:
        values = {}
        for row in reader.rows(model.OptionInForce, name=name):
            if _is_of(row.function, function.function):
                values[row.value] = row
        if len(values) > 1:
            first, *_, last = values.values()
            before, now = as_python((first.value, last.value))
            at = f" at {in_file(last.file, last.line)}" if last.line else ""
            given.append(f"{name.partition('.')[2]}={now}{at} ({before} before)")
    return given


def _is_of(given: str, compiled: str) -> bool:
    """Return whether the name given to torch.compile, such as ``Net``, belongs to the compiled
    function: ``Net.forward`` or ``net (Net)``.
    """
    name, _, inner = compiled.partition(" (")
    return given in (name, name.rpartition(".")[0], inner.rstrip(")"))


@dataclass(frozen=True, slots=True)
class ExplainedRecompile:
    """One failed guard of a recompile. A recompile has one for each; the function's latest
    compilation comes first.
    """

    compilation: str
    of: str
    function: str
    reason: str
    """torch's text on the failed guard."""
    description: str
    """The reason without guards, or torch's words when it cannot be put more plainly."""
    guard: str
    plain_guard: str
    """The guard with the program's names."""
    file: str
    """The user's line that depends on the checked value; for an input, the line of its first use.
    Empty when torch does not give it.
    """
    line: int
    place: Place | None
    """The line that depends on the checked value, or the function when torch does not give the
    line.
    """
    change: GuardChange
    called_from: tuple[str, int]
    """(file, line) of the call that did not fit; ("", 0) when it is not known."""
    graphs: str
    """Describes how the graph differs from that of ``of``; empty when there is none to compare."""
    remedy: str
    """How to avoid the recompile, or a sentence that we know no way."""
    times: int = 1
    """Number of the function's compilations that could not be used because of this."""
    is_cause: bool = False
    """Whether this is the cause of the recompile: what differs from the nearest earlier version.
    The other failed guards only rule out other versions.
    """
    is_another_object: bool = False
    """Whether an attribute, or a size that the code needs as a number, differs because the method
    was called on another object than the nearest version was compiled for: nothing changed, each
    object has a value of its own.
    """


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A function that was compiled too often. From then on, calls that fit no compiled code run
    uncompiled.
    """

    compilation: str
    """Name of the first compilation that was refused at the limit."""
    function: str
    file: str
    line: int
    place: Place | None
    option: str
    """The setting that was reached: ``recompile_limit`` or ``accumulated_recompile_limit`` of
    ``torch._dynamo.config``.
    """
    limit: int
    compiled: int
    """Number of compilations of the function."""
    change: str
    """Describes the new value in the refused call; empty when it is not known."""
    remedy: str
    """What the user can do; empty where no remedy is known."""
    is_error: bool
    """Whether such calls raise an error: with ``fullgraph=True`` or
    ``fail_on_recompile_limit_hit``.
    """
    instances: int = 0
    """Number of objects of the method's class that were alive then; 0 when it is not known."""

    @property
    def description(self) -> str:
        what = "raise an error" if self.is_error else "run in eager mode"
        return (
            f"{plain_function(self.function)} was compiled {counted(self.compiled, 'time')}, "
            f"which is the limit (torch._dynamo.config.{self.option}); from then on, calls that "
            f"fit no version {what}"
        )


@answered_once
def recompiles(reader: SessionReader) -> list[ExplainedRecompile]:
    """Return one entry per failed guard, in the order of the session."""
    session = FunctionVersions(reader)
    by_compilation: dict[str, list[ExplainedRecompile]] = {}
    for row in reader.rows(model.Recompile):
        recompile = _explained(reader, session, row)
        by_compilation.setdefault(recompile.compilation, []).append(recompile)
    seen: set[tuple[object, ...]] = set()
    explained: list[ExplainedRecompile] = []
    for group in by_compilation.values():
        explained += _with_cause(session, group, seen)
    return explained


def causes(reader: SessionReader) -> list[ExplainedRecompile]:
    """Return one entry per recompile, including those that were refused at the recompile limit."""
    return [recompile for recompile in recompiles(reader) if recompile.is_cause]


def cause_of(reader: SessionReader, compilation: model.Compilation) -> ExplainedRecompile | None:
    """Return why one compilation was a recompile, without comparing it with the function's other
    recompiles; None for a first compilation.
    """
    rows = reader.rows(model.Recompile, compilation=compilation.id)
    if not rows:
        return None
    session = FunctionVersions(reader)
    explained = [_explained(reader, session, row) for row in rows]
    group = _with_cause(session, explained, set())
    return next(recompile for recompile in group if recompile.is_cause)


def reached_limit(compilation: model.Compilation) -> bool:
    """Return whether the compilation was refused because its function had been compiled too
    often.
    """
    return _LIMIT.search(compilation.error) is not None


def _with_cause(
    session: FunctionVersions,
    group: list[ExplainedRecompile],
    seen: set[tuple[object, ...]],
) -> list[ExplainedRecompile]:
    """Return a group of failed guards with the cause marked. ``seen`` holds the values for which
    compilations exist, and receives those of this group.

    The cause is what differs from the nearest earlier version. Where the values of the versions
    are not known, as in a log, it is the first value that no version had: with several versions,
    each call fails in all of them, mostly at values that another version has.
    """
    values = [_value(recompile, recompile.change.new) for recompile in group]
    seen |= {_value(recompile, recompile.change.old) for recompile in group}
    compilation = session.named(group[0].compilation)
    nearest = session.nearest(compilation)
    differing = session.differing(nearest, compilation)
    cause = next((i for i, row in enumerate(group) if _subject(row) in differing), -1)
    if cause < 0 and nearest:
        cause = next((i for i, row in enumerate(group) if row.of == nearest.name), -1)
    if cause < 0:
        cause = next((i for i, value in enumerate(values) if value not in seen), 0)
    seen |= set(values)
    return [replace(recompile, is_cause=i == cause) for i, recompile in enumerate(group)]


def _subject(recompile: ExplainedRecompile) -> str:
    """Return torch's name of the value that a guard is about: ``G['xs']`` of ``len(G['xs'])``."""
    source = recompile.change.source
    return source.removeprefix("len(").removesuffix(")") if source.startswith("len(") else source


def _value(recompile: ExplainedRecompile, value: str) -> tuple[object, ...]:
    return recompile.function, recompile.change.name, recompile.change.index, value


@answered_once
def limit_hits(reader: SessionReader) -> list[LimitHit]:
    """Return where torch gave up recompiling, one entry per function."""
    session = FunctionVersions(reader)
    refused = [row for row in session.rows if reached_limit(row)]
    # Reversed twice: of each function the first one stays, and the order is that of the session.
    first = {session.siblings(compilation)[0].id: compilation for compilation in reversed(refused)}
    return [_limit_hit(reader, session, compilation) for compilation in reversed(first.values())]


_LIMIT = re.compile(
    r"(?:exceeding the |hit "
    r"config\.)(?P<option>\w{0,40}(?:recompile|cache_size)_limit)\b\D{1,200}(?P<limit>\d+)"
    r"|FailOnRecompileLimitHit"
)
"""Matches the messages of ``torch/_dynamo/convert_frame.py``, _compile, and the first line of its
warning. The exception is raised with ``fullgraph=True``.
"""


_EQUAL_TO = re.compile(r" == (?P<value>[^=]+)$")
"""Matches the value in torch's guard on an equal number or text: ``L['n'] == 3``."""


def _value_compiled_for(
    reader: SessionReader, compilation: model.Compilation | None, change: GuardChange
) -> str:
    """Return the value that a compilation is for, by its own guard: a log has it of a value that
    made torch compile again. Empty where no guard says it.
    """
    if compilation is None:
        return ""
    for check in reader.rows(model.GuardCheck, compilation=compilation.id):
        if check.source and plain_code(check.source, compilation) == change.name:
            match = _EQUAL_TO.search(bounded(check.code))
            if match:
                return match["value"].strip()
    return ""


def _explained(
    reader: SessionReader, session: FunctionVersions, row: model.Recompile
) -> ExplainedRecompile:
    """Explain one recompile: its function, the change, the line, the caller, and how to avoid
    it.
    """
    compilation = session.of_recompile(row)
    before = session.before(row)
    nearest = session.nearest(compilation)
    if row.times > 1 and nearest is not None:
        # The row names the latest of the versions in which this guard failed.
        before = nearest
    function = session.function(compilation) or before
    change = change_of(
        row.guard or row.reason,
        row.source,
        row.old or _hint(reader, before, row.source),
        row.new,
        before or function,
    )
    if not change.new and change.kind in ("number", "value"):
        new = _value_compiled_for(reader, compilation, change)
        if new and new != change.old:
            change = change_of(
                row.guard or row.reason, row.source, change.old, new, before or function
            )
    change = with_arguments(reader, _of_a_length(change), row.reason, function)
    if row.line:
        file, line = (row.file, row.line)
    else:
        file, line = _line_of_guard(reader, before, row, change)
    sizes = sizes_then(reader, change, before, compilation)
    is_own_size = change.kind == "size" and sizes.is_specialized
    is_another_object = _are_of_two_objects(compilation, before) and (
        change.where == "attribute" or is_own_size
    )
    is_shared = _is_shared(compilation, before)
    if is_shared and compilation and before:
        change = replace(change, words=_describe_shared_wrapper(before))
    if is_shared:
        what_to_do = SHARED
    elif is_another_object:
        what_to_do = remedy_of_objects(change)
    else:
        what_to_do = remedy(change, row.reason, sizes) or NO_REMEDY
    name = compilation.name if compilation else ""
    name_before = before.name if before else row.of
    function_name = function.function if function else ""
    at_function = (function.file, function.line) if function else ("", 0)
    return ExplainedRecompile(
        compilation=name,
        of=name_before,
        function=function_name,
        reason=row.reason,
        description=change.words,
        guard=row.guard,
        plain_guard=plain_code(row.guard, before or function),
        file=file,
        line=line,
        place=place_of_path(reader, file, line) or place_of_path(reader, *at_function),
        change=change,
        called_from=_caller(reader, compilation),
        graphs=_graphs(reader, before, compilation),
        remedy=what_to_do,
        times=row.times,
        is_another_object=is_another_object,
    )


_CONTAINER = re.compile(r"(?:list|tuple|dict|set|deque|OrderedDict|defaultdict) of (?P<length>\d+)")
"""Matches how a container is described (capture/recording/described.py)."""


def _of_a_length(change: GuardChange) -> GuardChange:
    """Return the change of a container that was empty as one of its length: torch's guard on an
    empty one is ``not``, on another one ``len``.
    """
    container = _CONTAINER.fullmatch(change.new)
    if change.kind != "value" or change.old or container is None:
        return change
    length = container["length"]
    words = f"the length of {change.name} was 0 and now is {length}"
    return replace(change, kind="length", old="0", new=length, words=words)


def _are_of_two_objects(
    compilation: model.Compilation | None, before: model.Compilation | None
) -> bool:
    """Return whether a method, or torch's wrapper, was compiled for two objects."""
    if compilation is None or before is None:
        return False
    return bool(compilation.receiver and before.receiver) and (
        compilation.receiver != before.receiver
    )


def _graphs(
    reader: SessionReader, before: model.Compilation | None, after: model.Compilation | None
) -> str:
    if before is None or after is None:
        return ""
    return describe_graphs(reader, before.id, after.id)


SHARED = (
    "No change is needed: each of them is compiled once. They count together against "
    "torch._dynamo.config.recompile_limit; if you wrap each in its own function and compile that, "
    "they are counted separately."
)


def _is_shared(compilation: model.Compilation | None, before: model.Compilation | None) -> bool:
    """Return whether torch wrapped two different callables in the same function, so that the second
    looks like a recompile of the first.
    """
    if compilation is None or before is None:
        return False
    names = compilation.function, before.function
    if not all(names) or any("torch_dynamo_resume_in_" in name for name in names):
        return False
    # Of torch's function, the place is where torch.compile was called.
    places = (compilation.file, compilation.line), (before.file, before.line)
    is_another = _are_of_two_objects(compilation, before) and places[0] != places[1]
    return names[0] != names[1] or is_another


def _describe_shared_wrapper(before: model.Compilation) -> str:
    return (
        "torch calls it from one of its own functions, which called "
        f"{plain_function(before.function)} before"
    )


_SIZE_OF = re.compile(r"\.(?:size|stride)\(\)\[\d+\]$")


def _line_of_guard(
    reader: SessionReader,
    before: model.Compilation | None,
    row: model.Recompile,
    change: GuardChange,
) -> tuple[str, int]:
    """Return the line that needed a guard. torch's reports on tensors have no line, but the
    compilation's guards have one, by their source.
    """
    if before is None or not change.name:
        return "", 0
    source = _SIZE_OF.sub("", row.source.partition(", ")[0]) or local_source(change.name)
    guards = reader.rows(model.Guard, compilation=before.id, source=source)
    with_line = [guard for guard in guards if guard.line > 0]
    guard = min(with_line, key=lambda guard: guard.kind != "TENSOR_MATCH", default=None)
    return (guard.file, guard.line) if guard else ("", 0)


def _hint(reader: SessionReader, before: model.Compilation | None, source: str) -> str:
    """Return the value that a dynamic size had when the code was compiled; empty for anything
    else.
    """
    if before and source:
        symbols = reader.rows(model.Symbol, compilation=before.id, source=source, limit=1)
    else:
        symbols = []
    return symbols[0].hint if symbols else ""


def _caller(reader: SessionReader, compilation: model.Compilation | None) -> tuple[str, int]:
    if compilation and compilation.stack:
        stacks = reader.by_ids(model.Stack, [compilation.stack])
    else:
        stacks = []
    frame = stacks[0].frames[-1] if stacks and stacks[0].frames else None
    return (frame.file, frame.line) if frame else ("", 0)


def _limit_hit(
    reader: SessionReader, session: FunctionVersions, refused: model.Compilation
) -> LimitHit:
    """Describe a compilation that torch refused because its function had been compiled too
    often.
    """
    siblings = session.siblings(refused)
    count = sum(compilation.status in ("ok", "broke") for compilation in siblings)
    function = session.function(refused) or refused
    option, limit = "recompile_limit", count
    in_error = _LIMIT.search(refused.error)
    if in_error:
        option = in_error["option"] or option
        limit = int(in_error["limit"] or limit)
    of_refused = (cause for cause in causes(reader) if cause.compilation == refused.name)
    cause = next(of_refused, None)
    change, what_to_do = (cause.description, cause.remedy) if cause else ("", "")
    if is_text(reader):  # which does not have all that was compiled
        count = max(count, limit)
    return LimitHit(
        compilation=refused.name,
        function=function.function,
        file=function.file,
        line=function.line,
        place=place_of_path(reader, function.file, function.line),
        option=option,
        limit=limit,
        compiled=count,
        change=change,
        remedy=what_to_do,
        is_error=refused.status == "failed",
        instances=_instances(reader, refused),
    )


def _instances(reader: SessionReader, refused: model.Compilation) -> int:
    rows = reader.rows(model.Metric, compilation=refused.id, name=INSTANCES)
    return int(json.loads(rows[0].value)) if rows else 0
