"""This module describes the guards of a compilation: how many there are of each kind, in plain
words, and which of them saved code does not check.

Guards say what must stay as it was for the compiled code to be used again. Code that is compiled
ahead and saved lacks some: a file cannot have guards on globals or on the identity of objects.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.naming import function_of, plain_name
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model.rows.observation import GUARDS_IN_FILE
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import filtered, guard_kind_counts

KIND_IN_WORDS: dict[str, str] = {
    "TENSOR_MATCH": "a tensor keeps its dtype, device, layout and every size that is not dynamic",
    "SHAPE_ENV": "dynamic sizes stay in the range they were compiled for",
    "DUPLICATE_INPUT": "two inputs stay the same tensor",
    "ID_MATCH": "a name still refers to the same object",
    "FUNCTION_MATCH": "a name still refers to the same function",
    "CLOSURE_MATCH": "a name still refers to the same closure",
    "BUILTIN_MATCH": "a name still refers to the same builtin",
    "MODULE_MATCH": "a module is still the same one",
    "NN_MODULE": "a module is still the same one, in the same training mode",
    "CLASS_MATCH": "a name still refers to the same class",
    "TYPE_MATCH": "an object keeps its type",
    "CONSTANT_MATCH": "a Python value that is a constant in the compiled code stays equal",
    "EQUALS_MATCH": "a Python value that is a constant in the compiled code stays equal",
    "BOOL_MATCH": "a flag that is a constant in the compiled code stays the same",
    "NONE_MATCH": "what was None stays None",
    "SEQUENCE_LENGTH": "a list, tuple or dict keeps its length",
    "TUPLE_ITERATOR_LEN": "an iterator keeps its length",
    "RANGE_ITERATOR_MATCH": "a range iterator stays where it was",
    "DICT_KEYS_MATCH": "a dict still has the same keys",
    "DICT_CONTAINS": "a dict still has (or still lacks) a key",
    "DICT_VERSION": "a dict is not changed",
    "DICT_NOT_CONTAINS": "a dict still lacks a key",
    "MAPPING_KEYS_CHECK": "a mapping still has the same keys",
    "HASATTR": "an object still has (or still lacks) an attribute",
    "NOT_PRESENT_IN_GENERIC_DICT": "an object still has no instance attribute of that name",
    "EMPTY_NN_MODULE_HOOKS_DICT": "a module still has no hooks",
    "WEAKREF_ALIVE": "an object is still alive",
    "GRAD_MODE": "grad mode (torch.no_grad) stays as it was",
    "DETERMINISTIC_ALGORITHMS": "torch.use_deterministic_algorithms stays as it was",
    "TORCH_FUNCTION_STATE": "__torch_function__ modes stay as they were",
    "DEFAULT_DEVICE": "torch.set_default_device stays as it was",
    "GLOBAL_STATE": "torch's global settings stay as they were",
    "FSDP_TRAINING_STATE": "FSDP's training state stays as it was",
    "AUTOGRAD_SAVED_TENSORS_HOOKS": "saved-tensor hooks stay as they were",
}
"""torch's guard types (``torch/_dynamo/guards.py``, methods of GuardBuilder) → the condition that
they check.
"""


@dataclass(frozen=True, slots=True)
class GuardKind:
    kind: str
    description: str
    """A description; empty for an unknown kind."""
    count: int


def guard_kinds(reader: SessionReader, compilation: int | None = None) -> list[GuardKind]:
    """Return the number of guards of each kind, most frequent first, in one compilation or in
    all.
    """
    counts = guard_kind_counts(reader, compilation)
    return [GuardKind(kind, KIND_IN_WORDS.get(kind, ""), count) for kind, count in counts.items()]


def guards_of(
    reader: SessionReader, compilation: int, start: int = 0, stop: int | None = None
) -> list[model.Guard]:
    """Return one page of a compilation's guards, in the order in which torch checks them."""
    limit = -1 if stop is None else stop - start
    return reader.rows(model.Guard, offset=start, limit=limit, compilation=compilation)


# Guards that saved code lacks.


_FILTER_OF_SAVED_CODE = "aot_compile_fullgraph."
"""The function in torch/_dynamo/aot_compile.py that creates the filter."""

_OF_TORCH = ("G['torch']", "G['__import_torch", "G['__builtins", "G['_global_")
"""Beginnings of sources that are torch's own or Python's, which programs do not change."""

NAMES_SHOWN = 5

NO_GUARDS_OF_PRECOMPILE = (
    "torch.compiler.precompile traces with make_fx, so there are no guards, and torch makes no "
    "PrecompileSummary."
)

OF_TORCH_ALONE = "All of them check functions and modules of torch itself."


@dataclass(frozen=True, slots=True)
class SavedGuards:
    """The guards of one function that was compiled for saving."""

    function: str
    guards: int
    """Number of guards that Dynamo requested."""
    dropped: tuple[tuple[str, str], ...]
    """Kind and source of each guard that the saved code does not check."""

    @property
    def description(self) -> str:
        """Return how many of the guards the saved code is without."""
        asked_for = f"{len(self.dropped):,} of the {counted(self.guards, 'guard')} that Dynamo made"
        return f"The saved code of {self.function} lacks {asked_for}: they cannot be saved."

    @property
    def unchecked(self) -> str:
        """Describe which of the program's own names the saved code does not check; empty for
        none.
        """
        sources = [source for kind, source in self.dropped if kind != "MODULE_MATCH"]
        of_program = [source for source in sources if not source.startswith(_OF_TORCH)]
        names = dict.fromkeys(map(plain_name, of_program))
        if names:
            return f"It does not check {listed(list(names), NAMES_SHOWN)}."
        return ""


