"""Commands for the capture as a whole, and for the app itself."""

from __future__ import annotations

from fx_explorer.tui.commands.command import HelpEntry, declared

_CAPTURE: tuple[HelpEntry, ...] = (
    (
        "capture.again",
        "r",
        "capturing.again",
        "run",
        "Run: at a pause, continue without pausing again; otherwise capture again.",
    ),
    (
        "capture.without_weights",
        "c w",
        "capturing.without_weights",
        "without weights",
        (
            "With --gpu: capture again with tensors that are on the GPU from the beginning "
            "and have no content (--no-weights)."
        ),
    ),
    (
        "capture.built",
        "c r",
        "capturing.built",
        "run built",
        (
            "Capture again with the kernels built (--build): the compiled code runs, not "
            "PyTorch's operators."
        ),
    ),
    (
        "capture.watch",
        "w",
        "capturing.watch",
        "watch",
        (
            "Watch the program's files: saving one captures again, keeping the place; at "
            "once when one has changed already."
        ),
    ),
    (
        "capture.save",
        "s",
        "leaving.save",
        "save session",
        "Save the session as a .fxs file that can be opened later, anywhere.",
    ),
    (
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

_APPLICATION: tuple[HelpEntry, ...] = (
    (
        "app.theme",
        "space t",
        "toggle_theme",
        "light / dark",
        "Switch between the light and the dark theme.",
    ),
    (
        "app.palette",
        "ctrl+p,space space",
        "command_runs.choose",
        "commands",
        "Find a command by name and run it.",
    ),
    (
        "app.help",
        "question_mark,f1",
        "help",
        "help",
        "Show what the focused pane shows and the keys that work in it.",
    ),
    (
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

CAPTURE_COMMANDS = declared("app", "Capture", *_CAPTURE)
APPLICATION_COMMANDS = declared(
    "app", "Application", *_APPLICATION, footer=("app.help", "app.quit")
)
