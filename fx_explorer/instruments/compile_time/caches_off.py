"""This module says which of torch's compile caches were off, what turned them off, and what the
cache of autotuning answered for each kernel.

Where torch decides it: ``fx_codegen_and_compile`` (torch/_inductor/compile_fx.py),
``should_use_local_autograd_cache`` (torch/_functorch/_aot_autograd/autograd_cache.py),
``check_autotune_cache`` (torch/_inductor/runtime/triton_heuristics.py).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import listed
from fx_explorer.instruments.kernels.launched import build_records
from fx_explorer.model.rows.observation import CACHE_OFF
from fx_explorer.session import SessionReader

AUTOTUNING = "autotune"

FORCED_OFF = "force_disabled"
"""torch's word where force_disable_caches kept autotuning from asking its cache."""

NAMES_OF_CACHES = {
    "fx_graph": "Inductor's FX graph cache",
    "aotautograd": "AOTAutograd's cache",
    AUTOTUNING: "the cache of autotuning",
}

_ALL_OFF = (("compiler.force_disable_caches", True), ("inductor.force_disable_caches", True))

_TURNED_OFF_BY: dict[str, tuple[tuple[str, bool], ...]] = {
    "fx_graph": (
        *_ALL_OFF,
        ("inductor.fx_graph_cache", False),
        ("functorch.bundled_autograd_cache", True),
    ),
    "aotautograd": (*_ALL_OFF, ("functorch.enable_autograd_cache", False)),
    AUTOTUNING: (*_ALL_OFF, ("inductor.autotune_local_cache", False)),
}
"""Cache → options with the value that turns it off."""

_REMOTE = {
    "fx_graph": "inductor.fx_graph_remote_cache",
    "aotautograd": "functorch.enable_remote_autograd_cache",
    AUTOTUNING: "inductor.autotune_remote_cache",
}
"""Cache → the option that turns on a remote one, which is asked also without the local one."""

_MODULES = {
    "compiler": "torch.compiler.config",
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
}

OFF_IN_CAPTURES = (
    "fx-explorer turned them off for this capture, so that every graph is lowered and recorded; "
    "--use-caches leaves torch's caches as the program sets them"
)

NOT_EXPLAINED = "torch recorded that it was not enabled; no recorded option says why"


@dataclass(frozen=True, slots=True)
class CacheOff:
    """A cache that was off, and why."""

    cache: str
    """A key of ``NAMES_OF_CACHES``."""
    reason: str
    option: str = ""
    """torch's name of the option that turned it off; empty where none is known."""
    compilations: tuple[str, ...] = ()
    """Those of which torch recorded it; empty where it records nothing of that."""


def caches_off(reader: SessionReader) -> list[CacheOff]:
    """Return the caches that were off, by torch's records, its options, or the capture's own
    doing.
    """
    recorded = _recorded_off(reader)
    request = reader.request()
    turned_off: list[CacheOff] = []
    if not is_log(reader) and request is not None and not request.use_caches:
        return [CacheOff(cache, OFF_IN_CAPTURES) for cache in ("fx_graph", "aotautograd")]
    for cache in NAMES_OF_CACHES:
        option = _option_that_turns_off(reader, cache)
        compilations = recorded.get(cache, ())
        if option:
            name = option.partition(" = ")[0]
            turned_off.append(CacheOff(cache, option, name, compilations))
        elif compilations:
            turned_off.append(CacheOff(cache, NOT_EXPLAINED, "", compilations))
    return turned_off


def _recorded_off(reader: SessionReader) -> dict[str, tuple[str, ...]]:
    """Return cache → the compilations of which torch recorded that it was off."""
    compilations: dict[str, dict[str, None]] = {}
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    for row in reader.rows(model.Metric, name=CACHE_OFF):
        cache = row.value.strip('"')
        if cache in NAMES_OF_CACHES and row.compilation in names:
            compilations.setdefault(cache, {})[names[row.compilation]] = None
    for state in autotuning_answers(reader):
        if state.outcome == FORCED_OFF:
            compilations.setdefault(AUTOTUNING, {})[state.compilation] = None
    return {cache: tuple(of_cache) for cache, of_cache in compilations.items()}


def _option_that_turns_off(reader: SessionReader, cache: str) -> str:
    """Return ``torch._inductor.config.fx_graph_cache = False``; empty where no option does."""
    if True in _values(reader, _REMOTE[cache]) and True not in _values(reader, _ALL_OFF[0][0]):
        return ""
    for option, value in _TURNED_OFF_BY[cache]:
        if value in _values(reader, option):
            group, _, name = option.partition(".")
            return f"{_MODULES[group]}.{name} = {value}"
    return ""


def _values(reader: SessionReader, option: str) -> list[object]:
    """Return the values that an option had while torch compiled; none where it is not recorded."""
    values: list[object] = []
    for row in reader.rows(model.OptionInForce, name=option):
        with contextlib.suppress(ValueError, RecursionError):  # the file may be anybody's
            values.append(json.loads(row.value))
    return values


def off_sentences(off: Sequence[CacheOff]) -> list[str]:
    """Say which caches were off, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for cache in off:
        by_reason.setdefault(cache.reason, []).append(NAMES_OF_CACHES[cache.cache])
    return [f"Off: {listed(names)}: {reason}." for reason, names in by_reason.items()]


@dataclass(frozen=True, slots=True)
class AutotuningAnswer:
    """What the cache of autotuning answered for some kernels of a compilation."""

    compilation: str
    outcome: str
    """torch's word: ``hit``, ``miss``, ``only 1 config``, ``force_disabled``."""
    kernels: tuple[str, ...]


def autotuning_answers(reader: SessionReader) -> list[AutotuningAnswer]:
    """Return the answers by compilation and outcome; none where torch recorded no builds of
    Triton's.
    """
    kernels: dict[tuple[str, str], dict[str, None]] = {}
    for compilation, name, outcome in _autotuned(reader):
        kernels.setdefault((compilation, outcome), {})[name] = None
    answers: list[AutotuningAnswer] = []
    for (compilation, outcome), names in kernels.items():
        answers.append(AutotuningAnswer(compilation, outcome, tuple(names)))
    return answers


def _autotuned(reader: SessionReader) -> Iterator[tuple[str, str, str]]:
    """Yield compilation, kernel and outcome of each record of a build that has an outcome."""
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    for compilation, by_kernel in build_records(reader):
        for kernel, record in by_kernel.items():
            if isinstance(record, dict) and record.get("autotune_cache_state"):
                outcome = str(record["autotune_cache_state"])
                yield names.get(compilation, ""), kernel, outcome
