"""Places where Inductor's C++ code generation writes a line late, or again, and would forget which
node it is for.

All of them in torch/_inductor/codegen/cpp.py. Each is optional: without it a few lines of
reductions have no node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx_explorer.capture.inductor.lines.line_text import TaggedLine

Hook = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


def hooks(running: Callable[[], Any], run_as: Callable[[Any], Any]) -> list[Hook]:
    """List the hooks. ``running()`` is the loop body node whose code is being written;
    ``run_as(node)`` is a context that makes it so again.
    """
    from torch._inductor.codegen import cpp

    return [
        (cpp, "move_code_under_inner_loop", _move_code),
        (cpp, "replace_acc_name", _replace_in_place),
        (cpp, "replace_cascade_sum_with_add", _replace_in_place),
        (
            getattr(cpp, "CppKernel", None),
            "_gen_reduction_prefix",
            lambda original: _reduction_prefix(original, running, run_as),
        ),
    ]


def _reduction_prefix(
    original: Callable[..., Any], running: Callable[[], Any], run_as: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Remember the node of a line such as ``float tmp_acc0 = 0;``, which is made by a function that
    is called once the loop around the reduction is known.
    """
    from torch._inductor.utils import IndentedBuffer

    def gen_reduction_prefix(*args: Any, **kwargs: Any) -> Any:
        make = original(*args, **kwargs)
        node = running()
        if node is None:
            return make

        def inner(*sizes: Any, **named: Any) -> Any:
            with run_as(node):
                prefix = make(*sizes, **named)
                if not isinstance(prefix, str):
                    return prefix
                written = (
                    IndentedBuffer()
                )  # the caller splices what it gets, and only a buffer's lines can remember
                written.splice(prefix)
                return written

        return inner

    return gen_reduction_prefix


def _move_code(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the nodes of lines in the tail of a vectorised loop, which are rewritten with another
    variable, one for one, inside ``for (…) { }``.
    """

    def move_code_under_inner_loop(code: Any, *args: Any, **kwargs: Any) -> Any:
        moved = original(code, *args, **kwargs)
        if len(moved._lines) == len(code._lines) + 3:
            _copy_nodes(code._lines, moved._lines, 2)
        return moved

    return move_code_under_inner_loop


def _replace_in_place(original: Callable[..., Any]) -> Callable[..., Any]:
    def replace(buffer: Any, *args: Any, **kwargs: Any) -> Any:
        before = list(buffer._lines)
        result = original(buffer, *args, **kwargs)
        if len(before) == len(buffer._lines):
            _copy_nodes(before, buffer._lines, 0)
        return result

    return replace


def _copy_nodes(old: list[Any], new: list[Any], offset: int) -> None:
    for i, line in enumerate(old, offset):
        nodes = getattr(line, "nodes", None)
        if nodes is None:
            continue
        if type(new[i]) is str:
            new[i] = TaggedLine(new[i], nodes)
        else:
            new[i].nodes = nodes
