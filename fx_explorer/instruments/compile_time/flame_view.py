"""View v w: compile time as a flame chart, above the tree of the same phases, down to the user's
modules and lines. Enter opens what lies within a row, escape leaves it. The chart can be saved as
SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import bar, careful_share, counted, seconds
from fx_explorer.drawing.flame_charts import FlameChart, FlamePicture, flame_picture_svg
from fx_explorer.drawing.view_table import (
    Detail,
    TableColumn,
    TableRow,
    ViewTable,
)
from fx_explorer.instruments.compile_time.timing import (
    KINDS_IN_WORDS,
    CompilePart,
    CompileTime,
    compile_time,
)
from fx_explorer.instruments.compile_time.view import LEAST_S, why_no_time
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

FLAME_BAR_CELLS = 16
PART_OF_SCREEN = 3

MOST_EXPENSIVE = 12
"""Number of the user's lines that a detail lists."""

TONES: dict[str, str] = {
    **dict.fromkeys(("call", "thread", "function", "other"), "$foreground 12%"),
    **dict.fromkeys(("module",), "$foreground 20%"),
    **dict.fromkeys(("line",), "$foreground 28%"),
    **dict.fromkeys(("dynamo",), "$primary-muted"),
    **dict.fromkeys(("pre_grad", "joint", "forward", "backward"), "$accent-muted"),
    **dict.fromkeys(("post_grad", "backend"), "$secondary-muted"),
    **dict.fromkeys(("schedule", "output_code"), "$success-muted"),
    **dict.fromkeys(("kernel",), "$warning-muted"),
}
"""Kind of a frame → colour of the theme. A theme has fewer colours than there are kinds; names and
rows tell the kinds apart.
"""

FLAME_COLUMNS = (
    TableColumn("phase", "strong", min_width=26, max_width=64),
    TableColumn("in all", is_number=True, min_width=8),
    TableColumn("itself", is_number=True, min_width=8, total=seconds),
    TableColumn("share", "muted", is_number=True, priority=3),
    TableColumn("of the whole", "bar", is_bar=True, min_width=FLAME_BAR_CELLS, priority=2),
    TableColumn("your line", "link", min_width=12, max_width=26, priority=1, keeps="end"),
    TableColumn("torch calls it", "muted", min_width=12, max_width=40, priority=4),
)

NO_LINES = "This session does not have the time of each of your lines: capture again to get it."


def flame_table(reader: SessionReader) -> ViewTable:
    found = compile_time(reader)
    if found is None:
        return ViewTable(
            shows="Where compile time went.",
            notice="",
            origin="",
            columns=FLAME_COLUMNS,
            rows=(),
            empty=why_no_time(reader),
        )
    return _Zoomed(found, 0).table


@dataclass(frozen=True, slots=True)
class _Zoomed:
    """The table of one frame of the chart, and of the frames inside it."""

    whole: CompileTime
    at: int
    """Position of the frame."""

    @property
    def table(self) -> ViewTable:
        frame = self.parts[0].frame
        return ViewTable(
            shows="Where compile time went, down to your modules and lines.",
            notice=self._notice(frame),
            origin="torch's own timed phases, and a timer that assigns time to your lines",
            columns=FLAME_COLUMNS,
            rows=_Rows(self.whole, self.parts),
            empty="",
            chart=FlameChart(
                frame,
                [part.frame.steps for part in self.parts],
                TONES,
                noun="phase",
                part_of_screen=PART_OF_SCREEN,
            ),
            svg=self._svg,
            opens=self._within,
        )

    @property
    def parts(self) -> Sequence[CompilePart]:
        """Return the frame and all frames inside it."""
        steps = self.whole.parts[self.at].frame.steps
        return self.whole.parts[steps.start : steps.stop]

    def _within(self, row: int) -> ViewTable | None:
        frame = self.parts[row].frame
        if row and frame.children:
            return _Zoomed(self.whole, self.at + row).table
        return None

    def _notice(self, frame: FlameFrame) -> str:
        whole_s = self.whole.root.duration_s
        if self.at:
            part = careful_share(frame.duration_s, whole_s)
            return f"{frame.name}: {seconds(frame.duration_s)}, {part} of all. Escape leaves it."
        most_expensive = max(self.parts, key=lambda part: part.frame.self_s).frame
        threads = [child for child in frame.children if child.kind == "thread"]
        if threads:
            on = f" on {counted(len(threads), 'thread')}, which run in parallel"
        else:
            on = ""
        by_itself = f"highest own time: {most_expensive.name}, {seconds(most_expensive.self_s)}"
        words = f"{seconds(whole_s)} in all{on}; {by_itself}. Enter opens a row."
        if self.whole.has_lines:
            return words
        return f"{words} {NO_LINES}"

    def _svg(self) -> str:

        return compile_svg(self.whole, self.parts[0].frame)


