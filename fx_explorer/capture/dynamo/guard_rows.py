"""This module makes the rows of guards: the guards that Dynamo requested during tracing, the checks
that torch runs for them at every call, and the guards that filters drop.

Hook: ``CheckFunctionManager.__init__`` (torch/_dynamo/guards.py), which turns
``output_graph.guards`` into a tree of checks and tries it on the frame's locals: so both, and the
example values, are at hand. Not every guard has a check of its own (grad mode is part of the global
state, and hooks of modules are not checked by default), and not every check a guard.

A filter (``guard_filter_fn``) is given an entry for each guard that Dynamo asked for, and says
which to keep (``GuardFilterEntry``, torch/_dynamo/types.py; ``CheckFunctionManager.__init__`` and
``make_guard_filter_entry``, torch/_dynamo/guards.py). What the one in force drops is recorded, and
what each of torch's own would drop of a program that has none. Read in 2.13.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.dynamo.symbol_rows import finish_symbols
from fx_explorer.capture.dynamo.what_if import check_keys
from fx_explorer.capture.recording.described import described
from fx_explorer.capture.recording.live_guards import (
    CallState,
    ExampleValues,
    Leaf,
    LiveTree,
    Unreachable,
    cost_ns,
    held,
    leaves,
    less_the_call,
    tree_cost_ns,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import CheckFunctionManager, strip_local_scope
from fx_explorer.capture.torch_compat.versions import (
    GuardFilter,
    dataclass_of,
    known_filters,
    name_of,
    require,
)
from fx_explorer.model import (
    GUARD_FILTER,
    NOT_MEASURED,
    FilterAnswer,
    Frame,
    Guard,
    GuardCheck,
    Metric,
    Origin,
)
from fx_explorer.torch_texts import bounded

SHAPES = "SHAPE_ENV"

_STATE_GUARDS = {
    "TORCH_FUNCTION_MODE_STACK": "TORCH_FUNCTION_STATE",
    "SYMBOLIC_SHAPE_GUARD": SHAPES,
}
"""Name of a leaf → name of its guard, where they differ."""


def guard_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the guards of each compiled code when torch makes its tree of checks."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def __init__(self: Any, f_code: Any, output_graph: Any, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, f_code, output_graph, *args, **kwargs)
            in_force = given.arguments.get(GUARD_FILTER)
            watched = WatchedFilter(in_force) if in_force else None
            if watched:
                given.arguments[GUARD_FILTER] = watched
            original(*given.args, **given.kwargs)
            # Guards that are loaded are of a function that was compiled elsewhere.
            if not recording.compilation_name():
                return
            with recording.noting("guards", "dynamo"):
                add_guards(recording, f_code, output_graph, self.guard_manager, watched)
            with recording.noting("dynamic sizes", "dynamo"):
                finish_symbols(recording, output_graph.shape_env)

        return __init__

    return patched(CheckFunctionManager, "__init__", make)


def add_guards(
    recording: Recording,
    code: Any,
    output_graph: Any,
    manager: Any,
    watched: WatchedFilter | None = None,
) -> None:
    """Add the guards that Dynamo requested, the checks of torch's tree with their guards, and the
    costs. The tree is kept, so that other inputs can be checked. ``watched`` is the filter with
    which the tree was made.
    """
    # By a key: comparing two guards asks for the keys of both each time.
    asked = sorted(output_graph.guards, key=lambda guard: guard.sort_key())
    parts: list[_Part] = []
    for leaf in leaves(manager.root):
        parts += _parts(leaf)
    dropped = {i for i, guard in enumerate(asked) if watched and watched.has_dropped(guard)}
    owners = _Owners(asked, dropped)
    numbers = [owners.of(part) for part in parts]
    owned: dict[int, list[_Part]] = {}
    for number, part in zip(numbers, parts, strict=True):
        owned.setdefault(number, []).append(part)
    rows = []
    for i, guard in enumerate(asked):
        dropped_by = watched.name if watched and i in dropped else ""
        rows.append(_guard_row(recording, i, guard, owned.get(i, []), dropped_by))
    ids = _add(recording, rows)
    made = _Checks(recording, code, output_graph.local_scope, manager).rows(
        parts, numbers, asked, ids
    )
    check_ids = recording.writer.add_numbered(made)
    checks = [replace(check, id=check_id) for check, check_id in zip(made, check_ids, strict=True)]
    _keep(recording, code, output_graph.local_scope, manager, checks)
    cost = tree_cost_ns(manager.root, output_graph.local_scope)
    recording.writer.add(Metric(0, recording.compilation_id(), "guard_check_ns", json.dumps(cost)))
    if recording.request.ledger and not watched:
        with recording.noting("what guard filters would drop", "dynamo"):
            name = recording.compilation_name()
            recording.writer.add_all(
                answers(name, asked, ExampleValues(manager, output_graph.local_scope))
            )


def _keep(
    recording: Recording,
    code: Any,
    f_locals: dict[str, Any],
    manager: Any,
    checks: list[GuardCheck],
) -> None:
    """Keep the tree, so that other inputs can be asked about."""
    rows: dict[str, GuardCheck] = {}
    for check in checks:
        for key in check_keys(check):
            rows.setdefault(key, check)
    name, compilation = recording.compilation_name(), recording.compilation_id()
    receiver = recording.live_guards.receiver(code, f_locals)
    if receiver:
        recording.change_compilation(name, receiver=receiver)
    first = code.co_varnames[:1]
    modules = [name for name in first if isinstance(f_locals.get(name), torch.nn.Module)]
    wanted = [*code.co_freevars, *modules]
    kept = {variable: held(f_locals[variable]) for variable in wanted if variable in f_locals}
    tree = LiveTree(compilation, recording.row(name).name, code, CallState.now(), rows, kept)
    recording.live_guards.add(manager, tree)


def _add(recording: Recording, rows: list[Guard]) -> range:
    ids = recording.writer.add_numbered(rows)
    for row, row_id in zip(rows, ids, strict=True):
        if row.kind == SHAPES:  # lowering may have more to ask of sizes
            recording.of(recording.compilation_name()).shape_guard = replace(row, id=row_id)
    return ids


# what is checked


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a leaf that is reported as one check: all its conditions, or one of the relations
    between sizes.
    """

    leaf: Leaf
    conditions: tuple[str, ...]
    note: str
    is_first: bool

    @property
    def code(self) -> str:
        return " and ".join(self.conditions)


