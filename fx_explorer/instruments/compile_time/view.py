"""View 9: compile time as a tree, by stage, and by function and torch's own timed phases. The flame
chart of the same phases is flame_view.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.analysis.words import bar, counted, seconds, share
from fx_explorer.cut_text import cell_count
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
    STAGE_IN_WORDS,
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

LEAST_S = 5e-5
"""Minimum number of seconds that a phase spends outside of its children for that to be shown."""

SAME_TIME = 0.99
"""A nested phase gets no separate row if it takes at least this fraction of the outer phase's
time.
"""

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
        shows="Where compile time went: by stage, and by function, each with its phases.",
        notice=_notice(reader, whole),
        origin="torch's own timed phases; every moment counts once in the stages, and once in "
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
            self._add_frame(whole, frame, depth, inner, same)
            waiting += [(child, depth + 1) for child in _shortest_first(inner)]

    def _add_frame(
        self,
        whole: CompileTime,
        frame: FlameFrame,
        depth: int,
        inner: Sequence[FlameFrame],
        same: Sequence[FlameFrame],
    ) -> None:
        """Add the row of a frame. The rows of the ``inner`` ones follow; the ``same`` have none."""
        part = whole.parts[frame.steps.start]
        if part.span:
            key = f"{part.compilation} {part.span.name} {part.span.start_s}"
            texts = [_phase_text(frame.name, part.span)]
        else:
            key = frame.name
            where = f" at {in_file(*frame.line)}" if frame.line else ""
            texts = [f"{frame.name}{where}: {seconds(frame.duration_s)}"]
        for phase in same:
            texts.append(f"inside it, with the same duration: {_both_names_of(whole, phase)}")
        inner_s = sum(child.duration_s for child in inner)
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


STAGES_TEXT = "The time of all compilations by stage. Every moment counts once."
FUNCTIONS_TEXT = (
    "The time of each compilation, and of its phases as timed by torch. A row inside another is "
    "part of that row's time. “itself” is the time of a row without the rows inside it."
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
        f"{name}: {seconds(span.duration_s)}, starting {seconds(span.start_s)} after the "
        f"start{around}"
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
        return f"{words} It includes building {of_all}: those that were saved."
    return f"{words} No kernel was built."


def why_no_time(reader: SessionReader) -> str:
    """Return why a view of compile time is empty."""
    if reader.meta("outcome") is None:
        return "No time yet: nothing has been compiled."
    if reader.count(model.Compilation):
        return "This session has no times of the compiler: capture the program to have them."
    return "No time was measured: nothing was compiled."
