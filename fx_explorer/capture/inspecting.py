"""This module inspects: it shows the code that Inductor generates without building it. No C++
compiler runs, no Triton kernel is compiled, nothing is tuned.

Inductor does all its work up to the output code, forward and backward in one go; then the Dynamo
graph itself runs, by PyTorch's own operators and autograd, in place of the compiled function. So
the program behaves as it does without torch.compile, and the generated code is that of a real
compile, byte for byte (tests/capture/test_inspecting.py). Backends other than inductor are left
alone. A backward that cannot be lowered fails in the session only, since the program may never run
it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.recording.fx_graphs import is_region_call
from fx_explorer.capture.torch_compat.patching import configured, patched
from fx_explorer.capture.torch_compat.private_names import functorch_config, inductor_config
from fx_explorer.capture.torch_compat.versions import known_options, watching_selector

BUILDERS = (
    "cpp",
    "cpp_pybinding",
    "triton",
    "cuda",
    "cutlass",
    "xpu",
    "rocm",
    "halide",
    "metal",
    "cutedsl",
    "pallas",
    "nv_universal_gemm",
    "multi_kernel",
    "size_hint_multi_kernel",
)
"""Methods of ``AsyncCompile`` (torch/_inductor/async_compile.py) that turn a kernel's source into
something to call.
"""


_AT_ONCE = "force_non_lazy_backward_lowering"
"""Option of torch._functorch: the backward is lowered in the same call as the forward."""


class NotBuilt:
    """Takes the place of a compiled kernel. It is never called, because the segment runs in eager
    mode.
    """

    def __call__(self, *_: object, **__: object) -> None:
        raise RuntimeError(
            "this kernel was only inspected, not built; capture with --build to run it"
        )

    run = __call__


@contextlib.contextmanager
def inspecting() -> Iterator[dict[str, str]]:
    """Make ``torch.compile`` with the inductor backend generate all its code inside the block, and
    build none of it.

    Yields view → why: what a real compile would have decided by measuring, or what this torch
    release does not let us skip.
    """
    notes: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        _inspect(stack, notes)
        _in_force.append((stack, notes))
        try:
            yield notes
        finally:
            _in_force.remove((stack, notes))


_in_force: list[tuple[contextlib.ExitStack, dict[str, str]]] = []


def _inspect(stack: contextlib.ExitStack, notes: dict[str, str]) -> None:
    """Enter all parts of inspecting. A part that this torch release does not allow is recorded; if
    graphs cannot run in place of kernels, everything is built.
    """
    if not _done(stack, notes, "inspecting", _run_segments_eagerly):
        return
    for what, part in _PARTS.items():
        _done(stack, notes, what, part)


def _done(stack: contextlib.ExitStack, notes: dict[str, str], what: str, part: _Part) -> bool:
    with contextlib.ExitStack() as of_part:
        try:
            part(of_part, notes)
        # An unknown release may fail in any way; it is noted.
        except Exception as error:  # noqa: BLE001
            notes[what] = f"torch {torch.__version__} does not offer what this needs ({error})"
            return False
        stack.push(of_part.pop_all())
    return True


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Make torch.compile build real code inside the block, as if it were not within
    ``inspecting``.
    """
    lifted = list(_in_force)
    for stack, _ in reversed(lifted):
        stack.close()
    try:
        with (
            lowering_for_real()
        ):  # should somebody have wrapped compile_fx after us, ours is still in there
            yield
    finally:
        for stack, notes in lifted:
            _inspect(stack, notes)


