"""This module has the help, which describes the focused part of the screen, and lists every key
that works in it, in the user's mapping.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.tui.commands import COMMANDS, GROUPS, OF_VIEW, Group, Keymap, by_id, sentence_of
from fx_explorer.tui.commands.command import is_sequence
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.keys import closing_bindings, first_key, keys_text
from fx_explorer.tui.widgets.row_list import GAP, ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.text_layout import wrapped


@dataclass(frozen=True, slots=True)
class Topic:
    """A subject that help can be asked about."""

    title: str
    text: str
    first: Group
    """The group of commands that matters most here."""

    def with_view(self, description: Sequence[tuple[str, str]]) -> Topic:
        """Return the topic with the answer of the view on screen, and its origin."""
        by_label = dict(description)
        texts = [by_label["answer"]] if by_label.get("answer") else []
        if by_label.get("origin"):
            texts.append(f"From {by_label['origin']}.")
        return replace(self, text="\n".join([self.text, *texts]))

    def text_without(self, commands: Collection[str]) -> str:
        """Return the text without sentences that name a key of one of these commands."""
        keys: list[str] = []
        for command in commands:
            keys += map(re.escape, _named_keys(command))
        if not keys:
            return self.text
        names_one = re.compile(rf"(?<!\S)(?:{'|'.join(keys)})(?!\w)(?=\s|[,.;:])")
        sentences = re.findall(r".+?(?:(?<=\S)[.?!](?=\s)\s*|$)", self.text, re.DOTALL)
        return "".join(
            sentence for sentence in sentences if not names_one.search(sentence)
        ).rstrip()


def _named_keys(command: str) -> list[str]:
    """Return the keys of a command as texts name them: sequences, and the full stop."""
    names = []
    for key in by_id(command).keys:
        if key == "full_stop":
            names.append(".")
        elif is_sequence(key):
            names.append(key)
    return names


_TEXTS: dict[str, tuple[str, Group]] = {
    "overview": (
        "Findings are at the top, worst first: ✗ is a problem, ▲ is worth noticing. Each has its "
        "cost and its remedies. x r tries those that can be tried.\n"
        "The bars of a figure show its largest parts: operations of each graph, guards, kernels "
        "and seconds of each compilation.\n"
        "Enter goes to the place or view of the line at the cursor. ✓ is fine: move there to read "
        "all of it.",
        "Moving",
    ),
    "source": (
        "Linked panes: select a line and the matching lines in the other panes are highlighted "
        "(▌).\n"
        "Enter follows a link and says how it is known. i shows all facts of the selection.\n"
        "Each kernel has a colour and a number (#), the same in all panes and in the list (6). 3+: "
        "kernel 3 and\n"
        "others. Before your lines: a block for each of the most expensive kernels, ×8 for all "
        "eight of a line.\n"
        "Panes follow the selection unless pinned (p d). p b shows the forward graph next to the "
        "backward graph.",
        "Linked panes",
    ),
    "below": (
        "The kernel's Triton source and the code its compiler made from it, linked: TTGIR, PTX "
        "and SASS, or AMDGCN on AMD GPUs. Tab goes to the next pane (narrow terminals show one at "
        "a time); Enter follows a link.\n"
        "On another line of your source, p k goes below the kernel of that line; b goes back to "
        "where you were.",
        "Linked panes",
    ),
    "neighbourhood": (
        "The node with a double border, its inputs to the left and its users to the right, two "
        "steps each way.\n"
        "A dotted frame contains the nodes that one kernel fuses. hjkl or arrows go from box to "
        "box, and the other panes follow.\n"
        'Enter centres the box; b goes back to the previous node. "and 990 more" shows some more '
        "on Enter.",
        "Linked panes",
    ),
    "stages": (
        "One line for each stage, in order. Enter shows the graph before and after it side by "
        "side; each row shows what the stage did to that operation. While the compiler is paused, "
        ". continues and shows what the next stage did.",
        "Stepping",
    ),
    "graphs": ("Enter opens the graph in a linked pane.", "Moving"),
    "breaks": (
        "A graph break is where Dynamo ended a graph and let Python run. A recompile compiles a "
        "function once more, because a guard failed.\n"
        "Below the list: the reason, what to try, and your stack. Enter goes to your line.\n"
        "x x shows edits of your source, or options, that may avoid the break, and tries them.",
        "Moving",
    ),
    "guards": (
        "Guards are checked on every call. Enter goes to the line that requires it; below the "
        "list: whether it can fail. v f narrows the list by typing. c i checks whether other "
        "inputs would fit, without running anything.",
        "Moving",
    ),
    "kernels": (
        "< sorts by a column, v f narrows by typing; this works in every table. Times add up all "
        "calls of a kernel.\n"
        "Below the list: the kernel's code. Enter opens it in a linked pane, next to its nodes "
        "and your source.\n"
        "For a Triton kernel, p k shows the levels below it, v c its configurations, v i MLIR "
        "pass by pass.",
        "Moving",
    ),
    "candidates": (
        "Below the list: the resources of the configuration, and its occupancy of the GPU. Enter "
        "shows it level by level.\n"
        "v i shows what each MLIR pass did to it. Facts that need the GPU are listed above the "
        "table.",
        "Linked panes",
    ),
    "memory": (
        (
            "Enter goes to the node of the forward graph that makes the value. v m shows memory "
            "kernel by kernel. p b shows the forward graph next to the backward graph."
        ),
        "Moving",
    ),
    "step_memory": (
        "Below the list: the memory held at that moment, by kind and one by one. Enter goes to "
        "the call in the output code. 7 shows the saved tensors and which kernels need them.",
        "Moving",
    ),
    "modules": (
        "A row includes everything inside the module. Repeated layers are one row, which lists "
        "their differences; → unfolds it.\n"
        "A kernel call belongs to the innermost module that contains all its operations.\n"
        "Enter narrows every view to the module: kernels, breaks, saved tensors, graphs. Escape "
        "shows everything again.",
        "Moving",
    ),
    "regions": (
        "Below the list: operations that stayed in eager mode. Enter goes to the region's first "
        "node.\n"
        "p r shows only the region's nodes in every graph; p r again shows all nodes.",
        "Moving",
    ),
    "support": (
        "First the parts of each graph in a possible run order, then every operator.\n"
        "Below the list: tensors that cross the borders of a part, and why the graph is split "
        "there. Enter goes to its first node.\n"
        "In a graph, ↩ marks operators that fall back to PyTorch. p r on a node shows only its "
        "segment, or its fallback part; p r again shows all nodes.",
        "Moving",
    ),
    "sizes": (
        "Below the list: the decision about the size, its line, and the guards that mention it.\n"
        "Enter goes to the line that made it.",
        "Moving",
    ),
    "ledger": (
        "x c measures. First where the time goes, then your lines compared with the same call in "
        "eager mode, then every step in order.\n"
        "The chart shows nested steps, with time from left to right; a number stands for that "
        "many short steps. ▲ marks the step of the row at the cursor; clicking on a block goes to "
        "its row.\n"
        "Enter goes to your line, or to the line of the generated code.",
        "Moving",
    ),
    "flame": (
        "Each block is a phase. The blocks below it ran inside it; the part without a block below "
        "is its own time.\n"
        "The rows are the same data as a tree, with total time and own time. Enter opens the "
        "content of a row, esc leaves it.\n"
        "Your lines are known in Dynamo, in AOTAutograd and in the lowering: Enter on one goes "
        "there. ▲ marks the row at the cursor; clicking on a block goes to its row. Y s saves the "
        "picture.",
        "Moving",
    ),
    "profile": (
        "fx-explorer SESSION --profile TRACE reads a file of torch.profiler. First: how the GPU's "
        "time was spent. Then: idle gaps, your lines, and GPU work that belongs to no captured "
        "kernel.\n"
        "Below the list: what your program did in the gap. Enter goes to the kernel after the "
        "gap, or to your line. 6 shows times of kernels, 0 of modules, graphs of operations, and "
        "generated code (2) of calls. ÷: a kernel computes several operations, and each gets an "
        "equal part of its time. < sorts the most expensive operations first.",
        "Moving",
    ),
    "roofline": (
        "Each point is a kernel. Horizontal axis: operations per byte moved; vertical axis: "
        "operations per second.\n"
        "Left of the bend, memory is the limit; right of it, arithmetic. ● was measured. ○ was "
        "not run and is drawn on the roof.\n"
        "Clicking on a point goes to its row, Enter to its code. Kernels that are not drawn are "
        "in the list, with the reason below it.\n"
        "Y s saves the picture.",
        "Moving",
    ),
    "trace": (
        "Each function that Dynamo traced is a row; inside are its lines in Dynamo's order, and "
        "inside a line the calls that were inlined there. Nodes and guards include nested rows. c "
        "d steps through it. Enter goes to your line.",
        "Moving",
    ),
    "side_effects": (
        "A row for each object that a compiled function changes outside of its graph: Dynamo "
        "stores the change while it traces, and compiled code applies it once, after the graph. "
        "Enter goes to your line.",
        "Moving",
    ),
    "values": (
        "A row for each input that is changed or overlaps another one, each output that is an "
        "input or a view, and each\n"
        "input of another class (DTensor). Changes that are copied back cost these bytes at each "
        "call. Enter goes to your line.",
        "Moving",
    ),
    "collectives": (
        "A row for each collective, in the order of its graph. “Meanwhile” lists the work that "
        "the generated code calls between its start and the wait for it. Enter goes to its node.",
        "Moving",
    ),
    "passes": (
        "A row for each graph; inside it, the passes that changed something; inside those, the "
        "nodes. The effect of a nested pass is listed only at the inner one. Passes that changed "
        "nothing are named below the list, at the graph's row.\n"
        "Enter goes to a node. i on a node of a graph shows which passes made and changed it.",
        "Moving",
    ),
    "fusion": (
        "Each row is two kernels that access the same memory, the largest saving first.\n"
        "Below the list: why Inductor did not fuse them, also in its own words, and what may "
        "change it. Enter goes to the code of the second kernel. Times are estimates from the "
        "data sheet of the GPU; without a GPU, only bytes are known.",
        "Moving",
    ),
    "decisions": (
        "A row for each decision of Inductor about a kernel: an operation is a library call, a "
        "value is copied or laid out for another, a reduction is split, how blocks are tiled, "
        "whether C++ loops are vectorized and parallel. Below the list: the decision in a "
        "sentence, what may change it, and its place in Inductor. Enter goes to the code. i on a "
        "kernel or a node shows the same facts.",
        "Moving",
    ),
    "backend": (
        "First the stages that the backend published, then how often its compiled functions were "
        "called, then its last run.\n"
        "Enter goes to the stage, and from an instruction to its line of the program.",
        "Moving",
    ),
    "bench": (
        "x p measures: it asks for backends, modes and sizes; esc asks, then stops it and keeps "
        "the figures so far.\n"
        "Below the list: the row at the cursor, and a picture of speed-up over size. Tab goes "
        "there.",
        "Moving",
    ),
    "numerics": (
        "x n compares. First each way of running the program, then the nodes of the graph that "
        "differs, with the errors of eager mode and of compiled code against float64.\n"
        "Below the list: details of the row at the cursor. Enter goes to your line.",
        "Moving",
    ),
    "console": (
        (
            "Terminal escape codes printed by your program are shown as text, not sent to the "
            "terminal."
        ),
        "Moving",
    ),
    "time": (
        "Stages add up to the whole, and so do the functions. A function contains the phases that "
        "torch timed, and these contain nested phases. ← folds, → unfolds.",
        "Moving",
    ),
    "outline": (
        "Everything in the session. Enter shows it in a linked pane; ← folds, → unfolds.",
        "Moving",
    ),
}


OF_PARTS = {
    "outline": "Compilations, their graphs, texts and kernels.",
    "neighbourhood": "The neighbourhood of a node in its graph.",
    "below": "The levels below a Triton kernel.",
}
"""Part of the screen that is not a view → its description."""


def topic_of(view: str) -> Topic:
    """Return the topic of a view, of the outline or of a picture."""
    text, first = _TEXTS[view]
    return Topic(view, f"{sentence_of(view) or OF_PARTS[view]}\n{text}", first)


KEYS_CELLS = 18


class Help(Dialog[None]):
    """Shows the topic's words, then the table of keys."""

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > Vertical {
        width: 94%; max-width: 120; height: 90%; background: $surface; border: round $border;
        padding: 0 1;
    }
    Help Label { width: 1fr; padding: 0 1 1 1; }
    Help RowList { height: 1fr; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings("app.help", "app.quit")

    def __init__(self, topic: Topic, keymap: Keymap, without: Collection[str] = ()) -> None:
        """``without``: commands that the session cannot carry out."""
        super().__init__()
        self._topic = topic
        self._without = without
        self._keymap = keymap
        columns = (
            ListColumn("", "label", min_width=KEYS_CELLS, max_width=KEYS_CELLS),
            ListColumn("", "text", max_width=200),
        )
        self._list = RowList(columns, header=False)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = f"Help · {self._topic.title}"
            box.border_subtitle = "esc closes"
            yield Label(self._topic.text_without(self._without), markup=False)
            yield self._list

    def on_mount(self) -> None:
        self._list.focus()
        self.call_after_refresh(self._fill)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        """Write the rows for the available width."""
        width = max(20, self._list.body_width - KEYS_CELLS - GAP)
        self._list.load(Rows(help_rows(self._topic, self._keymap, width, self._without)))

    def action_leave(self) -> None:
        self.dismiss(None)


def _rows_of_view(topic: Topic, keymap: Keymap, width: int, without: Collection[str]) -> list[Row]:
    """Return the rows of the help for the commands that matter most here, in the order of the
    footer.
    """
    rows: list[Row] = []
    for command_id, word in OF_VIEW.get(topic.title, ()):
        if command_id in without:
            continue
        command = by_id(command_id)
        first, *rest = wrapped(f"{word}: {command.help}", width)
        rows += [(first_key(command, keymap), first), *(("", row) for row in rest)]
    return [(("Here", "strong"), ""), *rows] if rows else []


def help_rows(topic: Topic, keymap: Keymap, width: int, without: Collection[str] = ()) -> list[Row]:
    """Return the groups of commands, the most useful first. Sentences are wrapped to ``width``
    cells.
    """
    rows = _rows_of_view(topic, keymap, width, without)
    for group in sorted(GROUPS, key=lambda group: group != topic.first):
        if rows:
            rows.append(("", ""))
        rows.append(((group, "strong"), ""))
        for command in COMMANDS:
            if command.group == group:
                first, *rest = wrapped(command.help, width)
                rows += [(keys_text(command, keymap), first), *(("", row) for row in rest)]
    rows += [("", ""), ("", ("Any key can be changed: fx-explorer keys --help says how.", "muted"))]
    return rows
