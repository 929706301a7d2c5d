"""This module turns the hooks of each stage on and off, so that everything torch.compile does in
one run is recorded. ``fx_explorer.record`` runs it in the user's own process: a notebook, a
training script, one rank under torchrun.

What it observes it does not change: generated code is the same with and without it. By default the
capture *inspects* (see inspecting.py): every artefact is produced, nothing is built.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from fx_explorer import __version__
from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.option_catalogue import add_catalogue, in_force, options_of_console
from fx_explorer.capture.recording.boundary import StraightThrough
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.state import Notify, Recording, registered
from fx_explorer.capture.stepping.gates import Gates
from fx_explorer.capture.torch_compat.installed import is_installed, version_of
from fx_explorer.capture.torch_compat.private_names import (
    NoOptions,
    dynamo_config,
    dynamo_utils,
    functorch_config,
    inductor_config,
)
from fx_explorer.capture.torch_compat.versions import marks_one_size
from fx_explorer.errors import SessionWriteError
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionWriter

HOOKS: dict[str, tuple[str, str]] = {
    "keeping Dynamo out of fx-explorer": ("recording.noting", "our_files_skipped"),
    "times, breaks and recompiles": ("trace", "trace_records"),
    "the time of each line in Dynamo": ("line_times", "dynamo_line_hook"),
    "the time of each line in AOTAutograd": ("line_times", "traced_node_hook"),
    "what AOTAutograd left out": ("aot.left_out", "left_out_hooks"),
    "the time of each line in Inductor's lowering": ("line_times", "lowered_node_hook"),
    "graphs after Inductor's passes": ("inductor.inductor_hooks", "pass_hooks"),
    "what each pass changes": ("inductor.pass_changes", "pass_change_hook"),
    "what passes without a name change": ("inductor.plain_passes", "plain_pass_hook"),
    "patterns that did not match": ("inductor.near_matches", "near_match_hook"),
    "the joint graph after Inductor's passes": ("inductor.inductor_hooks", "joint_pass_hook"),
    "Inductor's IR": ("inductor.inductor_hooks", "fusion_hook"),
    "why kernels are not fused": ("inductor.fusion_decisions", "fusion_decision_hook"),
    "why operations are library calls": ("inductor.lowering_decisions", "library_call_hook"),
    "why values are copied or laid out so": ("inductor.layout_decisions", "layout_hook"),
    "why reductions are split": ("inductor.gpu_loop_decisions", "reduction_hook"),
    "why C++ loops are vectorized and parallel": ("inductor.cpp_loop_decisions", "cpp_loop_hook"),
    "kernels": ("inductor.inductor_hooks", "kernel_hooks"),
    "how many kernels are built": ("inductor.kernel_builds", "build_hook"),
    "AOTAutograd's graphs": ("aot.partition", "aot_hooks"),
    "graphs that the program gives to Inductor": ("aot.direct_calls", "inductor_calls_hook"),
    "functions that the program gives to AOTAutograd": ("aot.direct_calls", "aot_calls_hook"),
    "what the program traces with make_fx": ("aot.direct_calls", "make_fx_hook"),
    "what the program gives to torch.compiler.precompile": ("aot.direct_calls", "precompile_hook"),
    "torch's summaries of captures": ("aot.direct_calls", "capture_session_hook"),
    "why values are saved or recomputed": ("aot.partition_choices", "cut_hook"),
    "aliases and changes of values": ("aot.value_facts", "value_fact_hook"),
    "graphs of nested compile regions": ("aot.partition", "nested_region_hooks"),
    "Dynamo's graphs": ("dynamo.graph", "graph_hook"),
    "buckets of DistributedDataParallel": ("dynamo.graph", "bucket_hook"),
    "what backends ask torch's partitioner": ("backends.asking", "partitioner_hook"),
    "functions captured before any call": ("dynamo.ahead_of_time", "capture_hook"),
    "guards of functions captured before any call": ("dynamo.ahead_of_time", "guards_hook"),
    "functions compiled to be saved": ("dynamo.ahead_of_time", "file_hook"),
    "bytecode": ("dynamo.bytecode_listing", "bytecode_hook"),
    "names of resume functions": ("dynamo.bytecode_listing", "resume_name_hook"),
    "the names of arguments": ("dynamo.argument_names", "argument_hook"),
    "guards": ("dynamo.guard_rows", "guard_hook"),
    "what changed before a recompile": ("dynamo.failed_guards", "recompile_hook"),
    "where graph breaks are in their lines": ("dynamo.break_hooks", "extent_hook"),
    "the code that Dynamo writes after a graph": ("dynamo.replayed_effects", "side_effect_hook"),
    "Dynamo's trace, line by line": ("dynamo.symbolic_trace", "symbolic_trace_hook"),
    "how often nested compile regions are reused": ("dynamo.region_uses", "region_use_hook"),
    "resume functions": ("dynamo.resume_functions", "resume_hook"),
    "the line from which a function is not compiled": ("dynamo.break_hooks", "skipped_rest_hook"),
    "tensors at graph breaks": ("dynamo.break_hooks", "local_tensor_hook"),
    "how long the program holds the tensors that graphs return": (
        "dynamo.returned_storages",
        "returned_storage_hook",
    ),
    "functions whose compilation was abandoned": ("dynamo.fallbacks", "given_up_hook"),
    "functions that Dynamo does not trace": ("dynamo.fallbacks", "skip_hook"),
    "regions": ("aot.regional", "regional_backend"),
    "the arguments of torch.compile": ("options_in_force", "compile_call_hook"),
    "modules that run in eager mode": ("eager_calls", "eager_call_hook"),
    "checkpoints of compiled functions": ("checkpoint_calls", "checkpoint_hook"),
    "the stance": ("options_in_force", "stance_hook"),
    "the options in force": ("options_in_force", "config_hook"),
    "whether graphs run as CUDA graphs": ("inductor.cuda_graphs", "cuda_graph_hook"),
    "how kernels are launched": ("inductor.kernel_launches", "launch_hook"),
    "what backends publish": ("backends.listening", "publish_hook"),
    "how often compiled entries are called": ("backends.entries", "entry_hook"),
    "what the autotuner chose from": ("inductor.autotuner_choices", "choices_hook"),
}
"""The view of each hook → (module of this package, function that makes the context manager)."""

ASKED_EVERYWHERE: dict[str, tuple[str, str]] = {
    "torch's own counts": ("torch._dynamo.utils", "counters"),
    "full names of functions in graphs": ("torch.fx.node", "_get_qualified_name"),
    "which compilation torch is in": ("torch._guards", "CompileContext"),
    "tensors inside objects of the program's classes": (
        "torch.utils._python_dispatch",
        "is_traceable_wrapper_subclass",
    ),
}
"""Facts that are read in many places, without a hook → their place in torch. If torch lacks it, a
simpler fact is used.
"""

STEPPING = "stepping through the stages"

CACHES_OFF = ("torch_compat.unseen_work", "caches_off")

UNSEEN_WORK: dict[str, tuple[str, str]] = {
    "compiling with fewer garbage collections": ("torch_compat.unseen_work", "collected_rarely"),
    "compiling with a larger stack": ("torch_compat.unseen_work", "room_on_the_stack"),
    "skipping function names for logs that are off": (
        "torch_compat.unseen_work",
        "no_function_names_for_logs",
    ),
    "skipping printed graphs that nobody reads": (
        "torch_compat.unseen_work",
        "no_printed_graphs",
    ),
}
"""Work of torch's that a capture does not need → the hook that leaves it out, as in ``HOOKS``.
Without a hook a capture takes longer and shows the same.
"""


@contextlib.contextmanager
def recording(
    writer: SessionWriter, request: CaptureRequest, notify: Notify, gates: Gates | None = None
) -> Iterator[Recording]:
    """Record every compilation in the block into ``writer``'s session. With ``gates`` the user can
    step: see stepper.py.

    torch's compile caches are off meanwhile, unless ``request.use_caches``: a cached graph is never
    lowered, so there would be nothing to see of it.
    """
    state = begin(writer, request, notify, gates)
    with observing(state):
        with state.noting("the settings in force"):
            state.add_artifact(
                "config", "dynamo", changed_settings(), title="settings in force", language="json"
            )
        yield state


def begin(
    writer: SessionWriter, request: CaptureRequest, notify: Notify, gates: Gates | None = None
) -> Recording:
    """Return a recording that does not observe anything yet."""
    state = Recording(writer, request, notify)
    if gates:
        _let_step(state, gates)
    return state


def _let_step(state: Recording, gates: Gates) -> None:
    """Allow the user to step through the stages. If this torch release lacks a part for that, the
    capture does not pause, and the session says why.
    """
    try:
        from fx_explorer.capture.stepping.stepped_boundary import SteppedBoundary
        from fx_explorer.capture.stepping.stepper import Stepper
    except ImportError as error:
        state.unavailable(STEPPING, _missing(error))
        return
    # Graphs are deferred where that makes no difference to the program: it runs eagerly while
    # inspecting.
    defers = state.request.pause == "dynamo" and not state.request.build
    state.boundary = SteppedBoundary(Stepper(state, gates, defers=defers))


def has_steps(state: Recording) -> bool:
    """Return whether the user may step through the stages of this capture."""
    return not isinstance(state.boundary, StraightThrough)


@contextlib.contextmanager
def observing(state: Recording) -> Iterator[None]:
    """Record torch's activity inside the block into ``state``. The block may be entered again, for
    later compiles.
    """
    writer, request = state.writer, state.request
    writer.set_meta("environment", environment(request, state.unavailable))
    for view, (module, name) in ASKED_EVERYWHERE.items():
        if not hasattr(importlib.import_module(module), name):
            state.unavailable(view, f"torch {torch.__version__} has no {module}.{name}")
    for config in (dynamo_config, functorch_config, inductor_config):
        if isinstance(config, NoOptions):
            view = f"the options in {config.__name__}"
            state.unavailable(view, f"torch {torch.__version__} has no {config.__name__}")
    before = _counters()
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: _add_counts(state, before))
        stack.callback(
            lambda: writer.set_meta("environment", environment(request, state.unavailable))
        )
        if not request.use_caches:
            _install(stack, state, "graphs that are in a compile cache", CACHES_OFF)
            # Not with caches: what is left out would be missing from their entries.
            for work, hook in UNSEEN_WORK.items():
                _install(stack, state, work, hook)
        if not request.build:
            stack.enter_context(_noted_inspecting(state))
        if has_steps(state):
            _install(stack, state, STEPPING, ("stepping.stepped_boundary", "stepping_hook"))
        for view, hook in HOOKS.items():
            _install(stack, state, view, hook)
        stack.enter_context(registered(state))
        yield


@contextlib.contextmanager
def _noted_inspecting(state: Recording) -> Iterator[None]:
    """Inspect, and record what a build would have shown in addition; some of it is known only at
    the end.
    """
    with inspecting() as notes:
        yield
    for what, reason in notes.items():
        state.unavailable(what, reason)


def _install(
    stack: contextlib.ExitStack, state: Recording, view: str, hook: tuple[str, str]
) -> None:
    """Turn a hook on. If this torch release lacks the hooked function, the view stays empty and the
    session says why. Errors of the hook itself never reach the program.
    """
    module, name = hook
    try:
        stack.enter_context(
            getattr(importlib.import_module(f"fx_explorer.capture.{module}"), name)(state)
        )
    except Exception as error:  # noqa: BLE001 - an unknown release may fail in any way; it is shown
        state.unavailable(view, _missing(error))


def _missing(error: Exception) -> str:
    """Return a sentence on what this release of torch lacks, from the exception."""
    if isinstance(error, (ImportError, AttributeError)):
        message = one_line(str(error))
    else:
        message = one_line(f"{type(error).__name__}: {error}")
    return f"torch {torch.__version__} lacks what this is read from ({message})"


def compile_arguments(request: CaptureRequest) -> dict[str, Any]:
    """Return the keyword arguments for ``torch.compile``."""
    arguments: dict[str, Any] = {"backend": request.backend, "dynamic": request.dynamic}
    if request.mode:
        arguments["mode"] = request.mode
    if request.options:
        arguments["options"] = dict(request.options)
    return arguments


def _counters() -> dict[str, dict[str, int]]:
    """Return torch's present counts; empty in a release that counts elsewhere."""
    counters = getattr(dynamo_utils, "counters", {})
    return {group: dict(counts) for group, counts in counters.items()}


