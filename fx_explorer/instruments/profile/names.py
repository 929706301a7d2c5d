"""What generated code calls a kernel, and what a trace calls it: one key for both."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"_\d+$")
_OVERLOAD = re.compile(r"^(?:torch\.ops\.)?(?P<library>\w+)\.(?P<name>\w+)(?:\.\w+)?$")

SAME_OPERATOR = {"bias_addmm": "addmm", "_mm_plus_mm": "mm"}
"""Functions of Inductor's that call another operator (``torch/_inductor/select_algorithm.py``,
``kernel/mm.py``).
"""


def key_of_call(name: str) -> str:
    """Return ``mm`` of ``extern_kernels.mm``, ``convolution_backward`` of
    ``torch.ops.aten.convolution_backward.default``, and ``mylib::scaled`` of
    ``torch.ops.mylib.scaled.default``. The name of a generated kernel stays as it is.
    """
    match = _OVERLOAD.match(name)
    if not match:
        return name
    library, operator = match["library"], match["name"]
    if library in ("extern_kernels", "aten"):
        return SAME_OPERATOR.get(operator, operator)
    return f"{library}::{operator}"


def key_of_event(name: str) -> str:
    """Return ``mm`` of ``aten::mm``; the operator of another library, or a kernel, stays as it is."""
    return name.removeprefix("aten::")


def without_number(key: str) -> str:
    """Return ``triton_poi_fused_add`` of ``triton_poi_fused_add_3``: what the number depends on is
    which other kernels there are.
    """
    return _NUMBERED.sub("", key)
