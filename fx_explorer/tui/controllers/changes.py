"""This module shows changes: from the last capture to this one, from one variant to another, and in
the files since they were captured.

The differences from the last capture are a card on the overview, and tables that its lines lead to.
Both are made beside the screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.facts import OF_FILES, Fact
from fx_explorer.errors import FxExplorerError
from fx_explorer.folders import typed_path
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.user_files import ChangedFile, FilesNow, captured_files, read
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.background_tasks import read_in_thread
from fx_explorer.tui.commands import by_id
from fx_explorer.tui.content.long_work import OVERVIEW_READS
from fx_explorer.tui.controllers.captures import Earlier
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation, needs_no_dialog_soon
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.dialogs.dialog import Ask
from fx_explorer.tui.failures import explained
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.panes.titles import OldFiles

if TYPE_CHECKING:
    from fx_explorer.instruments.diff.differences import Differences
    from fx_explorer.instruments.diff.other_python import OtherCapture
    from fx_explorer.model import CaptureRequest
    from fx_explorer.trials import Told

NO_OTHER = "There is only one variant so far. To compare, compile another one from a stage (c a)."
NOTHING_BEFORE = "There is no earlier capture to compare with: {key} captures again."
COMPARING = "Comparing this capture with the last one …"
SAVED = (
    "This is a saved session without an earlier capture. fx-explorer diff compares two sessions; "
    "{key} captures the program with another Python, and compares."
)
WHICH_PYTHON = "Which interpreter? A path, such as venv/bin/python; it needs torch, not this tool"


class Comparisons:
    """Shows differences: from the last capture, on a card and in tables, and between two
    variants.
    """

    capture_by: Callable[..., Awaitable[OtherCapture]] | None = None
    """A replacement for ``diff.other_python.capture_by``; None uses a worker."""

    def __init__(self, services: Services, files: SourceFiles) -> None:
        self._services = services
        self._files = files
        self.app = services.app
        self._made_of: tuple[object, ...] = ()
        """The sessions and state that the card on screen was computed from."""

    def renew_card(self) -> None:
        """Make the card again if the session on screen is another one, or has grown."""
        captures, reader = self._services.captures, self._services.explorer.reader
        earlier = captures.earlier_of(reader.path) if reader else None
        if reader is None or earlier is None:
            return
        is_through = self._is_through(reader)
        has_ended = reader.meta("outcome") is not None
        now = (reader, earlier, is_through, has_ended)
        if now != self._made_of and (is_through or has_ended):
            self._made_of = now
            work = partial(self._make, reader, earlier, is_through=is_through)
            self._services.begin(
                work, "since", "since", "compare this capture with the last one", exclusive=True
            )

    def _is_through(self, reader: SessionReader) -> bool:
        """Return whether Dynamo has seen the whole program of the session on screen."""
        live = self._services.captures.live
        return live is not None and reader.path == live.session_path and live.is_through

    async def _make(self, reader: SessionReader, earlier: Earlier, *, is_through: bool) -> None:
        explorer = self._services.explorer
        with explained(explorer):
            card = await read_in_thread(reader.path, partial(_card, earlier, is_through))
            if reader is explorer.reader:
                explorer.show_of_app("since", card)

    @conversation("differences", "show what changed since the last capture")
    async def show_differences(self, aspect: str = "") -> None:
        """Show the differences, beginning with those of one line of the card."""
        reader = self._services.explorer.reader
        if reader:
            earlier = self._services.captures.earlier_of(reader.path)
        else:
            earlier = None
        if reader is None or (earlier is None and aspect != OF_FILES):
            self._services.notify(self._nothing_before())
            return
        if aspect == OF_FILES:
            heading, before = "Your files: as captured, and now", reader.path
            differences = await read_in_thread(
                reader.path, partial(_of_files, self._files.old.changed)
            )
        else:
            assert earlier is not None
            heading, before = "Since the last capture", earlier.session
            if OVERVIEW_READS.takes_long(reader):
                self._services.notify(COMPARING)
                needs_no_dialog_soon(self.app)
            differences = await read_in_thread(
                reader.path, partial(_differences, earlier, self._is_through(reader))
            )
        from fx_explorer.tui.screens.difference_screens import (
            ChangesScreen,  # not needed for the first paint
        )

        await ask(
            self.app,
            ChangesScreen(
                heading, before, reader.path, differences, aspect, self._services.explorer.keymap
            ),
        )

    @conversation("compare variants", "choose two variants to compare")
    async def compare_variants(self) -> None:
        """Ask which compilations to compare. If there are only two, they are compared at once."""
        from fx_explorer.instruments.diff.screen import (
            CompareScreen,
            original_first,  # not needed for the first paint, all
        )
        from fx_explorer.tui.dialogs.choose import variant_choices

        reader = self._services.explorer.reader
        variants = reader.rows(model.Compilation) if reader else []
        if reader is None or len(variants) < 2:
            self._services.explorer.notify(NO_OTHER)
            return
        chosen = variants if len(variants) == 2 else []
        while len(chosen) < 2:
            title = f"Compare [{chosen[0].name}] with" if chosen else "Compare"
            variant = await ask(self.app, Chooser(title, matching(variant_choices(reader, chosen))))
            if variant is None:
                return
            chosen = [*chosen, variant]
        left, right = original_first(*chosen)
        self.app.push_screen(CompareScreen(reader, left, right, self._services.explorer.keymap))

    @conversation("another Python", "choose an interpreter to capture with, and compare")
    async def compare_with_other_python(self) -> None:
        """Ask which interpreter, capture the program by it, and show both captures side by side,
        that of the older torch first. This works on a saved session too, when its target is here.
        """
        # few compare releases
        from fx_explorer.instruments.diff.other_python import TIMEOUT_S, capture_by
        from fx_explorer.trials import folder_of_trials
        from fx_explorer.tui.dialogs.running import OF_ANOTHER_PYTHON, MeasuringScreen

        services = self._services
        reader = services.explorer.reader
        request = reader.request() if reader else None
        if reader is None or request is None:
            services.notify(NO_REQUEST, title="not captured", severity="warning")
            return
        worker = services.worker_of_trials
        python = await self._ask_python(worker.python)
        if not python or not await services.user_agrees_to_run():
            return

        async def capture(request: CaptureRequest, tell: Told) -> OtherCapture:
            by = self.capture_by or capture_by
            return await by(request, python, folder_of_trials(), tell, worker)

        screen = MeasuringScreen(request, capture, OF_ANOTHER_PYTHON, worker.limit_s(TIMEOUT_S))
        other = await ask(self.app, screen)
        if other is not None:
            await self._compare_sessions(reader.path, worker.python, other)

    async def _ask_python(self, used: str) -> str:
        """Ask for an interpreter other than the one that is used: one of those known to have torch,
        or another that is typed. Empty if the user cancels.
        """
        from fx_explorer.client import interpreters  # few compare releases

        found = await asyncio.to_thread(interpreters.interpreters_with_torch, Path.cwd())
        choices = [
            Choice(f"torch {interpreter.torch}", interpreter.python, interpreter.python)
            for interpreter in found
            if interpreter.python != used
        ]
        if choices:
            choices.append(Choice("another …", "type the path of an interpreter", ""))
            title = "Capture with another torch, and compare"
            chosen = await ask(self.app, Chooser(title, matching(choices)))
            if chosen is None or chosen:
                return chosen or ""
        typed = await ask(self.app, Ask(WHICH_PYTHON, "", verb="captures and compares"))
        return str(typed_path(typed)) if typed else ""

    async def _compare_sessions(self, shown: Path, used: str, other: OtherCapture) -> None:
        from fx_explorer.tui.screens.difference_screens import ChangesScreen

        def compare(
            reader: SessionReader,
        ) -> tuple[tuple[Path, Path], tuple[str, str], Differences]:
            return _by_release((shown, used), (other.session, other.python), reader)

        needs_no_dialog_soon(self.app)
        (before, after), names, differences = await read_in_thread(shown, compare)
        heading = f"{names[0]} → {names[1]}"
        keymap = self._services.explorer.keymap
        await ask(self.app, ChangesScreen(heading, before, after, differences, "", keymap, names))

    def _nothing_before(self) -> str:
        again = first_key(by_id("capture.run"), self._services.explorer.keymap)
        if self._services.captures.can_run:
            return NOTHING_BEFORE.format(key=again)
        other = first_key(by_id("capture.other_python"), self._services.explorer.keymap)
        return SAVED.format(key=other)


def _card(earlier: Earlier, is_through: bool, reader: SessionReader) -> Sequence[Fact]:
    from fx_explorer.instruments.diff.since_last import since  # not needed for the first paint

    with SessionReader(earlier.session) as before:
        return since(before, reader, was_through=earlier.is_through, is_through=is_through)


def _differences(earlier: Earlier, is_through: bool, reader: SessionReader) -> Differences:
    from fx_explorer.instruments.diff.differences import differences, extent_of, extent_of_both

    with SessionReader(earlier.session) as before:
        then, now = (
            extent_of(before, is_through=earlier.is_through),
            extent_of(reader, is_through=is_through),
        )
        return differences(before, reader, extent_of_both(then, now))


def _by_release(
    shown: tuple[Path, str], other: tuple[Path, str], reader: SessionReader
) -> tuple[tuple[Path, Path], tuple[str, str], Differences]:
    """Return two captures by two interpreters, the older torch first, with their names and
    differences. Each is given as its session and its interpreter.
    """
    from fx_explorer.instruments.diff.differences import differences_of_files
    from fx_explorer.instruments.diff.other_python import is_older, names_by_release

    with SessionReader(other[0]) as new:
        if is_older(new, reader):
            left, right, sides = new, reader, (other, shown)
        else:
            left, right, sides = reader, new, (shown, other)
        names = names_by_release(left, right, (sides[0][1], sides[1][1]))
        return (left.path, right.path), names, differences_of_files(left.path, right)


def _of_files(changed: Sequence[ChangedFile], _: SessionReader) -> Differences:
    """Return the differences between the user's files as they were captured and as they are now."""
    from fx_explorer.instruments.diff.differences import Differences, source_row
    from fx_explorer.instruments.diff.users_changes import ChangedSource

    rows = []
    for change in changed:
        path = change.file.path
        rows.append(source_row(ChangedSource(path, change.file.text, read(path).text)))
    return Differences(tuple(rows), ())


