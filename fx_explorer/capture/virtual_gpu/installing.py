"""This module installs a virtual GPU step by step. ``before_torch`` and ``install`` are in force
until the process ends.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fx_explorer.capture.torch_compat.installed import is_installed, version_of
from fx_explorer.capture.virtual_gpu import shim
from fx_explorer.capture.virtual_gpu.cache_directories import hide_real_gpu
from fx_explorer.errors import WorkerError
from fx_explorer.model import Gpu

if TYPE_CHECKING:
    from fx_explorer.capture.virtual_gpu.device_queries import Emulation


def before_torch(gpu: Gpu) -> None:
    """Prepare everything that must exist when torch is imported. Raises WorkerError."""
    need_triton()
    hide_real_gpu(gpu)
    shim.load()


def need_triton() -> None:
    """Raise WorkerError if Triton is not installed."""
    if not is_installed("triton"):
        raise WorkerError(
            f"the virtual GPU needs triton, which {sys.executable} does not have. Install it there "
            f"({sys.executable} -m pip install triton; there are wheels for Linux only), or choose "
            "another interpreter with --python."
        )


def install(gpu: Gpu) -> Emulation:
    """Install the GPU, after torch and before its compiler is imported. Raises WorkerError where
    this torch or triton lacks something.
    """
    from fx_explorer.capture.virtual_gpu.device_queries import Emulation

    emulation, doing = Emulation(gpu), ""
    try:
        for what, step in steps(emulation):
            doing = what
            step()
    except Exception as error:
        other = f". {other_triton()}".rstrip(". ")
        raise WorkerError(
            f"the virtual GPU cannot be set up with {versions()}: {doing} failed ({error}){other}"
        ) from error
    return emulation


def steps(emulation: Emulation) -> list[tuple[str, Callable[[], object]]]:
    """Return the steps in order, each as (description of what it patches, function that
    does it).
    """
    from fx_explorer.capture.virtual_gpu import (
        device_queries,
        fake_cuda_tensors,
        moved_graphs,
        on_the_cpu,
        operators,
        torch_cuda,
    )
    from fx_explorer.capture.virtual_gpu.triton_driver import use_driver

    gpu = emulation.gpu
    return [
        ("C++ device guard", shim.use_guard),
        ("Triton's driver", lambda: use_driver(gpu)),
        ("answers of torch.cuda", lambda: torch_cuda.answer(emulation)),
        ("streams and events", lambda: torch_cuda.add_streams(emulation)),
        ("fake tensors without a device", leave_device_alone),
        ("operators of a CUDA build", lambda: quietly(lambda: operators.add_operators(gpu))),
        (
            "tensors on cuda",
            lambda: quietly(lambda: fake_cuda_tensors.allow_cuda_tensors(emulation)),
        ),
        ("constant folding", on_the_cpu.fold_on_cpu),
        ("options of Inductor", set_options),
        ("convolutions of the CPU", lambda: on_the_cpu.ask_no_library(emulation)),
        ("CUDA graphs", record_no_cuda_graphs),
        ("graphs that are moved", lambda: moved_graphs.move_graphs(emulation)),
        ("choices that are not timed", lambda: on_the_cpu.note_choices(emulation)),
        ("questions about the device", lambda: device_queries.listen_to_dynamo(emulation)),
        ("answers inside compiled functions", torch_cuda.keep_dynamo_rules),
    ]


def leave_device_alone() -> None:
    """Keep FakeTensorMode from initialising a device that it believes to exist
    (torch/_subclasses/fake_tensor.py).
    """
    from fx_explorer.capture.torch_compat.versions import require

    mode = require("torch._subclasses.fake_tensor", "FakeTensorMode")
    assert hasattr(mode, "avoid_device_init"), "FakeTensorMode.avoid_device_init"
    mode.avoid_device_init = property(lambda self: True)
    # Only to fail where a release has none: to set it would do nothing there, and say so to nobody.
    require("torch._subclasses.fake_tensor", "init_gpu_context")
    fake_tensor = sys.modules["torch._subclasses.fake_tensor"]
    fake_tensor.init_gpu_context = lambda *args, **kwargs: None  # type: ignore[attr-defined]


def set_options() -> None:
    """Set options of Inductor: compile processes would lack these hooks, and padding of a matmul is
    decided by a benchmark on the device.
    """
    from fx_explorer.capture.torch_compat.private_names import inductor_config

    inductor_config.compile_threads = 1
    inductor_config.shape_padding = False


def record_no_cuda_graphs() -> None:
    """Keep torch from recording CUDA graphs.

    ``mode="reduce-overhead"`` wraps what is compiled after its code is generated; CUDA graphs would
    be recorded only when it runs. Reasons against recording that torch knows by then are reported
    as torch reports them.
    """
    from fx_explorer.capture.torch_compat.private_names import output_code

    def record_reasons(example_inputs: object, compiled_graph: Any, *rest: object) -> None:
        info = compiled_graph.cudagraph_info
        if reasons := getattr(info, "cudagraph_fail_reasons", ()):
            known = compiled_graph.disabled_cudagraphs_reason
            output_code.log_cudagraph_skip_and_bump_counter(
                known or f"skipping cudagraphs due to {reasons}"
            )

    for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile"):
        if hasattr(output_code, name):
            setattr(output_code, name, record_reasons)


def quietly(action: Callable[[], None]) -> None:
    """Call ``action`` without the warning that torch gives where a kernel of a CUDA build is
    replaced.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action()


def other_triton() -> str:
    """Return a message if triton is not the version for this torch; empty if it is, or if that is
    not known.
    """
    from fx_explorer.capture.torch_compat.versions import fitting_triton

    installed, wanted = version_of("triton"), fitting_triton()
    # With the dot behind, 3.10 is no 3.1.
    if not wanted or f"{installed}.".startswith(f"{wanted}."):
        return ""
    torch = version_of("torch")
    return (
        f"triton {installed} is installed, but torch {torch} needs {wanted}: the code may differ "
        "from what the GPU would run"
    )


def versions() -> str:
    return " and ".join(f"{name} {version_of(name)}" for name in ("torch", "triton"))
