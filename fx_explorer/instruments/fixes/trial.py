"""This module tries a fix: a worker of its own runs the changed program, captures it, and compares
it with the original. ``judge`` gives the verdict, and ``chance_of`` how likely a fix holds. Lines
are listed whose result depends on whether a size known only at run time is 1: torch decides that
while compiling, without a guard.

The user's file is not touched. A fix that loops, crashes or raises costs that worker, and is told.
The order of fixes goes by what trials have shown, else by what each leaves open itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.instruments.breaks.grouped import (
    DistinctBreak,
    describe_next_break,
    distinct_breaks,
)
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.model import CaptureRequest, Outcome, Verification
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.nodes import squeezes
from fx_explorer.source_edit.user_files import changed_on_disk
from fx_explorer.trials import (
    HERE,
    Told,
    TrialWorker,
    ignore_message,
    recapture,
    straight_through,
    to_its_end,
)

_UNKNOWN = re.compile(r"\bu\d+\b")
"""Matches torch's name of a symbol without a value while compiling (``create_unbacked_symint`` in
torch's symbolic_shapes.py).
"""


def squeezed_unknown_sizes(reader: SessionReader) -> list[tuple[str, int]]:
    """Return the (file, line) of each ``squeeze`` that may have to remove a size known only at run
    time, in graph order.

    torch takes such a size not to be 1 (``guard_or_false`` in ``squeeze`` of
    torch/_refs/__init__.py) and puts no check of that into the graph. So where the size is 1 after
    all, the dimension stays.
    """
    places: dict[tuple[str, int], None] = {}
    for file, line, arguments, shape in squeezes(reader):
        if _may_squeeze(arguments, json.loads(shape)):
            places[file, line] = None
    return list(places)


def _may_squeeze(arguments: str, shape: list[str]) -> bool:
    """Return whether a size that the call checks is unknown while compiling. A call that names no
    sizes checks all.
    """
    without_names = re.sub(r"\b\w*[a-zA-Z_]\w*", "", arguments.partition(",")[2])
    numbers = [int(number) for number in re.findall(r"-?\b\d+\b", without_names)]
    sizes = shape
    if numbers:
        sizes = [shape[number] for number in numbers if -len(shape) <= number < len(shape)]
    return any(_UNKNOWN.search(size) for size in sizes)


Verdict = Literal[
    "good", "prints differ", "good where compared", "refused", "not compared", "timed out"
]
"""The verdict of a trial. ``good``: fewer breaks, or fewer functions in eager mode, and equal
results. ``prints differ``: the same except for output or messages of exceptions; only the user
knows whether that is wanted. ``good where compared``: all compared results are equal, but some
could not be compared. ``refused``: it fails, changes results, or gains nothing. ``not compared``:
it gains something, but no results could be compared (a script whose calls return nothing). ``timed
out``: the trial did not finish, so nothing is known of the fix.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    fix: Fix
    verdict: Verdict
    reason: str
    """Reason for the verdict, as a sentence."""
    before: SessionFigures
    after: SessionFigures | None
    """The figures of the changed program; None when its capture did not finish."""
    verification: Verification | None
    took_s: float

    @property
    def is_good(self) -> bool:
        return self.verdict == "good"

    @property
    def works(self) -> bool:
        """Return whether it is good as far as it could be compared."""
        return self.verdict in ("good", "good where compared")


