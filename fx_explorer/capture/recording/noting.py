"""This module separates recording from the program: ``Noting`` keeps our errors out of the user's
compile, and hides fx-explorer from the program and from Dynamo while it records. It also has notes
that one hook leaves in the recording for another.

Our code must never be compiled, must not run the program's own tensor classes and modes, and must
cause no graph break.
"""

from __future__ import annotations

import contextlib
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    DisableTorchFunction,
    compiled_eval_frame,
    trace_rules,
)
from fx_explorer.capture.torch_compat.versions import MissingInTorch, require
from fx_explorer.model import BackendEntry, PublishedStage, Stage
from fx_explorer.session.undisturbed import undisturbed

_PACKAGE = str(Path(__file__).parents[2])

_RAISED_BY_US = frozenset(("fx_explorer", "numpy", "sympy", "torch", "triton"))
"""Packages whose exceptions may occur in our code, beside those of the standard library."""

AddFault = Callable[[str, Stage | None, Exception], None]
"""A function that receives what could not be recorded, its stage, and the error."""


class Noting:
    """The wall around recording: no exception and no call inside it reaches the program or its
    compiler. Exceptions are passed to ``add_fault``.
    """

    __slots__ = ("_add_fault", "_stage", "_tracer", "_unseen", "_what")

    def __init__(
        self, add_fault: AddFault, what: str, stage: Stage | None, unseen: DynamoOff
    ) -> None:
        self._add_fault = add_fault
        self._what = what
        self._stage = stage
        self._unseen = unseen

    def __enter__(self) -> None:
        undisturbed.__enter__()
        self._tracer = sys.gettrace()
        self._unseen.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        # What is no Exception continues: the user's interrupt, a gate that is left.
        is_ours = isinstance(error, Exception) and not _came_from_outside(error, self._tracer)
        try:
            if isinstance(error, Exception) and is_ours:
                self._add_fault(self._what, self._stage, error)
        finally:
            self._unseen.__exit__(None, None, None)
            undisturbed.__exit__()  # last: here the program's signal handlers may raise
        return is_ours


def _came_from_outside(error: Exception, tracer: object) -> bool:
    """Return whether the program raised an exception into our code: by its trace function
    (``sys.settrace``), or from another of its threads (``PyThreadState_SetAsyncExc``). The latter
    has a class that our code does not raise, and no frame but ours.
    """
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    code = innermost.tb_frame.f_code
    if code is getattr(tracer, "__code__", None):
        return True
    owner = type(error).__module__.partition(".")[0]
    is_programs = owner not in sys.stdlib_module_names and owner not in _RAISED_BY_US
    is_in_ours = code.co_filename.startswith(_PACKAGE)
    return is_in_ours and (is_programs or isinstance(error, TimeoutError))


# Notes that one hook leaves for another.


class BackendError(NamedTuple):
    """A backend's error. ``stage`` is the stage that the compilation had reached."""

    error: BaseException
    stage: Stage | None


@dataclass(frozen=True, slots=True)
class GuardedValue:
    """The value that a failed guard looked at."""

    source: str = ""
    """The value's source as torch names it: ``L['x']``, ``L['self'].power``, ``G['scale']``; empty
    for a global state.
    """
    old: str = ""
    """The old value, if the guard's text does not have it and it is still known."""
    new: str = ""


@dataclass(slots=True)
class FailedGuard:
    """A guard that failed before a recompile, in torch's words for the latest compilation it failed
    in.
    """

    reason: str
    value: GuardedValue
    times: int = 1
    """Number of compilations of the function in which it failed."""


@dataclass
class RecompileNotes:
    """The recompiles that torch has begun and not reported yet."""

    functions: dict[str, types.CodeType] = field(default_factory=dict)
    """Compilation → the function that is being recompiled, until the compilation ends."""
    receivers: dict[str, int] = field(default_factory=dict)
    """Compilation → the number of the object that its method was called on; 0 for no method."""
    failed_guards: dict[str, dict[str, FailedGuard]] = field(default_factory=dict)
    """Compilation → the guards whose failure caused it, by their source."""


@dataclass
class AheadOfTime:
    """The compilations without a call of the program: compiled ahead of time, or to be saved."""

    captured: set[str] = field(default_factory=set)
    """Compilations of functions that were captured before any call (ahead_of_time.py)."""
    built_to_save: set[str] = field(default_factory=set)
    """Compilations whose code was built because it is saved, also while inspecting."""
    traced: list[tuple[weakref.ref[object], str]] = field(default_factory=list)
    """(object from which torch builds guards, its compilation). The object cannot be hashed."""
    summaries: list[dict[str, object]] = field(default_factory=list)
    """torch's summary of each capture of several graphs (``PrecompileSummary``)."""