def is_of_saved_code(filter_name: str) -> bool:
    """Return whether this is torch's own filter, which drops the guards that ``aot_compile`` cannot
    save.
    """
    return filter_name.startswith(_FILTER_OF_SAVED_CODE)


def is_precompiled(reader: SessionReader) -> bool:
    """Return whether ``torch.compiler.precompile`` compiled something."""
    return any(row.name.startswith("precompile/") for row in reader.rows(model.Compilation))


def saved_guards(reader: SessionReader) -> list[SavedGuards]:
    """Return the functions whose saved code lacks guards, in the order in which they were
    compiled.
    """
    dropped = {**dict(_of_aot_compile(reader)), **dict(_of_precompile(reader))}
    saved = []
    for row in reader.rows(model.Compilation):
        guards, dropped_guards = dropped.get(row.id, (0, ()))
        if dropped_guards:
            saved.append(SavedGuards(function_of(row), guards, dropped_guards))
    return saved


_Dropped = tuple[int, tuple[tuple[str, str], ...]]


def _of_precompile(reader: SessionReader) -> Iterator[tuple[int, _Dropped]]:
    """Yield the guards that ``Precompile.save`` left out, by the id of the compilation."""
    for metric in reader.rows(model.Metric, name=GUARDS_IN_FILE):
        in_file = json.loads(metric.value)
        dropped = tuple((str(kind), str(source)) for kind, source in in_file["dropped"])
        yield metric.compilation, (int(in_file["guards"]), dropped)


def _of_aot_compile(reader: SessionReader) -> Iterator[tuple[int, _Dropped]]:
    """Yield the guards that torch's ``aot_compile`` left out, by the id of the compilation."""
    filters = [guard.filter for guard in filtered(reader) if is_of_saved_code(guard.filter)]
    for name in filters:
        by_compilation: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for guard in reader.rows(model.Guard, dropped_by=name):
            by_compilation[guard.compilation].append((guard.kind, guard.source))
        for compilation, dropped in by_compilation.items():
            yield compilation, (reader.count(model.Guard, compilation=compilation), tuple(dropped))


# What torch says of a capture of several graphs.


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """torch's ``PrecompileSummary`` of a function that was captured with its graph breaks and
    recompiles, to be saved (torch 2.15). It is about the calls that ran.
    """

    function: str
    frames: int
    resume_functions: int
    """Number of the frames that are resume functions."""
    guarded_codes: int
    backend_graphs: int
    kept: int
    """Number of guards that the saved code checks."""
    unchecked: int
    """Number of guards that the saved code does not check."""
    risky: tuple[tuple[str, str], ...]
    """Kind and source of unchecked guards that distinguished captured versions of a function, or
    that torch considers a choice of configuration.
    """
    wont_generalize: tuple[str, ...]
    """Arguments whose value is the same in all captured versions."""
    gaps: tuple[tuple[str, str], ...]
    """(missing part of the capture, its consequence); empty for a complete capture."""

    @property
    def description(self) -> str:
        """Return a description of the captured functions."""
        behind = ""
        if self.resume_functions:
            behind = f", {self.resume_functions:,} of them after a graph break"
        covered = (
            f"{counted(self.frames, 'frame')}{behind}, as "
            f"{counted(self.guarded_codes, 'version')} with "
            f"{counted(self.backend_graphs, 'graph')}"
        )
        if self.gaps:
            state = "is not complete"
        else:
            state = "is complete for the calls that ran"
        return f"The capture of {self.function} {state}: {covered}."

    @property
    def details(self) -> list[str]:
        """Return sentences on missing parts of the capture, on guards that the saved code does not
        check, and on sizes that it accepts only unchanged.
        """
        lines = [f"{what}: {consequence}." for what, consequence in self.gaps]
        if self.unchecked:
            unchecked = counted(self.unchecked, "guard")
            lines.append(f"The saved code checks {self.kept:,} and does not check {unchecked}.")
        if self.risky:
            names = listed(f"{plain_name(source)} ({kind})" for kind, source in self.risky)
            lines.append(
                f"Risky among them: {names}. Such a guard distinguished versions, or looks like a "
                "configuration choice."
            )
        if self.wont_generalize:
            names = listed(self.wont_generalize, NAMES_SHOWN)
            lines.append(f"All captured versions have the same value of {names}.")
        return lines


_GAPS = {
    "bypassed": ("{frames} could not be saved", "a call that reaches this code raises"),
    "uncovered_frames": ("{frames} ran without a compiled version", "it cannot be served"),
    "truncated": (
        "{frames} reached the recompile limit",
        ("the code that ran after it is not captured"),
    ),
    "capture_errors": ("A call raised {frames}", "it is not captured"),
}
"""Field of a ``PrecompileSummary`` → (missing part, its consequence)."""


def capture_summaries(reader: SessionReader) -> list[CaptureSummary]:
    """Return torch's summaries of captures, in the order in which the captures ended."""
    return [_capture_summary(stored) for stored in reader.meta("capture_summaries") or []]


def _capture_summary(stored: dict[str, Any]) -> CaptureSummary:
    gaps = []
    for name, (what, consequence) in _GAPS.items():
        texts = stored.get(name, [])
        if texts:
            gaps.append((what.format(frames=listed(texts)), consequence))
    return CaptureSummary(
        stored["function"],
        stored.get("frames", 0),
        stored.get("resume_functions", 0),
        stored.get("guarded_codes", 0),
        stored.get("backend_graphs", 0),
        stored.get("kept", 0),
        stored.get("unchecked", 0),
        tuple((kind, source) for kind, source in stored.get("risky_dropped_guards", [])),
        tuple(stored.get("wont_generalize", [])),
        tuple(gaps),
    )
