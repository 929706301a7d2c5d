"""Each choice of a template as Inductor would write it into the output code: with the operations
that are fused into it.

Inductor can write a template's source without putting it anywhere (``only_gen_src_code`` of
``codegen_template``, torch/_inductor/codegen/simd.py), as it does to time a fusion. We ask it for
every choice just before it writes the one that is taken, which is asked for too: where that is not
what Inductor then writes, none of them is used (``choices_for``).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.inductor.autotuning.template_choices import kept_for
from fx_explorer.capture.inductor.lines import by_node as lines
from fx_explorer.capture.inductor.lines.line_text import LineNodes

NOT_WRITTEN: tuple[str, LineNodes] = ("", ())


def write_choices(codegen_template: Callable[..., Any], template_node: Any, *nodes: Any) -> None:
    """Write, before ``codegen_template(template_node, *nodes)`` is called, what it would write for
    each choice.
    """
    from torch._inductor.virtualized import V

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
    """Return what would be written for one choice. It may be unable to have something fused into
    it: then it is written alone.
    """
    if not hasattr(caller, "make_kernel_render"):
        return NOT_WRITTEN
    try:
        with _rendered_as(buffer, caller):
            source = codegen_template(*nodes, only_gen_src_code=True)
    except Exception:  # noqa: BLE001 - Inductor would leave out this choice too; its own source is shown, and so called
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
    """Undo, after the block, what rendering changes in the graph: each time it takes a number for
    its workspace (``WorkspaceArg.unique_name``, torch/_inductor/codegen/common.py).
    """
    numbers = graph.workspace_id
    graph.workspace_id = itertools.count()
    try:
        yield
    finally:
        graph.workspace_id = numbers
