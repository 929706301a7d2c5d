"""In which stage a compilation failed, by the traceback of what was raised, as torch writes it into
its logs (``dynamo_error``).
"""

from __future__ import annotations

import re

from fx_explorer.model import STAGES, Stage

_FRAME = re.compile(r'^ *File "[^"\n]{0,4000}/torch/(?P<file>[\w/]{1,200}\.py)", line', re.M)

_STAGE_OF_FILE: tuple[tuple[str, Stage], ...] = (
    ("_inductor/fx_passes/pre_grad.py", "pre_grad"),
    ("_functorch/", "joint"),
    ("_inductor/fx_passes/joint_graph.py", "joint"),
    ("_functorch/partitioners.py", "forward"),
    ("_inductor/graph.py", "post_grad"),
    ("_inductor/lowering.py", "post_grad"),
    ("_inductor/fx_passes/post_grad.py", "post_grad"),
    ("_inductor/select_algorithm.py", "post_grad"),
    ("_inductor/scheduler.py", "schedule"),
    ("_inductor/codegen/", "output_code"),
    ("_inductor/cpp_builder.py", "kernel"),
    ("_inductor/async_compile.py", "kernel"),
    ("_inductor/runtime/", "kernel"),
)
"""Beginning of a file in torch → the stage whose code it holds. What several stages call has no
entry: the driver (``compile_fx.py``) and the decompositions stand in tracebacks of earlier stages,
too.
"""

_RAISED_BY_BACKEND = re.compile(
    r"(?<!\s)\s*BackendCompilerFailed: *backend='[^'\n]{0,200}' raised:\s*"
)


def failed_stage(traceback: str) -> Stage:
    """Return the latest stage whose code was running: the backend, where torch says no more than
    that it raised, and Dynamo, which calls all others, where no other was.
    """
    reached: set[Stage] = {"dynamo"}
    for frame in _FRAME.finditer(traceback):
        of_file = [stage for start, stage in _STAGE_OF_FILE if frame["file"].startswith(start)]
        reached.update(of_file)
    if reached == {"dynamo"} and "BackendCompilerFailed" in traceback:
        return "backend"
    return max(reached, key=STAGES.index)


def own_error(error: str) -> str:
    """Return what a backend raised, without Dynamo's exception around it."""
    return _RAISED_BY_BACKEND.sub("", error, count=1)