def _add_counts(state: Recording, before: dict[str, dict[str, int]]) -> None:
    """Add torch's counts since ``before`` (torch/_dynamo/utils.py, ``counters``)."""
    for group, counts in _counters().items():
        if counts:
            state.counters.setdefault(group, Counter()).update(
                Counter(counts) - Counter(before.get(group, {}))
            )
    state.writer.set_meta("counters", state.counters)
    state.writer.set_meta("built_to_save", sorted(state.ahead_of_time.built_to_save))
    if state.ahead_of_time.summaries:
        state.writer.set_meta("capture_summaries", state.ahead_of_time.summaries)


# What ran.


Unavailable = Callable[[str, str], object]
"""Called with the name of something that cannot be shown, and the reason."""


def environment(request: CaptureRequest, unavailable: Unavailable) -> dict[str, object]:
    """Return the value for ``meta["environment"]``; the GPU is known once the program has used it.
    A fact that cannot be determined is None, and ``unavailable`` is called with its name and the
    reason: describing the machine never ends a capture.
    """
    # Asking earlier would initialise CUDA in the user's process, which must not happen before the
    # program itself does it.
    cuda = torch.cuda.is_initialized() and not request.gpu
    questions: dict[str, Callable[[], object]] = {
        "torch": lambda: torch.__version__,
        "python": platform.python_version,
        "executable": lambda: sys.executable,
        "platform": platform.platform,
        "device": lambda: "cuda" if request.gpu else request.device or "cpu",
        "virtual_gpu": lambda: request.gpu.title if request.gpu else None,
        "gpu": lambda: torch.cuda.get_device_name() if cuda else None,
        "gpu_properties": lambda: _gpu_properties() if cuda else None,
        "cuda": lambda: torch.version.cuda,
        "cxx": lambda: shutil.which("g++") or shutil.which("clang++"),
        "triton": lambda: version_of("triton") if is_installed("triton") else None,
        "marks_one_size": marks_one_size,
        "threads": torch.get_num_threads,
    }
    return {name: _answer(name, question, unavailable) for name, question in questions.items()}


