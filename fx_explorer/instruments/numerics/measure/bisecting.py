"""This module asks torch's own CompilerBisector which backend, which of its subsystems and which
application of that subsystem makes the difference.

torch: torch/_inductor/compiler_bisector.py, ``CompilerBisector.do_bisect``.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import compiler_bisector, inductor_config
from fx_explorer.model import CaptureRequest

Say = Callable[[str], object]


def bisected(
    plain: Callable[..., Any],
    request: CaptureRequest,
    is_right: Callable[[Callable[..., Any]], bool],
    say: Say,
) -> str:
    """Return a sentence on what CompilerBisector found."""
    bisector = compiler_bisector.CompilerBisector
    trials = 0

    def trial() -> bool:
        nonlocal trials
        trials += 1
        backend, subsystem = bisector.get_backend(), bisector.get_subsystem()
        say(f"CompilerBisector, trial {trials}: {' '.join(filter(None, (backend, subsystem)))}")
        torch.compiler.reset()
        function = torch.compile(plain, backend=backend, dynamic=request.dynamic)
        options = dict(request.options) if backend == "inductor" else {}
        with inductor_config.patch({"force_disable_caches": True, **options}):
            return is_right(function)

    with contextlib.redirect_stdout(io.StringIO()):
        result = bisector.do_bisect(trial)
    if result is None:
        return (
            f"CompilerBisector finds nothing: every backend gives eager mode's results ({trials} "
            "trials)."
        )
    parts = [f"backend {result.backend}"]
    if result.subsystem:
        parts.append(f"subsystem {result.subsystem}")
    if result.bisect_number is not None and result.debug_info != result.subsystem:
        parts.append(f"application {result.bisect_number}")
    if result.debug_info and result.debug_info != result.subsystem:
        parts.append(" ".join(str(result.debug_info).split()))
    return f"CompilerBisector ({trials} trials): {', '.join(parts)}."
