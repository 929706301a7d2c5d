"""Where the time of a compile goes: the stack of the compiling thread, looked at every few
milliseconds from another thread.

Nothing of torch is replaced for it, so a bare compile and a captured one are looked at in the same
way, in any release. A sample belongs to the phase of torch.compile that is deepest in its stack
(``PHASES``), and to fx-explorer where the innermost frame that is nobody else's is ours: our
wrappers around functions of torch are on the stack while these run, and do not count then.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

INTERVAL_S = 0.005

OURS = f"{Path(__file__).parents[1] / 'fx_explorer'}/"

BACKWARD = "running the backward"

PHASES = {
    "torch/_dynamo/convert_frame.py": {
        "_compile": "Dynamo",
        "_compile_inner": "Dynamo",
        "compile_frame": "Dynamo",
    },
    "torch/_dynamo/output_graph.py": {"call_user_compiler": "backend, not named below"},
    "torch/_dynamo/guards.py": {"__init__": "Dynamo: guards"},
    "torch/_functorch/aot_autograd.py": {
        "create_aot_state": "AOTAutograd: metadata",
        "aot_module_simplified": "AOTAutograd",
    },
    "torch/_functorch/_aot_autograd/graph_compile.py": {
        "aot_stage1_graph_capture": "AOTAutograd: joint graph"
    },
    "torch/_functorch/partitioners.py": {"min_cut_rematerialization_partition": "partitioner"},
    "torch/_inductor/compile_fx.py": {
        "_recursive_pre_grad_passes": "pre-grad passes",
        "_recursive_joint_graph_passes": "joint passes",
        "_recursive_post_grad_passes": "post-grad passes",
        "fx_codegen_and_compile": "Inductor, not named below",
        "view_to_reshape": "Inductor: fake tensors, layouts",
        "fake_tensor_prop": "Inductor: fake tensors, layouts",
        "decide_layout_opt": "Inductor: fake tensors, layouts",
    },
    "torch/_inductor/graph.py": {
        "run": "lowering",
        "_update_scheduler": "scheduling and fusion",
        "codegen": "code generation",
    },
    "torch/_inductor/scheduler.py": {
        "_init": "scheduling and fusion",
        "codegen": "code generation",
    },
    "torch/_inductor/codecache.py": {
        "load_by_key_path": "loading the module",
        "write": "loading the module",
        "prepare_key": "cache keys",
    },
    "torch/_inductor/async_compile.py": {
        "wait": "waiting for kernels",
        "triton": "building kernels",
        "cpp_pybinding": "building kernels",
    },
    "torch/_inductor/runtime/triton_heuristics.py": {"run": "launching and tuning kernels"},
    "torch/autograd/graph.py": {"_engine_run_backward": BACKWARD},
}
"""File and function in which a phase begins; the deepest one on the stack is the phase. What a
release does not have is in the phase around it.
"""

_PASSES_ON = (
    "original(",
    "function(",
    "run()",
    "lower()",
    "cut()",
    "make()",
    "partition(",
    "compile_graph(",
    "yield",
)
"""In the line of a frame of ours that is only on the stack because it calls what torch would have
called.
"""

_NEUTRAL = (
    "/sympy/",
    "torch/fx/",
    "torch/utils/",
    "torch/_ops.py",
    "torch/_guards.py",
    "torch/_tensor",
)
"""Libraries of torch's compiler: their time is that of whoever calls them."""

_OWNERS = (
    "torch/_dynamo/",
    "torch/_functorch/",
    "torch/_inductor/",
    "torch/_subclasses/",
    "torch/_higher_order_ops/",
)


@dataclass
class Sampled:
    """Seconds by phase, by function of ours, and by function of torch's (inclusive)."""

    phases: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    inclusive: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, dict[str, float]]:
        return {
            name: dict(getattr(self, name).most_common(60))
            for name in ("phases", "ours", "inclusive")
        }


@contextlib.contextmanager
def sampled(is_on: bool) -> Iterator[Sampled]:
    """Look at the stack of this thread while the block runs, if ``is_on``."""
    found, over, thread_id = Sampled(), threading.Event(), threading.get_ident()
    if not is_on:
        yield found
        return

    def look() -> None:
        before_s = time.perf_counter()
        while not over.wait(INTERVAL_S):
            frame = sys._current_frames().get(thread_id)
            now_s = time.perf_counter()
            _add(found, _stack(frame), now_s - before_s)
            before_s = now_s

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _stack(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    """Return the functions of a stack with their lines, innermost first."""
    found = []
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return found


def _add(found: Sampled, stack: list[tuple[CodeType, int]], took_s: float) -> None:
    owner = _owner(stack)
    found.phases["fx-explorer" if owner else _phase(stack)] += took_s
    if owner:
        found.ours[owner] += took_s
    for name in {f"{_short(code.co_filename)}:{code.co_name}" for code, _ in stack}:
        found.inclusive[name] += took_s


def _owner(stack: list[tuple[CodeType, int]]) -> str:
    """Return the function of ours whose time this is; empty when it is torch's or the program's."""
    for code, line in stack:
        path = code.co_filename
        if path.startswith(OURS):
            text = linecache.getline(path, line)
            if not any(call in text for call in _PASSES_ON):
                return f"{path.removeprefix(OURS)}:{code.co_name}"
        elif any(part in path for part in _OWNERS) and not any(part in path for part in _NEUTRAL):
            return ""
    return ""


def _phase(stack: list[tuple[CodeType, int]]) -> str:
    phases = [phase for code, _ in stack if (phase := _phase_of(code))]
    # AOTAutograd has autograd go backward, too, while it traces the joint graph.
    inside_others = [phase for phase in phases if phase != BACKWARD]
    return next(iter(inside_others or phases), "the program itself")


def _phase_of(code: CodeType) -> str:
    """Return the phase that begins in a function; empty for any other function."""
    phase = PHASES.get(_short(code.co_filename), {}).get(code.co_name, "")
    return phase if code.co_name != "__init__" or "CheckFunctionManager" in code.co_qualname else ""


def _short(path: str) -> str:
    """Return a file's path from ``torch/`` on, or from the folder it was installed in."""
    for folder in ("site-packages/", "dist-packages/"):
        path = path.rpartition(folder)[2]
    return path.removeprefix(OURS.removesuffix("fx_explorer/"))