def _answer(name: str, question: Callable[[], object], unavailable: Unavailable) -> object:
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - whatever an installation lacks; it is reported
        unavailable(f"{name} in the environment", f"{type(error).__name__}: {error}")
        return None


GPU_PROPERTIES = (
    "major",
    "minor",
    "multi_processor_count",
    "warp_size",
    "regs_per_multiprocessor",
    "shared_memory_per_block",
    "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor",
    "max_threads_per_multi_processor",
    "max_threads_per_block",
    "L2_cache_size",
    "total_memory",
    "clock_rate",
    "memory_clock_rate",
    "memory_bus_width",
    "gcnArchName",
)
"""Attributes of ``torch.cuda.get_device_properties()`` that are recorded; rates are in kHz. No
release has all of them.
"""


def _gpu_properties() -> dict[str, object]:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {name: getattr(properties, name) for name in GPU_PROPERTIES if hasattr(properties, name)}


def changed_settings() -> str:
    """Return, as JSON, every entry of torch's compiler configs that is not at its default."""
    modules = {
        "torch._dynamo.config": dynamo_config,
        "torch._functorch.config": functorch_config,
        "torch._inductor.config": inductor_config,
    }
    return json.dumps(
        {name: _changed(module) for name, module in modules.items()}, indent=2, default=str
    )


