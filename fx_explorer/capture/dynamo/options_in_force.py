"""The stance and the configs that are in force while something is compiled, and who set them.

Hooks: ``torch._dynamo.decorators._set_stance``, which every use of ``torch.compiler.set_stance``
comes to, and the callbacks before a compile (torch/_dynamo/callback.py). Configs are looked at when
a compile begins, on the thread that compiles: torch keeps them by thread. A value that is set and
put back in between was not in force, and is not seen.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import decorators, eval_frame
from torch._dynamo.callback import callback_handler

from fx_explorer.capture.options.catalogue import as_json
from fx_explorer.capture.options.config_entries import (
    MODULES,
    default_of,
    value_of,
    value_set_by_user,
    variable_of,
)
from fx_explorer.capture.recording.rows.callers import caller
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import options_there
from fx_explorer.model import CONSOLE, STANCE, OptionInForce, SetBy, SettingGroup


@contextlib.contextmanager
def stance_hook(recording: Recording) -> Iterator[None]:
    """Record every stance that is set inside the block, and the one in force when a compile
    begins.
    """
    stances = _Stances(recording)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)  # with the mark that Dynamo must not trace it
        def _set_stance(stance: Any) -> Any:
            prior = original(stance)
            with recording.noting("the stance"):
                stances.note_set(stance.stance)
            return prior

        return _set_stance

    with (
        patched(decorators, "_set_stance", make),
        _before_compiles(recording, "the stance", stances.note),
    ):
        yield
        # Nothing was compiled: then what is in force at the end is told.
        if not stances.is_noted:
            stances.note()


class _Stances:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._set_by: SetBy = "default"
        self._place: tuple[str, int] = ("", 0)
        self.is_noted = False

    def note_set(self, stance: str) -> None:
        """Note a stance that was set, and record it unless it is the default. One that fx-explorer
        sets for a purpose of its own is ignored.
        """
        place = caller()
        if not place.file and stance not in ("default", self._recording.request.stance_wanted):
            return
        self._set_by, self._place = ("program" if place.file else "fx-explorer"), place
        if stance != "default":
            self.note()

    def note(self) -> None:
        """Record the stance that is in force now."""
        self.is_noted = True
        stance = eval_frame._stance.stance
        row = OptionInForce(0, STANCE, as_json(stance), "default")
        if stance != "default":
            row = OptionInForce(0, STANCE, as_json(stance), self._set_by, "", *self._place)
        self._recording.add_option(row)


@contextlib.contextmanager
def config_hook(recording: Recording) -> Iterator[None]:
    """Record the configs of the console inside the block: when the first compile begins, and
    whenever they differ.
    """
    configs = _Configs(recording)
    with _before_compiles(recording, "the options in force", configs.note):
        yield
        # Nothing was compiled: then what is in force at the end is told.
        if not configs.is_noted:
            configs.note()


class _Configs:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._names = [
            (group, name)
            for group, module in MODULES.items()
            for name in options_there(module, *_named(group))
        ]
        self._values: dict[str, str] = {}

    @property
    def is_noted(self) -> bool:
        return bool(self._values)

    def note(self) -> None:
        """Record each config whose value has changed. It takes some 0.15 ms when none has."""
        for group, name in self._names:
            full_name, value = f"{group}.{name}", as_json(value_of(group, name))
            if self._values.get(full_name) != value:
                self._values[full_name] = value
                set_by, variable = self._origin(group, name, value)
                self._recording.add_option(
                    OptionInForce(0, full_name, value, set_by, variable=variable)
                )

    def _origin(self, group: SettingGroup, name: str, value: str) -> tuple[SetBy, str]:
        """Return who set a value, and the environment variable if there is one. torch reads the
        environment into the default itself, so a default may be the environment's.
        """
        wanted = self._wanted()
        variable = variable_of(group, name)
        if f"{group}.{name}" in wanted and as_json(wanted[f"{group}.{name}"]) == value:
            return "fx-explorer", ""
        if value_set_by_user(group, name):
            is_default = value == as_json(default_of(group, name))
            return ("default" if is_default and not variable else "program"), ""
        return ("environment", variable) if variable else ("default", "")

    def _wanted(self) -> dict[str, object]:
        """Return what fx-explorer was asked to set, also at a gate."""
        return {**self._recording.request.settings, **self._recording.boundary.settings}


def _named(group: SettingGroup) -> list[str]:
    return [name.removeprefix(f"{group}.") for name in CONSOLE if name.startswith(f"{group}.")]


@contextlib.contextmanager
def _before_compiles(recording: Recording, view: str, note: Callable[[], None]) -> Iterator[None]:
    def begins(_: object) -> None:
        with recording.noting(view):
            note()

    callback_handler.register_start_callback(begins)
    try:
        yield
    finally:
        if begins in callback_handler.start_callbacks:  # the program may have cleared them
            callback_handler.remove_start_callback(begins)
