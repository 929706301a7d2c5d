"""This module has the steps of the tour, in order: a sentence, the command whose key is to be
pressed, and the condition for the next step. The user's progress, and their copy of the sample, are
kept for the next time.

Nothing here draws; ``controllers/guided_tour.py`` goes through the steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.analysis.documents import Place
from fx_explorer.errors import UsageError
from fx_explorer.folders import state_folder
from fx_explorer.model import Pause
from fx_explorer.outside_file import read_outside

MAIN_SCREEN = "Explorer"


@dataclass(frozen=True, slots=True)
class TourMoment:
    """The state of the app at one moment, by which the tour sees whether a step is done."""

    screen: str = MAIN_SCREEN
    """The class of the topmost screen: the main one, a dialog, the fixes."""
    view: str = "overview"
    row: int = 0
    """The line that the cursor is on."""
    place: Place | None = None
    """The place of that line."""
    lit: int = 0
    """Number of highlighted lines in linked panes other than the focused one."""
    panes: frozenset[str] = frozenset()
    """Kinds of documents that the linked panes show; empty in another view."""
    shows_stage: bool = False
    """Whether the panes show the effect of a stage."""
    gate: str = ""
    """The stage after which the compiler pauses; empty when it does not."""
    is_compiled: bool = False
    """Whether there is a complete capture, with nothing running or paused."""
    captures: int = 0
    """Number of captures that were begun."""
    trials: int = 0
    """Number of trials of fixes that have ended."""
    verdict: str = ""
    """The verdict of the last trial."""
    saved_ns: int = 0
    """When the target's file was last written."""


Done = Callable[[TourMoment, TourMoment], bool]
"""Returns whether a step is done, given the moment when it began and the present one."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """A single step of the tour."""

    id: str
    """Name of the step in the file that stores the user's progress."""
    sentence: str
    command: str
    """The command whose key is to be pressed; empty without one."""
    does: str
    """The effect of the key, as a continuation of “Press 4 …”."""
    is_done: Done
    is_there: Callable[[TourMoment], bool] = lambda _: True
    """Returns whether the key does something at the user's place."""
    way: str = ""
    """Command that leads to where the step's key works; empty where the user has to wait."""
    resumes_at: str = ""
    """The step at which a tour that was left here resumes; empty for this one."""
    pause: Pause = ""
    """The pause of the first capture, when the tour begins with this step."""
    otherwise: Callable[[TourMoment], TourStep | None] = lambda _: None
    """Returns the step to show instead if something went differently: a trial was not good."""

    def at(self, now: TourMoment) -> TourStep:
        """Return the step in its present form."""
        return self.otherwise(now) or self


def _shows(view: str) -> Done:
    return lambda _, now: now.view == view and now.screen == MAIN_SCREEN


def _on(*screens: str) -> Callable[[TourMoment], bool]:
    return lambda now: now.screen in screens


def _in(view: str) -> Callable[[TourMoment], bool]:
    return lambda now: now.view == view and now.screen == MAIN_SCREEN


def _is_compiled(now: TourMoment) -> bool:
    return now.is_compiled


def _without_a_fix(now: TourMoment) -> TourStep | None:
    """Return the step after a trial without a writable fix: a small machine may exceed its time
    limit.
    """
    if now.verdict in ("", "good", "prints differ", "good where compared"):
        return None
    if now.verdict == "timed out":
        how = "timed out"
    else:
        how = f"ended with “{now.verdict}”"
    return TourStep(
        "write",
        f"The trial {how}, so this change is not written; the tour continues without it.",
        "dialog.close",
        "to go back to the app, or try another change first",
        lambda _, later: later.screen == MAIN_SCREEN,
    )