def _changed(module: Any) -> dict[str, Any]:
    """Return the entries of a config module (torch/utils/_config_module.py) whose value differs
    from the declared default.
    """
    names = [name for name in sorted(module._config) if not module._is_default(name)]
    return {name: getattr(module, name) for name in names}


@contextlib.contextmanager
def record(
    path: str | Path, *, build: bool = True, use_caches: bool = False, record_trace: bool = False
) -> Iterator[Path]:
    """Record the block into the session file ``path``: what ``fx_explorer.record`` documents."""
    path = Path(path)
    program = Path(getattr(sys.modules["__main__"], "__file__", None) or "interactive")
    request = CaptureRequest(
        str(program), str(path), build=build, use_caches=use_caches, record_trace=record_trace
    )
    started = time.monotonic()
    writer = new_session(path, request)
    try:
        writer.set_meta(
            "target",
            {
                "name": program.name,
                "kind": "script",
                "file": str(program),
                "object": "",
                "train": False,
            },
        )
        outcome, before = Outcome("finished"), in_force()
        try:
            with recording(writer, request, lambda notice: None) as state:
                with state.noting("the options of the compiler"):
                    add_catalogue(writer, before, with_help=options_of_console(request))
                yield path
        except BaseException as error:
            outcome = Outcome("raised", f"{type(error).__name__}: {error}", 1)
            raise
        finally:
            writer.set_meta("outcome", outcome.to_json())
            writer.set_meta("finished", round(time.monotonic() - started, 3))
    finally:
        writer.finish()


def new_session(path: Path, request: CaptureRequest) -> SessionWriter:
    """Return a new session with its request and time. Raises FileExistsError when the file exists,
    and SessionWriteError.
    """
    try:
        os.close(
            os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        )  # follows no link, not even a dangling one
    except FileExistsError:
        raise FileExistsError(
            f"{path} already exists; record into a new file, or remove it first"
        ) from None
    except OSError as error:
        raise SessionWriteError(
            f"cannot create the session file {path}: {error.strerror}"
        ) from error
    writer = SessionWriter(path, beside_program=True)
    writer.set_meta("fx_explorer", __version__)
    writer.set_meta("request", asdict(request))
    writer.set_meta("started", datetime.now(timezone.utc).isoformat(timespec="seconds"))
    writer.set_meta("build", request.build)
    return writer
