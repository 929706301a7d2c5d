"""This module runs a script once under observation, in a process of its own, by PyTorch's operators
or with its code built.

The observations are those by which two runs can be compared: how it ends, what it prints, what the
outermost compiled calls return, the gradients that each ``backward()`` leaves, and all that can be
reached from its globals and from the variables of the functions that call compiled code. The script
itself imports torch: until then nothing here needs it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from fx_explorer.instruments.fixes.measure.branch_coverage import BranchCoverage
from fx_explorer.instruments.fixes.measure.child_program import ChildProgress
from fx_explorer.instruments.fixes.measure.outside import (
    AS_LONG_AS_COMPILING_S,
    HiddenCalls,
    OutsideEffects,
    take_free_places,
    unwatched,
)
from fx_explorer.instruments.fixes.measure.printed_output import PrintedLines, printed
from fx_explorer.model import CaptureRequest
from fx_explorer.program import loading, process_ending
from fx_explorer.program.on_import import after_import
from fx_explorer.program.place import TargetPlace, UsersCode, is_users_file

if TYPE_CHECKING:
    from fx_explorer.instruments.fixes.measure.observing import Lookups
    from fx_explorer.instruments.fixes.measure.reachable import ReachableWalk
    from fx_explorer.instruments.fixes.measure.script_results import (
        BackwardCalls,
        CompiledCalls,
        SavedObjects,
    )

OWN_INPUTS = "the script's own inputs"


class ScriptRun:
    """One run of the script, with everything it did that can be seen from outside."""

    def __init__(
        self, watch: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
    ) -> None:
        """Make a run that enters ``watch`` around the script."""
        self._calls: CompiledCalls | None = None
        self._backwards: BackwardCalls | None = None
        self._saved: SavedObjects | None = None
        self._watch = watch
        self._outside = OutsideEffects()
        self._effects: list[str] = []
        self._written = PrintedLines()
        self._status = 0
        self._raised, self._message = "", ""
        self._lookups: Lookups | None = None

    def begin(self, until: contextlib.ExitStack, first_call_takes_s: float = 0.0) -> None:
        """Begin to watch compiled calls, ``backward()`` and ``torch.save``, and seed random
        numbers. Call it as soon as torch has been imported.
        """
        from fx_explorer.instruments.fixes.measure.script_results import (
            BackwardCalls,
            CompiledCalls,
            SavedObjects,
        )
        from fx_explorer.program.seeds import seed

        seed(0)
        self._calls, self._backwards, self._saved = (
            CompiledCalls(first_call_takes_s),
            BackwardCalls(),
            SavedObjects(),
        )
        for watching in (self._calls, self._backwards, self._saved):
            until.enter_context(watching.watched())

    def count_lookups(self, until: contextlib.ExitStack) -> None:
        """Count lookups of tensors. Call it as soon as torch has been imported, in a run without
        torch.compile.
        """
        from fx_explorer.instruments.fixes.measure.observing import Lookups

        self._lookups = Lookups()
        until.enter_context(self._lookups.watched())

    def run(self, script: Callable[[], None]) -> None:
        """Run the script and record how it ended. An exception of the script is raised to the
        caller.
        """
        try:
            with (
                self._outside.recorded(self._effects),
                printed(self._written, is_users_file),
                self._watch(),
            ):
                script()
        except SystemExit as leaving:
            self._status = process_ending.status(leaving)
            raise
        except Exception as error:
            self._raised, self._message = type(error).__name__, str(error)
            raise

    def plain(self) -> dict[str, Any]:
        """Return the observations as plain values that another process can read."""
        lookups = self._lookups.count if self._lookups else 0
        return {
            "call": OWN_INPUTS,
            **self._left_behind(),
            "printed": self._written.lines,
            "errors": self._written.errors,
            "effects": self._effects,
            "raised": self._raised,
            "message": self._message,
            **self._of_calls(),
            "lookups": lookups,
        }

    def _left_behind(self) -> dict[str, Any]:
        """Return all values that can be reached when the script ends, the names of all globals and
        of the callers' variables, and the gradients of tensors that have a name.
        """
        status = {"exit status": {"the exit status": self._status}}
        if (
            self._calls is None or self._backwards is None or self._saved is None
        ):  # it has not imported torch
            return {"values": status, **_NOTHING_REACHED}
        globals_, variables = _globals(), list(self._calls.callers.variables())
        walk = _walk(globals_, variables)
        reached = walk.reached()
        return {
            **vars(reached),
            "values": _merged(reached.values, self._saved.values, status),
            "facts": {**reached.facts, **self._saved.facts},
            "names": [name for _, name, _ in globals_],
            "variables": [name for name, _ in variables],
            "possible variables": list(self._calls.callers.names()),
            "gradients": self._backwards.of_leaves(walk.names()),
        }

    def _of_calls(self) -> dict[str, Any]:
        calls, backwards, saved = self._calls, self._backwards, self._saved
        of_calls: dict[str, Any] = {
            "returned": {},
            "identities": {},
            "counts": {},
            "kept calls": 0,
            "problem": "",
            "backward calls": 0,
            "kept backward calls": 0,
            "saved": 0,
            "kept saved": 0,
        }
        if calls:
            of_calls["returned"] = calls.returned
            of_calls["identities"] = calls.identities
            of_calls["counts"] = dict(calls.counts)
            of_calls["kept calls"] = calls.kept
            of_calls["problem"] = calls.problem
        if backwards:
            of_calls["backward calls"] = backwards.count
            of_calls["kept backward calls"] = backwards.kept
        if saved:
            of_calls["saved"] = saved.count
            of_calls["kept saved"] = saved.kept
        return of_calls


def _merged(*values: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the values of all walks together: kind → name → value."""
    merged: dict[str, dict[str, Any]] = {}
    for value in values:
        for kind, of_kind in value.items():
            merged.setdefault(kind, {}).update(of_kind)
    return merged


