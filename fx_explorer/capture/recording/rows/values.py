"""Describe values of a running program. This runs no code of the program's, and keeps nothing of it
alive.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from fx_explorer.capture.recording.rows.described import described

MAX_SHOWN = 100
"""Most characters of one value."""

FEW_VALUES = 6
"""Elements up to which a tensor's values are shown; a larger one is shown as dtype, shape and
device.
"""

FEW_MEMBERS = 4

Names = Mapping[int, str]
"""``id`` of an object → its name, for functions that Dynamo made."""


def in_short(value: object, names: Names, *, depth: int = 2) -> str:
    """Return ``f32[4, 8] cpu``, ``f32[] cpu 0.5``, ``[f32[4] cpu, 2]``, ``__compiled_fn_1`` or
    ``object of class Net``.
    """
    text = names.get(id(value)) or _text(value, names, depth)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _text(value: Any, names: Names, depth: int) -> str:
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return _tensor(value)
    if kind is torch.Size:
        return repr(value)
    if kind is slice:
        return f"slice({', '.join(in_short(one, names, depth=0) for one in (value.start, value.stop, value.step))})"
    if kind is CodeType:
        return f"code of {value.co_name}"
    if issubclass(kind, ModuleType):
        return f"module {ModuleType.__getattribute__(value, '__dict__').get('__name__', '')}"
    if value is vars(builtins):
        return "Python's builtins"
    return (
        _container(value, names, depth - 1)
        if depth and kind in (list, tuple, dict)
        else described(value)
    )


def _container(value: Any, names: Names, depth: int) -> str:
    if type(value) is dict:
        few = list(value.items())[:FEW_MEMBERS]
        shown = [
            f"{in_short(key, names, depth=0)}: {in_short(held, names, depth=depth)}"
            for key, held in few
        ]
        return f"{{{_members(shown, len(value))}}}"
    inside = _members(
        [in_short(one, names, depth=depth) for one in value[:FEW_MEMBERS]], len(value)
    )
    return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"


def _members(shown: list[str], count: int) -> str:
    return ", ".join([*shown, *(["…"] if count > len(shown) else [])])


def _tensor(value: Any) -> str:
    """Describe a tensor. One of the program's own class may run code even for its shape; if that
    fails, only its type is named.
    """
    kind = "" if type(value) in (torch.Tensor, torch.nn.Parameter) else f"{type(value).__name__} "
    try:
        with torch._C.DisableTorchFunctionSubclass(), _disable_current_modes():
            return f"{kind}{described(value)} {value.device}{'' if kind else _few(value)}"
    except Exception:  # noqa: BLE001 - an exception in the program's class here is not the program's fault
        return f"object of class {type(value).__name__}"


def _few(value: torch.Tensor) -> str:
    """Return the values of a small tensor, if they can be read without waiting for a device."""
    if (
        value.device.type != "cpu"
        or value.layout != torch.strided
        or value.is_quantized
        or value.numel() > FEW_VALUES
    ):
        return ""
    return f" {_numbers(value.tolist())}" if value.numel() else ""


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def version_of(value: object) -> int:
    """Return how often a tensor was written in place; 0 for anything else, and where torch does not
    count.
    """
    if not issubclass(type(value), torch.Tensor):
        return 0
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return int(value._version)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - inference tensors, and classes that do not count
        return 0
