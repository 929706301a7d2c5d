"""This module saves and loads with torch's AOT compile (torch/_dynamo/aot_compile.py), as
``save_compiled_function`` does.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx.passes.regional_inductor import regional_inductor

from fx_explorer.capture.dynamo import ahead_of_time
from fx_explorer.capture.inspecting import building
from fx_explorer.capture.recording.state import aside, recordings
from fx_explorer.capture.torch_compat.private_names import (
    functorch_config,
    get_traced_fn,
    inductor_config,
)
from fx_explorer.capture.torch_compat.unseen_work import (
    caches_as_before,
    ignoring_older_cache_entries,
)
from fx_explorer.capture.torch_compat.versions import (
    MissingInTorch,
    dataclass_of,
    device_type_of,
    guards_of_file,
    name_of,
    require,
    runtime_env,
)
from fx_explorer.precompile import phases
from fx_explorer.precompile.compiled_function import CompiledFunction, as_arguments, bound
from fx_explorer.precompile.errors import GuardError, PrecompileError, SaveError
from fx_explorer.precompile.phases import captured_or_broken
from fx_explorer.precompile.states import States, without_inference_tensors

_AOT_COMPILE = "torch._dynamo.aot_compile"

_SERIALISABLE = {
    "strict_autograd_cache": True,
    "bypass_autograd_cache_key": True,
    "bundled_autograd_cache": True,
    "force_non_lazy_backward_lowering": True,
    "force_autograd_cache": True,
}
"""Options of torch._functorch.config, as torch sets them (``aot_compile_fullgraph``)."""


def save(compiled_fn: CompiledFunction, path: Path) -> Path:
    """Save a compiled function. Raises SaveError, with the reason and a remedy, where torch cannot
    serialise it.
    """
    compiler = compiled_fn.compiler
    if compiler is not None and compiler is not regional_inductor:
        name = phases.name_of(compiler)
        raise SaveError(
            f"torch cannot save the result of the compiler {name}: it serializes results of "
            "Inductor and regional_inductor. Compile with one of these, or compile again in each "
            "process."
        )
    if any(recording.request.gpu for recording in recordings()):
        raise SaveError(
            "saving needs built kernels, and for a virtual GPU none are built: save on a machine "
            "that has the GPU"
        )
    if inductor_config.force_disable_caches:
        raise SaveError(
            "torch saves from Inductor's caches, but force_disable_caches is on: turn it off"
        )
    try:
        guards = GuardsOfFile()
        with _not_recorded():
            _artifacts(compiled_fn, guards).save_compiled_function(str(path))
        ahead_of_time.note_saved(compiled_fn.recorded, guards.count, guards.dropped)
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error}") from error
    except MissingInTorch as error:
        raise SaveError(f"this torch cannot save a compiled function: {error}") from error
    # It says already what is wrong, and what to do.
    except SaveError:
        raise
    except Exception as error:
        raise SaveError(
            f"torch cannot serialize {compiled_fn!r}: {type(error).__name__}: {error}"
        ) from error
    return path


@contextlib.contextmanager
def _not_recorded() -> Iterator[None]:
    """Switch the recording of torch's lowering, building and caching off inside the block: the file
    needs built kernels, which come from its caches.
    """
    with aside(), building(), caches_as_before():
        yield


def _artifacts(compiled_fn: CompiledFunction, guards: GuardsOfFile) -> Any:
    """Build the function that torch's AOT compile would make: the graph lowered again, the guards
    that can be saved, and everything its bytecode needs.
    """
    from fx_explorer.capture.torch_compat.private_names import Hooks

    captured, aot = compiled_fn.captured, "torch._dynamo.aot_compile_types"
    captured.states.restore()
    source, traced = captured.output.backend_input, captured.output.graph_capture_output
    function = get_traced_fn(captured.model)[0]
    with captured.compiling("backend_compile"), functorch_config.patch(_SERIALISABLE):
        # An entry of AOTAutograd's cache may be older than the classes that it names, so none is
        # used; built kernels are.
        with ignoring_older_cache_entries():
            compiled = _lowered(compiled_fn)
        if getattr(compiled, "serialize", None) is None:
            raise SaveError(
                "AOTAutograd did not keep the data for saving, because the graph cannot be cached"
            )
        compiled = require(aot, "BundledAOTAutogradSerializableCallable")(compiled)
        hooks = Hooks(guard_filter_fn=guards)
        with _without_gradients(captured.owner):
            checks = traced.build_guards(
                function.__code__, hooks=hooks, save=True, strict_error=True
            )
    sources = require("torch._dynamo.package", "SourceInfo")(inlined_sources=set())
    for code in traced.traced_code:
        sources.add_code(code)
    artifacts = dataclass_of(
        _AOT_COMPILE,
        "CompileArtifacts",
        signature=inspect.signature(function, follow_wrapped=False),
        guard_manager=checks.guard_manager,
        guards_state=checks.guards_state,
        backend_id=source.backend_id,
        compiled_fn=compiled,
        original_code=function.__code__,
        runtime_env=_runtime_env(traced, source.backend_id),
        source_info=sources,
        device_type=device_type_of(source.graph_module.graph),
        backend_name=phases.name_of(compiled_fn.compiler),
    )
    return require(_AOT_COMPILE, "AOTCompiledFunction")(
        artifacts, _extra_globals=function.__globals__
    )


def _runtime_env(traced: Any, backend_id: str) -> Any:
    """Return the environment of the bytecode at run time, with the globals that Dynamo added to the
    module: another process lacks them.
    """
    env = runtime_env(traced)
    named_by_user: set[str] = set()
    for code in traced.traced_code:
        named_by_user.update(code.co_names)
    for name in env.external_refs - named_by_user - env.import_sources.keys() - {backend_id}:
        if name in traced.f_globals:
            env.used_globals.setdefault(name, traced.f_globals[name])
    return env


@contextlib.contextmanager
def _without_gradients(owner: object | None) -> Iterator[None]:
    """Take away the gradients of all parameters inside the block: torch 2.13 cannot read back the
    guards that it writes for a parameter with a gradient.
    """
    if isinstance(owner, torch.nn.Module):
        parameters = list(owner.parameters())
    else:
        parameters = []
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient


def _lowered(compiled_fn: CompiledFunction) -> Any:
    captured, compiler = compiled_fn.captured, compiled_fn.compiler
    graph = phases.copied(compiled_fn.graph)
    if compiler is None:
        return phases.lower(None, graph, captured.inputs)
    made = require("torch._functorch._aot_autograd.schemas", "SerializableAOTDispatchCompiler")
    result = require("torch._inductor.output_code", "RegionalOutputCode")
    watched = phases.CheckedCompiler(compiler)
    return phases.aot_backend(made(result, watched), made(result, watched))(graph, captured.inputs)


class GuardsOfFile:
    """GuardsOfFile is a guard filter that keeps the guards a file can have: all except those on
    globals and on the identity of objects, which mean nothing in another process.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many guards the function has."""
        self.dropped: list[tuple[str, str]] = []
        """(kind, source) of the guards that are missing in the file."""

    def __call__(self, entries: Sequence[Any]) -> Sequence[bool]:
        manager = require("torch._dynamo.guards", "CheckFunctionManager")
        unsaved = manager.UNSUPPORTED_SERIALIZATION_GUARD_TYPES
        kept = [not (entry.is_global or entry.guard_type in unsaved) for entry in entries]
        self.count = len(kept)
        self.dropped = []
        for entry, is_kept in zip(entries, kept, strict=True):
            if not is_kept:
                self.dropped.append((entry.guard_type, name_of(entry.orig_guard)))
        return kept


def load(path: Path, model: Callable[..., Any] | None) -> Callable[..., Any]:
    """Load a compiled function. ``model`` provides the globals that it uses, and may be None where
    it uses none. Raises SaveError where the file cannot be read.
    """
    if model is None:
        function = None
    else:
        function = get_traced_fn(model)[0]
    try:
        read = require(_AOT_COMPILE, "AOTCompiledFunction").deserialize
        loaded = read(path.read_bytes(), getattr(function, "__globals__", None))
    except OSError as error:
        raise SaveError(f"{path} cannot be read: {error}") from error
    except MissingInTorch as error:
        raise SaveError(f"this torch cannot load a compiled function: {error}") from error
    except Exception as error:
        hint = (
            "Was it written by Precompile.save, with this torch and this machine? A function that "
            "uses globals needs model=."
        )
        raise SaveError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}. {hint}"
        ) from error
    first = next(iter(loaded._artifacts.signature.parameters), "")
    if first == "self" and model is None:
        raise SaveError(
            f"{path} is compiled from a module, and its weights are not in the file: "
            "Precompile.load(path, model)"
        )
    return _Loaded(loaded, model)


class _Loaded:
    """Called like the ``compiled_fn`` it was saved from; keyword inputs must be given again."""

    def __init__(self, function: Any, model: Callable[..., Any] | None) -> None:
        self._function = function
        self._model = model
        if model is None:
            self._owner = None
        else:
            self._owner = get_traced_fn(model)[1]
        self._manager, state = guards_of_file(function)
        self._states = States(state)
        artifacts = function._artifacts
        self._run = bound(
            artifacts.runtime_env,
            artifacts.backend_id,
            artifacts.compiled_fn,
            function._extra_globals,
        )

    def __call__(
        self, example_inputs: Sequence[object] | torch.Tensor = (), /, **kwargs: object
    ) -> Any:
        inputs = as_arguments(example_inputs)
        args = inputs if self._owner is None else (self._owner, *inputs)
        try:
            names = self._function.prepare_f_locals(*args, **kwargs)
        except TypeError as error:
            hint = (
                "the inputs must be passed without keywords, and the model as an argument of "
                "Precompile.load"
            )
            raise PrecompileError(
                f"the function cannot be called with these inputs: {error} ({hint})"
            ) from None
        mismatch = self._states.mismatch(
            self._manager, names, lambda: self._traced(inputs, kwargs), (inputs, kwargs)
        )
        if mismatch:
            raise GuardError(str(mismatch))
        return self._run(*args, **kwargs)

    def _traced(self, inputs: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        if self._model is None:
            raise PrecompileError("the file has no function to trace: Precompile.load(path, model)")
        with aside():
            return captured_or_broken(
                self._model, *without_inference_tensors((inputs, kwargs)), dynamic=None
            )
