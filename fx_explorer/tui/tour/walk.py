"""How far the user came in the tour, and the copy of the sample that they walk through: both are
kept for the next time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.outside_file import read_outside
from fx_explorer.state_folder import state_folder
from fx_explorer.tui.tour.steps import STEPS, place_of

SAMPLE = Path(__file__).with_name("classifier.py.txt")
TARGET = "classifier.py"
PROGRESS = "progress.json"
MOST_OF_PROGRESS = 4096


@dataclass(frozen=True, slots=True)
class GuidedTour:
    """One tour: where it begins, and where that is kept."""

    folder: Path
    begins_at: int = 0

    @property
    def target(self) -> Path:
        return self.folder / TARGET

    def keep(self, at: int) -> None:
        """Remember where the user is. At the end there is nothing to remember."""
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
    """Return the step to continue with; 0 when nothing was kept, or nothing that can be read."""
    try:
        kept = json.loads(read_outside(folder / PROGRESS, MOST_OF_PROGRESS))
    except (OSError, ValueError, RecursionError):
        return 0
    step_id = kept.get("step") if isinstance(kept, dict) else None
    step = STEPS[place_of(step_id)] if isinstance(step_id, str) else STEPS[0]
    return place_of(step.resumes_at or step.id)