def _parts(leaf: Leaf) -> Iterator[_Part]:
    """Split a leaf into its rows: one for each relation between sizes, or one for all conditions of
    any other leaf, which hold or fail together.
    """
    split = [_without_note(part) for part in leaf.parts]
    if not leaf.source or leaf.kind == "SYMBOLIC_SHAPE_GUARD":
        for position, (code, note) in enumerate(split):
            yield _Part(leaf, (code,), note, position == 0)
    else:
        conditions = tuple(dict.fromkeys(code for code, _ in split))
        note = split[0][1] if split else ""
        yield _Part(leaf, conditions, note, True)


def _without_note(text: str) -> tuple[str, str]:
    code, _, note = text.partition("  # ")
    return code.rstrip(), note.strip()


class _Owners:
    """Finds the guard of a check: the one with its code, else one of its kind, else any on the same
    value.
    """

    def __init__(self, asked: list[Any], dropped: Collection[int] = ()) -> None:
        """``dropped``: positions of guards that have no checks, because a filter dropped them."""
        self._by_code: dict[str, int] = {}
        self._by_kind: dict[tuple[str, str], int] = {}
        self._by_source: dict[str, int] = {}
        for i, guard in enumerate(asked):
            if i in dropped:
                continue
            for code in guard.code_list or ():
                self._by_code.setdefault(code, i)
            self._by_kind.setdefault((guard.create_fn_name(), name_of(guard)), i)
            if name_of(guard):
                self._by_source.setdefault(name_of(guard), i)

    def of(self, part: _Part) -> int:
        """Return the number of the guard of a part; -1 when there is none."""
        leaf = part.leaf
        if leaf.source == "L":
            source = ""
        else:
            source = leaf.source.removesuffix(".__dict__").removesuffix(".__code__")
        kind = leaf.kind if source else _STATE_GUARDS.get(leaf.kind, leaf.kind)
        candidates = [self._by_code.get(part.code, -1)]
        if part.conditions:
            candidates.append(self._by_code.get(part.conditions[0], -1))
        candidates.append(self._by_kind.get((kind, source), -1))
        if callable(leaf.check):
            candidates.append(self._by_source.get(source, -1))
        # Relations are checked last; those that bound one size on both sides stand in one
        # condition there, not in two.
        if not leaf.source:
            candidates.append(self._by_kind.get((SHAPES, ""), -1))
        for number in candidates:
            if number >= 0:
                return number
        return -1


