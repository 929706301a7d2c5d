"""This module makes a dialog of options from rows, from the words for one option, and from trials,
which capture again with the chosen values to show their effect.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from textual import work
from textual.worker import Worker, get_current_worker

from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.instruments.diff.kernel_pairs import count_pairs
from fx_explorer.instruments.options.explained_options import (
    GROUP_OF,
    OTHERS,
    ExplainedOption,
    choices_in_order,
    explained,
    is_changed,
    meaning,
    next_value,
    order_of,
    origins,
    search,
)
from fx_explorer.instruments.options.trial import (
    Baseline,
    OptionTrial,
    describe_settings,
    figures_of,
    try_options,
)
from fx_explorer.model import CaptureRequest, Setting
from fx_explorer.model.setting_values import as_python, python_text
from fx_explorer.trials import Told, TrialWorker, folder_of_trials
from fx_explorer.tui.dialogs.dialog import is_under_way
from fx_explorer.tui.dialogs.running import RunningDialog
from fx_explorer.tui.widgets.row_list import ListColumn, Row

COLUMNS = (
    ListColumn("option", "text", min_width=34, max_width=52),
    ListColumn("in force", "text", min_width=8, max_width=22),
    ListColumn("default", "muted", min_width=8, max_width=18, priority=1),
    ListColumn("set by", "annotation", min_width=8, max_width=22, priority=2),
    ListColumn("what it does", "muted", min_width=20, max_width=100, priority=3),
)

OptionEntry = Setting | str
"""A row of the list: an option, or the heading above some."""


def entries(settings: Sequence[Setting], typed: str, chosen: Collection[str]) -> list[OptionEntry]:
    """Return the options that match ``typed``, best first; without input all options under
    headings, with changed ones on top.
    """
    matching = search(settings, typed, chosen)
    if typed.strip():
        return list(matching)
    picked = [setting for setting in matching if setting.full_name in chosen]
    rest = order_of(setting for setting in matching if setting.full_name not in chosen)
    rows: list[OptionEntry] = [*picked]
    for group, some in groupby(rest, key=lambda setting: GROUP_OF.get(setting.full_name, OTHERS)):
        rows += [group, *some]
    return rows


def row_of(entry: OptionEntry, option: ExplainedOption | None, chosen: Mapping[str, object]) -> Row:
    """Return the row of a setting. ``option`` has its values in force, if the console explains
    it.
    """
    if isinstance(entry, str):
        return ((f"── {entry}", "strong"),)
    name = entry.full_name
    values = option.values if option else (entry.value,)
    differs = option.is_changed if option else is_changed(entry)
    if name in chosen:
        value, kind = python_text(chosen[name]), "warning"
    elif differs:
        value, kind = ", ".join(as_python(values)), "annotation"
    else:
        value, kind = ", ".join(as_python(values)), "text"
    if option and option.in_force:
        set_by = "" if option.set_by == "default" else option.set_by
    elif entry.value == entry.default:
        set_by = ""
    else:
        set_by = "not the default"
    if entry.type:
        name_kind, does = "text", explained(entry).does
    else:
        name_kind, does = "muted", "holds a Python object"
    return (
        (name, name_kind),
        (value, kind),
        *as_python((entry.default,)),
        set_by,
        does,
    )


def help_of(setting: Setting, option: ExplainedOption | None = None) -> str:
    """Describe the option, its values in force and who set them, its possible values, and torch's
    own documentation.
    """
    parts = [f"{setting.full_name}: {setting.type or 'a Python object'}"]
    if option:
        parts[0] += f"\n{option.words.does} {option.words.more}".rstrip()
        parts.append("\n".join(_in_force(option)))
        if choices := _choices(option):
            parts.append("\n".join(choices))
    elif setting.choices:
        parts[0] += f"\nAllowed: {', '.join(as_python(setting.choices))}"
    if not setting.type:
        parts[0] += "\nIt cannot be set from here, only in your own program."
    if not option:
        parts.append(setting.help or "torch does not document this option.")
    elif setting.help:
        parts.append(f"torch says: {setting.help}")
    return "\n\n".join(parts).rstrip()


def _in_force(option: ExplainedOption) -> list[str]:
    if not option.in_force:
        value, default = as_python((option.setting.value, option.setting.default))
        return [f"When the capture began: {value} · default: {default}"]
    rows = [f"In force: {origin}" for origin in origins(option, Path.cwd())]
    if option.values == (option.setting.default,):
        return rows
    return [*rows, *(f"Default: {text}" for text in as_python((option.setting.default,)))]


def _choices(option: ExplainedOption) -> list[str]:
    """Return the values with explanations, one per line; then the others."""
    parts = [value for value in choices_in_order(option) if meaning(option, value)]
    others = [value for value in choices_in_order(option) if value not in parts]
    shown = as_python(parts)
    width = max(map(len, shown), default=0)
    lines = [
        f"{text:<{width}}  {meaning(option, value)}"
        for text, value in zip(shown, parts, strict=True)
    ]
    if others:
        label = "also" if parts else "allowed"
        lines.append(f"{label}: {', '.join(as_python(others))}")
    return lines


def describe_trial(trial: OptionTrial) -> str:
    """Describe the changes, before → after; and how the trial ended, if that is unusual."""
    lines = [f"tried {describe_settings(trial.settings)} in {trial.took_s:.0f} s"]
    if trial.outcome.kind != "finished" or trial.outcome.message:
        lines.append(f"{trial.outcome.kind.replace('_', ' ')}: {trial.outcome.message}")
    if trial.outcome.kind == "not_started":
        return "\n".join(lines)
    if trial.code:
        lines.append(trial.code.words)
    as_before = []
    for figure in figures_of(trial):
        if figure.differs:
            change = f"{figure.left:>10} → {figure.right:<10} {figure.change}"
            lines.append(f"  {figure.what:<28} {change}")
        else:
            as_before.append(figure.what)
    return "\n".join([*lines, f"as before: {', '.join(as_before)}"])


READ_ONLY = (
    "Nothing can be changed here: no compiler is paused, and the session does not record how it "
    "was captured."
)
NOTHING_TO_TRY = "Go to an option that can be changed, press ⏎, and give it another value."
NOT_CHANGED = "{name} has not been changed, so there is nothing to try: ⏎ changes its value."
NEXT_VALUE = "{name} had no changed value, so its next value is tried: {value}."
WHAT_TRYING_DOES = (
    "A trial captures the program again with this change, in a separate process, and compares "
    "figures and code. Nothing here changes."
)
TRYING = "Capturing again, in a separate process …"

READ_S = 15

Chosen = dict[str, object]
"""Full name → value, as a Command's ``changes.settings`` takes it."""

