"""Commands for a compiler that waits. The keys of debuggers are taken: n is the next match, r
captures again.
"""

from __future__ import annotations

from fx_explorer.tui.commands.command import HelpEntry, declared

_STEPPING: tuple[HelpEntry, ...] = (
    (
        "step.next",
        "full_stop",
        "stepping.step",
        "step",
        "Continue to the next pause, after the next stage.",
    ),
    ("step.go", "c c", "stepping.go_on", "continue", "Continue without pausing again."),
    (
        "step.run_to",
        "c t",
        "stepping.run_to",
        "run to",
        "Continue, and pause after the stage you choose.",
    ),
    (
        "step.skip",
        "c k",
        "stepping.skip_graph",
        "skip graph",
        "Do not compile this graph: run it eagerly, and continue.",
    ),
    (
        "step.abort",
        "c x",
        "stepping.abort_compile",
        "abort",
        "Give up what is being compiled; what was captured is kept.",
    ),
    (
        "step.option",
        "c o",
        "variants.change_option",
        "options",
        (
            "Show what each option of torch.compile does and its value in force; change it "
            "for what follows, or try another."
        ),
    ),
    (
        "step.pass",
        "c p",
        "variants.apply_pass",
        "pass file",
        "Apply a Python file with a function pass_(gm) to the graph at this pause.",
    ),
    (
        "step.again",
        "c a",
        "variants.again_from",
        "compile again",
        "Compile another variant, from a stage that is finished.",
    ),
    (
        "step.measure",
        "x t",
        "measurements.time_variants",
        "run time",
        "Build variants and run them, to see how long they take, or what each graph break takes.",
    ),
    (
        "step.what_if",
        "c i",
        "variants.what_if",
        "other inputs",
        "Ask which compiled code would take other inputs, without running them.",
    ),
    (
        "step.bytecode",
        "c b",
        "stepping.step_through_bytecode",
        "bytecode steps",
        "Step forward and back through what Dynamo's bytecode did.",
    ),
    (
        "step.mark",
        "c m",
        "variants.mark_region",
        "mark region",
        "Mark the selected nodes, module or source lines as a region.",
    ),
    (
        "step.export",
        "c e",
        "variants.export_marking",
        "marks as diff",
        "Show what was marked by hand as an edit of your source: a diff.",
    ),
)

_FIRST_AT_A_GATE = ("step.next", "step.go", "step.option")
AT_A_GATE: tuple[str, ...] = (
    *_FIRST_AT_A_GATE,
    *(entry[0] for entry in _STEPPING if entry[0] not in _FIRST_AT_A_GATE),
)
AT_HAND: tuple[str, ...] = (
    "step.again",
    "step.option",
    "step.mark",
    "step.measure",
    "step.what_if",
)
"""Commands that come early in the footer while the compiler waits at a gate, and once everything is
compiled and at hand.
"""

GOES_ON: tuple[str, ...] = ("step.next", "step.go")
"""Those that come before the commands of the view: what continues when nothing else is wanted."""

STEPPING_COMMANDS = declared("app", "Stepping", *_STEPPING)
