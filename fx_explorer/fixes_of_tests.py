"""Changes that may make a failed test of the marker ``fx`` pass, each tried by that test in a
process of its own.

A trial runs the one test again, with another text in place of the user's file, or with settings of
torch. It helps if the test passes: its own assertions and the conditions of its marker then hold.
The user's files stay as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHANGE = "FX_EXPLORER_CHANGE_OF_TEST"
"""Environment variable with the file of the change that a process of a trial makes."""

RESULT = "FX_EXPLORER_RESULT_OF_TEST"
"""Environment variable with the file into which such a process writes the test's result."""

MOST_CHANGES = 6
"""Maximum number of changes that are tried for one test."""

LONGEST_RESULT = 300


@dataclass(frozen=True, slots=True)
class ChangeForTest:
    title: str
    texts: dict[str, str] = field(default_factory=dict)
    """Path of a file → its text with the change."""
    settings: dict[str, object] = field(default_factory=dict)
    """Options of torch's compiler by full name."""
    diff: str = ""
    by_hand: str = ""
    """What a trial of a test cannot set; empty for a change that can be tried."""


def proposed_changes(session: Path) -> list[ChangeForTest]:
    """Return the changes that fx-explorer proposes for the graph breaks of a session, each once,
    the likeliest for each break first.
    """
    from fx_explorer.instruments.fixes.offers import all_proposals
    from fx_explorer.instruments.fixes.trial import ordered

    changes: dict[object, ChangeForTest] = {}
    for fixes in all_proposals(session):
        for fix in ordered(fixes):
            texts = {edit.path: edit.after for edit in fix.edits}
            by_hand = fix.instruction if fix.marks else ""
            change = ChangeForTest(fix.title, texts, dict(fix.settings), fix.diff, by_hand)
            changes.setdefault(fix.effect, change)
    return list(changes.values())


def describe_proposals(session: Path) -> Iterator[str]:
    """Yield the changes that may help, as lines for a failure: none of them was tried."""
    changes = proposed_changes(session)
    if not changes:
        return
    yield "may help, not tried:"
    for change in changes[:MOST_CHANGES]:
        yield f"  {change.title}"
    yield f"  as a diff: fx-explorer fix {session} --diff 1"


# In the process of the run that asks for trials.


def try_changes(
    session: Path, nodeid: str, arguments: Sequence[str], folder: Path, budget_s: float
) -> Iterator[str]:
    """Try what is proposed for a failed test until a change helps or the time is used up, and yield
    what each did. ``arguments`` are those of pytest beside the test's name.
    """
    changes = proposed_changes(session)
    if not changes:
        yield "No known change may help."
    deadline = time.monotonic() + budget_s
    for at, change in enumerate(changes[:MOST_CHANGES]):
        if change.by_hand:
            yield f"Not tried, because it must be set by hand: {change.title}\n{change.by_hand}"
            continue
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            titles = "; ".join(other.title for other in changes[at:MOST_CHANGES])
            yield f"Not tried, because the time of {budget_s:.0f} s is used up: {titles}"
            return
        result = try_change(change, nodeid, arguments, folder, left_s)
        yield f"Tried: {change.title}: {result}"
        if result == HELPS:
            if change.diff:
                yield change.diff.rstrip("\n")
            for name, value in change.settings.items():
                yield f"setting {name}={value!r}"
            return


HELPS = "the test passes with it."


def try_change(
    change: ChangeForTest, nodeid: str, arguments: Sequence[str], folder: Path, limit_s: float
) -> str:
    """Run the test with a change in a process of its own, and return the result."""
    with tempfile.TemporaryDirectory(prefix="fx-explorer-trial-") as temporary:
        made, result = Path(temporary) / "change.json", Path(temporary) / "result.json"
        content = {"texts": change.texts, "settings": change.settings}
        made.write_text(json.dumps(content), encoding="utf-8")
        environment = {**os.environ, CHANGE: str(made), RESULT: str(result)}
        # Rewritten assertions are read from the file, past the other text.
        command = [sys.executable, "-m", "pytest", "--assert=plain", *arguments, nodeid]
        try:
            process = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not known, it did not end within {limit_s:.0f} s."
        if not result.exists():
            return f"not known, pytest ended with {process.returncode} before the test ran."
        outcome, text = json.loads(result.read_text(encoding="utf-8"))
    if outcome == "passed":
        return HELPS
    reason = next((line for line in text.splitlines() if line.strip()), "")
    return f"the test {outcome} with it: {reason[:LONGEST_RESULT]}"


# In the process of a trial.


def make_change() -> Callable[[], None] | None:
    """Put the texts of the change that this process tries in place of the files', and return a
    function that makes its settings, for when torch is imported. None in any other process.
    """
    file = os.environ.get(CHANGE)
    if not file:
        return None
    from fx_explorer.program.loading import install_texts

    change = json.loads(Path(file).read_text(encoding="utf-8"))
    install_texts(change["texts"])
    return lambda: _make_settings(change["settings"])


_MODULES = {
    "dynamo": "torch._dynamo.config",
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
}


def _make_settings(settings: dict[str, object]) -> None:
    import importlib

    for name, value in settings.items():
        module, _, option = name.partition(".")
        setattr(importlib.import_module(_MODULES[module]), option, value)


def note_result(outcome: str, text: str) -> None:
    """Write how the test ended, for the process that made this trial. The worst of its phases
    counts: setup, call and teardown.
    """
    file = os.environ.get(RESULT)
    if not file:
        return
    path = Path(file)
    if path.exists() and json.loads(path.read_text(encoding="utf-8"))[0] != "passed":
        return
    path.write_text(json.dumps([outcome, text]), encoding="utf-8")
