"""A kernel's Triton source, loaded: the configurations that would be tried.

The list is the one that Inductor's autotuner makes of the kernel's own decorator (``CachingAutotuner.configs``,
torch/_inductor/runtime/triton_heuristics.py).
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer.capture.virtual_gpu.kernels.cannot_build import CannotBuild, why
from fx_explorer.session.untrusted.triton_allowed import UntrustedSourceError
from fx_explorer.session.untrusted.triton_source import check_source


@dataclass
class TritonKernel:
    """A kernel whose module is loaded."""

    autotuner: Any
    file: str
    """Base name of that module."""
    configs: list[Any]

    @property
    def options(self) -> list[dict[str, object]]:
        """Of each configuration, as people write them. A template has its block sizes in the source, not in the configs."""
        written = self.autotuner.inductor_meta.get("config_args") or {}
        return [
            {**{name: _plain(value) for name, value in {**written, **config.kwargs}.items()}, **_sizes(config)}
            for config in self.configs
        ]

    def add_smaller_blocks(self, registers: Sequence[int]) -> None:
        """What Inductor would try too, once it has seen how many ``registers`` each of the first configurations uses."""
        autotuner = self.autotuner
        autotuner.compile_results = [_result(config, used) for config, used in zip(self.configs, registers, strict=False)]
        instead = {"_precompile_config": _result, "_make_launchers": _nothing, "_ensure_kernel_loaded": _nothing}
        vars(autotuner).update(instead)  # nothing is compiled, nothing launched: the configurations are all that is wanted
        try:
            autotuner._dynamic_scale_rblock()
        finally:
            for name in instead:
                delattr(autotuner, name)
        self.configs.extend(result.config for result in autotuner.compile_results[len(registers) :])


def loaded_of_a_stranger(name: str, source: str) -> TritonKernel:
    """As ``loaded``, for a source that is what Inductor writes. Any other raises CannotBuild, and nothing of it is run."""
    from fx_explorer.capture.virtual_gpu.kernels.triton_names import helpers

    try:
        check_source(source.removeprefix("\n"), helpers())  # what Inductor puts in front is no line of the source
    except UntrustedSourceError as error:
        raise CannotBuild(str(error)) from error
    return loaded(name, source)


def loaded(name: str, source: str) -> TritonKernel:
    """Runs the kernel's module, which defines it and compiles nothing. Raises CannotBuild."""
    from torch._inductor.codecache import PyCodeCache

    try:
        module = PyCodeCache.load(source)
        autotuner = _autotuner(vars(module), name)
    except Exception as error:
        raise CannotBuild(f"its Triton source cannot be loaded: {why(error)}") from error
    return TritonKernel(autotuner, Path(str(module.__file__)).name, list(autotuner.configs))


def _autotuner(module: dict[str, Any], name: str) -> Any:
    """By its name. A kernel of the user's own is called as in the user's file there, and otherwise in the wrapper."""
    kinds = (value for value in module.values() if hasattr(value, "_create_compile_meta"))
    return module[name] if name in module else next(kinds)


def _result(config: Any, registers: int | None = None) -> types.SimpleNamespace:
    """What the autotuner asks of a configuration that it compiled."""
    return types.SimpleNamespace(config=config, kernel=types.SimpleNamespace(n_regs=registers))


def _nothing() -> None:
    """In place of what needs a device."""


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _sizes(config: Any) -> dict[str, object]:
    found: dict[str, object] = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if getattr(config, "num_ctas", 1) not in (None, 1):
        found["num_ctas"] = config.num_ctas
    if getattr(config, "maxnreg", None):
        found["maxnreg"] = config.maxnreg
    return found