TryOptions = Callable[[Mapping[str, object], Told], Awaitable[OptionTrial]]
"""A function that captures the program once more with these options, and calls the second argument
with each step of the worker. It raises FxExplorerError if there is no room for the session.
"""


ShowTrial = Callable[[OptionTrial], Awaitable[None]]
"""A function that opens the comparison of the code before and with the change."""


class TryingDialog(RunningDialog[Chosen]):
    """A dialog that keeps the chosen options and tries them. A subclass draws it."""

    def __init__(
        self,
        chosen: Mapping[str, object] | None,
        options: Sequence[ExplainedOption],
        try_options: TryOptions | None,
        trials: list[OptionTrial] | None,
        show_trial: ShowTrial | None = None,
    ) -> None:
        super().__init__()
        self._show_trial = show_trial
        self._chosen: Chosen = dict(chosen or {})
        self._options = {option.name: option for option in options}
        self._try_options = try_options
        # Not ``or``: an empty list is the caller's as well, and what is tried is added to it.
        self._trials = trials if trials is not None else []
        self._trial: Worker[None] | None = None
        self._step = ""
        """The present step of the trial's worker."""

    def _show_step(self, step: str) -> None:
        """Show what the worker of the trial is doing."""
        self._step = step
        if self.is_attached:
            self.show_clock()

    def _show_chosen(self) -> None:
        """Redraw the chosen options, or the result of trying them, after a change."""
        raise NotImplementedError

    def _option(self, entry: OptionEntry | None) -> ExplainedOption | None:
        if isinstance(entry, Setting):
            return self._options.get(entry.full_name)
        return None

    def _value_of(self, setting: Setting) -> object:
        """Return the chosen value of a setting, else the latest value in force."""
        option = self._option(setting)
        value = option.values[-1] if option else setting.value
        return self._chosen.get(setting.full_name, json.loads(value))

    def _choose(self, setting: Setting, value: object) -> None:
        """Choose a value. A value that is in force everywhere is not a change."""
        option = self._option(setting)
        values = option.values if option else (setting.value,)
        # Written as the session has it (capture/option_catalogue.py, as_json).
        if values == (json.dumps(value, sort_keys=True, ensure_ascii=False),):
            self._chosen.pop(setting.full_name, None)
        else:
            self._chosen[setting.full_name] = value

    def _trial_of_chosen(self) -> OptionTrial | None:
        """Return the last trial of what is chosen now."""
        trials = (trial for trial in reversed(self._trials) if trial.settings == self._chosen)
        return next(trials, None)

    def _describe_all(self) -> str:
        """Describe the changed options, and the result of trying them."""
        lines = [f"{name} = {python_text(value)}" for name, value in self._chosen.items()]
        tried = self._trial_of_chosen()
        if is_under_way(self._trial):
            lines += ["", TRYING]
        elif tried:
            lines += ["", describe_trial(tried)]
        elif self._try_options:
            lines += ["", WHAT_TRYING_DOES]
        return "\n".join(lines)

    def _try_chosen(self, setting: Setting | None) -> None:
        """Try the changed options. Without any, try the next value of ``setting``."""
        option = self._option(setting)
        if self._try_options is None:
            self.notify(READ_ONLY, severity="warning", timeout=READ_S)
        elif is_under_way(self._trial):
            self.notify(
                "Other options are being tried: wait until they have finished, or stop them first."
            )
        elif self._chosen:
            self._begin_trial()
        elif setting and option and setting.choices:
            value = next_value(option, self._value_of(setting))
            self._choose(setting, value)
            text = NEXT_VALUE.format(name=setting.full_name, value=python_text(value))
            self.notify(printable(text))
            self._begin_trial()
        elif setting and setting.type:
            self._refuse_unchanged(setting)
        else:
            self.notify(NOTHING_TO_TRY)

    def _refuse_unchanged(self, setting: Setting) -> None:
        self.notify(printable(NOT_CHANGED.format(name=setting.full_name)), severity="warning")

    @work(
        name="show trial",
        group="show trial",
        exclusive=True,
        description="compare the code before and with the change",
    )
    async def _open_comparison(self, trial: OptionTrial) -> None:
        assert self._show_trial is not None
        await self._show_trial(trial)

    def _stop_trial(self) -> None:
        if is_under_way(self._trial):
            self.ask_to_stop("Stop the trial?", "Results so far are discarded.", self._cancel_trial)

    def _cancel_trial(self) -> None:
        if is_under_way(self._trial):
            self._trial.cancel()
            self.notify("Stopped: no trial was finished.")

    def _begin_trial(self) -> None:
        if self._chosen:
            self._step = ""
            self.begin_clock()
            self._trial = self._run_trial(dict(self._chosen))
            self._show_chosen()

    @work(
        name="try options",
        group="options",
        description="capture the program again with other options, and compare",
    )
    async def _run_trial(self, settings: Chosen) -> None:
        """Run the trial in a process of its own, which ends if this is cancelled."""
        assert self._try_options is not None
        try:
            self._trials.append(await self._try_options(settings, self._show_step))
        except FxExplorerError as error:
            self.notify(
                f"{describe_settings(settings)} could not be tried: {error}",
                severity="error",
                timeout=READ_S,
            )
        finally:
            # A trial that was stopped may end when the next one runs.
            if self._trial is get_current_worker():
                self._trial = None
                self.end_clock()
            if self.is_attached:
                self._show_chosen()


AskFirst = Callable[[], Awaitable[None]]


def try_in_worker(
    request: CaptureRequest, baseline: Baseline | None, worker: TrialWorker, ask_first: AskFirst
) -> TryOptions:
    """Return a function that tries options in a worker. When ``baseline`` is None, the first trial
    also captures the program with its options unchanged. The sessions of trials are kept until
    the app ends.
    """
    known = baseline

    async def try_these(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        nonlocal known
        await ask_first()
        folder = folder_of_trials()
        trial = await try_options(request, settings, known, folder, count_pairs, worker, tell)
        known = trial.baseline
        return trial

    return try_these
