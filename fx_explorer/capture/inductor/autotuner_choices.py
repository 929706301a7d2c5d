"""Inductor's autotuner chooses from candidates for a template or library call; this module records
the candidates: as Triton configurations, with their times on a real GPU, and as whole kernels.

A template (a matrix multiplication, flex attention) writes each configuration as a kernel of its
own (``TritonTemplateCaller``, torch/_inductor/select_algorithm.py), without the operations that are
fused into the one that is taken.

On a real GPU Inductor times the candidates of a matrix multiplication, convolution or attention.
Hooks: ``preprocessing_fns`` and ``feedback_saver_fns`` of ``AlgorithmSelectorCache``
(torch/_inductor/select_algorithm.py). Both only look. The first is called while a node is lowered,
the second with the times: perhaps much later, when it is decided what is fused into the one that is
taken.

Inductor can also write a template's source, with what is fused into it, without putting it anywhere
(``only_gen_src_code`` of ``codegen_template``, torch/_inductor/codegen/simd.py), as it does to time
a fusion. We ask it for every choice just before it writes the one that is taken, which is asked for
too: where that is not what Inductor then writes, none of them is used (``choices_for``).
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.inductor import lines_by_node as lines
from fx_explorer.capture.inductor.lines_by_node import LineNodes
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.versions import watching_selector

_KEY = "fx_explorer_choices"
"""Attribute of a GraphLowering that holds a dict: name of a post-grad node → its choices."""


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    name: str
    """Name of the function in ``source``; empty: the name of the chosen kernel."""
    options: dict[str, object]
    source: str
    """The source of the choice; empty for a library call."""
    timing_s: float = 0.0
    """The time that the autotuner measured on a real GPU; 0 when it did not."""
    error: str = ""
    alone: str = ""
    """The only node that ``source`` computes; empty: it computes all nodes of the kernel."""
    line_nodes: LineNodes = ()
    """Nodes that single lines of ``source`` compute; the other lines compute ``alone``."""


@dataclass
class KeptChoices:
    """All choices of the autotuner for one node."""

    choices: tuple[TemplateChoice, ...]
    callers: tuple[Any, ...] = ()
    """Inductor's own objects for the choices, on a virtual GPU."""
    whole: tuple[tuple[str, LineNodes], ...] = ()
    """The source of each choice as it would be in the output code, with placeholders for its name;
    empty: not known.
    """


NOT_RUN = "It could not run on this GPU, so the autotuner has no time for it."


def keep_choices(candidates: Iterable[Any]) -> None:
    """Store the choices for the node that is being lowered. The first is the one that Inductor
    uses.
    """
    from fx_explorer.capture.torch_compat.private_names import V

    callers = tuple(candidates)
    # A single library call is no choice.
    if isinstance(V.current_node, torch.fx.Node) and (
        len(callers) > 1 or any(map(is_template, callers))
    ):
        name = V.current_node.name
        _kept(V.graph)[name] = KeptChoices(
            tuple(_choice(caller, name) for caller in callers), callers
        )


