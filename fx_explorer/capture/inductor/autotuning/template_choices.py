"""The configurations of a Triton template (a matrix multiplication, flex attention) that the
autotuner would time.

A template writes each of them as a kernel of its own (``TritonTemplateCaller``,
torch/_inductor/select_algorithm.py), without the operations that are fused into the one that is
taken. ``whole_choices`` has them with those.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.inductor.lines.line_text import LineNodes

_KEY = "fx_explorer_choices"
"""The attribute of a GraphLowering that holds name of a post-grad node → the choices for it."""


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    name: str
    """Name of the function in ``source``; empty: the name of the kernel that is taken."""
    options: dict[str, object]
    source: str
    """The source of the choice; empty for a library call."""
    timing_s: float = 0.0
    """The time that the autotuner measured on a real GPU; 0 when it did not."""
    error: str = ""
    alone: str = ""
    """The one node that ``source`` computes; empty: all that the kernel computes."""
    line_nodes: LineNodes = ()
    """What is known of the lines of ``source``, beyond that."""


@dataclass
class KeptChoices:
    """The choices there were for one node."""

    choices: tuple[TemplateChoice, ...]
    callers: tuple[Any, ...] = ()
    """Inductor's own objects for them, on a virtual GPU."""
    whole: tuple[tuple[str, LineNodes], ...] = ()
    """The source of each as it would stand in the output code, with placeholders for its name;
    empty: it is not known.
    """


NOT_RUN = "It could not be run on this GPU: the autotuner has no time of it."


def keep_choices(candidates: Iterable[Any]) -> None:
    """Remember the choices for the node that is being lowered; the first is the one that is
    taken.
    """
    from torch._inductor.virtualized import V

    callers = tuple(candidates)
    # A single library call is no choice.
    if isinstance(V.current_node, torch.fx.Node) and (
        len(callers) > 1 or any(map(is_template, callers))
    ):
        name = V.current_node.name
        _kept(V.graph)[name] = KeptChoices(tuple(_choice(one, name) for one in callers), callers)


def keep_timed(graph: Any, node: str, timings_ms: Mapping[Any, float]) -> None:
    """Remember the choices for a node that was tuned on a real GPU, the fastest first."""
    found = [
        _timed(one, node, timing)
        for one, timing in sorted(timings_ms.items(), key=lambda item: item[1])
    ]
    _kept(graph)[node] = KeptChoices(tuple(found))


def _kept(graph: Any) -> dict[str, KeptChoices]:
    kept: dict[str, KeptChoices] = graph.__dict__.setdefault(_KEY, {})
    return kept


def _timed(candidate: Any, node: str, timing_ms: float) -> TemplateChoice:
    is_known = math.isfinite(timing_ms)
    timing_s, error = (timing_ms / 1000, "") if is_known else (0.0, NOT_RUN)
    return replace(_choice(candidate, node), timing_s=timing_s, error=error)


def choices_for(
    lowering: Any, nodes: Iterable[torch.fx.Node], kernel: str = "", written: str = ""
) -> tuple[TemplateChoice, ...]:
    """Return the choices for the ``kernel`` that computes ``nodes`` and was ``written`` by
    Inductor; empty when there was nothing to choose.
    """
    kept: dict[str, KeptChoices] = getattr(lowering, _KEY, {})
    found = next((kept[node.name] for node in nodes if node.name in kept), KeptChoices(()))
    is_like_it = bool(found.whole) and found.whole[0][0] == written
    if not is_like_it:
        return found.choices
    return tuple(
        _whole(choice, kernel, *whole)
        for choice, whole in zip(found.choices, found.whole, strict=True)
    )


def _whole(
    choice: TemplateChoice, kernel: str, written: str, line_nodes: LineNodes
) -> TemplateChoice:
    """Return ``choice`` as it would be in the output code, where that is known."""
    if not written:
        return choice
    return replace(
        choice, name="", source=in_output_code(kernel, written), alone="", line_nodes=line_nodes
    )


def in_output_code(kernel: str, written: str) -> str:
    """Write a kernel into output code as ``define_kernel`` (torch/_inductor/codegen/triton.py)
    names it and ``IndentedBuffer.splice`` takes it in.
    """
    from torch._inductor.utils import Placeholder

    for placeholder in (Placeholder.DESCRIPTIVE_NAME, Placeholder.KERNEL_NAME):
        written = written.replace(str(placeholder), kernel)
    lines = written.replace("#pragma CMT", "#").strip().split("\n")
    return "\n".join([*(line if line.strip() else "" for line in lines), ""])


def kept_for(lowering: Any, buffer: Any) -> KeptChoices | None:
    """Return the choices for a template's buffer (``TritonTemplateBuffer``, torch/_inductor/ir.py),
    which renders the first of them.
    """
    render = getattr(buffer, "make_kernel_render", None)
    kept: dict[str, KeptChoices] = getattr(lowering, _KEY, {})
    every = (one for one in kept.values() if one.callers and render)
    return next(
        (one for one in every if getattr(one.callers[0], "make_kernel_render", None) is render),
        None,
    )


def is_template(candidate: Any) -> bool:
    return hasattr(getattr(candidate, "bmreq", None), "module_path")


def _choice(candidate: Any, node: str) -> TemplateChoice:
    if not is_template(candidate):
        return TemplateChoice(str(candidate.name), {"library": str(candidate.name)}, "")
    request = candidate.bmreq
    source = Path(request.module_path).read_text(encoding="utf-8")
    return TemplateChoice(
        request.kernel_name, _options(str(candidate.description)), source, alone=node
    )


def _options(description: str) -> dict[str, object]:
    """Parse the options in a description such as ``BLOCK_M=64, ACC_TYPE='tl.float32',
    num_warps=4``.
    """
    call = ast.parse(f"dict({description})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {one.arg: _value(one.value) for one in call.keywords if one.arg}


def _value(written: ast.expr) -> object:
    try:
        return ast.literal_eval(written)
    except ValueError:
        return ast.unparse(written)
