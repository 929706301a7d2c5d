"""The first page says what happened, in plain words: findings with what can be done about them, the
figures of the session, and what is fine. Its facts are those of the session, read beside the
screen, and those that only the app knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from rich.cells import cell_len, set_cell_size

from fx_explorer.analysis.facts import Fact, Severity, Topic, View
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.instruments.kernels.line_heat import NO_HEAT
from fx_explorer.model import Failure
from fx_explorer.overview.figures_row import FigureInRow, figures_row
from fx_explorer.overview.overview import page_facts
from fx_explorer.overview.own_file import OwnPlace, own_place
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, Renewed
from fx_explorer.tui.commands import VIEWS, Keymap, by_id
from fx_explorer.tui.commands.view_commands import MORE_VIEWS, digit_of
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.content.long_work import OVERVIEW_READS, READING, UNREADABLE
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.text_layout import wrapped

GLYPHS: dict[Severity, Piece] = {
    "good": ("✓", "good"),
    "running": ("▷", "annotation"),
    "changed": ("≠", "annotation"),
    "notice": ("▲", "warning"),
    "problem": ("✗", "bad"),
}

TOPIC_CELLS = 12
"""Width in cells of the column with the topic of a fact."""

FIRST: tuple[Topic, ...] = ("old", "since", "next")
"""Topics that come before all others: that the data is outdated, the effect of a change, where to
begin.
"""

NO_FACT = -1
"""Index in place of a fact, for lines that belong to none: figures, and empty lines."""


@dataclass(frozen=True, slots=True)
class FactLine:
    """A line on screen, and the fact it belongs to."""

    pieces: tuple[Piece, ...]
    fact: int
    """Index of the fact, or NO_FACT."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """What the first page shows of a session."""

    facts: list[Fact]
    figures: list[FigureInRow]
    own: OwnPlace | None
    """The most interesting line of the user's own file, which stands beside the facts."""


STARTING = "Starting. The first facts appear here as soon as they are known."


