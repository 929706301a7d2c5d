"""This module records a program's own calls of torch's compilers, without ``torch.compile``, with
their arguments.

Hooks: ``compile_fx`` and ``_compile_fx_inner`` (torch/_inductor/compile_fx.py), which torch's
minifier, its ``fx_graph_runnable`` files, AOTInductor and own backends call; ``aot_function`` and
``aot_module`` (torch/_functorch/aot_autograd.py); ``make_fx``
(torch/fx/experimental/proxy_tensor.py); what ``torch.compiler.precompile`` lowers with
(torch/_precompile.py); and the end of torch's captures of several graphs
(torch/_dynamo/precompile_package.py). Within a compilation of Dynamo's they change nothing.

While inspecting, what Inductor is given is lowered, and the graph itself runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch

from fx_explorer.capture.aot.partition import add_aot_graph, recording_partition
from fx_explorer.capture.dynamo.ahead_of_time import lowered_by_program
from fx_explorer.capture.inspecting import building
from fx_explorer.capture.recording.compilation_state import Segment
from fx_explorer.capture.recording.given_directly import given_directly, is_given_directly
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Direction, Stage


@contextlib.contextmanager
def inductor_calls_hook(recording: Recording) -> Iterator[None]:
    """Record graphs that the program gives to Inductor."""
    from fx_explorer.capture.torch_compat.private_names import compile_fx

    with (
        patched(compile_fx, "compile_fx", functools.partial(_whole, recording)),
        # The outer one is what a program calls; the other is still asked where it has imported the
        # outer one before the recording began.
        patched(compile_fx, "compile_fx_inner", functools.partial(_inner, recording)),
        patched(compile_fx, "_compile_fx_inner", functools.partial(_inner, recording)),
    ):
        yield


def _whole(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_fx(model_: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_given_directly(recording):
            return original(model_, *args, **kwargs)
        with lowered_by_program(recording, "inductor", _name(model_), model_, "inductor"):
            return original(model_, *args, **kwargs)

    return compile_fx


def _inner(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_fx_inner(gm: Any, *args: Any, **kwargs: Any) -> Any:
        direction = recording.here.direction or _direction(kwargs)
        if recording.here.ahead and not recording.here.direction:
            # AOTAutograd was through with it before: what saves code compiles its graph afterwards.
            with recording.here.compiling(direction):
                return original(gm, *args, **kwargs)
        if not is_given_directly(recording):
            return original(gm, *args, **kwargs)
        with (
            given_directly(recording, "inductor", _name(gm)),
            recording.here.compiling(direction),
        ):
            with recording.noting("the graph that the program gave to Inductor", "forward"):
                add_aot_graph(recording, recording.segment(), gm, direction)
            return original(gm, *args, **kwargs)

    return compile_fx_inner


def _direction(options: dict[str, Any]) -> Direction:
    """Return the direction that Inductor's options give the graph."""
    if options.get("is_backward"):
        return "backward"
    if options.get("is_inference"):
        return "inference"
    return "forward"


def _name(graph: Any) -> str:
    """Return the class name of a graph, which is the name of the module or function it was traced
    from; empty for torch's general names, such as ``GraphModule``.
    """
    name = type(graph).__name__
    if name in ("GraphModule", "Module", "function"):
        return ""
    return name


# AOTAutograd


@contextlib.contextmanager
def aot_calls_hook(recording: Recording) -> Iterator[None]:
    """Record functions and modules that the program gives to AOTAutograd."""
    from fx_explorer.capture.torch_compat.private_names import functorch_aot_autograd

    # Asked for here: a release that lacks it costs this view alone.
    partition = functorch_aot_autograd.default_partition
    modules: list[torch.nn.Module] = []
    aot_function = functools.partial(_aot_function, recording, modules, partition)
    aot_module = functools.partial(_aot_module, modules)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(functorch_aot_autograd, "aot_function", aot_function))
        stack.enter_context(patched(functorch_aot_autograd, "aot_module", aot_module))
        # It has names of its own for them, which it is imported for.
        shown = importlib.import_module("functorch.compile")
        stack.enter_context(
            patched(shown, "aot_function", lambda _: functorch_aot_autograd.aot_function)
        )
        stack.enter_context(
            patched(shown, "aot_module", lambda _: functorch_aot_autograd.aot_module)
        )
        yield


