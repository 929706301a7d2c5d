"""Autotuning without a device to time candidates on: a Triton template is shown rather than a
library, and all are noted.
"""

from __future__ import annotations

from typing import Any

from torch._guards import CompileContext

from fx_explorer.capture.inductor.autotuning.template_choices import keep_choices
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.emulation.emulation_mode import Choice, Emulation


def note_choices(emulation: Emulation) -> None:
    """Take the first candidate of each choice from now on, and note all of them."""

    def templates_first(candidates: list[Any]) -> list[Any]:
        ordered = sorted(candidates, key=is_library)
        if len(ordered) > 1:
            emulation.choices.append(_choice(ordered))
        keep_choices(ordered)
        return ordered[:1]

    require(
        "torch._inductor.select_algorithm", "get_algorithm_selector_cache"
    )().preprocessing_fns.append(templates_first)


def is_library(candidate: Any) -> bool:
    return bool(type(candidate).__name__ == "ExternKernelCaller")


def _choice(candidates: list[Any]) -> Choice:
    listed = [
        {
            "name": one.name,
            "library": is_library(one),
            "description": str(getattr(one, "description", "")),
        }
        for one in candidates
    ]
    return {
        "compilation": str(CompileContext.current_compile_id() or ""),
        "shown": listed[0]["name"],
        "candidates": listed,
    }
