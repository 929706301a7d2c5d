"""Dynamo's bytecode is read step by step, forward and back: source and bytecode with their line
lit, the stack and the variables.
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
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.step_record import (
    Move,
    StepRecord,
    StepValue,
    ending,
    happening,
    locals_of,
    moved,
    stack_of,
)
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import closing_bindings, first_key, priority_bindings, reused_bindings
from fx_explorer.tui.screens.help import Help, Topic
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Cell, ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.titled_box import TitledBox

WIDE_CELLS = 150
"""Smallest width for source and bytecode side by side; otherwise one is above the other."""

TOPIC = Topic(
    "steps of the bytecode",
    "Execution of Dynamo's bytecode in one call, one instruction at a time: its line is "
    "highlighted in source and bytecode.\n"
    "Next to them: the stack and the variables before the instruction; changes by the last one "
    "are marked.",
    "Dialogs",
)

NO_FURTHER: dict[Move, str] = {
    "forward": "This is the last step.",
    "back": "This is the first step.",
    "next_line": "There is no other line after this one.",
    "line_before": "There is no other line before this one.",
    "into": "No code from Dynamo is called after this step.",
    "out": "No code from Dynamo has called this function, or it did not return there.",
    "caller": "No code from Dynamo has called this function.",
    "next_graph": "No compiled graph is called after this step.",
    "graph_before": "No compiled graph is called before this step.",
}


class StepScreen(TellsUnreadable, Dialog[Place | None]):
    """Steps through a record. It closes with its place in the bytecode."""

    DEFAULT_CSS = """
    StepScreen { align: center middle; }
    StepScreen > Vertical {
        width: 100%; height: 96%; background: $surface; border: round $border; padding: 0 1;
    }
    StepScreen #code { width: 3fr; }
    StepScreen #source { height: 1fr; background: $surface; }
    StepScreen #bytecode { height: 2fr; background: $surface; }
    StepScreen #state { width: 2fr; background: $surface; margin: 0 0 0 1; }
    StepScreen.wide #code { layout: horizontal; }
    StepScreen.wide #source { width: 2fr; height: 1fr; }
    StepScreen.wide #bytecode { width: 3fr; height: 1fr; }
    StepScreen OneLine { padding: 0; }
    StepScreen .title { background: $panel; }
    StepScreen #keys { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *priority_bindings("steps"),
        *reused_bindings({"app.help": "help"}),
    ]

    def __init__(
        self, reader: SessionReader, record: StepRecord, keymap: Keymap, at: int = 0
    ) -> None:
        super().__init__()
        self._reader = reader
        self._record = record
        self._keymap = keymap
        self._at = at
        self._shown: dict[str, Document] = {}
        self._source = CodeView(
            id="source", placeholder="The source of this instruction is not known."
        )
        self._bytecode = CodeView(
            id="bytecode",
            line_numbers=False,
            placeholder="This bytecode was made before the capture.",
        )
        self._state = RowList(COLUMNS, header=False, id="state")
        self._position = OneLine(classes="title")
        self._remark = OneLine()
        self._keys = OneLine(id="keys")

    def compose(self) -> ComposeResult:
        with TitledBox(f"Bytecode step by step · called with {self._record.run.inputs}"):
            yield self._position
            yield self._remark
            with Horizontal():
                with Vertical(id="code"):
                    yield self._source
                    yield self._bytecode
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
    def at(self) -> int:
        """Return the index of the shown step, from 0."""
        return self._at

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        """Show a whole value when it was clicked on or paged to."""
        event.stop()
        if event.control is self._state:
            self._remark.show(Content(whole(self._state.row(event.line))))

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()

    # what is shown

    def _show(self) -> None:
        step, record = self._record.steps[self._at], self._record
        file, line = record.source_line(self._at)
        source = document_of(self._reader, "source", file) if file else None
        if step.artifact:
            bytecode = document_of(self._reader, "artifact", step.artifact)
        else:
            bytecode = None
        self._light(self._source, source, line - 1)
        self._light(self._bytecode, bytecode, step.line - 1)
        if source and bytecode and step.calls:  # a compiled graph stands for more than one line
            self._source.marks = linked_places(
                self._reader, Place(bytecode, step.line - 1), [source]
            )[source]
        self._state.load(Rows(state_rows(self._reader, record, self._at)))
        compilation = bytecode.owner if bytecode else ""
        self._position.show(Content.styled(position(record, self._at, compilation), "bold"))
        tone = "$text-error" if step.kind == "raised" else "$text-accent"
        self._remark.show(Content.styled(remarkable(record, self._at), tone))

    def _light(self, view: CodeView, document: Document | None, line: int) -> None:
        """Read each text once, not at every step."""
        name = str(view.id)
        if document is None:
            self._shown.pop(name, None)
            view.load("")
            return
        if self._shown.get(name) != document:
            self._shown[name] = document
            view.load(text_of(self._reader, document), document.language, line=line)
        view.move_to(line, center=True)
        view.marks = frozenset([line])

    def _show_keys(self) -> None:
        def keys(*commands: str) -> str:
            return " ".join(first_key(by_id(command), self._keymap) for command in commands)

        words = (
            (keys("steps.back", "steps.forward"), "instruction"),
            (keys("steps.line_before", "steps.next_line"), "line"),
            (keys("steps.into", "steps.out"), "into, out"),
            (keys("steps.next_graph"), "graph"),
            (keys("dialog.close"), "closes"),
        )
        self._keys.show(Content(" · ".join(f"{key} {what}" for key, what in words)))

    # what can be asked

    def action_go(self, move: str) -> None:
        assert move in get_args(Move)
        to = moved(self._record, self._at, move)  # type: ignore[arg-type]
        if to is None:
            self.notify(NO_FURTHER[move])  # type: ignore[index]
        elif to != self._at:
            self._at = to
            self._show()

    def action_leave(self) -> None:
        step = self._record.steps[self._at]
        document = self._shown.get("bytecode")
        place = Place(document, step.line - 1) if document else None
        self.dismiss(place)

    def action_help(self) -> None:
        self.app.push_screen(Help(TOPIC, self._keymap))


