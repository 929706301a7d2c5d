"""This module checks that everything a virtual GPU needs exists (``fx-explorer doctor --gpu``).

Called as ``python …/worker/gpu_check.py GPU-AS-JSON``, by path, in the interpreter that is asked
about. Prints one JSON line per check: its name, whether it passed, and what was found or is wrong.
The checks after one that failed may depend on it and are not tried.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fx_explorer.capture.virtual_gpu.device_queries import Emulation
    from fx_explorer.model import Gpu


class Say(Protocol):
    """Reports the result of one check."""

    def __call__(self, name: str, passed: bool, found: str, advice: str = "") -> None:
        """Report a check. ``advice`` is a remark although the check passed."""


class CheckFailed(Exception):
    """Raised by a check that did not pass; the rest is not tried."""


def main(gpu_json: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what torch and compilers print is no answer

    def say(name: str, passed: bool, found: str, advice: str = "") -> None:
        answers.write(
            json.dumps({"name": name, "passed": passed, "found": found, "advice": advice}) + "\n"
        )
        answers.flush()

    from fx_explorer.model import Gpu

    with contextlib.suppress(CheckFailed):
        check(Gpu.from_json(json.loads(gpu_json)), say)
    os._exit(0)


def check(gpu: Gpu, say: Say) -> None:
    """Check step by step whether this interpreter can emulate the GPU: Triton, the C++ part, torch,
    the hooks, and kernels down to machine code.
    """
    from fx_explorer.capture.torch_compat.installed import version_of
    from fx_explorer.capture.virtual_gpu import installing, shim

    with _checking("triton", say) as found:
        installing.need_triton()
        found.append(version_of("triton"))
    with _checking("compiler", say) as found:
        installing.before_torch(gpu)
        found.append(f"{' '.join(shim.compiler())} built the C++ part")
    with _checking("torch", say) as found:
        import torch

        kind = "CUDA" if torch.version.cuda else "CPU"
        found.append(f"{torch.__version__}, {kind} build")
    if other := installing.other_triton():
        say("versions", True, installing.versions(), other)
    from fx_explorer.capture.virtual_gpu.device_queries import Emulation

    emulation = Emulation(gpu)
    for name, step in installing.steps(emulation):
        with _checking("hook", say, name) as found:
            step()
            found.append(name)
    with _checking("target", say) as found:
        found.append(_target(gpu))
    with _checking("training", say) as found:
        sources = _training_step(emulation)
        found.append(f"{len(sources)} Triton kernels, forward and backward")
    with _checking("attention", say) as found:
        found.append(_attention())
    with _checking("machine code", say) as found:
        found.append(_machine_code(*sources[0]))


@contextlib.contextmanager
def _checking(name: str, say: Say, what: str = "") -> Iterator[list[str]]:
    """Report the check in the block. The list receives its findings; ``what`` introduces a failure.

    Raises CheckFailed after a check that did not pass.
    """
    found: list[str] = []
    try:
        yield found
    except Exception as error:
        traceback.print_exc()
        from fx_explorer.capture.virtual_gpu.cache_directories import not_written

        wrong = not_written(error) or str(error) or type(error).__name__
        if what:
            wrong = f"{what}: {wrong}"
        say(name, False, wrong)
        raise CheckFailed from error
    say(name, True, "; ".join(found))


def _target(gpu: Gpu) -> str:
    import triton

    from fx_explorer.capture.virtual_gpu.triton_driver import target_of

    answered = triton.runtime.driver.active.get_current_target()
    if answered != target_of(gpu):
        raise CheckFailed(f"Triton would compile for {answered}")
    return f"{answered.backend}:{answered.arch}"


def _training_step(emulation: Emulation) -> list[tuple[str, str]]:
    """Return (name, source) of the Triton kernels of a small training step."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128))
    codes = _generated(model, torch.randn(16, 64))
    if len(codes) != 2:
        raise CheckFailed(
            f"forward and backward should give two generated codes, but gave {len(codes)}"
        )
    kernels: list[tuple[str, str]] = []
    for code in codes:
        kernels += _kernels(code)
    if not kernels:
        raise CheckFailed("no Triton kernel was generated")
    return kernels


def _attention() -> str:
    """Return the operator to which attention is compiled. Raises CheckFailed if it is decomposed,
    as a build without CUDA does silently.
    """
    import torch

    heads = [torch.randn(1, 4, 128, 64, dtype=torch.bfloat16) for _ in range(3)]
    (code,) = _generated(
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        *heads,
    )
    for name in ("cudnn", "flash", "efficient"):
        if f"_scaled_dot_product_{name}_attention" in code:
            return f"fused ({name})"
    raise CheckFailed("attention is decomposed instead of fused")


def _generated(function: Callable[..., Any], *inputs: Any) -> list[str]:
    """Return the output codes that torch.compile generates."""
    import torch

    from fx_explorer.capture.inspecting import inspecting
    from fx_explorer.capture.torch_compat.patching import patched
    from fx_explorer.capture.torch_compat.private_names import GraphLowering, inductor_config

    codes: list[str] = []

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen(lowering: Any) -> Any:
            result = original(lowering)
            codes.append(result[0].value)
            return result

        return codegen

    with (
        inductor_config.patch(fx_graph_cache=False),
        inspecting(),
        patched(GraphLowering, "codegen", make),
    ):
        torch.compiler.reset()
        torch.compile(function)(*inputs)
    return codes


def _kernels(code: str) -> Iterator[tuple[str, str]]:
    import ast

    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton":
            yield ast.literal_eval(node.args[0]), ast.literal_eval(node.args[1])


def _machine_code(name: str, source: str) -> str:
    """Compile a kernel to the GPU's machine code, in its first configuration."""
    from fx_explorer.capture.torch_compat.private_names import (
        _load_triton_kernel_from_source,
        inductor_config,
    )

    with (
        inductor_config.patch(use_static_triton_launcher=False),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        kernel = _load_triton_kernel_from_source(name, source)
        made = kernel._precompile_config(kernel.configs[0]).kernel.asm
    levels = [level for level in ("ptx", "cubin", "amdgcn", "hsaco") if level in made]
    if not levels:
        raise CheckFailed(f"Triton made {', '.join(made)} of {name}, but no machine code")
    return f"{', '.join(levels)} of {name}"


if __name__ == "__main__":
    # beside this file: Python puts a script's directory first
    from worker import load_package  # type: ignore[import-not-found]

    del sys.path[0]
    load_package()
    sys.modules.pop("worker")
    main(sys.argv[1])
