"""What every dialog is made from: a modal screen that can be dismissed once."""

from __future__ import annotations

from functools import lru_cache
from typing import Generic, TypeGuard, TypeVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import RenderResult
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.css.styles import RulesMap
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.worker import Worker

AnswerT = TypeVar("AnswerT")


class Dialog(ModalScreen[AnswerT], Generic[AnswerT]):
    """Dismissed a second time, by a key that was under way already, it leaves the screen below it
    alone.

    Textual's ``Screen.dismiss`` (8.2) pops whatever screen is on top then.
    """

    def render(self) -> RenderResult:  # type: ignore[override]  # Screen narrows what Widget may give
        below = super().render()
        if isinstance(below, BackgroundScreen):
            return ScreenBelow(below.screen, below.color)
        return below

    def dismiss(self, result: AnswerT | None = None) -> AwaitComplete:
        """Close this dialog with ``result``, if it is still the one on top."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


def is_under_way(trial: Worker[None] | None) -> TypeGuard[Worker[None]]:
    """Return whether a trial runs that nobody has stopped. One that is stopped before it began
    never says that it has ended.
    """
    return trial is not None and not trial.is_cancelled


# The screen below a dialog, as it is seen through the dialog's background.


class ScreenBelow(Visual):
    """Draws another screen under ``tint``, without what its texts do on a click.

    Textual's own way (``textual.renderables.background_screen``, 8.2) mixes colours for each piece
    of text, 15 ms a frame at 120×40. There are some dozen looks on a screen, so here each is mixed
    once.
    """

    def __init__(self, screen: Screen[object], tint: Color) -> None:
        self._screen = screen
        self._tint = tint

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        size = Size(width, self._screen.size.height if height is None else height)
        base, tint = style.rich_style, self._tint
        return [
            Strip(
                [Segment(text, _seen(look, tint, base), control) for text, look, control in strip],
                strip.cell_length,
            )
            for strip in self._screen._compositor.render_strips(size)
        ]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


@lru_cache(maxsize=2_048)
def _seen(look: RichStyle | None, tint: Color, base: RichStyle) -> RichStyle:
    """Return how a piece of text looks below ``tint``, on what ``base`` gives to all."""
    if look is None:
        return base
    look = look.clear_meta_and_links()
    if not tint.a:
        return base + look
    colour = (Color.from_rich_color(look.color) + tint).rich_color if look.color else None
    background = (Color.from_rich_color(look.bgcolor) + tint).rich_color if look.bgcolor else None
    return base + look + RichStyle.from_color(colour, background)
