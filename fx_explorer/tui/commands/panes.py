"""Commands for the linked panes: what they show, and what can be asked of the selected line."""

from __future__ import annotations

from fx_explorer.tui.commands.command import HelpEntry, declared

_PANES: tuple[HelpEntry, ...] = (
    (
        "preset.source",
        "p s",
        "panes.preset('source')",
        "source | graph | kernel",
        "Show the source, the graph the kernels are made from, and the generated code, linked.",
    ),
    (
        "preset.backward",
        "p b",
        "panes.preset('backward')",
        "forward | backward",
        "Show the forward graph beside the backward graph, linked.",
    ),
    (
        "preset.joint",
        "p j",
        "panes.preset('joint')",
        "joint | forward | backward",
        "Show what the partitioner made of the joint graph, linked.",
    ),
    (
        "preset.neighbourhood",
        "p n",
        "panes.preset('neighbourhood')",
        "neighbourhood",
        (
            "Draw the node under the cursor with two steps of what it is made from and what "
            "uses it, kernels as frames."
        ),
    ),
    (
        "preset.front_ends",
        "p e",
        "panes.preset('front_ends')",
        "Dynamo | other front ends",
        (
            "Show the graphs that symbolic_trace, torch.export and make_fx make of the "
            "target beside Dynamo's, by line."
        ),
    ),
    (
        "preset.bytecode",
        "p y",
        "panes.preset('bytecode')",
        "source | bytecode",
        "Show the source, its bytecode, and the bytecode that Dynamo made of it, linked.",
    ),
    (
        "preset.below",
        "p k",
        "kernel_levels.show_levels",
        "below the kernel",
        (
            "Show what is under a Triton kernel: TTGIR, PTX and SASS (on AMD's GPUs AMDGCN) "
            "beside it and your source, linked."
        ),
    ),
    (
        "pane.document",
        "p d",
        "panes.pick_document",
        "choose document",
        (
            "Choose what the focused pane shows: source, any graph, bytecode, IR, generated "
            "code, a kernel, a level below it."
        ),
    ),
    (
        "pane.region",
        "p r",
        "panes.narrow_to_region",
        "only this region",
        (
            "Show of every view only what belongs to the region or module under the cursor; "
            "again: show everything."
        ),
    ),
    ("pane.add", "p a", "panes.add", "add pane", "Put another pane beside the others."),
    ("pane.close", "p x", "panes.close", "close pane", "Close the focused pane."),
    (
        "pane.wrap",
        "backslash,p l",
        "panes.wrap_lines",
        "wrap lines",
        (
            "Let long lines of the focused pane's text continue in the next row, or show "
            "each in one row again."
        ),
    ),
    (
        "pane.wider",
        "p greater_than_sign",
        "panes.widen(6)",
        "wider",
        "Make the focused pane wider; the border can be dragged with the mouse, too.",
    ),
    (
        "pane.narrower",
        "p less_than_sign",
        "panes.widen(-6)",
        "narrower",
        "Make the focused pane narrower.",
    ),
    (
        "pane.machine",
        "p i",
        "panes.machine_words",
        "addresses and control bits",
        (
            "Show of each SASS instruction in the focused pane its address, what it waits "
            "for, its stall and the live registers."
        ),
    ),
    (
        "pane.kernels",
        "p h",
        "panes.mark_kernels",
        "heat and kernel colours",
        (
            "Mark in every pane which kernel computes a line, by number and colour, and in "
            "the source what it costs; or do not."
        ),
    ),
    (
        "pane.zoom",
        "p z",
        "panes.zoom",
        "zoom",
        "Give the focused pane the whole width, or give it back.",
    ),
)

_SELECTION: tuple[HelpEntry, ...] = (
    (
        "place.inspect",
        "i,o i",
        "navigation.inspect",
        "all facts",
        "Show everything known about the selected node, with its producers, users and links.",
    ),
    (
        "place.copy",
        "y,Y y",
        "exports.copy_line",
        "copy",
        (
            "Copy the line under the cursor, or the text selected with the mouse, and say "
            "how it was copied."
        ),
    ),
    (
        "copy.kernel",
        "Y k",
        "exports.copy_kernel",
        "copy the kernel",
        "Copy the code of the kernel that the cursor is on.",
    ),
    (
        "copy.node",
        "Y n",
        "exports.copy_node",
        "copy the node",
        "Copy everything known about what the cursor is on, a fact a line.",
    ),
    (
        "copy.answer",
        "Y a",
        "exports.copy_view",
        "copy all as markdown",
        (
            "Copy the whole answer of this view as markdown: its words, its table, the "
            "detail; or the document of the pane."
        ),
    ),
    (
        "place.edit",
        "e",
        "navigation.edit_line",
        "edit",
        "Open the line of your source that this came from in $EDITOR.",
    ),
)

_PICTURE: HelpEntry = (
    "picture.save",
    "Y s",
    "exports.save_picture",
    "picture as SVG",
    "Write the picture of this view to a file as SVG: the flame charts, the roofline, the bench.",
)

_FOLLOW: HelpEntry = (
    "line.follow",
    "enter",
    "follow",
    "follow",
    "Go to what the line under the cursor stands for; in a linked pane, list where its links lead.",
)

_GRAPH_FORMS: tuple[HelpEntry, ...] = (
    (
        "graph.form",
        "p c",
        "panes.next_graph_form",
        "graph as code / table",
        (
            "Show the graph in the focused pane as the Python it stands for, then as FX's "
            "own table, then as it was."
        ),
    ),
    (
        "graph.script",
        "p w",
        "exports.write_graph",
        "graph as a script",
        (
            "Write the graph in the focused pane as a script that makes inputs like the "
            "program's and runs it alone."
        ),
    ),
)

PANE_COMMANDS = (
    *declared("explorer", "Linked panes", *_PANES, footer=("pane.document", "pane.zoom")),
    *declared("app", "Linked panes", *_GRAPH_FORMS),
)
SELECTION_COMMANDS = (
    *declared("lines", "Selection", _FOLLOW, footer=("line.follow",)),
    *declared("explorer", "Selection", *_SELECTION, footer=("place.inspect", "place.copy")),
    *declared("app", "Selection", _PICTURE),
)
