"""This module has the commands of the linked panes: for what they show, and for the selected line;
and the commands for moving: within a list or text, between panes, back and forth, and to search
results.
"""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared


def _pane_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "preset.source",
            "p s",
            lambda c: c.panes.preset("source"),
            "source | graph | kernel",
            "Show the source, the graph from which the kernels are made, and the generated code, "
            "linked.",
        ),
        Declaration(
            "preset.backward",
            "p b",
            lambda c: c.panes.preset("backward"),
            "forward | backward",
            "Show the forward graph next to the backward graph, linked.",
        ),
        Declaration(
            "preset.joint",
            "p j",
            lambda c: c.panes.preset("joint"),
            "joint | forward | backward",
            "Show the joint graph next to the partitioner's graphs, linked.",
        ),
        Declaration(
            "preset.neighbourhood",
            "p n",
            lambda c: c.panes.preset("neighbourhood"),
            "neighbourhood",
            (
                "Draw the node at the cursor with its inputs and users, two steps each way; "
                "frames are kernels."
            ),
        ),
        Declaration(
            "preset.front_ends",
            "p e",
            lambda c: c.panes.preset("front_ends"),
            "Dynamo | other front ends",
            (
                "Show the graphs that symbolic_trace, torch.export and make_fx make of the target "
                "next to Dynamo's, by line."
            ),
        ),
        Declaration(
            "preset.bytecode",
            "p y",
            lambda c: c.panes.preset("bytecode"),
            "source | bytecode",
            "Show the source, its bytecode, and the bytecode that Dynamo made from it, linked.",
        ),
        Declaration(
            "preset.below",
            "p k",
            lambda c: c.kernel_levels.show_levels(),
            "below the kernel",
            (
                "Show the levels below a Triton kernel: TTGIR, PTX and SASS (AMDGCN on AMD GPUs) "
                "next to the kernel and your source, linked."
            ),
        ),
        Declaration(
            "pane.document",
            "p d",
            lambda c: c.panes.pick_document(),
            "choose document",
            (
                "Choose the content of the focused pane: source, any graph, bytecode, IR, "
                "generated code, a kernel, a level below it."
            ),
        ),
        Declaration(
            "pane.region",
            "p r",
            lambda c: c.panes.narrow_to_region(),
            "only this region",
            (
                "Narrow every view to the region or module at the cursor; press again to show "
                "everything."
            ),
        ),
        Declaration(
            "pane.add",
            "p a",
            lambda c: c.panes.add(),
            "add pane",
            "Add another pane next to the others.",
        ),
        Declaration(
            "pane.close", "p x", lambda c: c.panes.close(), "close pane", "Close the focused pane."
        ),
        Declaration(
            "pane.wrap",
            "backslash,p l",
            lambda c: c.panes.toggle_wrap(),
            "wrap lines",
            "Wrap long lines of the focused pane's text, or stop wrapping them.",
        ),
        Declaration(
            "pane.wider",
            "p greater_than_sign",
            lambda c: c.panes.widen(6),
            "wider",
            "Make the focused pane wider; you can also drag the border with the mouse.",
        ),
        Declaration(
            "pane.narrower",
            "p less_than_sign",
            lambda c: c.panes.widen(-6),
            "narrower",
            "Make the focused pane narrower.",
        ),
        Declaration(
            "pane.machine",
            "p i",
            lambda c: c.panes.toggle_machine_words(),
            "addresses and control bits",
            (
                "Show the address, waits, stall and live registers of each SASS instruction in "
                "the focused pane."
            ),
        ),
        Declaration(
            "pane.kernels",
            "p h",
            lambda c: c.panes.toggle_kernel_marks(),
            "heat and kernel colours",
            (
                "Show or hide the number and colour of each line's kernel, in every pane, and its "
                "cost in the source."
            ),
        ),
        Declaration(
            "pane.zoom",
            "p z",
            lambda c: c.panes.zoom(),
            "zoom",
            "Give the focused pane the whole width, or restore the layout.",
        ),
    )


def _selection_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "place.inspect",
            "i,o i",
            lambda c: c.navigation.show_facts(),
            "all facts",
            "Show everything known about the selected node, with its producers, users and links.",
        ),
        Declaration(
            "place.copy",
            "y,Y y",
            lambda c: c.exports.copy_line(),
            "copy",
            (
                "Copy the line at the cursor, or the text selected with the mouse, and report how "
                "it was copied."
            ),
        ),
        Declaration(
            "copy.kernel",
            "Y k",
            lambda c: c.exports.copy_kernel(),
            "copy the kernel",
            "Copy the code of the kernel at the cursor.",
        ),
        Declaration(
            "copy.node",
            "Y n",
            lambda c: c.exports.copy_node(),
            "copy the node",
            "Copy everything known about the item at the cursor, one fact a line.",
        ),
        Declaration(
            "copy.answer",
            "Y a",
            lambda c: c.exports.copy_view(),
            "copy all as markdown",
            (
                "Copy the whole answer of this view as markdown: its sentences, its table, the "
                "detail; or the document of the pane."
            ),
        ),
        Declaration(
            "place.edit",
            "e",
            lambda c: c.navigation.edit_line(),
            "edit",
            "Open the source line of the selection in $EDITOR.",
        ),
    )