async def try_fix(
    request: CaptureRequest,
    fix: Fix,
    before: SessionFigures,
    tell: Told = ignore_message,
    worker: TrialWorker = HERE,
) -> Trial:
    """Try a fix. ``request`` is the request of the session with the break, ``before`` are its
    figures; ``tell`` is called with each step of the worker. Raises SessionWriteError when there is
    no room for a session. Errors of the fix or of the user's program are part of the result.
    """
    change = next(filter(None, map(changed_on_disk, fix.edits)), "")
    if change or fix.refuted:
        return Trial(fix, "refused", change or fix.refuted, before, None, None, 0.0)
    changed = await recapture(
        request_to_try(request, fix), worker, _read_result, attend=partial(to_its_end, tell=tell)
    )
    after, verification, failures, breaks = changed.found
    verification = with_what_a_fix_hides(verification, fix)
    verdict, reason = judge(
        changed.outcome,
        before,
        after,
        verification,
        failures,
        keeps_prints=fix.keeps_prints,
        next_break=describe_next_break(fix.broken_code, breaks),
    )
    has_ended = _got_through(changed.outcome, verification)
    figures = after if has_ended else None
    return Trial(fix, verdict, reason, before, figures, verification, changed.took_s)


def _read_result(
    reader: SessionReader,
) -> tuple[SessionFigures, Verification | None, Sequence[model.Failure], Sequence[DistinctBreak]]:
    verifications = [
        with_what_no_call_shows(reader, verification)
        for verification in reader.rows(model.Verification)
    ]
    return (
        session_figures(reader),
        next(iter(verifications), None),
        reader.rows(model.Failure, where="compiler"),
        distinct_breaks(reader),
    )


def with_what_no_call_shows(reader: SessionReader, verification: Verification) -> Verification:
    """Return ``verification`` with a note for each size that no call can check: for each
    ``squeeze`` of a size unknown to the graphs.
    """
    places = [in_file(file, line) for file, line in squeezed_unknown_sizes(reader)]
    unsure = [
        f"a size of 1 at the squeeze in {place}, which torch assumes never to occur"
        for place in places
    ]
    return replace(verification, not_compared=(*verification.not_compared, *unsure))


def request_to_try(request: CaptureRequest, fix: Fix) -> CaptureRequest:
    return straight_through(
        request,
        verify=True,
        settings={**request.settings, **fix.settings},
        original_settings=request.settings,
        overlay={**request.overlay, **{edit.path: edit.after for edit in fix.edits}},
    )


def with_what_a_fix_hides(verification: Verification | None, fix: Fix) -> Verification | None:
    """Add the changes that the fix is known to make, but that no call has shown, to the lists of
    what was not compared or not tried.
    """
    if verification is None:
        return None
    if fix.unseen and not verification.lost_lines:
        unseen = [fix.unseen]
    else:
        unseen = []
    untried = [fix.untried] if fix.untried else []
    return replace(
        verification,
        not_compared=(*unseen, *verification.not_compared),
        not_tried=(*untried, *verification.not_tried),
    )


def judge(
    outcome: Outcome,
    before: SessionFigures,
    after: SessionFigures,
    verification: Verification | None,
    failures: Sequence[model.Failure] = (),
    *,
    keeps_prints: bool = False,
    next_break: str = "",
) -> tuple[Verdict, str]:
    """Return the verdict on a fix, and the reason as a phrase. ``next_break`` says which line
    breaks the graph in place of the one that was fixed; empty where none does.
    """
    if not _got_through(outcome, verification):
        return _of_unfinished(outcome)
    if verification and verification.problem:
        return "refused", f"{verification.problem}, so there is nothing to compare with"
    if verification and not verification.is_equal:
        return "refused", f"results differ: {verification.differences[0]}"
    if before.operations and not after.operations:
        return "refused", "nothing is compiled any more"
    if keeps_prints and verification and _printed(verification):
        return "refused", f"what is printed changes: {_printed(verification)}"
    if not _gains(before, after):
        stays = after.graph_breaks == before.graph_breaks
        why = "the break stays" if stays else "other breaks replace it"
        return "refused", next_break or why
    if failure := _new_failure(before, failures):
        return "refused", f"the compiler fails: {failure.message}"
    # A line that is taken out takes with it what was computed for it.
    takes_a_line_out = bool(verification and verification.lost_lines)
    is_less = after.operations < before.operations and after.graphs >= before.graphs
    if is_less and not takes_a_line_out:
        operations = f"{_times(before.operations, 'operation')} → {after.operations}"
        return "refused", f"less is compiled ({operations}), in as many graphs"
    fewer = _fewer(before, after)
    if verification is None:
        return "not compared", f"{fewer}; results were not compared, so check them yourself"
    output = _describe_output(verification)
    if output:
        equal_but = f"results are equal, but {output}{_left_out(verification)}"
        return "prints differ", f"{fewer}; {equal_but}"
    equal = f"{fewer}; {_compared(verification)}{_left_out(verification)}"
    if not verification.calls and not any(verification.compared.get(kind) for kind in _RESULTS):
        return "not compared", f"{equal}; results were not compared, so check them yourself"
    verdict: Verdict = "good where compared" if verification.not_compared else "good"
    return verdict, equal


