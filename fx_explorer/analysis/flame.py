"""Flame charts of any kind are frames within frames, which become blocks in cells of a terminal.

The ledger (``ledger/flame_chart.py``) and compile time (``compile_time/timing.py``) make the
frames. Rows of text and SVG are drawn by ``drawing/``, the chart above a view by
``drawing/flame_charts.py``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fx_explorer.analysis.words import counted


@dataclass(frozen=True, eq=False, slots=True)
class FlameFrame:
    """A FlameFrame is a stretch of time with a name, and with the frames inside it."""

    name: str
    kind: str
    """Kind of the frame, such as a function or a phase; its colour depends on it."""
    depth: int
    """0 is the whole chart."""
    began_s: float
    """Seconds after the chart begins."""
    ended_s: float
    steps: range
    """Positions of the steps in the frame, which identify it. Each chart has its own steps."""
    line: tuple[str, int] | None = None
    """The user's file and line."""
    children: tuple[FlameFrame, ...] = ()
    """The frames inside it, in order, from its beginning on and without gaps."""

    @property
    def duration_s(self) -> float:
        return self.ended_s - self.began_s

    @property
    def self_s(self) -> float:
        """Seconds outside of its children."""
        return max(0.0, self.duration_s - sum(child.duration_s for child in self.children))

    def frames(self) -> Iterator[FlameFrame]:
        """Yield this frame and all within it, a frame before its children."""
        waiting = [
            self
        ]  # no recursion: a loop with a graph break in it nests as deep as Python lets it
        while waiting:
            frame = waiting.pop()
            yield frame
            waiting += reversed(frame.children)


# Cells of a terminal: which frames have blocks of their own, which are merged, and which blocks are
# those of some steps.

HALF = 0.5
"""A block belongs to these steps if they are at least this share of its steps."""


@dataclass(frozen=True, slots=True)
class FlameBlock:
    """One block of the chart: neighbouring frames that share some cells in a row."""

    first: int
    cells: int
    """Width of the block in cells of the terminal, at least 1."""
    frames: tuple[FlameFrame, ...]
    """The frames that share this block: neighbours, in order."""
    main: FlameFrame | None
    """The frame that the block shows, where the others in it are narrower than a cell; None if all
    frames are.
    """
    noun: str = "step"
    """The chart's name for a step."""

    @property
    def steps(self) -> range:
        """Return the positions of the steps in it."""
        return range(self.frames[0].steps.start, self.frames[-1].steps.stop)

    @property
    def kind(self) -> str:
        """Return the kind of the main frame; of merged frames, the kind that takes longest
        in sum.
        """
        if self.main:
            return self.main.kind
        took_s: dict[str, float] = {}
        for frame in self.frames:
            took_s[frame.kind] = took_s.get(frame.kind, 0.0) + frame.duration_s
        return max(took_s, key=lambda kind: took_s[kind])

    @property
    def names(self) -> tuple[str, ...]:
        """Return names that may be written into the block, the longest first."""
        if self.main is None:
            return (self.counted_steps, str(len(self.steps)))
        more = len(self.frames) - 1
        names = (self.main.name, short_name(self.main.name))
        if not more:
            return names
        return (f"{self.main.name} +{more}", *names)

    @property
    def counted_steps(self) -> str:
        return counted(len(self.steps), self.noun)

    @property
    def is_open(self) -> bool:
        """Return whether the row below draws the children of its main frame."""
        return self.main is not None and bool(self.main.children)

    @property
    def hidden(self) -> tuple[FlameFrame, ...]:
        """Return the frames of the block whose children are not drawn in the row below."""
        if self.is_open:
            return tuple(frame for frame in self.frames if frame is not self.main)
        return self.frames


_FAMILY = re.compile(
    r"^(extern_kernels\.|torch\.ops\.(aten\.)?|(cpp|triton_\w+?)_fused_)(?=.)|\.default$"
)
"""Matches the beginnings, and the end, that many names of calls have in common."""


def short_name(name: str) -> str:
    """Return ``addmm`` for ``extern_kernels.addmm``, ``gelu_view_2`` for
    ``cpp_fused_gelu_view_2``.
    """
    return _FAMILY.sub("", name)


