"""What a session offers for one break: its mends, or why it has none; and whether they can be tried, or why not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.breaks import DistinctBreak, distinct_breaks
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.proposals import proposals, why_none
from fx_explorer.mending.trial import Figures, Trial, figures, request_of
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader

TryMend = Callable[[CaptureRequest, Mend, Figures], Awaitable[Trial]]
"""``try_mend``, or what stands in for it."""


@dataclass(frozen=True, slots=True)
class Offer:
    session: Path
    broken: DistinctBreak
    mends: tuple[Mend, ...]
    why_none: str
    """Empty when there are mends."""
    request: CaptureRequest | None
    before: Figures
    why_not_tried: str
    """What is in the way of a trial; empty when nothing is known to be."""


def offer(path: Path, broken: DistinctBreak) -> Offer:
    """Opens the session anew, so that it can be called in a thread: parsing a large file takes up to seconds."""
    with SessionReader(path) as reader:
        mends = tuple(proposals(reader, broken))
        request = request_of(reader)
        return Offer(
            path,
            broken,
            mends,
            "" if mends else why_none(reader, broken) or _hinted(broken),
            request,
            figures(reader),
            why_not_tried(reader, request),
        )


def all_proposals(path: Path) -> list[list[Mend]]:
    """The mends of each break of a session, the costliest break first. As ``offer`` to be called in a thread."""
    with SessionReader(path) as reader:
        return [proposals(reader, one) for one in distinct_breaks(reader)]


def _hinted(broken: DistinctBreak) -> str:
    return "No mend is known for this break." + (f" torch suggests: {broken.hints[0]}" if broken.hints else "")


def why_not_tried(reader: SessionReader, request: CaptureRequest | None) -> str:
    """A trial is held against the figures of the session, which must be those of one complete capture."""
    if request is None:
        return "The session does not say how it was captured, so nothing can be tried. Open its target: fx-explorer TARGET."
    if reader.meta("outcome") is None:
        return "The capture has not ended, so its breaks are not all counted. Let it go on to the end, then try."
    if any(one.branch_of for one in reader.rows(model.Compilation)):
        return "The session has other ways too, whose breaks count twice. Capture again, then try before taking another way."
    file = target_file(request.target)
    if file and not file.is_file():
        return f"{file} is not here ({Path.cwd()}), so nothing can be tried. Copy the diff, and try it where the file is."
    return ""


def target_file(target: str) -> Path | None:
    """The file that a target names; None for ``package.module:object``."""
    named = next((name for name in (target, target.rpartition(":")[0]) if name.endswith(".py")), "")
    return Path(named) if named else None
