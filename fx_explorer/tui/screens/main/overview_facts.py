"""The facts of the overview: those of the session, read beside the screen, and those that only the
app knows.
"""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.analysis.facts import Fact, View
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.model import Failure
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import BackgroundTask, Renewed
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.panes.overview import FactList
from fx_explorer.tui.status.live import Waiting
from fx_explorer.tui.views.reads import OVERVIEW_READS, READING, UNREADABLE


class OverviewFacts:
    """Keeps the overview up to date."""

    def __init__(self, shown: FactList, keymap: Keymap, shows_others: Callable[[], None]) -> None:
        """``shows_others`` is called when other facts are shown."""
        self._shown = shown
        self._keymap = keymap
        self._shows_others = shows_others
        self._read: Renewed[list[Fact]] = Renewed(
            BackgroundTask(shown, "overview", "read the overview"), self._show, self._cannot_read
        )
        self.waiting: Waiting | None = None
        """Where the compiler waits for the user, which is a fact too."""

    def forget(self) -> None:
        """Drop what is said of a session, which is about to be closed."""
        self._read.forget()
        self._shown.forget_of_app()

    def renew(self, reader: SessionReader) -> None:
        """Say what is known of the session by now."""
        waiting, keymap = self.waiting, self._keymap

        def facts(of: SessionReader) -> list[Fact]:
            return overview(of, waiting_fact(of, waiting, keymap))

        takes_long = OVERVIEW_READS.takes_long(reader)
        if not self._read.renew(reader, facts, takes_long=takes_long, given=waiting):
            self._shown.say_what_is_done(READING.format(what=OVERVIEW_READS.words(reader)))

    def _show(self, facts: list[Fact]) -> None:
        self._shown.show(facts)
        self._shows_others()

    def _cannot_read(self) -> None:
        self._shown.say_what_is_done(UNREADABLE)


# What the first screen says while the compiler waits: what has happened, what waits, and which
# key continues.

_BACKENDS_OWN = (
    "What comes next is the backend's own affair: there is nothing to change here, but to look at."
)
_RAN = "Your program has finished in eager mode; its graphs are kept here for compiling."


def waiting_fact(reader: SessionReader, waiting: Waiting | None, keymap: Keymap) -> Fact | None:
    """Return the fact that the compiler waits; None when nothing waits, or everything is
    compiled.
    """
    if waiting is None or waiting.gate is None:
        return None
    figures = totals(reader)
    view: View = "breaks" if figures.graph_breaks else "graphs"
    if waiting.gate == "dynamo" and not waiting.compilation:
        if figures.graphs == 1:
            are = "is captured and not compiled yet"
        else:
            are = "are captured and none is compiled yet"
        end, step = _key("step.go", keymap), _key("step.next", keymap)
        going = f"{end} compile to the end · {step} next stage"
        text = f"Paused after Dynamo: {counted(figures.graphs, 'graph')} {are}. {going}"
        raised = reader.rows(Failure, where="program")
        ran = _RAN
        if raised:
            ran = f"Your program stopped with an error, {raised[0].message.removesuffix('.')}."
        return Fact("next", "notice", text, f"{ran} {_before(keymap)}", view=view)
    direction = f", {waiting.direction}" if waiting.direction else ""
    after = printable(waiting.after)
    text = f"Paused after {after} of [{waiting.compilation}]{direction}. {_going(keymap)}"
    skip, abort = _key("step.skip", keymap), _key("step.abort", keymap)
    leaving = (
        f"{skip} runs this graph eagerly, {abort} gives up, and ends a program that still runs."
    )
    before = _BACKENDS_OWN if waiting.gate == "backend" else _before(keymap)
    return Fact("next", "notice", text, f"{before} {leaving}", view=view)


def _going(keymap: Keymap) -> str:
    return f"{_key('step.go', keymap)} compile to the end · {_key('step.next', keymap)} next stage"


def _before(keymap: Keymap) -> str:
    option, mark, applied = (
        _key(command, keymap) for command in ("step.option", "step.mark", "step.pass")
    )
    return (
        f"Before you continue: {option} changes options, {mark} marks a region, {applied} "
        "applies a pass of yours."
    )


def _key(command_id: str, keymap: Keymap) -> str:
    """Return the key of a command; without one, the palette's key and the title that finds it
    there.
    """
    command = by_id(command_id)
    return (
        first_key(command, keymap) or f"{first_key(by_id('app.palette'), keymap)} {command.title}"
    )