class FactList(LineView):
    """Shows findings on top, the worst first: one line each, with what it costs and what can be
    done. Below it the figures of the session, and in one quiet line what is fine.

    The finding under the cursor is shown whole. What is fine is listed while the cursor is there.
    """

    def __init__(self, fix_key: str = "", try_key: str = "") -> None:
        """``fix_key`` is the key that fixes a graph break, ``try_key`` the key that tries remedies;
        empty where they have none.
        """
        super().__init__(placeholder=STARTING)
        self._why = self._done = ""
        self._fix_key = fix_key
        self._try_key = try_key
        self._figures: Sequence[FigureInRow] = ()
        self._facts: Sequence[Fact] = ()
        self._of_session: Sequence[Fact] = ()
        self._of_app: dict[Topic, Sequence[Fact]] = {}
        """Facts that are not in the session: that its files have changed, and the differences from
        the last capture.
        """
        self._lines: list[FactLine] = []
        self._width = 0
        self._at = 0
        """The fact under the cursor, which is shown whole."""

    def show_why_empty(self, why: str) -> None:
        """Show why there are no facts, in place of "Starting"; with "" they are still being
        computed.
        """
        self._why = why
        self._say()

    def show_facts_progress(self, words: str) -> None:
        """Show how far the facts are, in place of "Starting"."""
        self._done = words
        self._say()

    def _say(self) -> None:
        before, self.placeholder = self.placeholder, self._why or self._done or STARTING
        if self.placeholder != before and not self._facts:
            self.refresh()

    def show(self, facts: Sequence[Fact], figures: Sequence[FigureInRow] = ()) -> None:
        """Show these facts and figures of the session. The cursor stays on the fact it was on."""
        self._of_session = facts
        if figures != self._figures:
            self._figures = figures
            self._facts = ()
        self._show_all()

    def show_of_app(self, topic: Topic, facts: Sequence[Fact]) -> None:
        """Show these facts on a topic that no session knows, above those of the session."""
        self._of_app[topic] = facts
        self._show_all()

    def forget_of_app(self) -> None:
        """Drop the facts of the app, because another session is shown."""
        self._of_app.clear()

    def _show_all(self) -> None:
        of_app = chain.from_iterable(self._of_app.values())
        by_rank = sorted([*of_app, *self._of_session], key=_rank)
        facts = by_rank if self._of_session else []  # without it, why there is nothing is said
        if facts == list(self._facts):
            return
        at, fact = self.fact_index, self.fact
        self._facts = facts
        if at and fact in facts:
            at = facts.index(fact)
        self._rebuild(min(at, max(0, len(facts) - 1)))

    @property
    def facts(self) -> Sequence[Fact]:
        return self._facts

    @property
    def fact(self) -> Fact | None:
        """Return the fact under the cursor."""
        if self._at < len(self._facts):
            return self._facts[self._at]
        return None

    @property
    def is_on_a_break(self) -> bool:
        """Return whether the fact under the cursor is about existing graph breaks."""
        return self.fact is not None and self.fact.view == "breaks" and self.fact.severity != "good"

    @property
    def fact_index(self) -> int:
        return self._at

    def _rebuild(self, fact_index: int) -> None:
        self._at = fact_index
        self._width = self.body_width
        if self._width > 0:
            page = PageLayout(self._width, self._fix_key, self._try_key, fact_index)
            self._lines = page.lines(self._facts, self._figures)
        else:
            self._lines = []
        self.content_changed()
        if self._lines:
            first = self._first_line(fact_index)
            last = max(at for at, line in enumerate(self._lines) if line.fact == fact_index)
            super().move_to(last)  # so that it is seen whole
            super().move_to(first)

    def move_to(self, line: int, center: bool = False) -> None:
        super().move_to(line, center)
        fact = self._fact_near(self.cursor)
        if self._lines and fact != self._at:
            self._rebuild(fact)
        elif self._lines and self._lines[self.cursor].fact == NO_FACT:
            super().move_to(self._first_line(fact))

    def _fact_near(self, line: int) -> int:
        """Return the fact of a line. For a line without a fact, return that of the next line below
        that has one, else of the nearest above.
        """
        for other in (*self._lines[line:], *reversed(self._lines[:line])):
            if other.fact != NO_FACT:
                return other.fact
        return 0

    def _first_line(self, fact_index: int) -> int:
        return next(
            (i for i, line in enumerate(self._lines) if line.fact == fact_index and line.pieces), 0
        )

    def on_resize(self) -> None:
        super().on_resize()
        if self.body_width != self._width:
            self._rebuild(self.fact_index)

    # the cursor goes from fact to fact

    def action_cursor_by(self, lines: int) -> None:
        if self._facts:
            step = 1 if lines > 0 else -1
            target = max(0, min(self.fact_index + step, len(self._facts) - 1))
            self.user_moves_to(self._first_line(target))

    @property
    def line_count(self) -> int:
        return len(self._lines)

    def line_tokens(self, line: int) -> Sequence[Piece]:
        return self._lines[line].pieces


def _rank(fact: Fact) -> int:
    """Return the place of a fact on the page: what the user changed, problems, notices, and what is
    fine last.
    """
    if fact.topic in FIRST:
        return FIRST.index(fact.topic)
    return len(FIRST) + SEVERITIES.index(fact.severity)


SEVERITIES: tuple[Severity, ...] = ("problem", "notice", "changed", "running", "good")
"""Severities, the worst first."""


def is_finding(fact: Fact) -> bool:
    """Return whether a fact stands on top of the page, and not among what is fine or still
    running.
    """
    return fact.severity not in ("good", "running") or fact.topic in FIRST


MOST_FIGURE_GAP = 6
"""Maximum number of cells between two figures; there are two at least."""

BARS = "▁▂▃▄▅▆▇█"

SHOW = "⏎ show"