def _aot_module(modules: list[torch.nn.Module], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def aot_module(mod: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        modules.append(mod)
        try:
            return original(mod, *args, **kwargs)
        finally:
            modules.pop()

    return aot_module


def _aot_function(
    recording: Recording,
    modules: list[torch.nn.Module],
    default_partition: Callable[..., Any],
    original: Callable[..., Any],
) -> Callable[..., Any]:
    @functools.wraps(original)
    def aot_function(
        fn: Any, fw_compiler: Any, bw_compiler: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        called = modules[-1] if modules else fn
        given = _AotCall(recording, _function_name(called))
        partition, *others = args or (kwargs.pop("partition_fn", default_partition),)
        kwargs["inference_compiler"] = given.recorded(
            kwargs.get("inference_compiler") or fw_compiler, "inference"
        )
        returned = original(
            fn,
            given.recorded(fw_compiler, "forward"),
            given.recorded(bw_compiler or fw_compiler, "backward"),
            recording_partition(recording, given.segment, partition),
            *others,
            **kwargs,
        )
        return given.opened_by(returned)

    return aot_function


class _AotCall:
    """One function that was passed to AOTAutograd, which compiles it when it is first called."""

    def __init__(self, recording: Recording, function: str) -> None:
        self._recording = recording
        self._function = function
        self._name = ""
        self.segment = Segment()

    def opened_by(self, returned: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that AOTAutograd made, in a wrapper that records the first call as
        the compilation.
        """

        @functools.wraps(returned)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._name or not is_given_directly(self._recording):
                return returned(*args, **kwargs)
            with given_directly(self._recording, "aot", self._function) as name:
                self._name = name
                self._recording.of(name).segment = self.segment
                return returned(*args, **kwargs)

        return call

    def recorded(self, compiler: Callable[..., Any], direction: Direction) -> Callable[..., Any]:
        """Return a compiler of the program's that records the graph it is given."""

        @functools.wraps(compiler, updated=())
        def compile_graph(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            recording = self._recording
            stage: Stage = "backward" if direction == "backward" else "forward"
            with recording.within(self._name), recording.here.compiling(direction):
                with recording.noting(f"the {direction} graph", stage):
                    add_aot_graph(recording, self.segment, module, direction)
                return compiler(module, *args, **kwargs)

        return compile_graph


def _function_name(function: Any) -> str:
    if isinstance(function, torch.nn.Module):
        return f"{type(function).__name__}.forward"
    return str(getattr(function, "__qualname__", type(function).__name__))


# make_fx


def make_fx_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the graphs that the program traces with ``make_fx``. torch's own uses of it are
    ignored.
    """
    from torch.fx.experimental import proxy_tensor

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def make_fx(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
            traced = original(f, *args, **kwargs)
            is_programs = recording.sources.is_users(sys._getframe(1).f_code.co_filename)
            if not is_programs:
                return traced
            return _recorded_trace(recording, f, traced)

        return make_fx

    return patched(proxy_tensor, "make_fx", make)


# torch.compiler.precompile


def precompile_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the compilations of ``torch.compiler.precompile.capture``, and the code that it saves
    (torch 2.15: ``PrecompiledModule``, torch/_precompile.py). Code to be saved has to be built,
    even while inspecting.
    """
    if importlib.util.find_spec("torch._precompile") is None:
        return contextlib.nullcontext()
    module = importlib.import_module("torch._precompile")

    def make(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def _compile(self: Any, *args: Any, **kwargs: Any) -> None:
            if not is_given_directly(recording):
                return original(self, *args, **kwargs)
            with given_directly(recording, "precompile", _function_name(self._fn)) as name:
                recording.ahead_of_time.built_to_save.add(name)
                with building():
                    original(self, *args, **kwargs)
                with recording.noting("what torch.compiler.precompile saves", "output_code"):
                    _add_precompiled(recording, self)
            return None

        return _compile

    return patched(module.PrecompiledModule, "_compile", make)


def _add_precompiled(recording: Recording, precompiled: Any) -> None:
    if not recording.segment().aot and isinstance(precompiled._gm, torch.fx.GraphModule):
        add_aot_graph(recording, recording.segment(), precompiled._gm, "inference")
    if precompiled._graph_python:
        recording.add_artifact(
            "listing",
            "output_code",
            precompiled._graph_python,
            title="code that torch.compiler.precompile saves",
            language="python",
        )


MOST_IN_SUMMARY = 1_000
"""Maximum number of entries of each list in a summary that are stored."""


def capture_session_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record torch's own summary of a capture of several graphs when the capture ends: the captured
    functions, and the guards that its code lacks (torch 2.15: ``PrecompileSession``,
    torch/_dynamo/precompile_package.py, which ``torch.compiler.precompile`` does not use yet).
    """
    if importlib.util.find_spec("torch._dynamo.precompile_package") is None:
        return contextlib.nullcontext()
    module = importlib.import_module("torch._dynamo.precompile_package")

    def make(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __exit__(self: Any, *exc: object) -> None:
            original(self, *exc)
            with recording.noting("torch's summary of a capture", "dynamo"):
                summary = {"function": _function_name(self._fn), **asdict(self.summary())}
                recording.ahead_of_time.summaries.append(_shortened(summary))

        return __exit__

    return patched(module.PrecompileSession, "__exit__", make)


def _shortened(summary: dict[str, Any]) -> dict[str, object]:
    """Return the summary with shortened lists, and with the numbers of guards that the saved code
    checks (``kept``) and does not check (``unchecked``). torch's text of the checks is dropped.
    """
    unchecked = len(summary["dropped_guards"]) + len(summary["policy_dropped_guards"])
    kept: dict[str, object] = {"kept": len(summary.pop("kept_guards")), "unchecked": unchecked}
    summary.pop("dropped_guard_code", None)
    for name, value in summary.items():
        if isinstance(value, tuple):
            kept[name] = list(value[:MOST_IN_SUMMARY])
        else:
            kept[name] = value
    return kept


def _recorded_trace(
    recording: Recording, function: Callable[..., Any], trace: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(trace)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if not is_given_directly(recording):
            return trace(*args, **kwargs)
        with given_directly(recording, "make_fx", _function_name(function)):
            graph = trace(*args, **kwargs)
            with recording.noting("the graph of make_fx", "forward"):
                add_aot_graph(recording, recording.segment(), graph, "inference")
            return graph

    return traced