def keep_timed(graph: Any, node: str, timings_ms: Mapping[Any, float]) -> None:
    """Remember the choices for a node that was tuned on a real GPU, the fastest first."""
    fastest_first = sorted(timings_ms.items(), key=lambda item: item[1])
    choices = [_timed(caller, node, timing) for caller, timing in fastest_first]
    _kept(graph)[node] = KeptChoices(tuple(choices))


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
    Inductor; empty if there was only one.
    """
    kept: dict[str, KeptChoices] = getattr(lowering, _KEY, {})
    choices = next((kept[node.name] for node in nodes if node.name in kept), KeptChoices(()))
    is_like_it = bool(choices.whole) and choices.whole[0][0] == written
    if not is_like_it:
        return choices.choices
    return tuple(
        _whole(choice, kernel, *whole)
        for choice, whole in zip(choices.choices, choices.whole, strict=True)
    )


def _whole(
    choice: TemplateChoice, kernel: str, written: str, line_nodes: LineNodes
) -> TemplateChoice:
    """Return ``choice`` with its source as it would be in the output code, where that is known."""
    if not written:
        return choice
    return replace(
        choice, name="", source=in_output_code(kernel, written), alone="", line_nodes=line_nodes
    )


def in_output_code(kernel: str, written: str) -> str:
    """Write a kernel into output code as ``define_kernel`` (torch/_inductor/codegen/triton.py)
    names it and ``IndentedBuffer.splice`` takes it in.
    """
    from fx_explorer.capture.torch_compat.private_names import Placeholder

    for placeholder in (Placeholder.DESCRIPTIVE_NAME, Placeholder.KERNEL_NAME):
        written = written.replace(str(placeholder), kernel)
    lines = written.replace("#pragma CMT", "#").strip().split("\n")
    without_blanks = [line if line.strip() else "" for line in lines]
    return "\n".join([*without_blanks, ""])


def kept_for(lowering: Any, buffer: Any) -> KeptChoices | None:
    """Return the choices for a template's buffer (``TritonTemplateBuffer``, torch/_inductor/ir.py),
    which renders the first of them.
    """
    render = getattr(buffer, "make_kernel_render", None)
    if not render:
        return None
    kept: dict[str, KeptChoices] = getattr(lowering, _KEY, {})
    for choices in kept.values():
        if not choices.callers:
            continue
        if getattr(choices.callers[0], "make_kernel_render", None) is render:
            return choices
    return None


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
    return {keyword.arg: _value(keyword.value) for keyword in call.keywords if keyword.arg}


def _value(written: ast.expr) -> object:
    try:
        return ast.literal_eval(written)
    except ValueError:
        return ast.unparse(written)


# Candidates that were timed on a real GPU.


class _Lowered:
    """Which node each candidate is for. It keeps the candidates alive until the recording ends:
    they are distinguished by id.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._known: dict[int, tuple[Any, Any, str]] = {}

    def remember(self, candidates: list[Any]) -> list[Any]:
        from fx_explorer.capture.torch_compat.private_names import V

        with self._recording.noting("the candidates of an operation", "kernel"):
            node = V.current_node
            if isinstance(node, torch.fx.Node):
                self._known.update(
                    {id(candidate): (candidate, V.graph, node.name) for candidate in candidates}
                )
        return candidates

    def timed(self, timings_ms: dict[Any, float], *_: object) -> None:
        """Store the times of one operation's candidates, in milliseconds; a candidate that failed
        has an infinite time.
        """
        with self._recording.noting("what the autotuner timed", "kernel"):
            for candidate in timings_ms:
                if id(candidate) in self._known:
                    _, graph, node = self._known[id(candidate)]
                    keep_timed(graph, node, timings_ms)
                    return


@contextlib.contextmanager
def choices_hook(recording: Recording) -> Iterator[None]:
    """Record the candidates that are timed inside the block. A virtual GPU has no times, and on a
    machine without a GPU no choice that we show is tuned.
    """
    if recording.request.gpu or not (torch.version.cuda or torch.version.hip):
        yield
        return
    with noting_choices(recording):
        yield


def noting_choices(recording: Recording) -> contextlib.AbstractContextManager[None]:
    lowered = _Lowered(recording)
    return watching_selector(candidates=lowered.remember, times=lowered.timed)


# Each choice as Inductor would write it into the output code.


NOT_WRITTEN: tuple[str, LineNodes] = ("", ())


def write_choices(codegen_template: Callable[..., Any], template_node: Any, *nodes: Any) -> None:
    """Write the code of each choice as ``codegen_template(template_node, *nodes)`` would, just
    before it is called.
    """
    from fx_explorer.capture.torch_compat.private_names import V

    buffer = template_node.node
    kept = kept_for(V.graph, buffer)
    if kept is None or len(kept.callers) < 2:
        return
    with _undone(V.graph):
        kept.whole = tuple(
            _written(codegen_template, buffer, caller, template_node, *nodes)
            for caller in kept.callers
        )


def _written(
    codegen_template: Callable[..., Any], buffer: Any, caller: Any, *nodes: Any
) -> tuple[str, LineNodes]:
    """Return the code of one choice; without the fused operations if they do not fit it."""
    if not hasattr(caller, "make_kernel_render"):
        return NOT_WRITTEN
    try:
        with _rendered_as(buffer, caller):
            source = codegen_template(*nodes, only_gen_src_code=True)
    # Inductor would leave out this choice too; its own source is shown, and so called.
    except Exception:  # noqa: BLE001
        return NOT_WRITTEN
    return source, lines.lines_of(source)


@contextlib.contextmanager
def _rendered_as(buffer: Any, caller: Any) -> Iterator[None]:
    """Render a buffer that has only one choice as ``MultiTemplateBuffer.swap_as_triton_caller``
    does (torch/_inductor/ir.py).
    """
    taken = buffer.make_kernel_render
    buffer.make_kernel_render = caller.make_kernel_render
    try:
        yield
    finally:
        buffer.make_kernel_render = taken


@contextlib.contextmanager
def _undone(graph: Any) -> Iterator[None]:
    """Undo, after the block, the effect of rendering on the graph: each rendering takes a number
    for its workspace (``WorkspaceArg.unique_name``, torch/_inductor/codegen/common.py).
    """
    numbers = graph.workspace_id
    graph.workspace_id = itertools.count()
    try:
        yield
    finally:
        graph.workspace_id = numbers
