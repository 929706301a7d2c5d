"""The options and modes in force when Dynamo captured a graph are kept here, and restored when a
deferred graph is compiled.

The program continues meanwhile: it leaves the block in which an option of torch's held, switches
autocast off, resizes an input. Besides the graph, three things decide about generated code: options
of the compiler, modes of the process, and properties of the inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fx_explorer.capture.options.config_entries import (
    MODULES,
    names,
    set_entry,
    value_of,
    value_set_by_user,
)
from fx_explorer.model import SettingGroup

_PLAIN = (bool, int, float, str, bytes, type(None))

_MODES: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
)
"""(getter, setter) of each mode. Grad mode is that of the kept graph."""

_AUTOCAST = ("cpu", "cuda")
"""Device types that have an autocast of their own."""

Option = tuple[SettingGroup, str]


@dataclass(frozen=True)
class OptionsAndModes:
    """The compiler's options and torch's modes, as they were when Dynamo captured one graph."""

    options: dict[Option, object]
    modes: tuple[Any, ...]
    autocast: dict[str, tuple[bool, torch.dtype]]
    is_inference: bool

    @classmethod
    def now(cls) -> OptionsAndModes:
        """Return all of them as they are now, which takes some 2 ms."""
        options = {}
        for group in MODULES:
            for name in names(group):
                options[group, name] = value_of(group, name)
        autocast = {}
        for device in _AUTOCAST:
            is_on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
            autocast[device] = (is_on, dtype)
        modes = tuple(asked() for asked, _ in _MODES)
        return cls(options, modes, autocast, torch.is_inference_mode_enabled())

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Put these options and modes in force inside the block."""
        with contextlib.ExitStack() as stack:
            for (group, name), value in self.options.items():
                if _differs(value, value_of(group, name)):
                    stack.callback(set_entry(group, name, value))
            for (asked, put), value in zip(_MODES, self.modes, strict=True):
                before = asked()
                if before != value:
                    put(value)
                    stack.callback(put, before)
            for device, (enabled, dtype) in self.autocast.items():
                if (enabled, dtype) != (
                    torch.is_autocast_enabled(device),
                    torch.get_autocast_dtype(device),
                ):
                    stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled))
            if self.is_inference != torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(self.is_inference))
            yield

    @property
    def program_is_called(self) -> bool:
        """Return whether an option is a function of the program's, which is called when a graph is
        compiled: a custom pass.
        """
        functions = [option for option, value in self.options.items() if callable(value)]
        return any(value_set_by_user(*option) for option in functions)


def _differs(value: object, other: object) -> bool:
    if value is other:
        return False
    # Only plain values are compared: others may answer ``==`` with anything, an array for one.
    if type(value) not in _PLAIN or type(value) is not type(other):
        return True
    return bool(value != other)
