"""Commands for the capture as a whole, and for the app itself."""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared


def _capture_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "capture.again",
            "r",
            lambda c: c.capturing.run(),
            "run",
            "Run: at a pause, continue without pausing again; otherwise capture again.",
        ),
        Declaration(
            "capture.without_weights",
            "c w",
            lambda c: c.capturing.capture_without_weights(),
            "without weights",
            (
                "With --gpu: capture again with tensors that are on the GPU from the beginning "
                "and have no content (--no-weights)."
            ),
        ),
        Declaration(
            "capture.built",
            "c r",
            lambda c: c.capturing.capture_built(),
            "run built",
            (
                "Capture again with the kernels built (--build): the compiled code runs, not "
                "PyTorch's operators."
            ),
        ),
        Declaration(
            "capture.watch",
            "w",
            lambda c: c.capturing.watch(),
            "watch",
            (
                "Watch the program's files: saving one captures again, keeping the place; at "
                "once when one has changed already."
            ),
        ),
        Declaration(
            "capture.save",
            "s",
            lambda c: c.leaving.save(),
            "save session",
            "Save the session as a .fxs file that can be opened later, anywhere.",
        ),
        Declaration(
            "capture.cancel",
            "escape",
            "cancel",
            "cancel",
            (
                "Show all again where views are narrowed; else, pressed twice, stop the running "
                "capture, keeping what was found."
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
            "Show what the focused pane shows and the keys that work in it.",
        ),
        Declaration(
            "app.quit",
            "q,ctrl+q,ctrl+c",
            "quit",
            "quit",
            (
                "Quit, after asking about a capture that is not saved; what runs is stopped and "
                "leaves no process behind."
            ),
        ),
    )


CAPTURE_COMMANDS = declared("app", "Capture", *_capture_commands())
APPLICATION_COMMANDS = declared(
    "app", "Application", *_application_commands(), footer=("app.help", "app.quit")
)