def _of_unfinished(outcome: Outcome) -> tuple[Verdict, str]:
    """Return the verdict on a program that did not run to its end. A timeout says nothing about the
    fix.
    """
    if outcome.kind == "timed_out":
        limit = re.match(r"stopped after (?P<seconds>\S+ s)", outcome.message)
        after = f"after {limit['seconds']} " if limit else ""
        return "timed out", f"{after}(not verified); a longer --timeout may give a result"
    problem = outcome.message or outcome.kind
    return "refused", f"the changed program failed: {problem}"


def _new_failure(before: SessionFigures, failures: Sequence[model.Failure]) -> model.Failure | None:
    """Return a failure of the compiler that the original does not have. A program may catch such an
    error and continue.
    """
    known = Counter(before.failed)
    for failure in failures:
        known[failure.kind] -= 1
        if known[failure.kind] < 0:
            return failure
    return None


def _got_through(outcome: Outcome, verification: Verification | None) -> bool:
    """Return whether the changed program ended well. A script may end with sys.exit, as the
    original did: its exit status has been compared.
    """
    return outcome.kind == "finished" or (outcome.kind == "exited" and verification is not None)


_RESULTS = ("output", "state", "gradient", "global", "local", "saved")

_OF_A_SCRIPT = {
    "output": ("value that compiled calls return", "values that compiled calls return"),
    "state": ("parameter", "parameters and buffers"),
    "gradient": ("gradient", "gradients"),
    "global": ("global tensor", "global tensors"),
    "local": ("tensor in a variable of a function", "tensors in variables of functions"),
    "saved": ("tensor given to torch.save()", "tensors given to torch.save()"),
    "printed line": ("printed line", "printed lines"),
}
"""Kind of value → its name after a count of one, and after any other count."""


def _compared(verification: Verification) -> str:
    """Describe what was compared: ``equal in 7 calls``; for a script, the kinds of values that both
    runs have.
    """
    if verification.calls:
        calls = _times(len(verification.calls), "call")
        built = ", also with the code built" if verification.is_built else ""
        return f"equal in {calls}{built}"
    counts = ((verification.compared.get(kind, 0), words) for kind, words in _OF_A_SCRIPT.items())
    parts = [f"{count} {words[count > 1]}" for count, words in counts if count]
    return f"equal: {', '.join(['exit status', *parts])}"


def _gains(before: SessionFigures, after: SessionFigures) -> bool:
    """Return whether the fix gains something: fewer breaks, fewer functions in eager mode, or fewer
    graphs with as many operations.
    """
    counts, others = (
        (figures.graph_breaks, figures.eager_functions, figures.graph_break_hits)
        for figures in (before, after)
    )
    cuts_less = (
        others == counts and after.graphs < before.graphs and after.operations >= before.operations
    )
    return others < counts or cuts_less or _uncovers(before, after)


def _uncovers(before: SessionFigures, after: SessionFigures) -> bool:
    """Return whether a function is compiled that ran in eager mode before. More breaks are no loss
    then, since Dynamo did not reach them before.
    """
    return after.eager_functions < before.eager_functions and after.operations > before.operations


