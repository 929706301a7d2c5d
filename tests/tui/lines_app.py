"""This helper is an app around one LineView, for tests: it shows the screen, and collects messages."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.geometry import Region

from fx_explorer.tui.theme import THEMES
from fx_explorer.tui.widgets.line_view import LineView


class LinesApp(App[None]):
    """Shows ``view`` alone and keeps its messages."""

    def __init__(self, view: LineView, theme: str = "fx-dark") -> None:
        super().__init__()
        self.view = view
        self.moved: list[int] = []
        self.followed: list[int] = []
        self.found: list[tuple[int, bool]] = []
        self._wanted_theme = theme

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._wanted_theme
        self.view.focus()

    def on_line_view_moved(self, message: LineView.Moved) -> None:
        self.moved.append(message.line)

    def on_line_view_followed(self, message: LineView.Followed) -> None:
        self.followed.append(message.line)

    def on_line_view_found(self, message: LineView.Found) -> None:
        self.found.append((message.count, message.done))

    def shown(self) -> list[str]:
        """The rows of the screen, without the scroll track and the spaces before it."""
        width, height = self.view.size
        strips = self.view.render_lines(Region(0, 0, width, height))
        assert all(strip.cell_length == width for strip in strips), (
            "every row must be exactly as wide as the view"
        )
        return [strip.text[:-1].rstrip() for strip in strips]

    def track(self) -> str:
        """The scroll track, top to bottom."""
        width, height = self.view.size
        return "".join(
            strip.text[-1] for strip in self.view.render_lines(Region(0, 0, width, height))
        )

    def style_at(self, row: int, text: str) -> object:
        """The rich Style of the first piece of ``row`` that has ``text``."""
        strip = self.view.render_lines(Region(0, row, self.view.size.width, 1))[0]
        return next(segment.style for segment in strip if text in segment.text)
