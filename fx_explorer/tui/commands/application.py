"""This module has the commands for the capture as a whole, for a compiler that waits, for the app
itself and for its guided tour.

r runs, as in gdb: to the end from a pause, else from the beginning.
"""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared


def _capture_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "capture.run",
            "r",
            lambda c: c.capturing.run(),
            "run",
            "Run: at a pause, compile to the end; otherwise capture again.",
        ),
        Declaration(
            "capture.without_weights",
            "c w",
            lambda c: c.capturing.capture_without_weights(),
            "without weights",
            (
                "With --gpu: capture again with tensors that are on the GPU from the beginning, "
                "without content (--no-weights)."
            ),
        ),
        Declaration(
            "capture.built",
            "c r",
            lambda c: c.capturing.capture_built(),
            "run built",
            (
                "Capture again with the kernels built (--build): the compiled code runs instead "
                "of PyTorch's operators."
            ),
        ),
        Declaration(
            "capture.watch",
            "w",
            lambda c: c.capturing.watch(),
            "watch",
            (
                "Capture again whenever a file of the program is saved, and stay at the same "
                "place; at once if a file has already changed."
            ),
        ),
        Declaration(
            "capture.save",
            "s",
            lambda c: c.leaving.save(),
            "save session",
            "Save the session as a .fxs file that can be opened later, or as a page to send.",
        ),
        Declaration(
            "capture.history",
            "o h",
            lambda c: c.past_captures.choose(),
            "history",
            "List the captures of this project, to compare or open one.",
        ),
        Declaration(
            "capture.cancel",
            "escape",
            "cancel",
            "cancel",
            (
                "Show everything again if views are narrowed; otherwise, pressed twice, stop the "
                "running capture and keep its results."
            ),
        ),
    )


def _application_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "app.theme",
            "space t",
            "toggle_theme",
            "light / dark",
            "Switch between the light and the dark theme.",
        ),
        Declaration(
            "app.palette",
            "ctrl+p,space space",
            lambda c: c.command_runs.choose(),
            "commands",
            "Find a command by name and run it.",
        ),
        Declaration(
            "app.help",
            "question_mark,f1",
            "help",
            "help",
            "Explain the focused pane and the keys that work in it.",
        ),
        Declaration(
            "app.quit",
            "q,ctrl+q,ctrl+c",
            "quit",
            "quit",
            (
                "Quit: running work is stopped, and the capture is in the history. If the history "
                "is off, the app first asks about an unsaved capture."
            ),
        ),
    )


CAPTURE_COMMANDS = declared("app", "Capture", *_capture_commands())
APPLICATION_COMMANDS = declared(
    "app", "Application", *_application_commands(), footer=("app.help", "app.quit")
)


def _stepping_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "step.next",
            "full_stop",
            lambda c: c.stepping.step(),
            "step",
            "Continue to the next pause, after the next stage.",
        ),
        Declaration(
            "step.run_to",
            "c t",
            lambda c: c.stepping.run_to(),
            "run to",
            "Continue, and pause after a stage that you choose.",
        ),
        Declaration(
            "step.skip",
            "c k",
            lambda c: c.stepping.skip_graph(),
            "skip graph",
            "Do not compile this graph: run it in eager mode, and continue.",
        ),
        Declaration(
            "step.abort",
            "c x",
            lambda c: c.stepping.abort_compile(),
            "abort",
            "Abort the current compile; what was captured is kept.",
        ),
        Declaration(
            "step.option",
            "c o",
            lambda c: c.variants.change_option(),
            "options",
            (
                "Show what each option of torch.compile does and its value in force; change it "
                "for the following stages, or try another value."
            ),
        ),
        Declaration(
            "step.pass",
            "c p",
            lambda c: c.variants.apply_pass(),
            "pass file",
            "Apply a Python file with a function pass_(gm) to the graph at this pause.",
        ),
        Declaration(
            "step.again",
            "c a",
            lambda c: c.variants.compile_again(),
            "another variant",
            "Compile another variant, starting from a finished stage.",
        ),
        Declaration(
            "step.fusion",
            "c f",
            lambda c: c.variants.change_fusion(),
            "fuse or split",
            (
                "Let Inductor fuse the kernel at the cursor with another one, or split it, and "
                "compare."
            ),
        ),
        Declaration(
            "step.choice",
            "c z",
            lambda c: c.variants.try_other_choice(),
            "another choice",
            (
                "Have Inductor choose otherwise for the kernel or node under the cursor: another "
                "memory layout, candidate or option; and compare."
            ),
        ),
        Declaration(
            "step.measure",
            "x t",
            lambda c: c.measurements.time_variants(),
            "run time",
            "Build variants and run them, to measure their time, or the time of each graph break.",
        ),
        Declaration(
            "step.what_if",
            "c i",
            lambda c: c.variants.what_if(),
            "other inputs",
            "Check which compiled code would accept other inputs, without running it.",
        ),
        Declaration(
            "step.bytecode",
            "c b",
            lambda c: c.stepping.step_through_bytecode(),
            "bytecode steps",
            "Step forward and back through the execution of Dynamo's bytecode.",
        ),
        Declaration(
            "step.trace",
            "c d",
            lambda c: c.stepping.step_through_trace(),
            "Dynamo's trace",
            "Step forward and back through Dynamo's trace, from the line at the cursor.",
        ),
        Declaration(
            "step.record_trace",
            "c s",
            lambda c: c.capturing.capture_trace(),
            "symbolic stack",
            (
                "Capture again and record every instruction that Dynamo traces, with its symbolic "
                "stack and variables (--record-trace)."
            ),
        ),
        Declaration(
            "step.record_patterns",
            "c n",
            lambda c: c.capturing.capture_patterns(),
            "near matches",
            (
                "Capture again and record the patterns of passes that did not match, and the "
                "check that failed (--record-patterns)."
            ),
        ),
        Declaration(
            "step.mark",
            "c m",
            lambda c: c.variants.mark_region(),
            "mark region",
            "Mark the selected nodes, module or source lines as a region.",
        ),
        Declaration(
            "step.export",
            "c e",
            lambda c: c.variants.show_marks(),
            "marks as diff",
            "Show your marks as a diff of your source.",
        ),
    )


STEPPING_COMMANDS = declared("app", "Stepping", *_stepping_commands())

_FIRST_AT_A_GATE = ("step.next", "capture.run", "step.option")
AT_A_GATE: tuple[str, ...] = (
    *_FIRST_AT_A_GATE,
    *(command.id for command in STEPPING_COMMANDS if command.id not in _FIRST_AT_A_GATE),
)
AT_HAND: tuple[str, ...] = (
    "step.again",
    "step.option",
    "step.mark",
    "step.measure",
    "step.what_if",
)
"""Commands that come early in the footer while the compiler waits at a gate, and once everything is
compiled.
"""

GOES_ON: tuple[str, ...] = ("step.next", "capture.run")
"""Commands that come before those of the view in the footer: those that continue."""


def _tour_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "tour.skip",
            "space n",
            lambda c: c.tour.skip(),
            "skip this step",
            "In the tour, continue with the next step and skip this one.",
        ),
        Declaration(
            "tour.back",
            "space N",
            lambda c: c.tour.back(),
            "step before",
            "In the tour, go back to the previous step.",
        ),
        Declaration(
            "tour.leave",
            "space l",
            lambda c: c.tour.leave(),
            "leave the tour",
            "Close the tour; fx-explorer tour continues from here.",
        ),
    )


TOUR_COMMANDS = declared("app", "Tour", *_tour_commands())