# rows


def _guard_row(
    recording: Recording, position: int, guard: Any, parts: list[_Part], dropped_by: str
) -> Guard:
    checked: list[str] = []
    for part in parts:
        checked += part.conditions
    kind = guard.create_fn_name()
    if kind == SHAPES:
        codes = guard.code_list or checked
    else:
        codes = [*checked, *(guard.code_list or ())]
    code = " and ".join(dict.fromkeys(codes))
    file, number, verbose = "", 0, ""
    user = _user_frame(recording, guard.user_stack or ())
    if user is not None:
        file, number = user.filename, user.lineno or 0
        verbose = f"# {user.line}" if user.line else ""
    return Guard(
        0,
        recording.compilation_id(),
        position,
        kind,
        name_of(guard),
        code,
        verbose=verbose,
        file=file,
        line=number,
        dropped_by=dropped_by,
    )


def _user_frame(recording: Recording, stack: Sequence[Any]) -> Any:
    """Return the innermost frame outside torch, else the innermost; None without a stack."""
    for frame in reversed(stack):
        if not recording.sources.is_torch(frame.filename):
            return frame
    return stack[-1] if stack else None


_NOTED_LINE = re.compile(r"(?:.*#\s)?(?P<file>[^#\n]+?):(?P<line>\d+) in \S+")

_ROOT = re.compile(r"\b(?P<scope>[LG])\['(?P<name>[^']+)'\]")
"""Matches the beginning of a source, also inside ``dict(type(L['self']).__dict__)['size']``."""

_LIBRARY = re.compile(r"^__(?:import_torch|builtins)")


class _Place(NamedTuple):
    """A line of the user's, and the id of the stack it stands in."""

    file: str
    line: int
    stack: int


class _Checks:
    """Makes the rows of a guard tree's checks, with the example values they passed for."""

    def __init__(
        self, recording: Recording, code: Any, f_locals: dict[str, Any], manager: Any
    ) -> None:
        self._recording = recording
        self._compilation = recording.compilation_id()
        self._closure = frozenset(code.co_freevars)
        self._locals = f_locals
        self._values = ExampleValues(manager, f_locals)

    def rows(
        self, parts: list[_Part], numbers: list[int], asked: list[Any], ids: Sequence[int]
    ) -> list[GuardCheck]:
        """Make the rows of all checks. ``numbers`` has the guard of each part, -1 for none, and
        ``ids`` are the ids of the guards' rows.
        """
        values = [self._values.of(part.leaf.source or "L") for part in parts]
        costs = []
        for part, value in zip(parts, values, strict=True):
            # The parts of a leaf are checked together, and its cost counts once.
            cost = cost_ns(part.leaf.check, value) if part.is_first else 0.0
            costs.append(cost)
        rows = []
        for i, cost in enumerate(less_the_call(costs)):
            number = numbers[i]
            if number >= 0:
                guard, guard_id = (asked[number], ids[number])
            else:
                guard, guard_id = (None, 0)
            rows.append(self._row(i, parts[i], values[i], cost, guard, guard_id))
        return rows

    def _row(
        self, position: int, part: _Part, value: Any, cost: float, guard: Any, guard_id: int
    ) -> GuardCheck:
        """Return the row of one check: the checked value, its origin, and the cost."""
        leaf = part.leaf
        source = "" if leaf.source == "L" else leaf.source
        if guard is not None and guard.create_fn_name() == SHAPES:
            origin: Origin = "shapes"
        else:
            origin = self._origin(source or part.code)
        value_type, value_text = "", ""
        if source:
            value_type = leaf.value_type
        if source and not isinstance(value, Unreachable):
            value_text = described(value)
        place = self._place(part, guard)
        return GuardCheck(
            0,
            self._compilation,
            guard_id,
            position,
            leaf.kind,
            source,
            origin,
            part.code,
            value_type=value_type,
            value=value_text,
            note=part.note,
            file=place.file,
            line=place.line,
            stack=place.stack,
            cost_ns=cost,
        )

    def _origin(self, source: str) -> Origin:
        root = _ROOT.search(source)
        if root is None:
            return "state"
        name = root["name"]
        if root["scope"] == "G":
            return "library" if _LIBRARY.match(name) else "global"
        if name in self._closure:
            return "closure"
        if isinstance(self._locals.get(name), torch.nn.Module):
            return "module"
        return "argument"

    def _place(self, part: _Part, guard: Any) -> _Place:
        """Return the user's line of a check, from the guard's user stack, else from torch's remark
        (for a relation between sizes).
        """
        sources = self._recording.sources
        stack = guard.user_stack or () if guard is not None else ()
        user = _user_frame(self._recording, stack)
        if user is not None:
            frames = (
                Frame(frame.filename, frame.lineno or 0, frame.name, frame.line or "")
                for frame in stack
            )
            return _Place(user.filename, user.lineno or 0, sources.stack(frames))
        noted = _NOTED_LINE.search(bounded(part.note))
        file = sources.complete(noted["file"]) if noted else ""
        if noted is None or not Path(file).is_absolute():  # a file that is not in the session
            return _Place("", 0, 0)
        return _Place(file, int(noted["line"]), 0)


