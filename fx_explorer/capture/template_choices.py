"""The configurations of a Triton template (a matrix multiplication, flex attention) that the autotuner would time.

A template writes each of them as a kernel of its own (``TritonTemplateCaller``, torch/_inductor/select_algorithm.py), without
the operations that are fused into the one that is taken.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

_KEY = "fx_explorer_choices"
"""On a GraphLowering: name of a post-grad node → the choices for it."""


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    name: str
    """Of the function in ``source``."""
    options: dict[str, object]
    source: str
    """Empty for a library call."""
    timing_s: float = 0.0
    """As the autotuner measured it on a real GPU; 0 when it did not."""
    error: str = ""


NOT_RUN = "It could not be run on this GPU: the autotuner has no time of it."


def keep_choices(candidates: Iterable[Any]) -> None:
    """Remember the choices for the node that is being lowered; the first is the one that is taken. Libraries have no source."""
    from torch._inductor.virtualized import V

    found = [_choice(one) for one in candidates if is_template(one)]
    if isinstance(V.current_node, torch.fx.Node) and found:
        V.graph.__dict__.setdefault(_KEY, {})[V.current_node.name] = tuple(found)


def keep_timed(graph: Any, node: str, timings_ms: Mapping[Any, float]) -> None:
    """The same for a node that was tuned on a real GPU: libraries too, the fastest first."""
    found = [_timed(one, timing) for one, timing in sorted(timings_ms.items(), key=lambda item: item[1])]
    graph.__dict__.setdefault(_KEY, {})[node] = tuple(found)


def _timed(candidate: Any, timing_ms: float) -> TemplateChoice:
    name = str(candidate.name)
    choice = _choice(candidate) if is_template(candidate) else TemplateChoice(name, {"library": name}, "")
    is_known = math.isfinite(timing_ms)
    return replace(choice, timing_s=timing_ms / 1000 if is_known else 0.0, error="" if is_known else NOT_RUN)


def choices_for(lowering: Any, nodes: Iterable[torch.fx.Node]) -> tuple[TemplateChoice, ...]:
    """Of the kernel that computes ``nodes``; empty when it is no template's."""
    kept: dict[str, tuple[TemplateChoice, ...]] = getattr(lowering, _KEY, {})
    return next((kept[node.name] for node in nodes if node.name in kept), ())


def is_template(candidate: Any) -> bool:
    return hasattr(getattr(candidate, "bmreq", None), "module_path")


def _choice(candidate: Any) -> TemplateChoice:
    request = candidate.bmreq
    source = Path(request.module_path).read_text(encoding="utf-8")
    return TemplateChoice(request.kernel_name, _options(str(candidate.description)), source)


def _options(description: str) -> dict[str, object]:
    """``BLOCK_M=64, ACC_TYPE='tl.float32', num_warps=4``."""
    call = ast.parse(f"dict({description})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {one.arg: _value(one.value) for one in call.keywords if one.arg}


def _value(written: ast.expr) -> object:
    try:
        return ast.literal_eval(written)
    except ValueError:
        return ast.unparse(written)
