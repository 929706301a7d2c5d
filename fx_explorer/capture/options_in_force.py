"""This module records the options in force while something is compiled: the arguments of
torch.compile, the stance, the configs, and who gave each.

Hook for the arguments: ``torch.compile`` itself, which everything comes through (a decorator,
``nn.Module.compile``). A name that was imported from torch before the capture began is out of
reach. Arguments that the request has others for are replaced; what the program does with the result
is unchanged.

Hooks for the others: ``torch._dynamo.decorators._set_stance``, which every use of
``torch.compiler.set_stance`` comes to, and the callbacks before a compile
(torch/_dynamo/callback.py). Configs are looked at when a compile begins, on the thread that
compiles: torch keeps them by thread. A value that is set and put back in between was not in force,
and is not seen.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from fx_explorer.capture.compiled_inside import compile_inside
from fx_explorer.capture.option_catalogue import (
    MODULES,
    as_json,
    default_of,
    is_alias,
    names,
    options_of_console,
    value_of,
    value_set_by_user,
    variable_of,
)
from fx_explorer.capture.recording.noting import patched_in_programs
from fx_explorer.capture.recording.sources import CallSite, caller, is_torch_itself
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import callback_handler, decorators, eval_frame
from fx_explorer.capture.torch_compat.versions import compile_parameters, known_options
from fx_explorer.model import CONSOLE, DEFAULT_BACKEND, STANCE, OptionInForce, SetBy, SettingGroup

_RECORDED = tuple(name.removeprefix("compile.") for name in CONSOLE if name.startswith("compile."))


@contextlib.contextmanager
def compile_call_hook(recording: Recording) -> Iterator[None]:
    """Record every call of torch.compile inside the block, and give it the arguments of the
    request; or let it return what it is given, where the request wants that.
    """
    wanted, defaults = recording.request.compile_arguments, compile_parameters()
    calls = _Calls(recording, wanted, defaults)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            if is_torch_itself():
                return original(*args, **kwargs)
            given = dict(signature.bind(*args, **kwargs).arguments)
            model = given.pop("model", None)
            if model is None:
                # A decorator with arguments: it calls torch.compile again, with what it decorates.
                return original(*args, **kwargs)
            with recording.noting("the arguments of torch.compile"):
                calls.note(model, given)
            if recording.request.without_compile:
                return model
            arguments = with_those_wanted(given, wanted)
            if recording.request.compile_modules:
                paths = recording.request.compile_modules
                return compile_inside(model, paths, original, arguments)
            return original(model, **arguments)

        return compile

    with patched_in_programs(torch, "compile", make):
        yield


def with_those_wanted(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of torch.compile, replaced by those of the request. A mode and options
    exclude each other, and a backend that replaces the program's takes neither: then the program's
    are dropped.
    """
    backend = given.get("backend", DEFAULT_BACKEND)
    dropped: set[str] = set()
    if wanted.get("mode"):
        dropped = {"options"}
    elif wanted.get("options"):
        dropped = {"mode"}
    elif wanted.get("backend", backend) != backend:
        dropped = {"mode", "options"}
    return {name: value for name, value in given.items() if name not in dropped} | dict(wanted)


class _Calls:
    """Records the arguments of each call of ``torch.compile``: one row for a value and its
    place.
    """

    def __init__(
        self, recording: Recording, wanted: Mapping[str, Any], defaults: Mapping[str, object]
    ) -> None:
        self._recording = recording
        self._wanted = wanted
        self._defaults = defaults

    def note(self, model: object, given: Mapping[str, Any]) -> None:
        place = caller()
        self._recording.given.note(model, place)
        self._recording.given.places.setdefault(function_name(model), place)
        passed = with_those_wanted(given, self._wanted)
        for name in _RECORDED:
            if name in self._defaults:
                value = passed.get(name)
                if value is None:
                    value = self._defaults[name]
                self._note(name, value, function_name(model), place)
        self._note_configs(passed.get("options"), function_name(model), place)

    def _note_configs(self, options: object, function: str, place: CallSite) -> None:
        """Record what ``options`` sets of Inductor's configs while this function is compiled."""
        if not isinstance(options, Mapping):
            return
        set_by: SetBy = "program" if place.file and "options" not in self._wanted else "fx-explorer"
        at = place if set_by == "program" else ("", 0)
        for name in known_options(MODULES["inductor"], *map(str, options)):
            row = OptionInForce(
                0, f"inductor.{name}", as_json(options[name]), set_by, function, *at
            )
            self._recording.add_option(row)

    def _note(self, name: str, value: object, function: str, place: CallSite) -> None:
        is_ours = name in self._wanted or not place.file
        if value == self._defaults[name]:
            row = OptionInForce(0, f"compile.{name}", as_json(value), "default", function)
        elif is_ours:
            row = OptionInForce(0, f"compile.{name}", as_json(value), "fx-explorer", function)
        else:
            row = OptionInForce(
                0, f"compile.{name}", format_setting(value), "program", function, *place
            )
        self._recording.add_option(row)