class PageLayout:
    """Lays out the first page, ``width`` cells wide. The fact at index ``open_fact`` is shown
    whole.
    """

    def __init__(self, width: int, fix_key: str, try_key: str, open_fact: int) -> None:
        self._width = width
        self._fix_key = fix_key
        self._try_key = try_key
        self._open = open_fact

    def lines(self, facts: Sequence[Fact], figures: Sequence[FigureInRow] = ()) -> list[FactLine]:
        """Return the lines of the page. Each fact has one line at least, but for those that are
        fine while the cursor is on a finding.
        """
        lines: list[FactLine] = []
        others = [at for at, fact in enumerate(facts) if not is_finding(fact)]
        running = [at for at in others if facts[at].severity == "running"]
        fine = [at for at in others if at not in running]
        for at, fact in enumerate(facts):
            if is_finding(fact):
                lines += self._fact(fact, at, "")
        if figures:
            if lines:
                lines.append(FactLine((), NO_FACT))
            lines += [FactLine(pieces, NO_FACT) for pieces in figure_lines(figures, self._width)]
        if running and lines:
            lines.append(FactLine((), NO_FACT))
        for at in running:
            lines += self._fact(facts[at], at, "")
        if fine:
            if lines:
                lines.append(FactLine((), NO_FACT))
            lines += self._fine(facts, fine, is_open=not figures or self._open in fine)
        return lines

    def _fine(self, facts: Sequence[Fact], fine: Sequence[int], *, is_open: bool) -> list[FactLine]:
        """Return one quiet line with the topics of the facts that are fine. All these facts are
        listed where the cursor is there, and where the session has no figures that would stand for
        them.
        """
        if not is_open:
            left_out = {"pause", *(fact.topic for fact in facts if is_finding(fact))}
            topics = dict.fromkeys(facts[at].topic for at in fine)
            labels = [TOPIC_LABELS[topic] for topic in topics if topic not in left_out]
            text = f"fine: {' · '.join(labels)}" if labels else counted(len(fine), "more fact")
            return [FactLine((("✓ ", "good"), (fitted(text, self._width - 3), "muted")), fine[0])]
        lines: list[FactLine] = []
        topic = ""
        for at in fine:
            label = "" if facts[at].topic == topic else TOPIC_LABELS[facts[at].topic]
            topic = facts[at].topic
            lines += self._fact(facts[at], at, f"{label:<{TOPIC_CELLS}}")
        return lines

    def _fact(self, fact: Fact, at: int, label: str) -> list[FactLine]:
        """Return the lines of a fact: its sentence with what it costs and what can be done, and
        where the cursor is on it all of its text.
        """
        right = self._right_pieces(fact)
        right_cells = sum(cell_len(text) for text, _ in right)
        indent = " " * (len(label) + 2)
        row_cells = max(20, self._width - len(indent) - 1)
        room = max(20, row_cells - right_cells - 2) if right else row_cells
        kind = "strong" if fact.severity in ("problem", "notice") else "text"
        rest: list[str] = []
        if at == self._open:
            first, *rest = wrapped(printable(fact.text), row_cells, first_width=room)
        else:
            first = fitted(printable(fact.brief or fact.text), room)
        gap = " " * (room - cell_len(first) + 2 if right else 0)
        start: tuple[Piece, ...] = ((label, "muted"), GLYPHS[fact.severity], (f" {first}", kind))
        lines = [FactLine((*start, (gap, "text"), *right), at)]
        if at != self._open:
            return lines
        lines += [FactLine(((indent, "text"), (row, kind)), at) for row in rest]
        for paragraph in fact.detail.splitlines():
            for row in wrapped(printable(paragraph), row_cells):
                lines.append(FactLine(((indent, "text"), (row, "muted")), at))
        lead = leads_to(fact)
        hint = f"  → {lead}"
        used = sum(cell_len(text) for text, _ in lines[-1].pieces)
        if lead and used + cell_len(hint) <= self._width:
            lines[-1] = FactLine((*lines[-1].pieces, (hint, "annotation")), at)
        return lines

    def _right_pieces(self, fact: Fact) -> tuple[Piece, ...]:
        """Return what a finding costs, and the keys that do something about it."""
        if not is_finding(fact):
            return ()
        pieces: list[Piece] = []
        if fact.cost:
            pieces.append((f"{fact.cost}  ", "warning"))
        if leads_to(fact):
            pieces.append((SHOW, "annotation"))
        if is_fixable(fact) and self._fix_key:
            pieces.append((f" · {self._fix_key} fix", "annotation"))
        elif fact.can_try and self._try_key:
            pieces.append((f" · {self._try_key} try", "annotation"))
        return tuple(pieces)


