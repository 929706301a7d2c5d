"""This module shows the regions marked by hand as an edit of the user's source: a diff to read,
copy, or write to a file of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label

from fx_explorer.analysis.hand_marks import SourceEdit
from fx_explorer.errors import UsageError
from fx_explorer.folders import typed_path
from fx_explorer.highlight import printable, printable_text
from fx_explorer.output_file import OutputFile, never_ours
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.conversation import CopyWanted, ask, conversation
from fx_explorer.tui.dialogs.dialog import Ask, Dialog
from fx_explorer.tui.keys import closing_bindings, first_key, reused_bindings
from fx_explorer.tui.widgets.code_view import DiffView
from fx_explorer.tui.widgets.one_line import OneLine

SUGGESTED_NAME = "marking.diff"


class SourceEditScreen(Dialog[None]):
    """Shows the effects of the edit beyond the marks above, and below them the diff. The user's
    files are never changed.
    """

    DEFAULT_CSS = """
    SourceEditScreen { align: center middle; }
    SourceEditScreen > Vertical {
        width: 100%; height: 96%; background: $surface; border: round $border; padding: 0 1;
    }
    SourceEditScreen Label { width: 1fr; color: $text-warning; padding: 0 1; }
    SourceEditScreen DiffView { height: 1fr; background: $surface; }
    SourceEditScreen OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *reused_bindings({"place.copy": "copy", "capture.save": "save"}),
    ]

    def __init__(self, edit: SourceEdit, folder: Path, keymap: Keymap) -> None:
        """``folder`` is the base of the paths in the diff."""
        super().__init__()
        self._edit = edit
        self._folder = folder
        self._keymap = keymap
        self._diff = DiffView(edit.diff)
        self._diff.placeholder = "No mark could be turned into an edit: see above."
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Your marks as an edit of the source"
            if self._edit.remarks:
                yield Label(
                    printable_text("\n".join(f"▲ {remark}" for remark in self._edit.remarks)),
                    markup=False,
                )
            yield self._diff
            yield self._hint

    def on_mount(self) -> None:
        copy, write, close = (
            first_key(by_id(command), self._keymap)
            for command in ("place.copy", "capture.save", "dialog.close")
        )
        apply = f"apply it in {printable(str(self._folder))} with: patch -p1 < {SUGGESTED_NAME}"
        self._hint.show(
            Content(apply),
            Content(f"{copy} copies all of it · {write} writes a file · {close} closes"),
        )
        self._diff.focus()

    def action_copy(self) -> None:
        if self._edit.diff:
            self.app.post_message(CopyWanted(self._edit.diff))

    @conversation("write diff", "write the diff to a file")
    async def action_save(self) -> None:
        if not self._edit.diff:
            return
        typed = await ask(
            self.app, Ask("Write the diff to", str(self._folder / SUGGESTED_NAME), verb="writes")
        )
        if typed:
            self._write(typed_path(typed).absolute())

    def _write(self, path: Path) -> None:
        """Write the diff, but never over an existing file: it may be the source itself."""
        if os.path.lexists(path):
            self.notify(
                f"{path} already exists: nothing was written. Give another name.",
                severity="warning",
                timeout=10,
            )
            return
        try:
            OutputFile(path, "diff", never_ours, option="another name").write_text(
                self._edit.diff, errors="surrogateescape"
            )
        except UsageError as error:
            self.notify(f"nothing was written: {error}", severity="error", timeout=10)
        else:
            self.notify(
                f"Wrote {path}. Apply it with: patch -p1 -d {self._folder} < {path}", timeout=15
            )

    def action_leave(self) -> None:
        self.dismiss(None)