def flame_rows(root: FlameFrame, width: int, noun: str = "step") -> list[list[FlameBlock]]:
    """Return the rows of a flame chart: first ``root`` in the full width, then what it calls, a
    row for each depth. What a block calls begins below the beginning of the block.
    """
    cells_per_s = width / root.duration_s if root.duration_s > 0 else 0.0
    scale = _Scale(root.began_s, cells_per_s)
    rows = [[FlameBlock(0, width, (root,), root, noun)]]
    below = [root] if scale.cells_per_s else []
    while below:
        blocks: list[FlameBlock] = []
        for frame in below:
            blocks += _blocks(frame.children, scale, noun)
        if blocks:
            rows.append(blocks)
        below = [block.main for block in blocks if block.main and block.main.children]
    return rows


def marked_blocks(
    rows: Sequence[Sequence[FlameBlock]], steps: Collection[int]
) -> list[tuple[int, FlameBlock]]:
    """Return the blocks for these steps, each with its row: the block with exactly these steps;
    else blocks that consist mostly of them; else all blocks with any of them.
    """
    wanted = in_order(steps)
    if not wanted:
        return []
    placed: list[tuple[int, FlameBlock]] = []
    for row, blocks in enumerate(rows):
        placed += [(row, block) for block in blocks]
    exact = [(row, block) for row, block in placed if block.main and is_all_of(block.main, wanted)]
    if exact:
        return exact[-1:]
    touched = []
    mostly = []
    for row, block in placed:
        if not _has_one(block.steps, wanted):
            continue
        if any(_has_one(frame.steps, wanted) for frame in block.hidden):
            touched.append((row, block))
            if not block.is_open and _part_of(block, wanted) >= HALF:
                mostly.append((row, block))
    return mostly or touched


def in_order(steps: Collection[int]) -> Sequence[int]:
    """Return positions in order: in a range they are."""
    if isinstance(steps, range):
        return steps
    return sorted(steps)


def is_all_of(frame: FlameFrame, steps: Sequence[int]) -> bool:
    """Return whether these are all steps of the frame, and no others. They are in order."""
    of_frame = frame.steps
    if not of_frame or len(of_frame) != len(steps):
        return False
    return of_frame[0] == steps[0] and of_frame[-1] == steps[-1]


def _has_one(steps: range, wanted: Sequence[int]) -> bool:
    """Return whether ``steps`` contains one of the wanted steps, which are sorted."""
    at = bisect_left(wanted, steps.start)
    return at < len(wanted) and wanted[at] < steps.stop


def _part_of(block: FlameBlock, wanted: Sequence[int]) -> float:
    """Return the fraction of a block's time that these steps take."""
    all_s: list[float] = []
    wanted_s: list[float] = []
    for frame in block.frames:
        for leaf in frame.frames():
            if leaf.children:
                continue
            all_s.append(leaf.duration_s)
            if _has_one(leaf.steps, wanted):
                wanted_s.append(leaf.duration_s)
    whole_s = sum(all_s)
    return sum(wanted_s) / whole_s if whole_s else 1.0


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts a time to a cell of the chart's width."""

    began_s: float
    cells_per_s: float

    def cell(self, time_s: float) -> int:
        return int((time_s - self.began_s) * self.cells_per_s + 0.5)

    def is_narrow(self, frame: FlameFrame) -> bool:
        """Return whether a frame is shorter than a cell."""
        return frame.duration_s * self.cells_per_s < 1


def _blocks(frames: Sequence[FlameFrame], scale: _Scale, noun: str) -> list[FlameBlock]:
    """Return the blocks of neighbours that leave no gap between them."""
    blocks: list[FlameBlock] = []
    before: tuple[FlameFrame, ...] = ()
    for run in _runs(frames, scale):
        first, last = scale.cell(run[0].began_s), scale.cell(run[-1].ended_s)
        if last > first:
            main = run[0] if len(run) == 1 else None
            blocks.append(FlameBlock(first, last - first, (*before, *run), main, noun))
            before = ()
        elif blocks:
            blocks[-1] = replace(blocks[-1], frames=(*blocks[-1].frames, *run))
        else:
            before = (*before, *run)
    return blocks


def _runs(frames: Sequence[FlameFrame], scale: _Scale) -> Iterator[list[FlameFrame]]:
    """Yield the frames in groups that share a block: a frame of at least one cell alone, and
    neighbouring narrower ones together.
    """
    for is_narrow, group in groupby(frames, key=scale.is_narrow):
        if is_narrow:
            yield list(group)
        else:
            for frame in group:
                yield [frame]