def is_fixable(fact: Fact) -> bool:
    """Return whether a fact is about one graph break, for which a change may be known."""
    return fact.topic == "breaks" and fact.severity == "problem" and bool(fact.place)


def fitted(text: str, cells: int) -> str:
    """Return a text in one line of so many cells, cut with an ellipsis where it is longer."""
    line = " ".join(text.split())
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, max(0, cells - 1)).rstrip() + "…"


def figure_lines(figures: Sequence[FigureInRow], width: int) -> list[tuple[Piece, ...]]:
    """Return the labels, and below them the figures, with a bar for each of their parts where there
    is room.
    """
    widths = [max(cell_len(figure.label), cell_len(figure.value)) + 2 for figure in figures]
    bars = [""] * len(figures)
    for at, figure in enumerate(figures):
        wider = max(widths[at], cell_len(figure.value) + len(figure.parts) + 3)
        if 2 + sum(widths) - widths[at] + wider <= width:
            widths[at], bars[at] = wider, _bars(figure.parts)
    spare = max(0, width - 2 - sum(widths)) // len(figures)
    labels: list[Piece] = [("  ", "text")]
    values: list[Piece] = [("  ", "text")]
    for figure, cells, bar in zip(figures, widths, bars, strict=True):
        cells += min(spare, MOST_FIGURE_GAP - 2)
        labels.append((f"{figure.label:<{cells}}", "muted"))
        values.append((f"{figure.value} ", "strong"))
        values.append((f"{bar:<{cells - cell_len(figure.value) - 1}}", "annotation"))
    return [tuple(labels), tuple(values)]


def _bars(parts: Sequence[float]) -> str:
    """Return a bar for each part, as high as its share of the largest."""
    bars = ""
    for part in parts:
        bars += BARS[max(0, round(part / max(parts) * len(BARS)) - 1)]
    return bars


TOPIC_LABELS: dict[Topic, str] = {
    "run": "run",
    "graphs": "graphs",
    "breaks": "breaks",
    "recompiles": "recompiles",
    "kernels": "kernels",
    "memory": "memory",
    "time": "time",
    "caches": "caches",
    "call": "a call",
    "profile": "profile",
    "backend": "backend",
    "bench": "bench",
    "front_ends": "front ends",
    "stages": "stages",
    "next": "start here",
    "old": "old",
    "since": "your change",
    "pause": "paused",
}


def leads_to(fact: Fact) -> str:
    """Return where enter goes, in words: ``model.py:32``, ``breaks (key 4)``. A number before the
    name would be read as a count: ``4 breaks``.
    """
    if fact.difference:
        return "what differs"
    if fact.place:
        return printable(f"{fact.place.document.title}:{fact.place.line + 1}")
    name = fact.view or ""
    keys = {view: f"{label} (key {digit_of(at)})" for at, (view, label, _) in enumerate(VIEWS)}
    keys |= {view: f"{label} (keys {key})" for view, key, label, _ in MORE_VIEWS}
    return keys.get(name, "") if name != "overview" else ""