# The user's files are compared once a second with the captured ones, by their text.

LOOK_S = 1.0
"""Seconds between two checks of the files."""

CAPTURES_AGAIN = "{key} captures again, and shows the effect."
IS_CAPTURED = "The program is being captured again now."
NOTHING_TO_RUN = "Capture the program again to see its current state."


class SourceFiles:
    """Checks in the background whether the source files of the session have changed since they were
    captured.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.old = OldFiles()
        self._files = FilesNow(())
        self._read: tuple[SessionReader, int] | None = None
        """(session, version of its data) that the captured files were read from."""
        self._shown: tuple[SessionReader, OldFiles, str] | None = None
        """(reader, changed files, sentence) that the screen shows now."""
        self._is_looking = False

    @property
    def paths(self) -> list[Path]:
        """Return the user's files that were captured."""
        return [Path(file.path) for file in self._files.files]

    def begin_to_look(self) -> None:
        """Begin a check, unless one is running, or the session is being written."""
        captures = self._services.captures
        is_written = (
            captures.incoming is not None and captures.incoming is self._services.explorer.reader
        )
        if not self._is_looking and (captures.waiting or not is_written):
            self._services.begin(
                self.look, "old", "old", "look whether files have changed", may_fail=True
            )

    async def look(self) -> None:
        """Check the files now, and mark outdated ones."""
        reader = self._services.explorer.reader
        if reader is None:
            return
        self._is_looking = True
        try:
            files = await self._files_of(reader)
            changed = await asyncio.to_thread(files.changed)
        except FxExplorerError:
            return  # a session that cannot be read says so itself, wherever it is looked at
        finally:
            self._is_looking = False
        if reader is self._services.explorer.reader:
            self._show(reader, OldFiles(changed))

    async def _files_of(self, reader: SessionReader) -> FilesNow:
        """Return the captured source files of a session for the check. Files of a session from
        elsewhere are not read: its paths may name anything on this machine.
        """
        now = (reader, reader.data_version())
        if now != self._read:
            is_own = self._services.captures.can_run or await asyncio.to_thread(
                self._is_own, reader.path
            )
            captured = await read_in_thread(reader.path, captured_files) if is_own else ()
            files = FilesNow(captured)
            if files.files != self._files.files:
                self._files = files
            self._read = now
        return self._files

    def _is_own(self, session: Path) -> bool:
        from fx_explorer.session.ownership import RUNS  # not needed for the first paint

        return self._services.consents.is_needless(session, RUNS)

    def _show(self, reader: SessionReader, old: OldFiles) -> None:
        now = (reader, old, self._remedy())
        if now != self._shown:
            self.old = old
            self._shown = now
            self._services.explorer.show_old(old, now[2])
            self._services.look()

    def _remedy(self) -> str:
        """Return what the user can do about source files that have changed."""
        captures = self._services.captures
        if not captures.can_run:
            return NOTHING_TO_RUN
        if captures.is_running and not captures.waiting:
            return IS_CAPTURED
        # While the compiler pauses, the other key continues.
        command_id = "capture.watch" if captures.is_running else "capture.run"
        key = first_key(by_id(command_id), self._services.explorer.keymap)
        return CAPTURES_AGAIN.format(key=key)