class _Rows(Sequence[TableRow]):
    """The rows of the table, each made when it is needed: there may be 10,000 phases."""

    def __init__(self, whole: CompileTime, parts: Sequence[CompilePart]) -> None:
        self._whole = whole
        self._parts = parts
        self._whole_s = whole.root.duration_s

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, at: int) -> TableRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[TableRow]: ...
    def __getitem__(self, at: int | slice) -> TableRow | list[TableRow]:
        if isinstance(at, slice):
            return [self._row(part) for part in self._parts[at]]
        return self._row(self._parts[at])

    def _row(self, part: CompilePart) -> TableRow:
        frame = part.frame
        depth = frame.depth - self._parts[0].frame.depth
        itself = ""
        if frame.self_s >= LEAST_S or not frame.children:
            itself = seconds(frame.self_s)
        line = in_file(*frame.line) if frame.line else ""
        phase = part.span.name if part.span else ""
        cells = (
            f"{'  ' * depth}{frame.name}",
            seconds(frame.duration_s),
            itself,
            careful_share(frame.duration_s, self._whole_s),
            bar(frame.duration_s, self._whole_s, FLAME_BAR_CELLS),
            line,
            phase,
        )
        if part.file and frame.line:
            place = Place(Document("source", part.file), frame.line[1] - 1)
        else:
            place = None
        values = {
            "itself": frame.self_s,
            "of the whole": frame.duration_s,
            "in all": frame.duration_s,
        }
        return TableRow(cells, place, lambda: Detail(self._detail(part)), values=values)

    def _detail(self, part: CompilePart) -> str:
        frame, span = part.frame, part.span
        if frame.children and frame.self_s >= LEAST_S:
            itself = f"; {run_time(frame.self_s)} of it itself"
        else:
            itself = ""
        parts = [
            (
                f"{frame.name}: {run_time(frame.duration_s)}, "
                f"{careful_share(frame.duration_s, self._whole_s)} of all{itself}."
            ),
            KINDS_IN_WORDS.get(frame.kind, ""),
        ]
        if span:
            thread = f" on the thread {span.thread}" if span.thread else ""
            parts.append(
                f"torch's name: {span.name}; it begins {seconds(span.start_s)} after the "
                f"start{thread}."
            )
        if part.compilation:
            parts.append(f"It is of [{part.compilation}].")
        lines = _line_sums(self._whole.parts[frame.steps.start : frame.steps.stop])
        if len(lines) > 1 or (lines and frame.kind != "line"):
            parts += [
                "",
                f"Your lines in it, the most expensive of {counted(len(lines), 'line')} first:",
            ]
            parts += [
                f"{run_time(took_s):>9}  {where}"
                for where, took_s in list(lines.items())[:MOST_EXPENSIVE]
            ]
        return "\n".join(line for number, line in enumerate(parts) if line or number > 1)


def _line_sums(parts: Sequence[CompilePart]) -> dict[str, float]:
    """Return the seconds of each line of the user's, in all modules and phases, the most expensive
    first.
    """
    sums: dict[str, float] = {}
    for part in parts:
        if part.frame.kind == "line":
            sums[part.frame.name] = sums.get(part.frame.name, 0.0) + part.frame.duration_s
    return dict(sorted(sums.items(), key=lambda entry: -entry[1]))


# The chart as SVG.


SVG_COLOURS: dict[str, str] = {
    "call": "#b4bac6",
    "thread": "#c3c8d2",
    "function": "#d2d6de",
    "dynamo": "#84b1e2",
    "pre_grad": "#cbb8e8",
    "joint": "#b49be0",
    "forward": "#ddcdf4",
    "backward": "#c4aee9",
    "backend": "#f19cb4",
    "post_grad": "#45b3a4",
    "schedule": "#93d36f",
    "output_code": "#62c298",
    "kernel": "#fbaa5f",
    "other": "#f4f1e6",
    "module": "#ffca93",
    "line": "#efd25c",
}
"""Kind of a frame → its colour; dark letters can be read on each of them."""


def compile_svg(whole: CompileTime, root: FlameFrame) -> str:
    """Return the picture of one frame with all frames inside it."""
    kinds = {frame.kind for frame in root.frames()}

    def about(frame: FlameFrame) -> list[str]:
        part = whole.parts[frame.steps.start]
        parts = [
            frame.name,
            f"{run_time(frame.duration_s)}, "
            f"{careful_share(frame.duration_s, whole.root.duration_s)} of all; "
            f"{run_time(frame.self_s)} own time",
            KINDS_IN_WORDS[frame.kind],
        ]
        parts += [f"torch calls it {part.span.name}"] if part.span else []
        if frame.line:
            return [*parts, in_file(*frame.line)]
        return parts

    title = (
        f"{root.name}: {run_time(root.duration_s)} of the {run_time(whole.root.duration_s)} of "
        "compiling."
    )
    legend = {kind: words for kind, words in KINDS_IN_WORDS.items() if kind in kinds}
    return flame_picture_svg(FlamePicture(root, [title], about, SVG_COLOURS, legend))