class OverviewFacts:
    """Keeps the overview up to date."""

    def __init__(
        self,
        shown: FactList,
        keymap: Keymap,
        show_source: Callable[[OwnPlace | None], None],
        shows_others: Callable[[], None],
    ) -> None:
        """``show_source`` shows a line of the user's own file beside the facts. ``shows_others`` is
        called when other facts are shown.
        """
        self._show_source = show_source
        self._shown = shown
        self._keymap = keymap
        self._shows_others = shows_others
        self._read: Renewed[PageContent] = Renewed(
            BackgroundTask(shown, "overview", "read the overview"), self._show, self._cannot_read
        )
        self.waiting: Waiting | None = None
        """The pause at which the compiler waits for the user, which is shown as a fact."""

    def forget(self) -> None:
        """Drop the facts of a session that is about to be closed."""
        self._read.forget()
        self._shown.forget_of_app()

    def renew(self, reader: SessionReader) -> None:
        """Show the overview of the session's present state."""
        waiting, keymap = self.waiting, self._keymap

        def content(session: SessionReader) -> PageContent:
            facts = page_facts(session, waiting_fact(session, waiting, keymap))
            return PageContent(facts, figures_row(session), own_place(session, NO_HEAT))

        takes_long = OVERVIEW_READS.takes_long(reader)
        if not self._read.renew(reader, content, takes_long=takes_long, given=waiting):
            self._shown.show_facts_progress(READING.format(what=OVERVIEW_READS.words(reader)))

    def _show(self, content: PageContent) -> None:
        self._shown.show(content.facts, content.figures)
        self._show_source(content.own)
        self._shows_others()

    def _cannot_read(self) -> None:
        self._shown.show_facts_progress(UNREADABLE)


# What the first page says, below whatever was found, while the compiler waits. The status line
# names the pause and the keys that lead on.

_BACKENDS_OWN = (
    "The following stages are internal to the backend: you can look at this stage, but not change "
    "anything."
)
_RAN = "Your program has finished in eager mode; its graphs are kept here for compiling."


def waiting_fact(reader: SessionReader, waiting: Waiting | None, keymap: Keymap) -> Fact | None:
    """Return the fact that the compiler waits, and what can be done meanwhile; None when nothing
    waits, or everything is compiled.
    """
    if waiting is None or waiting.gate is None:
        return None
    figures = totals(reader)
    view: View = "breaks" if figures.graph_breaks else "graphs"
    if waiting.gate == "dynamo" and not waiting.compilation:
        if figures.graphs == 1:
            are = "is captured but not compiled yet"
        else:
            are = "are captured but none is compiled yet"
        text = f"Paused after Dynamo: {counted(figures.graphs, 'graph')} {are}."
        raised = reader.rows(Failure, where="program")
        ran = _RAN
        if raised:
            ran = f"Your program stopped with an error, {raised[0].message.removesuffix('.')}."
        return Fact("pause", "good", text, f"{ran} {_what_can_change(keymap)}", view=view)
    direction = f", {waiting.direction}" if waiting.direction else ""
    after = printable(waiting.after)
    text = f"Paused after {after} of [{waiting.compilation}]{direction}."
    skip, abort = key_of("step.skip", keymap), key_of("step.abort", keymap)
    leaving = (
        f"{skip} runs this graph in eager mode; {abort} aborts the compile, and ends a program "
        "that is still running."
    )
    if waiting.gate == "backend":
        before = _BACKENDS_OWN
    else:
        before = _what_can_change(keymap)
    return Fact("pause", "good", text, f"{before} {leaving}", view=view)


def _what_can_change(keymap: Keymap) -> str:
    option, mark, applied = (
        key_of(command, keymap) for command in ("step.option", "step.mark", "step.pass")
    )
    return (
        f"Before you continue: {option} changes options, {mark} marks a region, {applied} applies "
        "your own pass."
    )


def key_of(command_id: str, keymap: Keymap) -> str:
    """Return the key of a command; without one, the palette's key and the title that finds it
    there.
    """
    command = by_id(command_id)
    return (
        first_key(command, keymap) or f"{first_key(by_id('app.palette'), keymap)} {command.title}"
    )