def _picture() -> Declaration:
    return Declaration(
        "picture.save",
        "Y s",
        lambda c: c.exports.save_picture(),
        "picture as SVG",
        "Write the picture of this view to a file as SVG: the flame charts, the memory of a "
        "step, the roofline, the bench.",
    )


_FOLLOW: Declaration = Declaration(
    "line.follow",
    "enter",
    "follow",
    "follow",
    "Go to the place that the line at the cursor refers to; in a linked pane, list where its "
    "links lead.",
)


def _graph_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "graph.form",
            "p c",
            lambda c: c.panes.next_graph_form(),
            "graph as code / table",
            ("Show the focused graph as Python, then as FX's own table, then as a graph again."),
        ),
        Declaration(
            "graph.fold",
            "minus,p f",
            lambda c: c.panes.fold_modules(),
            "fold by module",
            (
                "Fold the focused graph: a row for each module, and one row for repeated layers "
                "with their differences; or show every node again."
            ),
        ),
        Declaration(
            "graph.script",
            "p w",
            lambda c: c.exports.write_graph(),
            "graph as a script",
            ("Write the focused graph as a standalone script with inputs like the program's."),
        ),
    )


PANE_COMMANDS = (
    *declared("explorer", "Linked panes", *_pane_commands(), footer=("pane.document", "pane.zoom")),
    *declared("app", "Linked panes", *_graph_commands()),
)
SELECTION_COMMANDS = (
    *declared("lines", "Selection", _FOLLOW, footer=("line.follow",)),
    *declared(
        "explorer", "Selection", *_selection_commands(), footer=("place.inspect", "place.copy")
    ),
    *declared("app", "Selection", _picture()),
)


# Moving.


_LINES: tuple[Declaration, ...] = (
    Declaration("line.down", "down,j", "cursor_by(1)", "down", "Move the cursor down."),
    Declaration("line.up", "up,k", "cursor_by(-1)", "up", "Move the cursor up."),
    Declaration(
        "line.page_down", "pagedown,ctrl+f", "page_by(1)", "page down", "Move a page down."
    ),
    Declaration("line.page_up", "pageup,ctrl+b", "page_by(-1)", "page up", "Move a page up."),
    Declaration(
        "line.half_down", "ctrl+d", "half_page_by(1)", "half a page down", "Move half a page down."
    ),
    Declaration(
        "line.half_up", "ctrl+u", "half_page_by(-1)", "half a page up", "Move half a page up."
    ),
    Declaration(
        "line.first", "home,ctrl+home,g", "first_line", "first line", "Go to the first line."
    ),
    Declaration("line.last", "end,ctrl+end,G", "last_line", "last line", "Go to the last line."),
    Declaration(
        "line.left",
        "left,h",
        "columns_by(-8)",
        "left",
        "Scroll left; in the outline and the tree of modules, fold.",
    ),
    Declaration(
        "line.right",
        "right,l",
        "columns_by(8)",
        "right",
        "Scroll right; in the outline and the tree of modules, unfold.",
    ),
    Declaration(
        "line.next_mark",
        "],o l",
        "next_mark",
        "next linked line",
        "Go to the next highlighted line.",
    ),
    Declaration(
        "line.previous_mark",
        "[,o L",
        "previous_mark",
        "previous linked line",
        "Go to the previous highlighted line.",
    ),
)
"""Commands of every list and text. Their bindings are in widgets/line_view.py."""


def _place_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "pane.next",
            "tab",
            lambda c: c.navigation.next_pane(),
            "next pane",
            "Move the focus to the next pane.",
        ),
        Declaration(
            "pane.previous",
            "shift+tab",
            lambda c: c.navigation.previous_pane(),
            "previous pane",
            "Move the focus to the previous pane.",
        ),
        Declaration(
            "outline.toggle",
            "o o",
            lambda c: c.navigation.toggle_outline(),
            "outline",
            "Show or hide the outline of compilations, graphs and kernels.",
        ),
        Declaration(
            "history.back",
            "b,alt+left,o b",
            lambda c: c.navigation.back(),
            "back",
            "Go back to the previous place, like a browser's back button.",
        ),
        Declaration(
            "history.forward",
            "B,alt+right,o f",
            lambda c: c.navigation.forward(),
            "forward",
            "Undo going back.",
        ),
    )


def _find_in_pane() -> Declaration:
    return Declaration(
        "find.in_pane",
        "slash",
        lambda c: c.navigation.find_in_pane(),
        "find",
        "Find text in the focused pane.",
    )


_MATCHES: tuple[Declaration, ...] = (
    Declaration("line.find_next", "n", "find_next", "next match", "Go to the next match."),
    Declaration(
        "line.find_previous", "N", "find_previous", "previous match", "Go to the match before."
    ),
)


def _find_anything() -> Declaration:
    return Declaration(
        "find.anything",
        "f",
        lambda c: c.navigation.find_anything(),
        "find anything",
        "Find a node, kernel, source line (model.py:12) or graph break, anywhere in the session.",
    )


MOVING_COMMANDS = (
    *declared("lines", "Moving", *_LINES),
    *declared("explorer", "Moving", *_place_commands(), footer=("history.back",)),
)
FINDING_COMMANDS = (
    *declared("explorer", "Finding", _find_in_pane(), footer=("find.in_pane",)),
    *declared("lines", "Finding", *_MATCHES),
    *declared("explorer", "Finding", _find_anything(), footer=("find.anything",)),
)
