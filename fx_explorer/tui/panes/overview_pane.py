"""This module has the first view, which describes in plain words what happened; every sentence
leads to a place. Its facts come from the session, read in the background, and from the app.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from rich.cells import cell_len

from fx_explorer.analysis.facts import Fact, Severity, Topic, View
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.model import Failure
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, Renewed
from fx_explorer.tui.commands import VIEWS, Keymap, by_id
from fx_explorer.tui.commands.view_commands import MORE_VIEWS
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.content.long_work import OVERVIEW_READS, READING, UNREADABLE
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.text_layout import wrapped

GLYPHS: dict[Severity, Piece] = {
    "good": ("✓", "good"),
    "changed": ("≠", "annotation"),
    "notice": ("▲", "warning"),
    "problem": ("✗", "bad"),
}

TOPIC_CELLS = 12
"""Width in cells of the column with the topic of a fact."""

MAX_TEXT_CELLS = 100
"""Most cells of a line: longer lines of prose are hard to read, however wide the terminal."""

FIRST: tuple[Topic, ...] = ("old", "since", "next")
"""Topics that come before all others: that the data is outdated, the effect of a change, where to
begin.
"""

VIEW_NAMES: dict[View, str] = {"passes": "graphs"}
"""Name of a view in facts → its name in the app, where these differ."""


@dataclass(frozen=True, slots=True)
class FactLine:
    """A line on screen, and the fact it belongs to."""

    pieces: tuple[Piece, ...]
    fact: int


STARTING = "Starting. The first facts appear here as soon as something is known."


class FactList(LineView):
    """Facts as paragraphs: a topic, a glyph for how good or bad it is, the sentence, and muted
    details under it.
    """

    def __init__(self) -> None:
        super().__init__(placeholder=STARTING)
        self._why = self._done = ""
        self._facts: Sequence[Fact] = ()
        self._of_session: Sequence[Fact] = ()
        self._of_app: dict[Topic, Sequence[Fact]] = {}
        """Facts that are not in the session: that its files have changed, and the differences from
        the last capture.
        """
        self._lines: list[FactLine] = []
        self._width = 0

    def say_why_empty(self, why: str) -> None:
        """Show why there are no facts, in place of "Starting"; with "" they are still being
        computed.
        """
        self._why = why
        self._say()

    def say_what_is_done(self, words: str) -> None:
        """Show how far the facts are, in place of "Starting"."""
        self._done = words
        self._say()

    def _say(self) -> None:
        before, self.placeholder = self.placeholder, self._why or self._done or STARTING
        if self.placeholder != before and not self._facts:
            self.refresh()

    def show(self, facts: Sequence[Fact]) -> None:
        """Show these facts of the session. The cursor stays on the fact it was on."""
        self._of_session = facts
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
        self._rebuild(at)

    @property
    def facts(self) -> Sequence[Fact]:
        return self._facts

    @property
    def fact(self) -> Fact | None:
        """Return the fact under the cursor."""
        if self._facts:
            return self._facts[self.fact_index]
        return None

    @property
    def is_on_a_break(self) -> bool:
        """Return whether the fact under the cursor is about existing graph breaks."""
        return self.fact is not None and self.fact.view == "breaks" and self.fact.severity != "good"

    @property
    def fact_index(self) -> int:
        if self.cursor < len(self._lines):
            return self._lines[self.cursor].fact
        return 0

    def _rebuild(self, fact_index: int) -> None:
        self._width = self.body_width
        if self._width > 0:
            self._lines = fact_lines(self._facts, self._width)
        else:
            self._lines = []
        self.content_changed()
        if self._lines:
            self.move_to(self._first_line(min(fact_index, len(self._facts) - 1)))

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
    if fact.topic in FIRST:
        return FIRST.index(fact.topic)
    return len(FIRST)


def fact_lines(facts: Sequence[Fact], width: int) -> list[FactLine]:
    """Return the facts wrapped to ``width`` cells, with a blank line between topics."""
    lines: list[FactLine] = []
    topic = ""
    for index, fact in enumerate(facts):
        if lines and fact.topic != topic:
            lines.append(FactLine((), index))
        if fact.topic != topic:
            label = f"{TOPIC_LABELS[fact.topic]:<{TOPIC_CELLS}}"
        else:
            label = " " * TOPIC_CELLS
        topic = fact.topic
        lines += _fact(fact, index, label, width)
    return lines


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


def _fact(fact: Fact, index: int, label: str, width: int) -> list[FactLine]:
    """Return the lines of a fact: its text beside topic and glyph, and its details below."""
    room = max(20, min(MAX_TEXT_CELLS, width - TOPIC_CELLS - 4))
    indent = " " * (TOPIC_CELLS + 2)
    text_kind = {"good": "text", "changed": "text", "notice": "strong", "problem": "strong"}[
        fact.severity
    ]
    first, *rest = wrapped(printable(fact.text), room)
    lines = [FactLine(((label, "muted"), GLYPHS[fact.severity], (f" {first}", text_kind)), index)]
    lines += [FactLine(((indent, "text"), (row, text_kind)), index) for row in rest]
    for paragraph in fact.detail.splitlines():
        lines += [
            FactLine(((indent, "text"), (row, "muted")), index)
            for row in wrapped(printable(paragraph), room)
        ]
    lead = leads_to(fact)
    if lead:
        last = lines[-1]
        used = sum(cell_len(text) for text, _ in last.pieces)
        hint = f"  → {lead}"
        if used + cell_len(hint) <= width:
            lines[-1] = FactLine((*last.pieces, (hint, "annotation")), index)
    return lines


def leads_to(fact: Fact) -> str:
    """Return where enter goes, in words: ``model.py:32``, ``breaks (key 4)``. A number before the
    name would be read as a count: ``4 breaks``.
    """
    if fact.difference:
        return "what differs"
    if fact.place:
        return printable(f"{fact.place.document.title}:{fact.place.line + 1}")
    name = VIEW_NAMES.get(fact.view, fact.view) if fact.view else ""
    keys = {view: f"{label} (key {i})" for i, (view, label, _) in enumerate(VIEWS, start=1)}
    keys |= {view: f"{label} (keys {key})" for view, key, label, _ in MORE_VIEWS}
    return keys.get(name, "") if name != "overview" else ""


class OverviewFacts:
    """Keeps the overview up to date."""

    def __init__(self, shown: FactList, keymap: Keymap, shows_others: Callable[[], None]) -> None:
        """``shows_others`` is called when other facts are shown."""
        self._shown = shown
        self._keymap = keymap
        self._shows_others = shows_others
        self._read: Renewed[list[Fact]] = Renewed(
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

        def facts(session: SessionReader) -> list[Fact]:
            return overview(session, waiting_fact(session, waiting, keymap))

        takes_long = OVERVIEW_READS.takes_long(reader)
        if not self._read.renew(reader, facts, takes_long=takes_long, given=waiting):
            self._shown.say_what_is_done(READING.format(what=OVERVIEW_READS.words(reader)))

    def _show(self, facts: list[Fact]) -> None:
        self._shown.show(facts)
        self._shows_others()

    def _cannot_read(self) -> None:
        self._shown.say_what_is_done(UNREADABLE)


# What the first page says, below whatever was found, while the compiler waits. The status line
# names the pause and the keys that lead on.

_BACKENDS_OWN = (
    "What comes next is the backend's own affair: there is nothing to change here, but to look at."
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
            are = "is captured and not compiled yet"
        else:
            are = "are captured and none is compiled yet"
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
        f"{skip} runs this graph eagerly, {abort} gives up, and ends a program that still runs."
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
        f"Before you continue: {option} changes options, {mark} marks a region, {applied} "
        "applies a pass of yours."
    )


def key_of(command_id: str, keymap: Keymap) -> str:
    """Return the key of a command; without one, the palette's key and the title that finds it
    there.
    """
    command = by_id(command_id)
    return (
        first_key(command, keymap) or f"{first_key(by_id('app.palette'), keymap)} {command.title}"
    )
