"""Dynamo's trace is read step by step, forward and back: the source with its line lit, the graph as
it is so far, the calls, the symbolic stack and the variables, and what the step adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, get_args

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from fx_explorer.analysis.documents import Document, Place, document_of, text_of
from fx_explorer.analysis.dynamo_trace import (
    TracedAttempt,
    TracePoint,
    TraceRecord,
    frames_at,
    moved,
    state_at,
)
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.step_record import Move
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.instruments.trace.graph_so_far import graph_lines
from fx_explorer.instruments.trace.opcodes import explain_instruction
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import closing_bindings, first_key, priority_bindings, reused_bindings
from fx_explorer.tui.screens.help import Help, Topic
from fx_explorer.tui.screens.step_record_screen import COLUMNS, WIDE_CELLS, value_row, whole
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Row, RowList, Rows

TOPIC = Topic(
    "Dynamo's trace",
    "Dynamo's trace, one step at a time: its line, the graph so far, and what the step adds.\n"
    "If every instruction was recorded, the symbolic stack and the variables before it are on the "
    "right. Dynamo runs no operation: it knows a tensor by its shape, and a number by its guard.",
    "Dialogs",
)

NO_FURTHER: dict[Move, str] = {
    "forward": "This is the last step.",
    "back": "This is the first step.",
    "next_line": "Dynamo reaches no other line after this one.",
    "line_before": "There is no other line before this one.",
    "into": "No call is inlined here or later in this function.",
    "out": "This function was not inlined, or Dynamo did not return from it.",
    "caller": "This function was called by Python, not inlined.",
    "next_graph": "No node is added after this step, and nothing else happens.",
    "graph_before": "No node is added before this step, and nothing else happens.",
}


class TraceScreen(TellsUnreadable, Dialog[Place | None]):
    """Steps through Dynamo's trace. It closes with its place in the source."""

    DEFAULT_CSS = """
    TraceScreen { align: center middle; }
    TraceScreen > Vertical {
        width: 100%; height: 96%; background: $surface; border: round $border; padding: 0 1;
    }
    TraceScreen #code { width: 3fr; }
    TraceScreen #source { height: 3fr; background: $surface; }
    TraceScreen #graph { height: 2fr; background: $surface; }
    TraceScreen #state { width: 2fr; background: $surface; margin: 0 0 0 1; }
    TraceScreen.wide #code { layout: horizontal; }
    TraceScreen.wide #source { width: 3fr; height: 1fr; }
    TraceScreen.wide #graph { width: 2fr; height: 1fr; }
    TraceScreen OneLine { padding: 0; }
    TraceScreen .title { background: $panel; }
    TraceScreen #keys { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *priority_bindings("steps"),
        *reused_bindings({"app.help": "help"}),
    ]

    def __init__(
        self, reader: SessionReader, record: TraceRecord, keymap: Keymap, point: TracePoint
    ) -> None:
        super().__init__()
        self._reader = reader
        self._record = record
        self._keymap = keymap
        self._point = point
        self._document: Document | None = None
        self._source = CodeView(id="source", placeholder="The source of this step is not known.")
        self._graph = CodeView(id="graph", line_numbers=False, placeholder="The graph is empty.")
        self._state = RowList(COLUMNS, header=False, id="state")
        self._position = OneLine(classes="title")
        self._remark = OneLine()
        self._keys = OneLine(id="keys")

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Dynamo's trace, step by step"
            yield self._position
            yield self._remark
            with Horizontal():
                with Vertical(id="code"):
                    yield self._source
                    yield self._graph
                yield self._state
            yield self._keys

    def on_mount(self) -> None:
        self._state.focus()
        self._show_keys()
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE_CELLS, "wide")
        self.call_after_refresh(self._show)

    @property
    def point(self) -> TracePoint:
        """Return the shown step."""
        return self._point

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        """Show a whole value when it was clicked on or paged to."""
        event.stop()
        if event.control is self._state:
            self._remark.show(Content(whole(self._state.row(event.line))))

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()

    # what is shown

    def _show(self) -> None:
        attempt, at = self._record.attempt(self._point.attempt), self._point.step
        step = attempt.steps[at]
        self._light(attempt.file_of(at), step.line)
        lines, new = graph_lines(self._reader, attempt, at)
        self._graph.load("\n".join(lines), "python", line=len(lines) - 1)
        self._graph.marks = frozenset(range(len(lines) - new, len(lines)))
        self._graph.move_to(max(0, len(lines) - 1))
        self._state.load(Rows(list(state_rows(self._reader, attempt, at))))
        position = describe_position(self._reader, attempt, at)
        self._position.show(Content.styled(position, "bold"))
        tone = "$text-warning" if step.event else "$text-accent"
        self._remark.show(Content.styled(describe_step(attempt, at), tone))

    def _light(self, file: int, line: int) -> None:
        document = document_of(self._reader, "source", file) if file else None
        if document is None:
            self._document = None
            self._source.load("")
            return
        if document != self._document:
            self._document = document
            self._source.load(text_of(self._reader, document), document.language, line=line - 1)
        self._source.move_to(line - 1, center=True)
        self._source.marks = frozenset([line - 1])

    def _show_keys(self) -> None:
        def keys(*commands: str) -> str:
            return " ".join(first_key(by_id(command), self._keymap) for command in commands)

        words = (
            (keys("steps.back", "steps.forward"), "step"),
            (keys("steps.line_before", "steps.next_line"), "line"),
            (keys("steps.into", "steps.out"), "into, out"),
            (keys("steps.next_graph"), "node or event"),
            (keys("dialog.close"), "closes"),
        )
        self._keys.show(Content(" · ".join(f"{key} {what}" for key, what in words)))

    # what can be asked

    def action_go(self, move: str) -> None:
        assert move in get_args(Move)
        to = moved(self._record, self._point, move)  # type: ignore[arg-type]
        if to is None:
            self.notify(NO_FURTHER[move])  # type: ignore[index]
        elif to != self._point:
            self._point = to
            self._show()

    def action_leave(self) -> None:
        step = self._record.step(self._point)
        place = Place(self._document, step.line - 1) if self._document else None
        self.dismiss(place)

    def action_help(self) -> None:
        self.app.push_screen(Help(TOPIC, self._keymap))


LINES_ONLY = "not recorded: --record-trace"
MOST_GUARDS = 12
MOST_FUNCTIONS = 3
"""Maximum number of functions in the title; the list of calls has all of them."""


def state_rows(reader: SessionReader, attempt: TracedAttempt, at: int) -> Iterator[Row]:
    """Yield the rows of a step: what it adds, the calls, the stack and the variables."""
    yield from _added_rows(attempt, at)
    yield (("calls", "muted"), ("the innermost first", "muted"))
    for call, line in frames_at(attempt, at):
        name = plain_function(call.function)
        yield (("  ", "muted"), [(name, "text"), (f"  {_where(reader, call.file, line)}", "muted")])
    state = state_at(attempt, at)
    if state is None:
        yield (("stack", "muted"), (LINES_ONLY, "muted"))
        return
    yield (("stack", "muted"), ("the top first", "muted"))
    if not state.stack:
        yield ("", ("empty", "muted"))
    yield from map(value_row, state.stack)
    yield (("variables", "muted"), "")
    yield from map(value_row, state.locals)


def _added_rows(attempt: TracedAttempt, at: int) -> Iterator[Row]:
    step = attempt.steps[at]
    if not step.node_count and not step.guard_count:
        yield (("added", "muted"), ("nothing", "muted"))
        return
    yield (("added", "muted"), ("by this step", "muted"))
    for node in attempt.nodes_at(at):
        remark = " (in a nested graph)" if node.is_nested else ""
        if node.is_removed:
            remark += " (removed later: not used)"
        yield (("  node", "success"), f"{node.name}{remark}")
    for guard in step.guards[:MOST_GUARDS]:
        yield (("  guard", "warning"), guard)
    more = step.guard_count - min(len(step.guards), MOST_GUARDS)
    if more > 0:
        yield ("", (counted(more, "more guard"), "muted"))


def _where(reader: SessionReader, file: int, line: int) -> str:
    if not file:
        return f"line {line}"
    return in_file(document_of(reader, "source", file).title, line)


def describe_position(reader: SessionReader, attempt: TracedAttempt, at: int) -> str:
    """Return ``step 12 of 588 · [0/0] attempt 2 · forward › square``."""
    row, step = attempt.row, attempt.steps[at]
    names = [plain_function(call.function) for call, _ in frames_at(attempt, at)]
    if len(names) > MOST_FUNCTIONS:
        names[1:-1] = ["…"]
    chain = " › ".join(reversed(names))
    owner = compilation_name(reader, row.compilation)
    number = ""
    if row.attempt > 1 or row.ended == "restarted":
        number = f" attempt {row.attempt}"
    if row.ended == "restarted":
        number += ", discarded later"
    text = f"step {at + 1:,} of {len(attempt.steps):,} · [{owner}]{number} · {chain}"
    if row.left_out and step is attempt.steps[-1]:
        text += f" · {counted(row.left_out, 'step')} after it are not recorded"
    return printable(text)


def compilation_name(reader: SessionReader, compilation: int) -> str:
    from fx_explorer.session.queries.compilations import compilation_names

    return compilation_names(reader).get(compilation, "")


def describe_step(attempt: TracedAttempt, at: int) -> str:
    """Return what Dynamo does at a step: the instruction, or the event."""
    step, row = attempt.steps[at], attempt.row
    parts = []
    if step.instruction:
        parts.append(step.instruction)
        parts.append(explain_instruction(step.instruction))
    if step.kind == "call":
        call = attempt.calls.get(step.call)
        begins = "is inlined" if call and call.parent else "is traced, from its first line"
        parts.append(f"{plain_function(attempt.function_of(step.call))} {begins}")
    elif step.kind == "back" and at:
        before = attempt.steps[at - 1]
        parts.append(f"back from {plain_function(attempt.function_of(before.call))}")
    if step.event:
        parts.append(step.event)
    if step.kind == "end" and row.ended == "restarted":
        parts.append(
            f"{counted(row.nodes, 'node')} and {counted(row.guards, 'guard')} of this attempt are "
            "discarded"
        )
    return printable(" · ".join(filter(None, parts)))