def add_late_checks(recording: Recording, guard: Guard, codes: list[str]) -> None:
    """Add the checks on sizes that lowering requested after Dynamo had made its tree. The tree does
    not contain them.
    """
    note = "added by lowering after Dynamo had finished; a compile without a pause checks it too"
    added = []
    with recording.writer.transaction():
        for i, code in enumerate(codes):
            check = GuardCheck(
                0,
                guard.compilation,
                guard.id,
                i,
                SHAPES,
                "",
                "shapes",
                code,
                note=note,
                cost_ns=NOT_MEASURED,
            )
            added.append(replace(check, id=recording.writer.add(check)))
    recording.live_guards.late.setdefault(guard.compilation, []).extend(added)


# What filters of guards drop.


class WatchedFilter:
    """A wrapper of a guard filter that records its answers and returns them unchanged."""

    def __init__(self, original: GuardFilter) -> None:
        self._original = original
        self._dropped: set[int] = set()

    @property
    def name(self) -> str:
        return str(getattr(self._original, "__qualname__", type(self._original).__qualname__))

    def __call__(self, entries: Sequence[Any]) -> Sequence[bool]:
        kept = self._original(entries)
        self._dropped = {
            id(entry.orig_guard) for entry, keep in zip(entries, kept, strict=False) if not keep
        }
        return kept

    def has_dropped(self, guard: Any) -> bool:
        """Return whether the filter dropped this guard in its last call."""
        return id(guard) in self._dropped


def answers(compilation: str, guards: Sequence[Any], values: ExampleValues) -> list[FilterAnswer]:
    """Call each of torch's own filters on these guards, and return the answers of those that would
    drop any. ``guards`` are in the order of their rows.
    """
    entries = [_entry(guard, values) for guard in guards]
    filter_answers = []
    for name, guard_filter in known_filters().items():
        dropped = tuple(position for position, keep in enumerate(guard_filter(entries)) if not keep)
        if dropped:
            filter_answers.append(FilterAnswer(0, compilation, name, len(guards), dropped))
    return filter_answers


def _entry(guard: Any, values: ExampleValues) -> Any:
    """Return torch's argument to a filter for a guard (``make_guard_filter_entry``, whose builder
    no longer exists when the guards are made).
    """
    name = strip_local_scope(name_of(guard))
    value = values.of(guard.name) if name else Unreachable()
    has_value = not isinstance(value, Unreachable)
    if not has_value:
        value = object()
    is_global = (
        require("torch._dynamo.source", "get_global_source_name")(guard.originating_source)
        is not None
    )
    return dataclass_of(
        "torch._dynamo.types",
        "GuardFilterEntry",
        name=name,
        has_value=has_value,
        value=value,
        guard_type=guard.create_fn_name(),
        derived_guard_types=tuple(guard.guard_types or ()),
        is_global=is_global,
        orig_guard=guard,
    )
