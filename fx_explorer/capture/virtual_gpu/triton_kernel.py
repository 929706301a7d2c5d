"""This module loads a kernel from its Triton source, with its configurations, lists the functions
that it may call, and explains why one cannot be built.

The list of configurations is the one that Inductor's autotuner makes from the kernel's own
decorator (``CachingAutotuner.configs``, torch/_inductor/runtime/triton_heuristics.py). The
functions of Triton and of Inductor's helpers that a kernel may call are names read off the modules
that are installed.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fx_explorer.session.untrusted.triton_allowed import Helpers, UntrustedSourceError
from fx_explorer.session.untrusted.triton_source import check_source


class CannotBuild(Exception):
    """Raised for an error of the kernel or its compilers. The message is for the user."""


def why(error: BaseException) -> str:
    """Return the part of the message that the user can use. Triton's command for repeating the
    compile names files that are gone.
    """
    text = str(error).partition("Repro command:")[0].strip()
    if isinstance(error, SyntaxError):
        text = f"line {error.lineno}: {error.msg}"
        if error.text:
            text += f"\n{error.text.rstrip()}"
    cause = ""
    if error.__cause__ is not None and str(error.__cause__) not in text:
        cause = f"\n{error.__cause__}"
    if "ptxas" in text:
        return text + cause
    return f"{type(error).__name__}: {text}{cause}"


@dataclass
class TritonKernel:
    """A kernel whose module is loaded."""

    autotuner: Any
    file: str
    """Base name of the kernel's module."""
    configs: list[Any]

    @property
    def options(self) -> list[dict[str, object]]:
        """Return the options of each configuration, as people write them. A template has its block
        sizes in the source, not in the configs.
        """
        written = self.autotuner.inductor_meta.get("config_args") or {}
        options = []
        for config in self.configs:
            values = {**written, **config.kwargs}
            plain = {name: _plain(value) for name, value in values.items()}
            options.append({**plain, **_sizes(config)})
        return options

    def add_smaller_blocks(self, registers: Sequence[int]) -> None:
        """Add the configurations that Inductor would try once it knows how many ``registers`` each
        of the first ones uses.
        """
        autotuner = self.autotuner
        autotuner.compile_results = [
            _result(config, used) for config, used in zip(self.configs, registers, strict=False)
        ]
        instead = {
            "_precompile_config": _result,
            "_make_launchers": _nothing,
            "_ensure_kernel_loaded": _nothing,
        }
        # Nothing is compiled or launched: only the configurations are wanted.
        vars(autotuner).update(instead)
        try:
            autotuner._dynamic_scale_rblock()
        finally:
            for name in instead:
                delattr(autotuner, name)
        self.configs.extend(result.config for result in autotuner.compile_results[len(registers) :])


def loaded_of_a_stranger(name: str, source: str) -> TritonKernel:
    """Load the source as ``loaded`` does if it is of the kind that Inductor writes. Otherwise raise
    CannotBuild and run none of it.
    """

    try:
        check_source(
            source.removeprefix("\n"), helpers()
        )  # the line feed that Inductor puts in front is no line of the source
    except UntrustedSourceError as error:
        raise CannotBuild(str(error)) from error
    return loaded(name, source)


def loaded(name: str, source: str) -> TritonKernel:
    """Run the kernel's module, which defines the kernel and compiles nothing. Raises
    CannotBuild.
    """
    from fx_explorer.capture.torch_compat.private_names import PyCodeCache

    try:
        module = PyCodeCache.load(source)
        autotuner = _autotuner(vars(module), name)
    except Exception as error:
        raise CannotBuild(f"its Triton source cannot be loaded: {why(error)}") from error
    return TritonKernel(autotuner, Path(str(module.__file__)).name, list(autotuner.configs))


def _autotuner(module: dict[str, Any], name: str) -> Any:
    """Return the autotuner called ``name``, or else the only one: a user's kernel has the name of
    the user's file in the module, and another name in the wrapper.
    """
    if name in module:
        return module[name]
    return next(value for value in module.values() if hasattr(value, "_create_compile_meta"))


def _result(config: Any, registers: int | None = None) -> types.SimpleNamespace:
    """Return a stand-in for a compiled configuration, with the attributes that the autotuner
    reads.
    """
    return types.SimpleNamespace(config=config, kernel=types.SimpleNamespace(n_regs=registers))


def _nothing() -> None:
    """Do nothing, in place of functions that need a device."""


def _plain(value: object) -> object:
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _sizes(config: Any) -> dict[str, object]:
    sizes: dict[str, object] = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if getattr(config, "num_ctas", 1) not in (None, 1):
        sizes["num_ctas"] = config.num_ctas
    if getattr(config, "maxnreg", None):
        sizes["maxnreg"] = config.maxnreg
    return sizes


# The functions that a kernel may call.


OF_THE_LANGUAGE = {
    "constexpr",
    "range",
    "static_range",
    "tuple",
    "dtype",
    "PropagateNan",
    "TRITON_MAX_TENSOR_NUMEL",
}
"""Types and constants of ``triton.language`` that kernels use, beside its functions."""

READS_FILES = {"extern_elementwise", "extern"}
"""Functions that link a library whose path stands in the source."""


@cache
def helpers() -> Helpers:
    import triton.language as tl

    from fx_explorer.capture.torch_compat.private_names import triton_helpers

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
    names = [name for name in dir(module) if name not in READS_FILES]
    return frozenset(name for name in names if _is_tritons(getattr(module, name)))


def _is_tritons(value: object) -> bool:
    from triton.language import dtype
    from triton.runtime.jit import JITFunction

    return (
        isinstance(value, JITFunction | dtype)
        or getattr(value, "__triton_builtin__", False) is True
    )


def _defined_in(module: Any) -> frozenset[str]:
    """Return the names of the plain functions that the module defines, such as the stubs of
    ``libdevice``, which a backend's functions replace.
    """
    names = set()
    for name, value in vars(module).items():
        is_own = isinstance(value, types.FunctionType) and value.__module__ == module.__name__
        if is_own and not name.startswith("_"):
            names.add(name)
    return frozenset(names) - READS_FILES
