"""This module compares two runs of a script in what both have. It imports torch only for the
comparison.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fx_explorer.instruments.fixes.measure.branch_coverage import text_on_disk
from fx_explorer.instruments.fixes.measure.outside import asks_for_what_varies
from fx_explorer.instruments.fixes.measure.varying import VariesByItself, Varying
from fx_explorer.program import loading

if TYPE_CHECKING:
    from fx_explorer.instruments.fixes.measure.comparing import Comparison

Run = Mapping[str, Any]
"""The observations of one run of a script (``ScriptRun.plain``)."""


def new_names(changes: Mapping[str, str]) -> frozenset[str]:
    """Return the globals, and the members of classes, that the change itself adds to the changed
    files.
    """
    names: set[str] = set()
    for path, text in changes.items():
        before = text_on_disk(path)
        names |= loading.names_bound(text) - loading.names_bound(before)
        names |= loading.members_bound(text) - loading.members_bound(before)
    return frozenset(f"global {name}" for name in names)


class WithTheOriginal:
    """Compares runs of the changed script with the original.

    Where they differ, the original runs once more, to find out and leave out what varies between
    its own runs.
    """

    def __init__(
        self, original: Run, new_names: frozenset[str], runs_again: Sequence[Callable[[], Run]]
    ) -> None:
        """``new_names`` are the globals that the change adds. Each of ``runs_again`` runs the
        original once more, and returns an empty run if it did not finish.
        """
        self.original = original
        self._new_names = new_names

        def varying_in(run_again: Callable[[], Run]) -> Varying | None:
            again = run_again()
            return varying(original, again) if again else None

        self._varies_by_itself = VariesByItself(
            [functools.partial(varying_in, run) for run in runs_again],
            is_of_chance=asks_for_what_varies(original),
        )

    def compared(
        self, changed: Run, *, is_built: bool = False, is_uncompiled: bool = False
    ) -> Comparison:
        """Compare a run of the changed script with the original."""
        return self._without_what_varies(
            self.original, changed, self._new_names, is_built, is_uncompiled
        )

    def of_original(self, built: Run) -> Comparison:
        """Compare the original's run as built code with its run by PyTorch's operators."""
        return self._without_what_varies(self.original, built, frozenset(), True, False)

    def between(self, built: Run, changed: Run) -> Comparison:
        """Compare the changed script's run as built code with the original's (``built``)."""
        return self._without_what_varies(
            {**self.original, **built}, changed, self._new_names, True, False
        )

    def _without_what_varies(
        self, before: Run, after: Run, new: frozenset[str], is_built: bool, is_uncompiled: bool
    ) -> Comparison:
        return self._varies_by_itself.compared(
            lambda varying: compared(
                before, after, new, varying, is_built=is_built, is_uncompiled=is_uncompiled
            )
        )


def varying(run: Run, other: Run) -> Varying:
    """Return the differences between two runs of the same script."""
    return compared(run, other).varies(run, other)


def compared(
    before: Run,
    after: Run,
    new_names: frozenset[str] = frozenset(),
    varying: Varying = Varying(),  # noqa: B008 - it is never changed
    *,
    is_built: bool = False,
    is_uncompiled: bool = False,
) -> Comparison:
    """Compare two runs. Compiled functions that only one of them calls are left out and named.

    ``new_names`` are the globals that the change adds, and ``varying`` is what differs between runs
    of the original.
    """
    from fx_explorer.instruments.fixes.measure.comparing import Comparison, describe_hidden
    from fx_explorer.instruments.fixes.measure.float64_judge import (
        SCRIPT_IN_FLOAT64,
        tensors_within,
        without_float64,
    )
    from fx_explorer.program.equal_results import rounding_of

    of_both = set(before["possible variables"]) & set(after["possible variables"])
    ignored = new_names | frozenset({*before["variables"], *after["variables"]} - of_both)
    comparison = Comparison(
        is_built,
        is_uncompiled,
        ignored,
        frozenset(before["names"]),
        varying,
        rounding=rounding_of(
            [*tensors_within(before["values"]), *tensors_within(before["returned"])]
        ),
    )
    of_varying_number = {
        name for name in before["counts"] if _number_of_calls(name) in varying.names
    }
    both = {name for name in before["counts"] if name in after["counts"]} - of_varying_number
    one, other = (_with_outputs(run, both) for run in (before, after))
    one["values"]["called"] = _numbers_of_calls(before, both)
    other["values"]["called"] = _numbers_of_calls(after, both)
    for run, gradients in zip((one, other), _gradients(before, after), strict=True):
        run["values"]["gradient"] = {**run["values"].get("gradient", {}), **gradients}
    comparison.add(one, other)
    if comparison.near_by_direction:
        comparison.not_compared.append(without_float64(SCRIPT_IN_FLOAT64))
    comparison.not_compared += [
        *_left_out(before, after, both),
        *varying.describe(),
        *describe_hidden(before),
    ]
    return comparison


def _number_of_calls(name: str) -> str:
    return f"the number of calls of {name}"


def _numbers_of_calls(run: Run, functions: set[str]) -> dict[str, int]:
    return {_number_of_calls(name): run["counts"][name] for name in functions}


def _with_outputs(run: Run, functions: set[str]) -> dict[str, Any]:
    """Return ``run`` with the values that these functions returned added to its values, so that
    they are compared as globals are.
    """
    calls = [call for name in sorted(functions) for call in run["identities"].get(name, [])]
    facts, same, overlapping = {**run["facts"]}, [*run["same"]], [*run["overlapping"]]
    for call in calls:
        facts.update(call["facts"])
        same += call["same"]
        overlapping += call["overlapping"]
    return {
        **run,
        "values": {**run["values"], "output": dict(_outputs(run, functions))},
        "facts": facts,
        "same": same,
        "overlapping": overlapping,
    }


def _outputs(run: Run, functions: set[str]) -> Iterator[tuple[str, Any]]:
    for name, values in run["returned"].items():
        if name in functions:
            yield from values.items()


def _gradients(before: Run, after: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return, for each run, the gradients that calls of ``backward()`` left in both; empty where
    the runs make different calls.
    """
    if before["backward calls"] != after["backward calls"]:
        return {}, {}
    one, other = before["gradients"], after["gradients"]
    both = [name for name in one if name in other]
    return {name: one[name] for name in both}, {name: other[name] for name in both}


def _left_out(before: Run, after: Run, both: set[str]) -> Iterator[str]:
    if before["problem"] or after["problem"]:
        yield f"what compiled calls return ({before['problem'] or after['problem']})"
    of_both = before["counts"].keys() & after["counts"].keys()
    for run, words in ((before, "the original"), (after, "the changed script")):
        alone = ", ".join(name for name in run["counts"] if name not in of_both)
        if alone:
            yield f"calls of {alone}, which is compiled only in {words}"
    called = sum(before["counts"].values())
    if before["kept calls"] < called:
        yield f"compiled calls after the first {before['kept calls']} of {called}"
    if before["kept saved"] < before["saved"]:
        yield (
            f"later writes of torch.save(), after the first {before['kept saved']} of "
            f"{before['saved']} calls"
        )
    yield from _gradients_left_out(before, after)


def _gradients_left_out(before: Run, after: Run) -> Iterator[str]:
    calls, others = before["backward calls"], after["backward calls"]
    if calls != others:
        yield (
            f"gradients at calls of backward(): the original makes {calls}, the changed script "
            f"{others}"
        )
    elif calls == others and before["kept backward calls"] < calls:
        yield (
            f"gradients at calls of backward() after the first {before['kept backward calls']} of "
            f"{calls}"
        )
