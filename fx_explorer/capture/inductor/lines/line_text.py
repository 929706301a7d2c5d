"""Lines that remember which nodes they compute, and the texts made of them."""

from __future__ import annotations

from collections.abc import Iterator
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
        """Render ``buffer.getvalue()``. Inductor's own line map tells where each tagged line went,
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
        found: dict[tuple[int, str], None] = {}
        for line, nodes in self._texts.get(text) or self._embedded(text):
            found.update(dict.fromkeys((line - leading, node) for node in nodes))
        return tuple(sorted(found))

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
    found: list[tuple[int, list[str]]] = []
    first, nodes = 0, None
    for line, context in line_map:
        if not isinstance(context, _LineTag):
            continue
        if context is _END and nodes is not None:
            found.extend((at, nodes) for at in range(first, line))
        first, nodes = line, context.nodes
    return found


def _find(lines: list[str], block: list[str]) -> int | None:
    """Return where ``block`` begins in ``lines``; None when it is not there."""
    if not block[0]:
        return None
    starts = (i for i, line in enumerate(lines) if line == block[0])
    return next((i for i in starts if lines[i : i + len(block)] == block), None)
