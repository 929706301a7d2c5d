"""This module draws a graph as SVG: nested boxes in rows, each operation with the colour of its
kernel, and the uses of values as lines. Several modules with the same content are one box.

The arrangement in rows is that of ``box_contents.py``; here it gets sizes and places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.sax.saxutils import escape

from fx_explorer.analysis.words import counted
from fx_explorer.drawing.box_contents import Content, ModuleBox, Operation
from fx_explorer.drawing.svg import GREY, LETTER, LINE, MARGIN, STYLE, SVG_END, safe_lines, svg_text

MOST_DRAWN = 1_500
"""Maximum number of operations in a picture; deeper boxes stay closed, and say what is in them."""

MOST_NAME = 40
"""Maximum number of letters of a name in the picture; the mouse shows all of it."""

HEIGHT, GAP, ROW_GAP, PAD, HEADER = 22, 12, 26, 12, 20
"""Sizes in pixels: height of an operation, gaps between parts and between rows, the room in a box
around its parts, and the height of its title.
"""

COLOURS = (
    "#93d36f", "#84b1e2", "#ffca93", "#cbb8e8", "#f19cb4", "#62c298", "#efd25c", "#d2d6de",
)  # fmt: skip
"""Colours of kernels; dark letters can be read on each."""

NO_KERNEL = "#f4f1e6"


@dataclass(frozen=True, slots=True)
class PictureOperation:
    """What the picture shows of an operation, in the order of the nested boxes."""

    name: str
    about: Sequence[str]
    """The lines that the mouse shows of it."""
    kernel: int
    """Number of the first kernel that computes it, from 1; 0 for none."""


@dataclass(slots=True)
class _Sized:
    """A content with a place for each of its items, from its own upper left corner."""

    width: float
    height: float
    places: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    """Part, from 1, or where values come in (0) and leave → left, top, width, height."""
    passed: dict[int, list[tuple[float, float, float]]] = field(default_factory=dict)
    """Number of an edge → middle, top and bottom of its place in each row that it passes."""


def graph_picture_svg(
    title: str, root: int, contents: Sequence[Content], operations: Sequence[PictureOperation]
) -> str:
    """Return the picture of the content number ``root``, which needs no other file."""
    drawing = _Drawing(contents, operations, _depth_that_fits(root, contents))
    whole = drawing.sized(root, 0)
    width = max(whole.width, len(title) * LETTER) + 2 * MARGIN
    height = whole.height + 2 * MARGIN + 2 * LINE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">\n<style>{STYLE}'
        f".edge {{ fill: none; stroke: {GREY}; opacity: 0.7; }}\n</style>",
        svg_text(MARGIN, MARGIN + 7, title, "beside title"),
        *drawing.content(root, (float(MARGIN), float(MARGIN + 2 * LINE)), 0, 0),
    ]
    return "\n".join([*lines, SVG_END])


def _depth_that_fits(root: int, contents: Sequence[Content]) -> int:
    """Return to which depth boxes may be open, for ``MOST_DRAWN`` operations at most."""
    depth, level, drawn = 0, [root], 0
    while level:
        parts = [part for number in level for part in contents[number].parts]
        drawn += sum(isinstance(part, Operation) for part in parts)
        if drawn > MOST_DRAWN:
            return max(0, depth - 1)
        level = [part.content for part in parts if isinstance(part, ModuleBox)]
        depth += 1
    return depth


class _Drawing:
    def __init__(
        self, contents: Sequence[Content], operations: Sequence[PictureOperation], deepest: int
    ) -> None:
        self._contents = contents
        self._operations = operations
        self._deepest = deepest
        self._sized: dict[tuple[int, int], _Sized] = {}

    def sized(self, number: int, depth: int) -> _Sized:
        """Return a content with its places. Each content is placed once for each depth."""
        known = self._sized.get((number, depth))
        if known is None:
            known = self._sized[number, depth] = self._place(self._contents[number], depth)
        return known

    def _place(self, content: Content, depth: int) -> _Sized:
        above: dict[int, list[int]] = {}
        for number, (producer, consumer) in enumerate(content.layers.edges):
            above.setdefault(consumer, []).append(producer)
            above[-1 - number] = [producer]
        sized = _Sized(0.0, 0.0)
        top = 0.0
        for row in content.layers.rows:
            items = [item for item in row if item not in (0, len(content.parts) + 1)]
            if not items:
                continue
            sizes = {item: self._size(item, content, depth) for item in items}
            height = max(size[1] for size in sizes.values())
            right = -GAP * 1.0
            for item in items:
                width = sizes[item][0]
                left = max(right + GAP, self._wanted(item, above, sized) - width / 2)
                if item > 0:
                    sized.places[item] = (left, top, width, sizes[item][1])
                else:
                    way = sized.passed.setdefault(-1 - item, [])
                    way.append((left + width / 2, top, top + height))
                right = left + width
            sized.width = max(sized.width, right)
            top += height + ROW_GAP
        sized.height = max(0.0, top - ROW_GAP)
        middle = sized.width / 2
        sized.places[0] = (middle, -PAD, 0.0, 0.0)
        sized.places[len(content.parts) + 1] = (middle, sized.height + PAD, 0.0, 0.0)
        return sized

    @staticmethod
    def _wanted(item: int, above: Mapping[int, Sequence[int]], sized: _Sized) -> float:
        """Return the middle of what an item uses; 0 where that is not known."""
        if -1 - item in sized.passed:
            return sized.passed[-1 - item][-1][0]
        producers = [sized.places[other] for other in above.get(item, ()) if other in sized.places]
        if not producers:
            return 0.0
        return sum(left + width / 2 for left, _, width, _ in producers) / len(producers)

    def _size(self, item: int, content: Content, depth: int) -> tuple[float, float]:
        if item < 0:
            return 4.0, 0.0
        part = content.parts[item - 1]
        if isinstance(part, Operation):
            return len(_cut(part.label)) * LETTER + 2 * PAD, HEIGHT
        title = len(self._box_title(part)) * LETTER + 2 * PAD
        if depth >= self._deepest:
            return title, HEADER + PAD
        inner = self.sized(part.content, depth + 1)
        return max(title, inner.width + 2 * PAD), inner.height + HEADER + 2 * PAD

    def _box_title(self, box: ModuleBox) -> str:
        name = box.names[0]
        if len(box.names) > 1:
            name = f"{name} … {box.names[-1]} ×{len(box.names)}"
        operations = self._contents[box.content].operations
        each = " each" if len(box.names) > 1 else ""
        words = f"{counted(operations, 'node')}{each}"
        return " · ".join(filter(None, (_cut(name), _cut(box.type), words)))

    def content(
        self, number: int, corner: tuple[float, float], depth: int, first: int
    ) -> Iterator[str]:
        """Yield a content at a corner; ``first`` is the number of its first operation."""
        content, sized = self._contents[number], self.sized(number, depth)
        yield from _edges(content, sized, corner)
        at = first
        for item, part in enumerate(content.parts, start=1):
            left, top, width, height = sized.places[item]
            place = (corner[0] + left, corner[1] + top, width, height)
            if isinstance(part, Operation):
                yield self._operation(self._operations[at], part, place)
                at += 1
                continue
            title = self._box_title(part)
            yield (
                f"<g><title>{escape(safe_lines([*part.names, title]))}</title>"
                f"{_rectangle(place, 'transparent')}"
                f"{svg_text(place[0] + PAD, round(place[1]) + 14, title, 'beside title')}</g>"
            )
            if depth < self._deepest:
                inner = (place[0] + PAD, place[1] + HEADER + PAD)
                yield from self.content(part.content, inner, depth + 1, at)
            at += self._contents[part.content].operations * len(part.names)

    @staticmethod
    def _operation(
        operation: PictureOperation, part: Operation, place: tuple[float, float, float, float]
    ) -> str:
        colour = NO_KERNEL
        if operation.kernel:
            colour = COLOURS[(operation.kernel - 1) % len(COLOURS)]
        about = escape(safe_lines([operation.name, *operation.about]))
        text = svg_text(place[0] + PAD, round(place[1]) + 15, _cut(part.label))
        return f"<g><title>{about}</title>{_rectangle(place, colour)}{text}</g>"


def _edges(content: Content, sized: _Sized, corner: tuple[float, float]) -> Iterator[str]:
    """Yield a line for each use of a value, through the places that it has in the rows between."""
    for number, (producer, consumer) in enumerate(content.layers.edges):
        start, end = sized.places[producer], sized.places[consumer]
        points = [(start[0] + start[2] / 2, start[1] + start[3])]
        for middle, top, bottom in sized.passed.get(number, ()):
            points += [(middle, top), (middle, bottom)]
        points.append((end[0] + end[2] / 2, end[1]))
        moved = [(x + corner[0], y + corner[1]) for x, y in points]
        path = f"M{moved[0][0]:.1f} {moved[0][1]:.1f}"
        for before, after in pairwise(moved):
            half = (before[1] + after[1]) / 2
            path += f" C{before[0]:.1f} {half:.1f} {after[0]:.1f} {half:.1f}"
            path += f" {after[0]:.1f} {after[1]:.1f}"
        yield f'<path class="edge" d="{path}"/>'


def _rectangle(place: tuple[float, float, float, float], colour: str) -> str:
    left, top, width, height = place
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
        f'fill="{colour}"/>'
    )


def _cut(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"
