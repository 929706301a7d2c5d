"""This module has the panel of the tour, at the top of the open screen."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

FEW_ROWS, FEW_COLUMNS = 16, 60
"""On a terminal with fewer rows the panel is one line: the key alone. The same holds for a narrow
terminal without many rows.
"""


@dataclass(frozen=True, slots=True)
class PanelText:
    """The text of the panel."""

    number: int
    """The step, from 1."""
    count: int
    sentence: str
    key: str
    """The key to press, in readable form; empty for none."""
    does: str
    others: tuple[tuple[str, str, str], ...]
    """Key, words and id of the commands that skip and leave."""


class TourPanel(Widget):
    """Shows ``Tour 2 of 18  It became two graphs …`` and below it ``Press 4 to see where``. Its
    words at the right can be clicked.
    """

    DEFAULT_CSS = """
    TourPanel {
        dock: top; height: auto; width: 1fr; padding: 0 1;
        background: $primary 20%; color: $foreground; border-left: outer $primary;
    }
    """

    class Picked(Message):
        """Posted by a click on a command."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(self, text: PanelText) -> None:
        super().__init__()
        self._text = text

    def show(self, text: PanelText) -> None:
        if text != self._text:
            self._text = text
            self.refresh(layout=True)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        command = event.style.meta.get("tour_command")
        if command:
            self.post_message(self.Picked(command))

    def render(self) -> Content:
        text = self._text
        counted = Content.styled(f"Tour {text.number} of {text.count}", "bold $text-primary")
        press = _press(text)
        width, height = self.app.size
        if height < FEW_ROWS or (width < FEW_COLUMNS and height < 2 * FEW_ROWS):
            if self.size.width > 0:
                return press.truncate(self.size.width, ellipsis=True)
            return press
        others = [_clickable(key, words, command) for key, words, command in text.others]
        return Content("\n").join(
            [counted + Content(f"  {text.sentence}"), Content("   ").join([press, *others])]
        )


def _press(text: PanelText) -> Content:
    if not text.key:
        return Content(text.does)
    key = Content.styled(f" {text.key} ", "bold reverse")
    return Content("Press ") + key + Content(f" {text.does}")


def _clickable(key: str, words: str, command: str) -> Content:
    content = Content.styled(f"{key} {words}", "$text-muted")
    return content.stylize(Style.from_meta({"tour_command": command}))