_NOTHING_REACHED: dict[str, Any] = {
    **{"facts": {}, "same": [], "overlapping": [], "unreadable": {}},
    **{"names": [], "variables": [], "possible variables": [], "gradients": {}},
}


def original_result(place: TargetPlace, request: CaptureRequest) -> dict[str, Any]:
    """Run the script as it is in its file, without torch.compile, and record what a comparison
    cannot show.
    """
    hidden, coverage = HiddenCalls(), BranchCoverage(request.overlay)

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        with hidden.watched(), coverage.watched():
            yield

    seen = ScriptRun(watched)
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: _run_eagerly(seen, until), during=unwatched)
        _run_to_its_end(seen, place, request)
    return {**seen.plain(), "hidden": list(hidden.found), "not reached": coverage.not_taken()}


def original_again(place: TargetPlace, request: CaptureRequest) -> dict[str, Any]:
    """Run the original once more under other conditions, to find what varies from run to run: the
    first call of each compiled function takes longer, clocks are read later, and objects lie
    elsewhere in memory.
    """
    take_free_places()
    seen = ScriptRun(HiddenCalls(AS_LONG_AS_COMPILING_S).watched)
    with contextlib.ExitStack() as until:
        first_call = AS_LONG_AS_COMPILING_S
        after_import("torch", lambda: _run_eagerly(seen, until, first_call), during=unwatched)
        _run_to_its_end(seen, place, request)
    return {**seen.plain(), "hidden": [], "not reached": []}


def uncompiled_result(place: TargetPlace, request: CaptureRequest) -> dict[str, Any]:
    """Run the script without torch.compile."""
    seen = ScriptRun()
    loading.install_texts(request.overlay)
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: _run_eagerly(seen, until))
        _run_to_its_end(seen, place, request)
    return {**seen.plain(), "hidden": [], "not reached": []}


def built_result(
    place: TargetPlace, request: CaptureRequest, progress: ChildProgress
) -> dict[str, Any]:
    """Run the script with its code built. ``problem`` says why that cannot be."""
    seen, problems = ScriptRun(), []
    loading.install_texts(request.overlay)
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: problems.append(_run_built(seen, request, progress, until)))
        _run_to_its_end(seen, place, request)
    if problem := "".join(problems):
        return {"problem": problem}
    return {**seen.plain(), "hidden": [], "not reached": []}


def _run_to_its_end(seen: ScriptRun, place: TargetPlace, request: CaptureRequest) -> None:
    """Run the script as ``__main__``. Its exceptions are suppressed, because ``seen`` has recorded
    them.
    """
    assert place.file is not None
    with contextlib.suppress(Exception, SystemExit):
        script = partial(loading.run_script, place.file, request.target, request.arguments)
        seen.run(script)
    # the changed script's process has it too, and looking at globals needs it
    import torch  # noqa: F401


def _run_built(
    seen: ScriptRun, request: CaptureRequest, progress: ChildProgress, until: contextlib.ExitStack
) -> str:
    """Prepare for building code, and return why it cannot be built; empty when it can."""
    from fx_explorer.instruments.fixes.measure.programs import no_compiler, set_up, show_builds

    set_up(request, until)
    show_builds(progress, until)
    seen.begin(until)
    return no_compiler()


def _run_eagerly(
    seen: ScriptRun, until: contextlib.ExitStack, first_call_takes_s: float = 0.0
) -> None:
    from fx_explorer.program.calling import without_compiling

    without_compiling()
    seen.begin(until, first_call_takes_s)
    seen.count_lookups(until)


def _globals() -> list[tuple[str, str, object]]:
    """Return (kind, name, value) of all globals of the user's modules."""
    from fx_explorer.instruments.fixes.measure.observing import globals_of

    main = sys.modules["__main__"]
    return list(
        globals_of(
            [main, *(module for module in UsersCode().modules() if module is not main)], "__main__"
        )
    )


def _walk(
    globals_: list[tuple[str, str, object]], variables: list[tuple[str, object]]
) -> ReachableWalk:
    """Return a walk over the globals and over the callers' variables, which give a name to values
    that no global reaches.
    """
    import torch

    from fx_explorer.instruments.fixes.measure.reachable import ReachableWalk

    walk = ReachableWalk(is_users_file)
    for kind, name, value in globals_:
        walk.add(kind, name, value)
    for name, value in variables:
        kind = "state" if isinstance(value, torch.nn.Module) else "local"
        walk.add(kind, name, value)
    return walk
