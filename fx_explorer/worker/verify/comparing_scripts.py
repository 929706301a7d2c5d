"""Compare two runs of a script: what they have in common. torch is not imported for it until then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fx_explorer.worker.target import loading
from fx_explorer.worker.verify.observed.branch_coverage import text_on_disk

if TYPE_CHECKING:
    from fx_explorer.worker.verify.comparing import Comparison


def new_names(changes: Mapping[str, str]) -> frozenset[str]:
    """Return the globals, and the members of classes, that the change itself adds to the changed files."""
    return frozenset(
        f"global {name}"
        for path, text in changes.items()
        for bound in (loading.names_bound, loading.members_bound)
        for name in bound(text) - bound(text_on_disk(path))
    )


def compared(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    new_names: frozenset[str] = frozenset(),
    *,
    is_built: bool = False,
    is_uncompiled: bool = False,
) -> Comparison:
    """Compare two runs. Compiled functions that only one of them calls are left out and named.

    ``new_names`` are the globals that the change adds.
    """
    from fx_explorer.worker.verify.comparing import Comparison, told_of_hidden

    comparison = Comparison(is_built, is_uncompiled, new_names, frozenset(before["names"]))
    both = {name for name in before["counts"] if name in after["counts"]}
    one, other = (_with_outputs(run, both) for run in (before, after))
    one["values"]["called"], other["values"]["called"] = (
        {f"the number of calls of {name}": run["counts"][name] for name in both} for run in (before, after)
    )
    comparison.add(one, other)
    comparison.not_compared += [*_left_out(before, after, both), *told_of_hidden(before)]
    return comparison


def _with_outputs(run: Mapping[str, Any], functions: set[str]) -> dict[str, Any]:
    """Return ``run`` with what these functions returned among its values, so that it is compared as
    its globals are.
    """
    calls = [call for name in sorted(functions) for call in run["identities"].get(name, [])]
    return {
        **run,
        "values": {**run["values"], "output": dict(_outputs(run, functions))},
        "facts": {**run["facts"], **{name: facts for call in calls for name, facts in call["facts"].items()}},
        "same": [*run["same"], *(names for call in calls for names in call["same"])],
        "overlapping": [*run["overlapping"], *(pair for call in calls for pair in call["overlapping"])],
    }


def _outputs(run: Mapping[str, Any], functions: set[str]) -> Iterator[tuple[str, Any]]:
    for name, values in run["returned"].items():
        if name in functions:
            yield from values.items()


def _left_out(before: Mapping[str, Any], after: Mapping[str, Any], both: set[str]) -> Iterator[str]:
    from fx_explorer.worker.verify.compiled_calls import MOST_CALLS

    if before["problem"] or after["problem"]:
        yield f"what compiled calls return ({before['problem'] or after['problem']})"
    for run, words in ((before, "the original"), (after, "the changed script")):
        alone = ", ".join(name for name in run["counts"] if name not in both)
        if alone:
            yield f"calls of {alone}, which only {words} has compiled"
    called = sum(before["counts"].values())
    if called > MOST_CALLS:
        yield f"compiled calls after the first {MOST_CALLS} of {called}"