def _run_segments_eagerly(stack: contextlib.ExitStack, notes: dict[str, str]) -> None:
    """Make compiled segments run in eager mode. ``compile_fx`` (torch/_inductor/compile_fx.py) is
    looked up at call time: replacing the name is enough.
    """
    from fx_explorer.capture.torch_compat.private_names import V
    from fx_explorer.capture.torch_compat.private_names import compile_fx as module

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_fx(model_: Any, *args: Any, **kwargs: Any) -> Any:
            # It calls itself to apply options; and ahead of time the result is a file, which
            # nothing else can stand for.
            is_nested = getattr(_inside, "is_nested", False)
            if (
                is_nested
                or V.aot_compilation is True
                or not isinstance(model_, torch.fx.GraphModule)
            ):
                return original(model_, *args, **kwargs)
            eager = runnable_copy(model_)
            with lowering_for_real():
                original(model_, *args, **kwargs)
            return eager

        return compile_fx

    def make_inner(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_fx_inner(gm: Any, *args: Any, **kwargs: Any) -> Any:
            """Is asked by a program itself, with a graph of ATen operators."""
            is_nested = getattr(_inside, "is_nested", False)
            if is_nested or V.aot_compilation is True or not isinstance(gm, torch.fx.GraphModule):
                return original(gm, *args, **kwargs)
            eager = _boxed(runnable_copy(gm))
            with lowering_for_real():
                original(gm, *args, **kwargs)
            return eager

        return compile_fx_inner

    stack.enter_context(patched(module, "compile_fx", make))
    stack.enter_context(patched(module, "compile_fx_inner", make_inner))


def _boxed(function: Callable[..., Any]) -> Callable[[list[Any]], list[Any]]:
    """Return a function with Inductor's calling convention: it takes a list of inputs and empties
    it.
    """

    def run(inputs: list[Any]) -> list[Any]:
        arguments = list(inputs)
        inputs.clear()
        return list(function(*arguments))

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


_inside = threading.local()


@contextlib.contextmanager
def lowering_for_real() -> Iterator[None]:
    """Make ``compile_fx`` return Inductor's result inside the block. The caller must not run any of
    it.
    """
    before = getattr(_inside, "is_nested", False)
    _inside.is_nested = True
    try:
        yield
    finally:
        _inside.is_nested = before


def runnable_copy(module: torch.fx.GraphModule) -> Callable[..., Any]:
    """Return a function that computes the present result of ``module``, whatever Inductor does to
    it later (it takes ownership).

    Tensors and parameters are shared, so that mutation and gradients reach the user's own; only the
    graph is copied.
    """
    return _runnable_module(module).forward


def _runnable_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a module in which a nested compile region is a plain call: the op itself has no eager
    backward (invoke_subgraph.py, ``backward``).
    """
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    regions = [node for node in copied.graph.nodes if is_region_call(node)]
    for node in regions:
        name = node.args[0].target
        setattr(copied, name, _runnable_module(getattr(module, name)))
        node.target = call_region
    if regions:
        copied.recompile()
    return copied


def call_region(subgraph: Callable[..., Any], identifier: str, *operands: Any) -> Any:
    return subgraph(*operands)


def backward_at_once() -> contextlib.AbstractContextManager[object]:
    """Lower the backward together with the forward, instead of at its first run, where this release
    of torch can do that.
    """
    if not hasattr(functorch_config, _AT_ONCE):
        return contextlib.nullcontext()
    return configured(functorch_config, {_AT_ONCE: True})


def _lower_backward_at_once(stack: contextlib.ExitStack, notes: dict[str, str]) -> None:
    stack.enter_context(backward_at_once())
    if not hasattr(functorch_config, _AT_ONCE):
        notes["backward"] = (
            "this torch release compiles the backward only when it runs; capture with "
            "--build to see it"
        )


def _build_nothing(stack: contextlib.ExitStack, notes: dict[str, str]) -> None:
    from fx_explorer.capture.torch_compat.private_names import (
        AsyncCompile,
        PythonWrapperCodegen,
        codecache,
    )

    for name in BUILDERS:
        _replace_while_lowering(stack, AsyncCompile, name, lambda *_, **__: NotBuilt())
    for name in ("cpp_pybinding", "triton"):
        if not hasattr(AsyncCompile, name):
            notes["building"] = (
                f"torch has no AsyncCompile.{name}, so such kernels are built even while inspecting"
            )
    # The whole module, when the wrapper too is C++.
    _replace_while_lowering(
        stack,
        getattr(codecache, "CppWrapperCodeCache", None),
        "load_pybinding",
        lambda *_, **__: NotBuilt(),
    )
    # With triton.autotune_at_compile_time (set for annotated regions) kernels would run in the
    # middle of code generation.
    timed = "generate_and_run_autotune_block"
    _replace_while_lowering(stack, PythonWrapperCodegen, timed, lambda wrapper: None)
    if not hasattr(PythonWrapperCodegen, timed):
        notes["timing"] = (
            f"torch has no PythonWrapperCodegen.{timed}: kernels of annotated regions may run "
            "during code generation"
        )
    # No pool of compile processes is started.
    stack.enter_context(configured(inductor_config, {"compile_threads": 1}))


def _replace_while_lowering(
    stack: contextlib.ExitStack, owner: Any, name: str, replacement: Callable[..., Any]
) -> None:
    """Replace a method, if the class has it, for code that is never run. Code that a program
    requests from Inductor directly is built.
    """
    if not hasattr(owner, name):
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def build(*args: Any, **kwargs: Any) -> Any:
            is_run = not getattr(_inside, "is_nested", False)
            called = original if is_run else replacement
            return called(*args, **kwargs)

        return build

    stack.enter_context(patched(owner, name, make))


def _need_no_compiler(stack: contextlib.ExitStack, notes: dict[str, str]) -> None:
    """Make Inductor work without a compiler: the vector instructions are read from the CPU's
    features, without the test program that Inductor compiles for each.
    """
    from fx_explorer.capture.torch_compat.private_names import cpp_builder, cpu_vec_isa

    if hasattr(cpu_vec_isa.VecISA, "check_build"):
        stack.enter_context(
            patched(cpu_vec_isa.VecISA, "check_build", lambda original: lambda self, code: True)
        )
        _forget(cpu_vec_isa.valid_vec_isa_list, stack)
        for isa in getattr(cpu_vec_isa, "supported_vec_isa_list", ()):
            for name in ("__bool__", "_VecISA__bool__impl"):
                _forget(getattr(type(isa), name, None), stack)
    else:
        notes["compiler"] = (
            "torch has no VecISA.check_build: it compiles a test program to find out what the CPU "
            "supports"
        )
    if not hasattr(cpp_builder, "get_cpp_compiler"):
        return
    try:
        cpp_builder.get_cpp_compiler()
    except Exception:  # noqa: BLE001 - InvalidCxxCompiler; it has moved between releases
        usual = "clang++" if sys.platform == "darwin" else "g++"
        stack.enter_context(
            patched(cpp_builder, "get_cpp_compiler", lambda original: lambda: usual)
        )
        notes["compiler"] = f"no C++ compiler was found, so the code is written for {usual}"
        for name in ("is_gcc", "is_clang", "is_intel_compiler", "is_apple_clang", "is_msvc_cl"):
            _forget(getattr(cpp_builder, name, None), stack)


def _forget(function: Any, stack: contextlib.ExitStack) -> None:
    """Empty the cache of ``function`` now (an answer from before) and afterwards (our answer)."""
    if hasattr(function, "cache_clear"):
        function.cache_clear()
        stack.callback(function.cache_clear)


def _measure_nothing(stack: contextlib.ExitStack, notes: dict[str, str]) -> None:
    """Keep ``max-autotune`` from timing every candidate kernel on the device: the first candidate
    is taken.
    """
    from fx_explorer.capture.torch_compat.private_names import select_algorithm

    measuring = known_options(
        inductor_config,
        "benchmark_fusion",
        "benchmark_epilogue_fusion",
        "benchmark_template_fusion",
    )
    stack.enter_context(configured(inductor_config, dict.fromkeys(measuring, False)))
    if not hasattr(select_algorithm, "get_algorithm_selector_cache"):
        notes["autotuning"] = (
            "with max-autotune, this torch release times candidates even while inspecting"
        )
        return

    def first_only(choices: list[Any]) -> list[Any]:
        if len(choices) > 1:
            notes["autotuning"] = (
                "candidates were not timed, so the first one is shown; capture with --build to "
                "see the fastest"
            )
        return choices[:1]

    stack.enter_context(watching_selector(candidates=first_only))


_Part = Callable[[contextlib.ExitStack, dict[str, str]], None]

_PARTS: dict[str, _Part] = {
    "backward": _lower_backward_at_once,
    "building": _build_nothing,
    "compiler": _need_no_compiler,
    "autotuning": _measure_nothing,
}
"""Name of a difference between inspecting and a real compile → the function that makes it."""
