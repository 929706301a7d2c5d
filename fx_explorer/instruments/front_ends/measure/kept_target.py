"""The target as it was before the program called it, for front ends that trace it afterwards."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import Any

import torch

from fx_explorer.program.calling import is_compiled
from fx_explorer.program.fresh_inputs import copied
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target


@dataclass(frozen=True, slots=True)
class KeptTarget:
    """A copy of the target and its arguments, made before its first call. Each front end gets a
    copy of it.
    """

    target: Target
    modules: list[ModuleType]
    """The user's own modules."""
    is_copy: bool
    """Whether the target could be copied; otherwise its state is put back after each front end."""
    remarks: tuple[str, ...] = ()

    def fresh(self) -> tuple[Callable[..., Any], Arguments]:
        """Return a callable and arguments that nobody else has."""
        function = self.target.callable
        return (copy.deepcopy(function) if self.is_copy else function), copied(
            self.target.arguments
        )


@contextlib.contextmanager
def attributes_kept(network: torch.nn.Module | None) -> Iterator[None]:
    """Put every attribute, buffer and parameter of a module and those in it back after the block: a
    front end that traces with stand-ins leaves these where the code sets an attribute.
    """
    held = [
        names
        for module in (network.modules() if network is not None else ())
        for names in (vars(module), module._buffers, module._parameters, module._modules)
    ]
    before = [dict(names) for names in held]
    try:
        yield
    finally:
        for names, kept in zip(held, before, strict=True):
            names.clear()
            names.update(kept)


def keep(target: Target, modules: list[ModuleType]) -> KeptTarget:
    """Copy the target before it is called."""
    function, remarks = uncompiled(target.callable)
    arguments = copied(target.arguments)
    try:
        kept, is_copy = copy.deepcopy(function), True
    except Exception as error:  # noqa: BLE001 - told: modules may hold anything
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        remarks.append(
            f"The target cannot be copied ({said}): it was traced itself, as the call had left it."
        )
        kept, is_copy = function, False
    return KeptTarget(Target(target.name, kept, arguments), modules, is_copy, tuple(remarks))


def uncompiled(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[str]]:
    """Return what a front end can trace of a callable: the original of a compiled one, the module
    of its forward.
    """
    remarks = []
    if isinstance(function, torch.nn.Module) and function._compiled_call_impl is not None:
        plain = copy.copy(function)  # without what compile() put there; the parts are the same
        plain._compiled_call_impl = None
        function = plain
        remarks.append(
            "The module was compiled in place (module.compile()): front ends got it uncompiled."
        )
    elif is_compiled(function):
        original = getattr(function, "_torchdynamo_orig_callable", function)
        if isinstance(function, torch._dynamo.OptimizedModule):
            function = function._orig_mod
        else:
            function = original
        remarks.append("The target was compiled already: front ends got what it was compiled from.")
    owner = getattr(function, "__self__", None)
    if (
        isinstance(function, MethodType)
        and isinstance(owner, torch.nn.Module)
        and function.__name__ == "forward"
    ):
        remarks.append("The target is the forward of a module: front ends got the module.")
        function = owner
    return function, remarks
