"""This module makes the views of compile time: a tree by stage, and by function and torch's own
timed phases (view 9); and as a flame chart above the tree of the same phases, down to the user's
modules and lines (view v w).

The chart can be saved as SVG. In it, enter opens what lies within a row, escape leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import bar, careful_share, counted, seconds, share
from fx_explorer.cut_text import cell_count
from fx_explorer.drawing.flame_charts import FlameChart, FlamePicture, flame_picture_svg
from fx_explorer.drawing.view_table import (
    INDENT,
    LEAF,
    Detail,
    TableColumn,
    TableRow,
    Tree,
    ViewTable,
    folded_to_fit,
)
from fx_explorer.instruments.compile_time.timing import (
    KINDS_IN_WORDS,
    STAGE_IN_WORDS,
    CompilePart,
    CompileTime,
    StageTimes,
    compile_time,
    stage_times,
)
from fx_explorer.instruments.kernels.counts import built_kernels
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

BAR_CELLS = 12

FIRST_ROWS = 24
"""Number of rows that are unfolded at first: about as many as a small terminal shows."""

WIDEST_NAMES = 46
"""Maximum width in cells of the names for which other columns are left out."""

SAME_TIME = 0.99
"""Share of a phase's time from which the only phase that matters in it is not a row of its own."""

BY_STAGE, BY_FUNCTION = "by stage", "by function"

TIME_COLUMNS = (
    TableColumn("what took the time", "strong", min_width=30, max_width=64),
    TableColumn("time", is_number=True, min_width=7),
    TableColumn("itself", is_number=True, min_width=7, total=seconds, priority=3),
    TableColumn("share", "muted", is_number=True, priority=1),
    TableColumn("of all", "bar", is_bar=True, min_width=BAR_CELLS, priority=2),
    TableColumn("torch calls it", "muted", min_width=16, max_width=44, priority=4),
)


def time_table(reader: SessionReader) -> ViewTable:
    whole = stage_times(reader)
    rows = _TimeRows(whole.total_s)
    if whole.total_s:
        rows.add_stages(whole)
        rows.add_functions(compile_time(reader))
    return ViewTable(
        shows="Where compile time went: by stage, and by function, each with the phases in it.",
        notice=_notice(reader, whole),
        origin="torch's own timed phases; every instant counts once in the stages, and once in "
        "each level of the functions",
        columns=rows.columns(),
        rows=rows.rows,
        empty=why_no_time(reader),
        tree=rows.tree() if rows.rows else None,
    )


class _TimeRows:
    """The rows of the view of compile time: a tree of stages, and one of functions, phases and the
    phases in these.
    """

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self.rows: list[TableRow] = []
        self._depths: list[int] = []
        self._keys: list[str] = []

    def tree(self) -> Tree:
        return Tree(
            self._depths,
            self._keys,
            [row.cells[0] for row in self.rows],
            folded_to_fit(self._depths, frozenset(), FIRST_ROWS),
            self._totals,
        )

    def columns(self) -> tuple[TableColumn, ...]:
        """Return the columns, the first as wide as the longest name, up to a limit: less important
        columns are left out for it.
        """
        names, *others = TIME_COLUMNS
        longest = names.min_width
        for row, depth in zip(self.rows, self._depths, strict=True):
            longest = max(longest, len(INDENT) * depth + len(LEAF) + cell_count(row.cells[0]))
        return replace(names, min_width=min(longest, WIDEST_NAMES)), *others

    def _totals(self, shown: Sequence[int]) -> str:
        return f"time {seconds(self._total_s)}" if shown else ""

    def add_stages(self, times: StageTimes) -> None:
        entries = []
        for stage, took_s in times.by_stage.items():
            entries.append((STAGE_IN_WORDS.get(stage, stage), took_s))
        if times.unaccounted_s > 0.0005:
            entries.append(("in no phase torch timed", times.unaccounted_s))
        self._add(0, BY_STAGE, BY_STAGE, times.total_s, Detail(STAGES_TEXT), part=0)
        for name, took_s in entries:
            self._add(1, f"stage {name}", name, took_s, Detail(f"{name}: {seconds(took_s)}"))

    def add_functions(self, whole: CompileTime | None) -> None:
        """Add each compilation and the phases in it, the longest first."""
        if whole is None:
            return
        detail = Detail(FUNCTIONS_TEXT)
        self._add(0, BY_FUNCTION, BY_FUNCTION, whole.root.duration_s, detail, part=1)
        waiting = [(child, 1) for child in _shortest_first(whole.root.children)]
        while waiting:  # no recursion: a file may hold phases within phases as deep as it likes
            frame, depth = waiting.pop()
            inner, same = _phases_in(frame)
            self._add_frame(whole, frame, depth, same)
            waiting += [(child, depth + 1) for child in _shortest_first(inner)]

    def _add_frame(
        self, whole: CompileTime, frame: FlameFrame, depth: int, same: Sequence[FlameFrame]
    ) -> None:
        part = whole.parts[frame.steps.start]
        if part.span:
            key = f"{part.compilation} {part.span.name} {part.span.start_s}"
            texts = [_phase_text(frame.name, part.span)]
        else:
            key = frame.name
            where = f" at {in_file(*frame.line)}" if frame.line else ""
            texts = [f"{frame.name}{where}: {seconds(frame.duration_s)}"]
        for inner in same:
            texts.append(f"in it, for the same time: {_both_names_of(whole, inner)}")
        inner_s = sum(child.duration_s for child in _phases_in(frame)[0])
        self._add(
            depth,
            key,
            frame.name,
            frame.duration_s,
            Detail("\n".join(texts)),
            itself_s=max(0.0, frame.duration_s - inner_s),
            torch_name=part.span.name if part.span else "",
        )

    def _add(
        self,
        depth: int,
        key: str,
        name: str,
        took_s: float,
        detail: Detail,
        part: int = 0,
        itself_s: float | None = None,
        torch_name: str = "",
    ) -> None:
        values = {"time": took_s, "of all": took_s}
        itself = ""
        if itself_s is not None:
            values["itself"] = itself_s
            itself = seconds(itself_s) if itself_s >= LEAST_S else ""
        cells = (
            name,
            seconds(took_s),
            itself,
            share(took_s, self._total_s),
            bar(took_s, self._total_s, BAR_CELLS),
            torch_name,
        )
        self.rows.append(TableRow(cells, None, lambda: detail, values=values, part=part))
        self._depths.append(depth)
        self._keys.append(key)


