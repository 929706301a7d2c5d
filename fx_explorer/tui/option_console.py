"""The dialog of options for a session: what it says of each, and a worker that captures again with
others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fx_explorer.analysis.whole_session import SessionFigures
from fx_explorer.instruments.options.explained_options import explained_options
from fx_explorer.instruments.options.settings import read_settings
from fx_explorer.instruments.options.trial import OptionTrial, figures_to_compare_with, try_options
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.dialogs.settings import SettingsDialog
from fx_explorer.tui.dialogs.trying_options import TryOptions

AskFirst = Callable[[], Awaitable[None]]


def options_dialog(
    reader: SessionReader | None,
    worker: TrialWorker,
    trials: list[OptionTrial],
    keymap: Keymap,
    *,
    follows: bool,
    ask_first: AskFirst,
) -> SettingsDialog:
    """Make the dialog. ``ask_first`` raises FxExplorerError when the user does not want the program
    to be run.
    """
    if reader is None:
        return SettingsDialog([], follows=follows, keymap=keymap)
    request = reader.request()
    return SettingsDialog(
        read_settings(reader),
        options=explained_options(reader),
        follows=follows,
        try_options=trying(request, figures_to_compare_with(reader), worker, ask_first)
        if request
        else None,
        trials=trials,
        keymap=keymap,
    )


def trying(
    request: CaptureRequest, before: SessionFigures | None, worker: TrialWorker, ask_first: AskFirst
) -> TryOptions:
    """Return what tries options. When ``before`` is None, the program is captured as it was, too,
    the first time.
    """
    known = before

    async def try_these(settings: Mapping[str, object]) -> OptionTrial:
        nonlocal known
        await ask_first()
        trial = await try_options(request, settings, known, worker)
        known = trial.before
        return trial

    return try_these
