"""The functions of Triton and of Inductor's helpers that a kernel may call: names read off the
modules that are installed.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any

from fx_explorer.session.untrusted.triton_allowed import Helpers

OF_THE_LANGUAGE = {
    "constexpr",
    "range",
    "static_range",
    "tuple",
    "dtype",
    "PropagateNan",
    "TRITON_MAX_TENSOR_NUMEL",
}
"""Types and constants of ``triton.language`` that kernels name, beside its functions."""

READS_FILES = {"extern_elementwise", "extern"}
"""Functions that link a library whose path stands in the source."""


@cache
def helpers() -> Helpers:
    import triton.language as tl
    from torch._inductor.runtime import triton_helpers

    language = _functions(tl) | (OF_THE_LANGUAGE & set(dir(tl)))
    libdevice = triton_helpers.libdevice
    return Helpers(
        {
            "tl": language,
            "tl_math": _functions(tl.math) | _functions(triton_helpers.math),
            "libdevice": _functions(libdevice) | _defined_in(libdevice),
            "triton_helpers": _functions(triton_helpers),
        }
    )


def _functions(module: Any) -> frozenset[str]:
    """Return the names of the module's functions that are compiled or part of Triton's language.
    Python functions are left out.
    """
    return frozenset(
        name
        for name in dir(module)
        if name not in READS_FILES and _is_tritons(getattr(module, name))
    )


def _is_tritons(value: object) -> bool:
    from triton.language import dtype
    from triton.runtime.jit import JITFunction

    return (
        isinstance(value, JITFunction | dtype)
        or getattr(value, "__triton_builtin__", False) is True
    )


def _defined_in(module: Any) -> frozenset[str]:
    """Return the names of the plain functions that the module defines. The stubs of ``libdevice``
    are such; a backend's functions take their places.
    """
    own = (
        name
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__
    )
    return frozenset(name for name in own if not name.startswith("_")) - READS_FILES
