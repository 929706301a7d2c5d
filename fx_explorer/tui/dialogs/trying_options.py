"""A dialog that has chosen values of options: what is chosen, and capturing again with it to see
what it changes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

from textual import work
from textual.worker import Worker, get_current_worker

from fx_explorer.errors import FxExplorerError
from fx_explorer.instruments.options.explained_options import ExplainedOption, next_value
from fx_explorer.instruments.options.trial import OptionTrial, settings_in_words
from fx_explorer.model import Setting
from fx_explorer.model.setting_values import python_text
from fx_explorer.tui.dialogs.dialog import Dialog, is_under_way
from fx_explorer.tui.dialogs.option_rows import OptionEntry, trial_in_words

READ_ONLY = (
    "Nothing can be changed here: no compiler waits, and the session does not say how it was "
    "captured."
)
NOTHING_TO_TRY = (
    "Go to an option that can be changed: what is tried is its next value, or what you have "
    "changed before."
)
WHAT_TRYING_DOES = (
    "To try: the program is captured once more with this, in a process of its own, and "
    "compared. Nothing here changes."
)
TRYING = "Capturing again, in a process of its own …"

READ_S = 15

Chosen = dict[str, object]
"""Full name → value, as a Command's ``changes.settings`` takes it."""

TryOptions = Callable[[Mapping[str, object]], Awaitable[OptionTrial]]
"""Captures the program once more with these options. Raises FxExplorerError when there is no room
for it.
"""


class TryingDialog(Dialog[Chosen]):
    """Knows what is chosen and tries it; how that looks is its subclass's business."""

    def __init__(
        self,
        chosen: Mapping[str, object] | None,
        options: Sequence[ExplainedOption],
        try_options: TryOptions | None,
        trials: list[OptionTrial] | None,
    ) -> None:
        super().__init__()
        self._chosen: Chosen = dict(chosen or {})
        self._options = {option.name: option for option in options}
        self._try_options = try_options
        # Not ``or``: an empty list is the caller's as well, and what is tried is added to it.
        self._trials = trials if trials is not None else []
        self._trial: Worker[None] | None = None

    def _show_chosen(self) -> None:
        """Show what is chosen, or the result of trying it: it is another now."""
        raise NotImplementedError

    def _option(self, entry: OptionEntry | None) -> ExplainedOption | None:
        return self._options.get(entry.full_name) if isinstance(entry, Setting) else None

    def _value_of(self, setting: Setting) -> object:
        """Return what was chosen for a setting, else what is in force, the latest."""
        option = self._option(setting)
        return self._chosen.get(
            setting.full_name, json.loads(option.values[-1] if option else setting.value)
        )

    def _choose(self, setting: Setting, value: object) -> None:
        """Choose a value. One that is in force everywhere is no change."""
        option = self._option(setting)
        values = option.values if option else (setting.value,)
        # Written as the session has it (capture/options/catalogue.py, as_json).
        if values == (json.dumps(value, sort_keys=True, ensure_ascii=False),):
            self._chosen.pop(setting.full_name, None)
        else:
            self._chosen[setting.full_name] = value

    def _words_of_all(self) -> str:
        """Say what was changed, and the result of trying it."""
        lines = [f"{name} = {python_text(value)}" for name, value in self._chosen.items()]
        tried = next(
            (trial for trial in reversed(self._trials) if trial.settings == self._chosen), None
        )
        if is_under_way(self._trial):
            lines += ["", TRYING]
        elif tried:
            lines += ["", trial_in_words(tried)]
        elif self._try_options:
            lines += ["", WHAT_TRYING_DOES]
        return "\n".join(lines)

    def _try_chosen(self, setting: Setting | None) -> None:
        """Try what was changed; without that, the next value of ``setting``."""
        option = self._option(setting)
        if self._try_options is None:
            self.notify(READ_ONLY, severity="warning", timeout=READ_S)
        elif is_under_way(self._trial):
            self.notify("Other options are being tried: wait for it, or stop it first.")
        elif self._chosen:
            self._begin_trial()
        elif setting and option and setting.choices:
            self._choose(setting, next_value(option, self._value_of(setting)))
            self._begin_trial()
        else:
            self.notify(NOTHING_TO_TRY)

    def _stop_trial(self) -> None:
        if is_under_way(self._trial):
            self._trial.cancel()
            self.notify("Stopped: nothing was tried to its end.")

    def _begin_trial(self) -> None:
        if self._chosen:
            self._trial = self._run_trial(dict(self._chosen))
            self._show_chosen()

    @work(
        name="try options",
        group="options",
        description="capture the program again with other options, and compare",
    )
    async def _run_trial(self, settings: Chosen) -> None:
        """Run the trial. Nothing here waits for the processor: the program runs in a process of its
        own, which ends when this is cancelled.
        """
        assert self._try_options is not None
        try:
            self._trials.append(await self._try_options(settings))
        except FxExplorerError as error:
            self.notify(
                f"{settings_in_words(settings)} could not be tried: {error}",
                severity="error",
                timeout=READ_S,
            )
        finally:
            # A trial that was stopped may end when the next one runs.
            if self._trial is get_current_worker():
                self._trial = None
            if self.is_attached:
                self._show_chosen()
