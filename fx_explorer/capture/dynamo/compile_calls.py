"""Calls of torch.compile: with which arguments, who gave them, and those that the request has
others for.

Hook: ``torch.compile`` itself, which everything comes through (a decorator, ``nn.Module.compile``).
A name that was imported from torch before the capture began is out of reach. What the program does
with the result is unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fx_explorer.capture.options.catalogue import as_json
from fx_explorer.capture.recording.hidden_from_dynamo import patched_in_programs
from fx_explorer.capture.recording.rows.callers import CallSite, caller, is_torch_itself
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.versions import compile_parameters
from fx_explorer.model import CONSOLE, OptionInForce

_RECORDED = tuple(name.removeprefix("compile.") for name in CONSOLE if name.startswith("compile."))


@contextlib.contextmanager
def compile_call_hook(recording: Recording) -> Iterator[None]:
    """Record every call of torch.compile inside the block, and give it the arguments of the
    request.
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
            if (
                model is None
            ):  # a decorator with arguments: it calls torch.compile again, with what it decorates
                return original(*args, **kwargs)
            with recording.noting("the arguments of torch.compile"):
                calls.note(model, given)
            return original(model, **with_those_wanted(given, wanted))

        return compile

    with patched_in_programs(torch, "compile", make):
        yield


def with_those_wanted(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with those of the request in their place. A mode and options exclude
    each other, and a backend that replaces the program's takes neither: what the program gave of
    them is dropped then.
    """
    dropped: set[str] = set()
    if wanted.get("mode"):
        dropped = {"options"}
    elif wanted.get("options"):
        dropped = {"mode"}
    elif wanted.get("backend", given.get("backend")) != given.get("backend"):
        dropped = {"mode", "options"}
    return {name: value for name, value in given.items() if name not in dropped} | dict(wanted)


class _Calls:
    """Rows for the calls of one capture: each value once for each place it was given at."""

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
                self._note(
                    name,
                    self._defaults[name] if value is None else value,
                    function_name(model),
                    place,
                )

    def _note(self, name: str, value: object, function: str, place: CallSite) -> None:
        is_ours = name in self._wanted or not place.file
        if value == self._defaults[name]:
            row = OptionInForce(0, f"compile.{name}", as_json(value), "default", function)
        elif is_ours:
            row = OptionInForce(0, f"compile.{name}", as_json(value), "fx-explorer", function)
        else:
            row = OptionInForce(0, f"compile.{name}", in_words(value), "program", function, *place)
        self._recording.add_option(row)


def in_words(value: object) -> str:
    """Return a value as JSON. Functions and other objects in a dict are named one by one."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{as_json(str(key))}: {as_json(one)}" for key, one in value.items())
            + "}"
        )
    return as_json(value)


def function_name(model: object) -> str:
    """Return ``MLP`` for a module, also when its own method compiles it; ``f`` for a function."""
    owner = getattr(model, "__self__", None)
    module = model if isinstance(model, torch.nn.Module) else owner
    if isinstance(module, torch.nn.Module):
        return type(module).__qualname__
    return str(getattr(model, "__qualname__", type(model).__qualname__))
