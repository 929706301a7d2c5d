"""A ``TorchState`` is the state of torch that its guards look at (``GlobalStateGuard``,
torch/csrc/dynamo/guards.cpp): it is read, put in words and put in force here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

GRAD_MODE = "grad_mode"
DEFAULT_DTYPE = "default_dtype"
_DETERMINISTIC = ("deterministic_algorithms", "deterministic_algorithms_warn_only")
_CUBLAS = ("allow_tf32", "allow_fp16_reduce", "allow_bf16_reduce")
_AUTOCAST = "autocast_state"
_THREADS = "num_threads"
_NAMES = {
    GRAD_MODE: "grad mode",
    DEFAULT_DTYPE: "the default dtype",
    _THREADS: "the number of threads",
    _AUTOCAST: "autocast",
    "deterministic_algorithms": "torch.use_deterministic_algorithms",
    "deterministic_algorithms_warn_only": "warn_only of torch.use_deterministic_algorithms",
}
_DTYPES = {5: torch.float16, 6: torch.float32, 7: torch.float64, 15: torch.bfloat16}
"""The types, by their numbers in c10/core/ScalarType.h."""


@dataclass(frozen=True)
class TorchState:
    """A TorchState is the state of torch that guards look at, as the JSON text that torch makes of
    it.
    """

    text: str

    @classmethod
    def now(cls) -> TorchState:
        from fx_explorer.capture.torch_compat.private_names import GlobalStateGuard

        guard: Any = GlobalStateGuard()
        return cls(guard.__getstate__())

    @property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.text)
        return values

    @property
    def has_gradients(self) -> bool:
        return bool(self.values[GRAD_MODE])

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Put the state in force inside the block, except settings that make no difference. Some
        settings hold for the whole process meanwhile.
        """
        before, wanted = TorchState.now().values, self.values
        _set(wanted)
        try:
            with torch.set_grad_enabled(self.has_gradients):
                yield
        finally:
            _set(before)


def _set(values: dict[str, Any]) -> None:
    if values[DEFAULT_DTYPE] in _DTYPES:
        torch.set_default_dtype(_DTYPES[values[DEFAULT_DTYPE]])
    if torch.get_num_threads() != values[_THREADS]:
        torch.set_num_threads(values[_THREADS])
    enabled, warn_only = (values[name] for name in _DETERMINISTIC)
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    torch.set_autocast_cache_enabled(values[_AUTOCAST]["cached_enabled"])


def changes(then: TorchState, now: TorchState) -> tuple[str, ...]:
    """Return the names, as torch gives them, of the settings that differ between two states."""
    before, after = then.values, now.values
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def describe_change(name: str, then: TorchState, now: TorchState) -> str:
    """Describe one change of state: ``the default dtype was torch.float32, and is torch.float64
    now``.
    """
    before, after = then.values.get(name), now.values.get(name)
    if name == GRAD_MODE:
        return f"gradients were {_on(before)} before, and are {_on(after)} now"
    if name == _AUTOCAST:
        return "autocast has changed"
    if name == DEFAULT_DTYPE:
        before, after = (_DTYPES.get(int(value or 0), value) for value in (before, after))
    return (
        f"{_NAMES.get(name, name)} was {_format_value(before)} before, and is "
        f"{_format_value(after)} now"
    )


def why_it_matters(name: str, then: TorchState, now: TorchState, is_on_gpu: bool) -> str:
    """Say why a change makes the compiled code wrong, or might; empty when at most the tracing of
    the model decides that.

    Autocast that is off casts nothing, whatever its dtypes and its cache. The number of threads is
    part of the code that was generated. The switches of cuBLAS are read by cuBLAS alone.
    Deterministic algorithms are right where none are asked for.
    """
    before, after = then.values, now.values
    if name in (GRAD_MODE, DEFAULT_DTYPE, _THREADS):
        return ""
    if name == _AUTOCAST:
        if any(before[name]["enabled"]) or any(after[name]["enabled"]):
            return "operations are cast otherwise"
        return ""
    if name in _DETERMINISTIC:
        if after[_DETERMINISTIC[0]]:
            return "the code was chosen without that"
        return ""
    if name in _CUBLAS:
        if is_on_gpu:
            return "kernels for the GPU were chosen for that"
        return ""
    return "Dynamo's trace depends on it"


def how_to_capture(name: str, now: TorchState) -> str:
    if name == GRAD_MODE:
        if now.has_gradients:
            return "with gradients on"
        return "under torch.no_grad()"
    return "in the current state of torch"


def _on(value: object) -> str:
    return "on" if value else "off"


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return _on(value)
    return str(value)