STEPS: tuple[TourStep, ...] = (
    TourStep(
        "overview",
        "A small classifier was compiled with torch.compile; this page shows the result, the most "
        "important first.",
        "line.down",
        "to go down a line",
        lambda before, now: now.is_compiled and (now.row != before.row or now.view != before.view),
        _is_compiled,
    ),
    TourStep(
        "breaks",
        "It became two graphs, because Dynamo had to stop in the middle: this is a graph break, "
        "and it costs speed.",
        "view.breaks",
        "to see where it stopped, and why",
        _shows("breaks"),
    ),
    TourStep(
        "source",
        "The row names the line, what it costs, and the reason: a print cannot be in a graph.",
        "line.follow",
        "to go to that line of your source",
        lambda _, now: now.view == "source" and now.screen == MAIN_SCREEN,
        _in("breaks"),
        "view.breaks",
    ),
    TourStep(
        "fixes",
        "Changes that may avoid the break are listed, too.",
        "breaks.fix",
        "to list them",
        lambda _, now: now.screen == "FixScreen",
    ),
    TourStep(
        "try",
        "First a change is tried: your program runs with it and without it, on many inputs, and "
        "the results are compared.",
        "fixes.try",
        "to try the first one: some seconds, or a minute on a small machine",
        lambda before, now: now.trials > before.trials,
        _on("FixScreen", "Consent"),
        "breaks.fix",
        "fixes",
    ),
    TourStep(
        "write",
        "The verdict is above the change: how many breaks are left, and whether the results are "
        "equal.",
        "fixes.accept",
        "and answer y to write it to the file (this is a copy, made for the tour)",
        lambda before, now: now.saved_ns > before.saved_ns,
        _on("FixScreen", "Consent"),
        "breaks.fix",
        "fixes",
        otherwise=_without_a_fix,
    ),
    TourStep(
        "close",
        "The file is changed, and a backup is kept next to it; x u undoes the fix.",
        "dialog.close",
        "to go back to the app",
        lambda _, now: now.screen == MAIN_SCREEN,
        resumes_at="step",
    ),
    TourStep(
        "again",
        "The screen still shows the old capture.",
        "capture.run",
        "to capture again; this time the compiler pauses after Dynamo",
        lambda before, now: now.captures > before.captures and now.gate == "dynamo",
        _is_compiled,
        resumes_at="step",
    ),
    TourStep(
        "step",
        "The compiler pauses after Dynamo, its first stage: nothing has been compiled "
        "from the graph yet.",
        "step.next",
        "to start, and to see what Dynamo did",
        lambda _, now: now.shows_stage and bool(now.gate),
        lambda now: bool(now.gate),
        pause="dynamo",
    ),
    TourStep(
        "stages",
        "Every stage is shown like this: its input next to its output, and a sentence that says "
        "what the stage did.",
        "step.next",
        "until AOTAutograd has made the backward",
        lambda _, now: now.shows_stage and now.gate not in ("", "dynamo", "pre_grad"),
        lambda now: bool(now.gate),
        resumes_at="step",
    ),
    TourStep(
        "go",
        "AOTAutograd decomposed your operations into simpler ones, and derived the backward from "
        "them; Inductor comes next.",
        "capture.run",
        "to continue to the end without pausing",
        lambda _, now: now.is_compiled,
        lambda now: bool(now.gate),
        resumes_at="step",
    ),
    TourStep(
        "linked",
        "Every stage is recorded now, and each line is linked to its origin.",
        "preset.source",
        "to see your source, its graph and its kernels side by side",
        lambda _, now: {"source", "graph"} <= now.panes and not now.shows_stage,
    ),
    TourStep(
        "lit",
        "Matching lines are highlighted in all panes, down to the lines of a kernel.",
        "line.down",
        "until something is highlighted next to your source",
        lambda before, now: now.lit > 0 and now.row != before.row,
        _in("source"),
        "preset.source",
    ),
    TourStep(
        "kernels",
        "The other direction: which kernels are there, and which of your lines does each compute?",
        "view.kernels",
        "to list the kernels",
        _shows("kernels"),
    ),
    TourStep(
        "code",
        "Each kernel is listed with your line and module, its bytes and its time; the columns can "
        "be sorted.",
        "line.follow",
        "to open the code of the first kernel",
        lambda _, now: now.view == "source",
        _in("kernels"),
        "view.kernels",
    ),
    TourStep(
        "time",
        "Compiling takes time as well.",
        "view.time",
        "to see which stage it reached",
        _shows("time"),
    ),
    TourStep(
        "find",
        "Anything can be found by its name: a node, a kernel, a line of your source, a break.",
        "find.anything",
        "and type gelu, and press Enter on a result",
        lambda before, now: (
            now.screen == MAIN_SCREEN and now.view == "source" and before.view != "source"
        ),
    ),
    TourStep(
        "help",
        "You need no more keys than these: the last line of every view lists the keys that work "
        "in it.",
        "app.help",
        "to read what this view shows, and Escape to come back",
        lambda _, now: now.screen == "Help",
    ),
    TourStep(
        "end",
        "That was the tour. On your own model: fx-explorer mymodel.py, or fx-explorer "
        "run train.py for a script.",
        "app.quit",
        "to leave, or stay and look around",
        lambda before, now: False,
    ),
)


def place_of(step_id: str) -> int:
    """Return the position of a step; 0 for an unknown one."""
    return next((at for at, step in enumerate(STEPS) if step.id == step_id), 0)


SAMPLE = Path(__file__).with_name("tour_sample.py.txt")
TARGET = "classifier.py"
PROGRESS = "progress.json"
MOST_OF_PROGRESS = 4096


@dataclass(frozen=True, slots=True)
class GuidedTour:
    """A guided tour: the folder with the user's copy of the sample, and the step it begins at."""

    folder: Path
    begins_at: int = 0

    @property
    def target(self) -> Path:
        return self.folder / TARGET

    def keep(self, at: int) -> None:
        """Store the user's progress. At the end nothing is stored."""
        progress = self.folder / PROGRESS
        if STEPS[at].id == STEPS[-1].id:
            progress.unlink(missing_ok=True)
        else:
            written = progress.with_suffix(".new")
            written.write_text(json.dumps({"step": STEPS[at].id}) + "\n", encoding="utf-8")
            os.replace(written, progress)


def tour_folder(environ: Mapping[str, str] = os.environ) -> Path:
    return state_folder(environ) / "tour"


def begin_walk(folder: Path, *, again: bool) -> GuidedTour:
    """Begin where the user left, or from the start: then with a new copy of the sample. Raises
    UsageError when it cannot be written.
    """
    at = 0 if again else _kept(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not at or not (folder / TARGET).is_file():
            at = 0
            (folder / TARGET).write_text(SAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the sample of the tour cannot be written to {folder} ({error.strerror}): "
            "set XDG_STATE_HOME to a directory that you can write"
        ) from error
    return GuidedTour(folder, at)


def _kept(folder: Path) -> int:
    """Return the step to continue with; 0 without a readable file."""
    try:
        kept = json.loads(read_outside(folder / PROGRESS, MOST_OF_PROGRESS))
    except (OSError, ValueError, RecursionError):
        return 0
    step_id = kept.get("step") if isinstance(kept, dict) else None
    if isinstance(step_id, str):
        step = STEPS[place_of(step_id)]
    else:
        step = STEPS[0]
    return place_of(step.resumes_at or step.id)
