"""Looks at the app, for the steps of the tour."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.tui.controllers.fixes import Fixes
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.tour.moment import Moment


def moment(services: Services, fixes: Fixes, captures: int, target: Path) -> Moment:
    """Return the app as it is now. Takes some microseconds: it is asked ten times a second."""
    explorer, shown = services.explorer, services.captures
    waiting = shown.waiting
    panes = explorer.linked.panes if explorer.view == "source" else []
    return Moment(
        screen=type(services.app.screen).__name__,
        view=explorer.view,
        row=explorer.views.body.cursor if explorer.views.body else 0,
        place=explorer.place,
        lit=sum(len(pane.lit) for pane in panes if pane is not explorer.linked.active),
        panes=frozenset(pane.document.kind for pane in panes if pane.document),
        shows_stage=bool(panes) and explorer.linked.stage_words.text is not None,
        gate=(waiting.gate or "") if waiting else "",
        is_compiled=bool(captures) and not shown.is_running and explorer.reader is not None,
        captures=captures,
        trials=fixes.count_trials(),
        verdict=fixes.last_verdict() or "",
        saved_ns=_saved_ns(target),
    )


def _saved_ns(file: Path) -> int:
    """Return when a file was written; 0 for one that is not there, as in the middle of saving."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
