"""Lines of generated code remember here which nodes they compute, also in the texts that are made
of them.

Inductor's C++ code generation writes some lines late, or again, and would forget which node they
are for. The hooks for these are all in torch/_inductor/codegen/cpp.py. Each is optional: without it
a few lines of reductions have no node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

LineNodes = tuple[tuple[int, str], ...]
"""(line from 1, node name), by line."""

_KEPT = 64
"""A kernel is defined soon after its text is made; a combination of kernels makes all its texts
first.
"""


class TaggedLine(str):
    """A line of code. ``nodes`` is shared by its copies: a node found later to be computed by it is
    known to all.
    """

    __slots__ = ("nodes",)

    nodes: list[str]

    def __new__(cls, text: str, nodes: list[str]) -> TaggedLine:
        line = super().__new__(cls, text)
        line.nodes = nodes
        return line

    def __getitem__(self, index: Any) -> TaggedLine:
        return TaggedLine(super().__getitem__(index), self.nodes)


class _LineTag:
    """What stands around a tagged line in a buffer while its text is made; None after it."""

    def __init__(self, nodes: list[str] | None) -> None:
        self.nodes = nodes


_END = _LineTag(None)


class RenderedTexts:
    """The texts made lately from buffers with tagged lines, with the nodes of their lines."""

    def __init__(self) -> None:
        self._texts: dict[str, list[tuple[int, list[str]]]] = {}

    def render(self, buffer: Any) -> str:
        """Render ``buffer.getvalue()``. Inductor's own line map says where each tagged line went,
        if it was written at all.
        """
        lines = buffer._lines
        buffer._lines = list(_with_tags(lines))
        try:
            rendered = buffer.getvaluewithlinemap()
        finally:
            buffer._lines = lines
        text: str = rendered.value
        # Taken out first: as a text that is made again it is the newest again, and the oldest goes.
        self._texts.pop(text, None)
        self._texts[text] = _tagged_lines(rendered.line_map)
        if len(self._texts) > _KEPT:
            del self._texts[next(iter(self._texts))]
        return text

    def lines_of(self, text: str) -> LineNodes:
        """Return the nodes of the lines of ``text``, counted from its first line that is not
        blank.
        """
        leading = text[: len(text) - len(text.lstrip())].count("\n")
        line_nodes: dict[tuple[int, str], None] = {}
        for line, nodes in self._texts.get(text) or self._embedded(text):
            line_nodes.update(dict.fromkeys((line - leading, node) for node in nodes))
        return tuple(sorted(line_nodes))

    def _embedded(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Yield each tagged line of a buffer whose text a template has put, indented, into its own:
        it is found there line by line.
        """
        lines = [line.strip() for line in text.split("\n")]
        for part, tagged in self._texts.items():
            block = [line.strip() for line in part.strip().split("\n")]
            skipped = part[: len(part) - len(part.lstrip())].count("\n")
            start = _find(lines, block)
            if start is not None:
                yield from ((start + line - skipped, nodes) for line, nodes in tagged)


def _with_tags(lines: list[Any]) -> Iterator[Any]:
    from torch._inductor.utils import LineContext

    end = LineContext(_END)
    for line in lines:
        nodes = getattr(line, "nodes", None)
        if nodes is None:
            yield line
        else:
            yield LineContext(_LineTag(nodes))
            yield line
            yield end


def _tagged_lines(line_map: list[tuple[int, Any]]) -> list[tuple[int, list[str]]]:
    tagged: list[tuple[int, list[str]]] = []
    first, nodes = 0, None
    for line, context in line_map:
        if not isinstance(context, _LineTag):
            continue
        if context is _END and nodes is not None:
            tagged.extend((at, nodes) for at in range(first, line))
        first, nodes = line, context.nodes
    return tagged


def _find(lines: list[str], block: list[str]) -> int | None:
    """Return where ``block`` begins in ``lines``; None when it is not there."""
    if not block[0]:
        return None
    for start, line in enumerate(lines):
        if line == block[0] and lines[start : start + len(block)] == block:
            return start
    return None


# Lines that are written late, or again.


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