STAGES_TEXT = "The time of all compilations by stage. Every instant counts once."
FUNCTIONS_TEXT = (
    "The time of each compilation, and of the phases in it that torch timed. What is in a row is a "
    "part of its time. The column itself has the time in none of the rows in it."
)


def _shortest_first(frames: Sequence[FlameFrame]) -> list[FlameFrame]:
    return sorted(frames, key=lambda frame: frame.duration_s)


def _phases_in(frame: FlameFrame) -> tuple[list[FlameFrame], list[FlameFrame]]:
    """Return the phases that are rows inside a frame, and those that are the same as the frame
    itself: with its name, or with nearly all of its time. What is in these is directly in the
    frame.
    """
    inner, same = [], []
    waiting = list(frame.children)
    while waiting:
        child = waiting.pop()
        if child.kind in ("module", "line"):
            continue
        is_same = child.name == frame.name or child.duration_s >= SAME_TIME * frame.duration_s
        if child.kind != "function" and is_same:
            same.append(child)
            waiting += child.children
        else:
            inner.append(child)
    return inner, same


def _both_names_of(whole: CompileTime, frame: FlameFrame) -> str:
    """Return the name of a phase, and torch's name of it."""
    span = whole.parts[frame.steps.start].span
    if span is None or span.name == frame.name:
        return frame.name
    return f"{frame.name} ({span.name})"


def _phase_text(name: str, span: model.Span) -> str:
    """Return the times of a phase, and torch's name of it."""
    around = f", inside {counted(span.depth, 'other phase')}" if span.depth else ""
    text = (
        f"{name}: {seconds(span.duration_s)}, begun {seconds(span.start_s)} after the start{around}"
    )
    return text if name == span.name else f"{text}\ntorch calls it {span.name}"


def _notice(reader: SessionReader, whole: StageTimes) -> str:
    if not whole.by_stage:
        return ""
    stage, took = max(whole.by_stage.items(), key=lambda entry: entry[1])
    part = "most of it" if 2 * took > whole.total_s else "the largest part"
    where = f"{part} ({share(took, whole.total_s)}) went into {STAGE_IN_WORDS.get(stage, stage)}"
    words = f"{seconds(whole.total_s)} in all; {where}."
    of_build = built_kernels(reader)
    if of_build.built == of_build.kernels:
        return words
    if of_build.built:
        of_all = f"{of_build.built:,} of {counted(of_build.kernels, 'kernel')}"
        return f"{words} It includes the building of {of_all}: those that were saved."
    return f"{words} No kernel was built."


def why_no_time(reader: SessionReader) -> str:
    """Return why a view of compile time is empty."""
    if reader.meta("outcome") is None:
        return "No time yet: nothing has been compiled."
    if reader.count(model.Compilation):
        return "This session has no times of the compiler: capture the program to have them."
    return "No time was measured: nothing was compiled."


# The flame chart (view v w).


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

NO_LINES = "How long each of your lines took is not in this session: capture again to have it."


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
            origin="torch's own timed phases, and a clock that knows your lines",
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
            on = f" on {counted(len(threads), 'thread')}, which run side by side"
        else:
            on = ""
        by_itself = (
            f"most expensive by itself: {most_expensive.name}, {seconds(most_expensive.self_s)}"
        )
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
                f"torch calls it {span.name}; it begins {seconds(span.start_s)} after the "
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


LEAST_S = 5e-5
"""Minimum number of seconds that a phase spends outside of its children to get a row of its own."""


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
            f"{run_time(frame.self_s)} by itself",
            KINDS_IN_WORDS[frame.kind],
        ]
        parts += [f"torch calls it {part.span.name}"] if part.span else []
        if frame.line:
            return [*parts, in_file(*frame.line)]
        return parts

    title = (
        f"{root.name}: {run_time(root.duration_s)} of {run_time(whole.root.duration_s)} that "
        "compiling took."
    )
    legend = {kind: words for kind, words in KINDS_IN_WORDS.items() if kind in kinds}
    return flame_picture_svg(FlamePicture(root, [title], about, SVG_COLOURS, legend))
