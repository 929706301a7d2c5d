"""Call a captured target once more, and put the program's state back afterwards.

Inputs are copies. Buffers, plain attributes and globals, and random numbers are put back. Whatever
else the call may have changed (the inside of a list, a file) is not known.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch

from fx_explorer.model import CaptureRequest
from fx_explorer.program.calling import SilentJob, compile_target
from fx_explorer.program.fresh_inputs import copied
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class CalledOnce:
    """CalledOnce is a target that is being called and can be called again (``CallAgain`` in
    capture/recording/noting.py). It is made before the first call.
    """

    def __init__(self, target: Target, request: CaptureRequest, modules: list[ModuleType]) -> None:
        """Prepare to call a target again. ``modules`` are the user's own modules; their plain
        globals are restored.
        """
        self.inputs = target.arguments.describe()
        self._target = target
        self._request = request
        self._modules = modules
        # The first call may write to its inputs. They may be large, so they are copied only where a
        # second call is sure.
        if request.record_bytecode:
            self._arguments = copied(target.arguments)
        else:
            self._arguments = target.arguments
        self._versions = _versions(self._arguments)

    def __call__(self, watching: AbstractContextManager[object]) -> list[str]:
        arguments = copied(self._arguments)
        remarks = _written(self._arguments, self._versions)
        compiled = compile_target(self._target, SilentJob(self._request))
        with contextlib.ExitStack() as stack:
            stack.enter_context(state_kept(self._target, self._modules, remarks))
            if self._request.train is False:
                stack.enter_context(torch.no_grad())
            stack.enter_context(watching)
            compiled(*arguments.args, **arguments.keywords)
        return remarks


@contextlib.contextmanager
def state_kept(target: Target, modules: list[ModuleType], remarks: list[str]) -> Iterator[None]:
    """Restore random numbers, plain values and buffers of the program after the block. ``remarks``
    gets a sentence on everything that could not be restored.
    """
    networks = _networks(target, modules)
    namespaces = [vars(module) for module in modules]
    for network in networks:
        namespaces += [vars(submodule) for submodule in network.modules()]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_random_numbers_kept())
        stack.enter_context(_plain_values_kept(namespaces))
        stack.enter_context(_buffers_kept(networks, remarks))
        yield


def _networks(target: Target, modules: list[ModuleType]) -> list[torch.nn.Module]:
    """Return the network of the target, and those that the modules name."""
    values: list[object] = [target.network]
    for module in modules:
        values += vars(module).values()
    return [value for value in values if isinstance(value, torch.nn.Module)]


def _versions(arguments: Arguments) -> list[int]:
    return [tensor._version for tensor in arguments.tensors() if not tensor.is_inference()]


def _written(arguments: Arguments, before: list[int]) -> list[str]:
    if _versions(arguments) == before:
        return []
    return ["The first call wrote to its inputs: this one began with the changed inputs."]


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    state = random.getstate()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(state)


@contextlib.contextmanager
def _plain_values_kept(namespaces: list[dict[str, Any]]) -> Iterator[None]:
    """Restore numbers, strings and flags after the block: Dynamo's guards look at these most."""
    before = [_plain_values_of(names) for names in namespaces]
    try:
        yield
    finally:
        for names, kept in zip(namespaces, before, strict=True):
            for name, value in kept.items():
                if name not in names or names[name] is not value:
                    names[name] = value


def _plain_values_of(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if type(value) in _PLAIN}


@contextlib.contextmanager
def _buffers_kept(networks: list[torch.nn.Module], remarks: list[str]) -> Iterator[None]:
    """Restore buffers after the block. Parameters are not copied, which would take the model's size
    again: a parameter that was written is named.
    """
    buffers = []
    parameters = []
    for network in networks:
        buffers += [buffer for buffer in network.buffers() if not buffer.is_inference()]
        named = network.named_parameters()
        parameters += [(name, parameter, parameter._version) for name, parameter in named]
    before = [(buffer, buffer._version, buffer.detach().clone()) for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, version, kept in before:
                if buffer._version != version:
                    buffer.copy_(kept)
        for name, parameter, version in parameters:
            if parameter._version != version:
                remarks.append(f"It wrote to the parameter {name}, which stays changed.")