# A step of the bytecode as rows: the stack and the variables, with what has changed.

COLUMNS = (ListColumn("", "text", max_width=18), ListColumn("", "text"))

CHANGED = ("● ", "warning")
UNCHANGED = ("  ", "muted")
"""Two spaces where other values have a sign: colour alone must not carry meaning."""

ERROR_ON_ITS_WAY = "not known: an exception is propagating"


def state_rows(reader: SessionReader, record: StepRecord, at: int) -> list[Row]:
    return [
        (("stack", "muted"), ("the top first", "muted")),
        *_stack(record, at),
        *_variables(reader, record, at),
    ]


def _stack(record: StepRecord, at: int) -> Iterator[Row]:
    step = record.steps[at]
    if not step.is_stack_known:
        reason = ERROR_ON_ITS_WAY if step.kind == "raised" else "not known"
        yield ("", (reason, "muted"))
    elif not step.stack:
        yield ("", ("empty", "muted"))
    yield from map(value_row, stack_of(record, at))


def _variables(reader: SessionReader, record: StepRecord, at: int) -> Iterator[Row]:
    yield (("variables", "muted"), "")
    yield from map(value_row, locals_of(reader, record, at))


def value_row(value: StepValue) -> Row:
    text: Cell = value.text
    if value.is_gone:
        text = [("gone", "warning"), (f"  was {value.text}", "muted")]
    elif value.was:
        text = [(value.text, "text"), (f"  was {value.was}", "muted")]
    sign = CHANGED if value.is_changed else UNCHANGED
    return ([sign, (value.name, "text")], text)


def position(record: StepRecord, at: int, owner: str) -> str:
    """Return ``step 12 of 588 · forward [0/0]``."""
    step = record.steps[at]
    where = f"{plain_function(step.function)}{owner and f' [{owner}]'}"
    return printable(f"step {at + 1:,} of {len(record.steps):,} · {where}")


def whole(row: Row) -> str:
    """Return a whole row as one text, for screens on which its value is shortened."""
    name, value = row
    if _plain(value):
        return printable(f"{_plain(name).lstrip('● ')}: {_plain(value)}")
    return ""


def _plain(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return cell[0]
    return "".join(text for text, _ in cell)


def remarkable(record: StepRecord, at: int) -> str:
    """Describe the event of this step; after the last one, how the call ended."""
    is_last = at == len(record.steps) - 1
    ends_raising = is_last and record.run.ended == "raised" and record.steps[at].kind == "raised"
    parts = []
    if not ends_raising:  # else the end says it
        parts.append(happening(record, at))
    if is_last:
        parts.append(ending(record.run))
    return printable(" · ".join(filter(None, parts)))
