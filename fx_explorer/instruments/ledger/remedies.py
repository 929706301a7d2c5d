"""This module proposes remedies that may make a call faster, given where its time goes. Each remedy
can be measured: the same call with it.

The saving of a remedy is measured against the unchanged program, round by round, so that a slower
machine affects both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from fx_explorer.analysis.measured_times import (
    BETWEEN_PROCESSES,
    Interval,
    median_interval,
    run_time,
)
from fx_explorer.analysis.words import counted, share
from fx_explorer.instruments.ledger.figures import LedgerFigures
from fx_explorer.instruments.ledger.guard_counts import IN_PYTHON, FilterEffect, GuardCounts
from fx_explorer.model import GUARD_FILTER, BenchCell, BenchClock, BenchRound, GuardCheck
from fx_explorer.session import SessionReader

MUCH, SOME = 0.3, 0.05
"""Shares of a call from which on a remedy is named."""

LEAST = 0.01
"""Share of a call from which on a reduction of the guards can be measured: rounds end when a time
is known to 1 %.
"""


@dataclass(frozen=True, slots=True)
class LedgerRemedy:
    """One change of how the program is compiled, which may make it faster."""

    name: str
    """Its name in a table: ``reduce-overhead``."""
    how: str
    """A phrase that continues "compile": ``in the mode reduce-overhead``."""
    why: str
    risk: str
    """The condition for using it, or its price; empty when neither is known."""
    mode: str = ""
    options: dict[str, object] = field(default_factory=dict)
    """``torch._inductor.config`` entries, and ``guard_filter_fn`` with the name of a filter."""
    settings: dict[str, object] = field(default_factory=dict)
    """Options of torch by full name, as of Dynamo."""
    is_for_guards: bool = False
    """Whether it makes guards fewer or cheaper. There are many such remedies, and each is announced
    when it is measured.
    """


def remedies(figures: LedgerFigures) -> list[LedgerRemedy]:
    """Return the remedies that may help, the most promising first; empty where the steps are not
    known.
    """
    if not figures.are_steps_known:
        return []
    candidates = [*_less_around(figures), *_faster_kernels(figures)]
    # Where guards could not be asked outside of a call, they are somewhere in entering
    # torch.compile.
    guards_s = figures.of_kind("guards") or figures.of_kind("entry")
    if guards_s >= LEAST * figures.call.call_s:
        candidates += _less_of_guards(figures)
    return [remedy for remedy in candidates if not _is_in_force(remedy, figures)]


def remedies_to_try(figures: LedgerFigures) -> list[LedgerRemedy]:
    """Return the remedies that are worth measuring.

    Where the steps of a call are not known, that is whatever makes guards fewer or cheaper: guards
    are counted, and what they cost is seen in the measured calls.
    """
    if figures.are_steps_known:
        return remedies(figures)
    return [remedy for remedy in _less_of_guards(figures) if not _is_in_force(remedy, figures)]


def _is_in_force(remedy: LedgerRemedy, figures: LedgerFigures) -> bool:
    """Return whether the program is compiled so already."""
    request = figures.request
    if request is None:
        return False
    if remedy.mode:
        return request.mode == remedy.mode
    return (
        remedy.options.items() <= request.options.items()
        and remedy.settings.items() <= request.settings.items()
    )


def _less_around(figures: LedgerFigures) -> Iterator[LedgerRemedy]:
    call_s = figures.call.call_s
    if figures.is_on_gpu and figures.idle_s > MUCH * call_s:
        yield LedgerRemedy(
            "reduce-overhead",
            "in the mode reduce-overhead",
            f"the GPU waits for the host in {share(figures.idle_s, call_s)} of a call: CUDA "
            "graphs launch all kernels at once",
            "inputs are copied to fixed addresses, and outputs are overwritten by the next call",
            mode="reduce-overhead",
        )
    checks_s = figures.of_kind("checks")
    if checks_s > SOME * call_s:
        yield LedgerRemedy(
            "size_asserts=False",
            "without checks of sizes (options size_asserts, alignment_asserts)",
            f"checks of sizes and strides take {run_time(checks_s)} ({share(checks_s, call_s)})",
            "a tensor of another layout than torch expects is then used without an error",
            options={"size_asserts": False, "alignment_asserts": False},
        )


def _faster_kernels(figures: LedgerFigures) -> Iterator[LedgerRemedy]:
    whole_s = figures.call.call_s
    library_s = sum(entry.seconds for entry in figures.entries if entry.step.kind == "library")
    if library_s < MUCH * whole_s:
        return
    part = f"library calls take {share(library_s, whole_s)} of a call"
    if figures.is_on_gpu:
        yield LedgerRemedy(
            "max-autotune",
            "in the mode max-autotune",
            f"{part}, and Triton templates may beat them",
            "compiling takes minutes",
            mode="max-autotune",
        )
    elif not figures.call.trains and figures.call.parameters:
        yield LedgerRemedy(
            "freezing",
            "with the option freezing",
            f"{part}, and weights can be packed for them ahead of time",
            "parameters become constants and must not change; it takes effect under "
            "torch.no_grad()",
            options={"freezing": True},
        )


def _less_of_guards(figures: LedgerFigures) -> Iterator[LedgerRemedy]:
    """Yield settings that make guards cheaper, and filters that drop some guards."""
    for setting in settings_for_guards(figures.guards):
        name = f"{setting.name}={setting.value}"
        settings: dict[str, object] = {setting.name: setting.value}
        yield LedgerRemedy(
            name, f"with {name}", setting.why, setting.risk, settings=settings, is_for_guards=True
        )
    request = figures.request
    if request and request.mode and request.backend != "inductor":
        # torch takes no options beside a mode, and only Inductor's modes are known as options
        return
    for effect in figures.guards.filters:
        why = f"it {describe_drops(effect)}"
        options: dict[str, object] = {GUARD_FILTER: effect.name}
        yield LedgerRemedy(
            effect.name,
            f"with {GUARD_FILTER}={effect.name}",
            why,
            effect.risk,
            options=options,
            is_for_guards=True,
        )


def describe_drops(effect: FilterEffect) -> str:
    """Return ``drops 12 of 49 guards (12 checks, all in C++)``."""
    checks = describe_checks(effect.in_cpp, effect.in_python)
    like = f", like {' and '.join(effect.like)}" if effect.like else ""
    return f"drops {effect.dropped:,} of {counted(effect.guards, 'guard')} ({checks}{like})"


def describe_checks(in_cpp: int, in_python: int) -> str:
    """Return ``22 checks, 20 in C++ and 2 in Python``."""
    if in_python:
        text = f"{in_cpp:,} in C++ and {in_python:,} in Python"
    else:
        text = "all in C++"
    return f"{counted(in_cpp + in_python, 'check')}, {text}"


# Options of Dynamo that make the guards of a program cheaper or fewer (torch/_dynamo/config.py),
# each with the kind of check that has to be there for it to change anything.


@dataclass(frozen=True, slots=True)
class GuardSetting:
    """One option with the value that may help."""

    name: str
    """Full name: ``dynamo.guard_nn_modules``."""
    value: bool
    why: str
    risk: str
    concerns: Callable[[GuardCheck], bool]
    """Returns whether a check is evaluated differently with this value."""


_ALIAS = re.compile(r"[LG]\[.+ is [LG]\[")
"""Matches a guard that two inputs are the same object: ``L['y'] is L['x']`` (``DUPLICATE_INPUT``,
torch/_dynamo/guards.py).
"""


def _is_of_module(check: GuardCheck) -> bool:
    return check.origin == "module"


def _is_shape_in_python(check: GuardCheck) -> bool:
    return check.origin == "shapes" and check.kind.startswith(IN_PYTHON)


def _is_alias_in_python(check: GuardCheck) -> bool:
    return check.kind.startswith(IN_PYTHON) and _ALIAS.match(check.code) is not None


def _is_default(check: GuardCheck) -> bool:
    return "__defaults__" in check.source or "__kwdefaults__" in check.source


def _is_hook(check: GuardCheck) -> bool:
    return "_hooks" in check.source


def _is_alias_of_tensors(check: GuardCheck) -> bool:
    return check.kind == "NO_TENSOR_ALIASING"


SETTINGS = (
    GuardSetting(
        "dynamo.use_recursive_dict_tags_for_guards",
        True,
        "modules are not checked if none of their dicts was written to since the last call",
        "off by default in torch; code, defaults and closures of functions must not be rebound",
        _is_of_module,
    ),
    GuardSetting(
        "dynamo.enable_cpp_symbolic_shape_guards",
        True,
        "relations between sizes are then checked in C++",
        "compiling takes longer, because a C++ compiler builds the check",
        _is_shape_in_python,
    ),
    GuardSetting(
        "dynamo.use_lamba_guard_for_object_aliasing",
        False,
        "identities of inputs are then checked in C++",
        "every change that guards detect now is still detected",
        _is_alias_in_python,
    ),
    GuardSetting(
        "dynamo.skip_guards_on_constant_func_defaults",
        True,
        "constant default values of functions are then not checked",
        "a default value that is reassigned after compiling is not noticed: the old one is used",
        _is_default,
    ),
    GuardSetting(
        "dynamo.skip_nnmodule_hook_guards",
        True,
        "hooks of modules are then not checked",
        "hooks that are added or removed after compiling are not noticed",
        _is_hook,
    ),
    GuardSetting(
        "dynamo.skip_no_tensor_aliasing_guards_on_parameters",
        True,
        "whether two parameters are the same tensor is then not checked",
        "passing one tensor for two parameters later gives wrong results",
        _is_alias_of_tensors,
    ),
)


def settings_for_guards(guards: GuardCounts) -> list[GuardSetting]:
    """Return the settings that may change how these guards are evaluated: this torch has them, with
    another value, and the guards have such checks.
    """
    options = guards.options
    others = [
        setting for setting in SETTINGS if options.get(setting.name, setting.value) != setting.value
    ]
    return [setting for setting in others if any(map(setting.concerns, guards.checks))]


def tried(reader: SessionReader, remedies: Mapping[str, LedgerRemedy], plain: str) -> list[str]:
    """Return a sentence for each remedy that was measured. ``remedies`` are by the name of their
    contender; ``plain`` is the contender without a remedy.
    """
    cells = {row.contender: row for row in reader.rows(BenchCell)}
    rounds = {name: _rounds(reader, cell) for name, cell in cells.items()}
    before = rounds.get(plain, {})
    known = [
        (remedy, cells[name], rounds[name]) for name, remedy in remedies.items() if rounds.get(name)
    ]
    return [
        f"{remedy.name}: {'; '.join(_describe_tried(remedy, cell, before, after))}."
        for remedy, cell, after in known
    ]


def _describe_tried(
    remedy: LedgerRemedy, cell: BenchCell, before: Mapping[int, float], after: Mapping[int, float]
) -> Iterator[str]:
    if cell.agreement == "differs":
        yield "gives other results"
    else:
        yield describe_saved(before, after, cell.clock)
    yield remedy.why
    if remedy.risk:
        yield f"what it risks: {remedy.risk}"


def describe_saved(
    before: Mapping[int, float], after: Mapping[int, float], clock: BenchClock
) -> str:
    """Return ``saves 3.1 µs of 20.1 µs (2.9 µs to 3.4 µs)``, given seconds of a call by round. The
    interval includes the spread between the two processes.
    """
    both = sorted(before.keys() & after.keys())
    saved = median_interval([before[i] - after[i] for i in both])
    if saved is None:
        return "was not measured often enough to give its saving"
    between_s = 2 * BETWEEN_PROCESSES[clock] * median(before[i] for i in both)
    saved = Interval(saved.middle, saved.low - between_s, saved.high + between_s)
    if saved.low <= 0 <= saved.high:
        return f"no measurable difference ({_span(saved)})"
    verb = "saves" if saved.low > 0 else "costs"
    ends = _absolute_range(saved)
    return (
        f"{verb} {run_time(abs(saved.middle))} of {run_time(median(before[i] for i in both))} "
        f"({ends})"
    )


def _absolute_range(saved: Interval) -> str:
    low, high = sorted((abs(saved.low), abs(saved.high)))
    return f"{run_time(low)} to {run_time(high)}"


def _span(saved: Interval) -> str:
    """Return ``between 1.2 µs more and 0.8 µs less``."""
    return f"between {run_time(-saved.low)} more and {run_time(saved.high)} less"


def _rounds(reader: SessionReader, cell: BenchCell) -> dict[int, float]:
    return {
        row.number: row.call_s for row in reader.rows(BenchRound, cell=cell.id) if row.call_s > 0
    }