def _fewer(before: SessionFigures, after: SessionFigures) -> str:
    if after.graph_breaks < before.graph_breaks:
        return f"{_times(before.graph_breaks, 'break')} → {after.graph_breaks}"
    if after.eager_functions < before.eager_functions:
        more = after.graph_breaks - before.graph_breaks
        if more > 0:
            behind = (
                f"; after this break there were others, {before.graph_breaks} → "
                f"{after.graph_breaks}"
            )
        else:
            behind = ""
        if more > 0:
            compiled = f", {_times(before.operations, 'operation')} compiled → {after.operations}"
        else:
            compiled = ""
        return (
            f"{_times(before.eager_functions, 'function')} not compiled → "
            f"{after.eager_functions}{compiled}{behind}"
        )
    if after.graph_break_hits < before.graph_break_hits:
        return (
            f"{_times(before.graph_breaks, 'break')}, hit {before.graph_break_hits} times → "
            f"{after.graph_break_hits}"
        )
    return f"the break stays, but {_times(before.graphs, 'graph')} → {after.graphs}"


def _printed(verification: Verification) -> str:
    """Describe how the output differs; empty when it does not."""
    if verification.lost_lines:
        return f"this is no longer printed or logged: {verification.lost_lines[0]!r}"
    if verification.new_lines:
        return f"this is printed or logged in addition: {verification.new_lines[0]!r}"
    if verification.moved_line:
        return f"this is printed or logged earlier: {verification.moved_line!r}"
    return ""


def _describe_output(verification: Verification) -> str:
    """Describe how the output or the messages of exceptions differ; empty when they do not."""
    printed = _printed(verification)
    if printed:
        return printed
    if verification.other_messages:
        return f"an exception differs: {verification.other_messages[0]}"
    return ""


_MOST_TOLD = 6


def _left_out(verification: Verification) -> str:
    parts = (("not compared", verification.not_compared), ("not tried", verification.not_tried))
    return "".join(f"; {words}: {_first_of(some)}" for words, some in parts if some)


def _first_of(some: Sequence[str]) -> str:
    if len(some) > _MOST_TOLD:
        more = f"; {len(some) - _MOST_TOLD} more"
    else:
        more = ""
    return f"{'; '.join(some[:_MOST_TOLD])}{more}"


def _times(count: int, noun: str) -> str:
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}s"


# How likely a fix holds.


Chance = Literal["holds", "likely", "expected", "less likely", "unlikely", "fails"]
"""How likely a fix holds. ``holds`` and ``fails``: the fix was tried, and is good, or refused.
``likely`` and ``unlikely``: the same fix of another line was tried, and is good, or refused.
``expected``: nothing is known against it. ``less likely``: a trial did not, or could not, find it
good.
"""

CHANCES: tuple[Chance, ...] = ("holds", "likely", "expected", "less likely", "unlikely", "fails")
"""All chances, from the best to the worst."""


def chance_of(fix: Fix, trials: Sequence[Trial] = ()) -> Chance:
    """Return how likely a fix holds. The last trial of the fix itself decides, then trials of the
    same fix in other lines, then the fix's own properties: whether less is compiled with it, which
    pays only for several breaks, and whether it may change something that no call shows.
    """
    own = next((trial for trial in reversed(trials) if trial.fix == fix), None)
    if own is not None:
        if own.is_good:
            return "holds"
        if own.verdict == "refused":
            return "fails"
        return "less likely"
    if fix.refuted:
        return "unlikely"
    alike = [trial for trial in trials if trial.fix.title == fix.title]
    good = sum(trial.is_good for trial in alike)
    refused = sum(trial.verdict == "refused" for trial in alike)
    if refused and refused >= good:
        return "unlikely"
    if fix.compiles_less or fix.unseen:
        return "less likely"
    return "likely" if good else "expected"


def ordered(fixes: Iterable[Fix], trials: Sequence[Trial] = ()) -> list[Fix]:
    """Return the fixes, the likeliest first. Equally likely fixes keep their order."""
    return sorted(fixes, key=lambda fix: CHANCES.index(chance_of(fix, trials)))
