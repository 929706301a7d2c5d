"""What stands above the panes while they show a stage: what it did, what it is for, and the next
key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual.content import Content
from textual.widget import Widget

from fx_explorer.highlight import printable
from fx_explorer.tui.panes.table_words import SHORT_ROWS


@dataclass(frozen=True, slots=True)
class StageText:
    """The words for one stage, or for two that one step goes through."""

    sentences: Sequence[str]
    """What was done, whole sentences."""
    explained: str
    """What the last of them is for."""
    next_key: str = ""
    """Which key does what next; empty where nothing waits."""


class StageWords(Widget):
    """Shows the sentences; where the terminal has few rows, without what the stage is for."""

    DEFAULT_CSS = """
    StageWords { height: auto; padding: 0 1; background: $surface; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.text: StageText | None = None

    @property
    def sentences(self) -> Sequence[str]:
        return self.text.sentences if self.text else []

    def show(self, text: StageText | None) -> None:
        if text != self.text:
            self.text = text
            self.display = text is not None
            self.refresh(layout=True)

    def forget_key(self) -> None:
        """Say no more which key continues: nothing waits."""
        if self.text and self.text.next_key:
            self.show(replace(self.text, next_key=""))

    def render(self) -> Content:
        if self.text is None:
            return Content("")
        told = [_told(sentence) for sentence in self.text.sentences]
        explained = Content.styled(self.text.explained, "$foreground 60%")
        further = [explained] if self.text.explained and self.app.size.height > SHORT_ROWS else []
        if self.text.next_key:
            further.append(Content.styled(self.text.next_key, "$text-secondary"))
        return Content("\n").join([*told, *([Content("  ").join(further)] if further else [])])


def _told(sentence: str) -> Content:
    """Return the sentence with the name of the stage standing out."""
    title, colon, rest = printable(sentence).partition(": ")
    return Content.styled(title, "bold") + Content(f"{colon}{rest}") if colon else Content(title)
