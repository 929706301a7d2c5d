"""Running an app on the terminal, in colours that go with it."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fx_explorer.highlight import printable, printable_text
from fx_explorer.tui.terminal.splash import add_to_splash, splash

if TYPE_CHECKING:
    from fx_explorer.tui.app import ExplorerApp
    from fx_explorer.tui.config import Config
    from fx_explorer.tui.ranks.app import RanksApp

    AppT = TypeVar("AppT", ExplorerApp, RanksApp)


def add_theme_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--theme",
        choices=("auto", "dark", "light"),
        default="",
        help="colours (default: theme in the config file, else those that go with the terminal's background)",
    )


def run_app(
    title: str,
    theme: str,
    make_app: Callable[[Config], ExplorerApp],
    begin: Callable[[], list[str]] | None = None,
) -> int:
    """Run an app on the terminal, and return the exit code. ``title`` is shown until it is there, and below it
    what ``begin`` says; ``theme`` is what the command line says.
    """
    app = made_app(title, theme, make_app, begin)
    app.run()
    left_behind = app.controllers.leaving.left_behind
    if left_behind:
        from fx_explorer.output.terminal import tell

        tell(f"fx-explorer: {printable(left_behind)}", sys.stderr)
    from fx_explorer.tui.failures.faults import faults_of

    for fault in faults_of(app):
        print(
            f"fx-explorer: a fault of fx-explorer that it survived:\n{printable_text(fault)}",
            file=sys.stderr,
        )
    return app.return_code or 0


def made_app(
    title: str,
    theme: str,
    make_app: Callable[[Config], AppT],
    begin: Callable[[], list[str]] | None = None,
) -> AppT:
    """Make an app in the colours that go with the terminal.

    Its modules are imported here: textual costs 180 ms that nothing else needs.
    """
    from fx_explorer.tui.config import config_path, load_config
    from fx_explorer.tui.terminal.background.question import asked

    gc.disable()  # until the first paint: collecting while importing costs a tenth of the start
    with splash(f"fx-explorer  {title}  ▷ starting"):
        if begin:
            add_to_splash(begin())
        config = load_config(config_path())
        wish = theme or config.theme
        is_asked = wish in ("", "auto")
        with asked(sys.__stdin__, sys.stdout) if is_asked else contextlib.nullcontext() as question:
            from fx_explorer.tui.app import ExplorerApp  # noqa: F401 - while the terminal answers

            answers = question.wait() if question else None
        if is_asked:
            is_light = answers.background_is_light if answers else None
            wish = "" if is_light is None else "light" if is_light else "dark"
        app = make_app(replace(config, theme=wish))
        app.terminal_answers, app.typed_before = answers, question.typed if question else ""
    return app


def keyboard_in_place_of_input() -> int:
    """Let keys come from the terminal where the standard input is a log, and return the descriptor of that."""
    log = os.dup(0)
    keyboard = os.open("/dev/tty", os.O_RDWR)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    return log
