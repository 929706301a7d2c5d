"""These tests check that torch, sympy and logging are unchanged when a capture is over."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo.aot_compile import AOTCompiledFunction

from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.recorder import HOOKS
from fx_explorer.capture.torch_compat.patching import patched
from tests.capture.lowering import fresh_compiler
from tests.capture.recorded import record

Held = dict[tuple[str, str], object]
"""For each (module or class, attribute): its value, as a descriptor where it is one."""


def is_looked_at(name: str) -> bool:
    return name.partition(".")[0] in ("torch", "sympy", "logging", "networkx")


def owners() -> Iterator[tuple[str, Any]]:
    """Yield every module of these packages with its name, and every class that is defined in it."""
    for name, module in list(sys.modules.items()):
        if not is_looked_at(name) or not isinstance(module, types.ModuleType):
            continue
        yield name, module
        for value in list(vars(module).values()):
            if issubclass(type(value), type) and value.__module__ == name:
                yield f"{name}.{value.__qualname__}", value


def attributes() -> Held:
    held: Held = {}
    for owner_name, owner in owners():
        for name, value in list(vars(owner).items()):
            held[owner_name, name] = value
            if type(value) is types.FunctionType:
                held[owner_name, f"{name}.__code__"] = value.__code__
            if type(value).__name__.endswith("Logger"):
                held[owner_name, f"{name}.__class__"] = type(value)
    return held


def changed(before: Held, after: Held) -> set[tuple[str, str]]:
    """Return the attributes that are a different object now, or gone. New attributes are left out."""
    return {key for key, value in before.items() if after.get(key) is not value}


def program(compile_: Callable[[Any], Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def step(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        torch._dynamo.graph_break()
        return y.square().sum()

    compiled = compile_(step)
    for rows in (3, 5):
        compiled(torch.ones(rows, 4)).backward()


def test_every_attribute_is_what_it_was(tmp_path: Path) -> None:
    for module, _ in HOOKS.values():
        importlib.import_module(f"fx_explorer.capture.{module}")
    record(tmp_path / "first.fxs", program)  # imports what torch imports only then
    with fresh_compiler(), inspecting():
        program(torch.compile)
    at_rest = attributes()
    with fresh_compiler(), inspecting():
        program(torch.compile)
    by_torch = changed(at_rest, attributes())
    before = attributes()
    record(tmp_path / "second.fxs", program)
    assert changed(before, attributes()) - by_torch == set()


def test_a_class_method_stays_one() -> None:
    before = vars(AOTCompiledFunction)["deserialize"]
    assert isinstance(before, classmethod)
    seen: list[object] = []

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        seen.append(original.__self__)  # type: ignore[attr-defined]
        return lambda *arguments: arguments

    with patched(AOTCompiledFunction, "deserialize", make):
        assert AOTCompiledFunction.deserialize(b"code") == (b"code",)
        shown = AOTCompiledFunction.__new__(AOTCompiledFunction)
        assert shown.deserialize(b"code") == (b"code",), "an object is not given away"
    assert vars(AOTCompiledFunction)["deserialize"] is before
    assert seen == [AOTCompiledFunction]


class Base:
    @staticmethod
    def static() -> str:
        return "static"

    def plain(self) -> str:
        return "plain"


class Derived(Base):
    pass


def test_what_a_class_inherits_it_inherits_again() -> None:
    with contextlib.ExitStack() as stack:
        for name in ("static", "plain"):
            stack.enter_context(patched(Derived, name, lambda _: lambda *_: "ours"))
        assert (Derived().static(), Derived().plain(), Derived.static()) == ("ours",) * 3
        assert (Base().static(), Base().plain()) == ("static", "plain")
    assert not {"static", "plain"} & set(vars(Derived))