def format_setting(value: object) -> str:
    """Return a value as JSON. Functions and other objects, also those in a dict, are given
    by name.
    """
    if not isinstance(value, dict):
        return as_json(value)
    pairs = [f"{as_json(str(key))}: {as_json(item)}" for key, item in value.items()]
    return f"{{{', '.join(pairs)}}}"


def function_name(model: object) -> str:
    """Return ``MLP`` for a module, even if its own method compiles it; ``f`` for a function."""
    owner = getattr(model, "__self__", None)
    module = model if isinstance(model, torch.nn.Module) else owner
    if isinstance(module, torch.nn.Module):
        return type(module).__qualname__
    return str(getattr(model, "__qualname__", type(model).__qualname__))


# The stance and the configs.


@contextlib.contextmanager
def stance_hook(recording: Recording) -> Iterator[None]:
    """Record every stance that is set inside the block, and the stance in force when a compile
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
        # Nothing was compiled: then what is in force at the end is recorded.
        if not stances.is_noted:
            stances.note()


class _Stances:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._set_by: SetBy = "default"
        self._place: tuple[str, int] = ("", 0)
        self.is_noted = False

    def note_set(self, stance: str) -> None:
        """Record a stance that was set, unless it is the default. A stance that fx-explorer sets
        for its own purposes is ignored.
        """
        place = caller()
        if not place.file and stance not in ("default", self._recording.request.stance_wanted):
            return
        self._set_by = "program" if place.file else "fx-explorer"
        self._place = place
        if stance != "default":
            self.note()

    def note(self) -> None:
        """Record the stance in force now."""
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
        # Nothing was compiled: then what is in force at the end is recorded.
        if not configs.is_noted:
            configs.note()


class _Configs:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._names: list[tuple[SettingGroup, str]] = []
        wanted = options_of_console(recording.request)
        for group, module in MODULES.items():
            names = _of_group(group, wanted)
            self._names += [(group, name) for name in known_options(module, *names)]
        self._values: dict[str, str] = {}
        self._set_before = _set_by_hand()
        """Options that were set before the program began: fx-explorer's own."""

    @property
    def is_noted(self) -> bool:
        return bool(self._values)

    def note(self) -> None:
        """Record each config whose value has changed. It takes about 0.15 ms when none has."""
        if not self._values:
            known = set(self._names)
            set_since = _set_by_hand() - self._set_before - known
            self._names += sorted(set_since)
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
        environment into the default itself, so a default may come from the environment.
        """
        wanted = self._wanted()
        variable = variable_of(group, name)
        if f"{group}.{name}" in wanted and as_json(wanted[f"{group}.{name}"]) == value:
            return "fx-explorer", ""
        if value_set_by_user(group, name):
            is_default = value == as_json(default_of(group, name))
            if is_default and not variable:
                return "default", ""
            return "program", ""
        if variable:
            return "environment", variable
        return "default", ""

    def _wanted(self) -> dict[str, object]:
        """Return the options that fx-explorer was asked to set, including those set at a gate."""
        return {**self._recording.request.settings, **self._recording.boundary.settings}


def _set_by_hand() -> set[tuple[SettingGroup, str]]:
    """Return every config that has been set since torch was imported."""
    return {
        (group, name)
        for group in MODULES
        for name in names(group)
        if value_set_by_user(group, name) and not is_alias(group, name)
    }


def _of_group(group: SettingGroup, options: Sequence[str]) -> list[str]:
    """Return the names of a group's options among those with these full names."""
    return [name.removeprefix(f"{group}.") for name in options if name.startswith(f"{group}.")]


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