class CountedEntry(Protocol):
    """A function made by a backend, with a counter of its calls."""

    @property
    def row(self) -> BackendEntry: ...

    @property
    def calls(self) -> int: ...

    def was_called(self, returned: object) -> None:
        """Count a call, and compare its result with the graph."""

    def write(self) -> None:
        """Bring its row up to date."""


@dataclass
class Published:
    """The stages and entries that backends have published into the session."""

    stages: dict[int, list[PublishedStage]] = field(default_factory=dict)
    """Row of a compilation → its stages, in the order of publishing."""
    runs: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    """(row of a compilation, entry, direction) → how many runs were published."""
    messages: set[str] = field(default_factory=set)
    """Problems with published stages, each once."""
    latest: str = ""
    """The compilation that published last; empty before."""
    entries: list[CountedEntry] = field(default_factory=list)
    """The functions that backends have returned, whose calls are counted."""
    _of_inductor: dict[int, tuple[weakref.ref[object], CountedEntry]] = field(default_factory=dict)
    """Id of an object that Inductor returned → the object and its entry. Such objects cannot be
    hashed.
    """

    def count_inductors(self, made: object, entry: CountedEntry) -> None:
        self._of_inductor[id(made)] = weakref.ref(made), entry

    def entry_of(self, made: object) -> CountedEntry | None:
        """Return the CountedEntry for a compiled graph that Inductor returned; None for any other
        object.
        """
        reference, entry = self._of_inductor.get(id(made), (None, None))
        if reference is None or reference() is not made:
            return None
        return entry


class CallAgain(Protocol):
    """Repeats the captured call."""

    inputs: str
    """A short description of the inputs it is called with."""

    def __call__(self, watching: AbstractContextManager[object]) -> list[str]:
        """Call it inside ``watching`` with copies of its inputs, and put its state back.

        Returns sentences on what could not be put back. Raises what the program raises.
        """
        ...


# What keeps Dynamo, and the program's classes, out of our code.


_OURS = Path(__file__).parents[2]

_set_eval_frame: Callable[[Any], Any] = getattr(
    compiled_eval_frame, "set_eval_frame", lambda looking: looking
)
"""Sets the callback that Dynamo runs for each frame, and returns the earlier one."""


class DynamoOff:
    """A context manager inside which Dynamo looks at no frame.

    It is no generator, because Dynamo would look at the frames of ``contextlib`` before it is in
    force.
    """

    def __enter__(self) -> None:
        self._looking = _set_eval_frame(None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        _set_eval_frame(self._looking)


class DynamoAndOverridesOff(DynamoOff):
    """A context manager as ``DynamoOff``, in which no ``__torch_function__`` of a class or mode is
    called either.
    """

    def __enter__(self) -> None:
        super().__enter__()
        self._functions = DisableTorchFunction()
        self._functions.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._functions.__exit__(kind, error, trace)
        super().__exit__(kind, error, trace)


@contextlib.contextmanager
def our_files_skipped(_: object) -> Iterator[None]:
    """Have Dynamo leave to Python, inside the block, the functions of ours that the program's calls
    pass through.
    """
    # Without it our frames are looked at, too; this raises.
    compiled_eval_frame.set_eval_frame  # noqa: B018
    rules = trace_rules.SKIP_DIRS
    rules.append(_OURS.as_posix() + "/")
    # torch looks at one pattern that it has made of the list.
    trace_rules._recompile_re()
    try:
        yield
    finally:
        rules.remove(_OURS.as_posix() + "/")
        trace_rules._recompile_re()


@contextlib.contextmanager
def patched_in_programs(
    owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Patch as ``patched`` does, for a function that compiled code may call: Dynamo treats the
    replacement like torch's own.

    Dynamo knows these functions by identity and must have seen the original first.
    ``get_torch_obj_rule_map`` (torch/_dynamo/trace_rules.py) says how to treat each;
    ``TorchInGraphFunctionVariable._get_handlers`` (variables/torch.py) has special cases.
    """
    original = getattr(owner, name)
    tables = [table for table in _known_to_dynamo() if original in table]
    with patched(owner, name, make):
        replacement = getattr(owner, name)
        for table in tables:
            table[replacement] = table[original]
        try:
            yield
        finally:
            for table in tables:
                del table[replacement]


def traced_as(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Have Dynamo treat calls of ``replacement`` as calls of ``original`` from now on, though the
    replacement is in a file of ours.

    Where Dynamo looks a function up by name, it has found the replacement itself, and no longer
    knows the original.
    """
    trace_rules.get_torch_obj_rule_map().setdefault(replacement, trace_rules.lookup(original))


def _known_to_dynamo() -> Iterator[dict[Any, Any]]:
    yield trace_rules.get_torch_obj_rule_map()
    with contextlib.suppress(MissingInTorch):
        yield require(
            "torch._dynamo.variables.torch", "TorchInGraphFunctionVariable"
        )._get_handlers()
