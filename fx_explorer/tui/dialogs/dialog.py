"""This module has the base of every dialog, a modal screen that can be dismissed once, and three
dialogs with one question: for a line of text, for consent, and for what to do with the input.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Generic, Literal, TypeGuard, TypeVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.color import Color
from textual.css.styles import RulesMap
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import Input, Label
from textual.worker import Worker

from fx_explorer.highlight import printable, printable_text
from fx_explorer.tui.keys import closing_bindings
from fx_explorer.tui.widgets.titled_box import TitledBox

AnswerT = TypeVar("AnswerT")


class Dialog(ModalScreen[AnswerT], Generic[AnswerT]):
    """A modal screen. If it is dismissed a second time, by a key that was already on its way, the
    screen below it is left alone.

    Textual's ``Screen.dismiss`` (8.2) pops whatever screen is on top then.
    """

    # Screen narrows what Widget may give
    def render(self) -> RenderResult:  # type: ignore[override]
        below = super().render()
        if isinstance(below, BackgroundScreen):
            return ScreenBelow(below.screen, below.color)
        return below

    def dismiss(self, result: AnswerT | None = None) -> AwaitComplete:
        """Close this dialog with ``result``, if it is still the one on top."""
        if self.app.screen is self:
            return super().dismiss(result)
        return AwaitComplete()


def is_under_way(trial: Worker[None] | None) -> TypeGuard[Worker[None]]:
    """Return whether a trial is running and has not been stopped. A trial that is stopped before it
    began never reports its end.
    """
    return trial is not None and not trial.is_cancelled


class Ask(Dialog[str]):
    """A question and a suggested answer. Enter takes it, escape gives the empty answer."""

    DEFAULT_CSS = """
    Ask { align: center middle; }
    Ask > Vertical {
        width: 80%; max-width: 90; height: auto; background: $surface; border: round $border;
        padding: 0 1;
    }
    Ask Input { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(
        self, question: str, suggestion: str, verb: str = "saves", *, is_typed: bool = False
    ) -> None:
        """``verb`` says what Enter does. A suggestion that the user has typed (``is_typed``) is
        edited; any other is replaced by the first key.
        """
        super().__init__()
        self._verb = verb
        self._question = question
        self._input = Input(suggestion, compact=True, select_on_focus=not is_typed)

    def compose(self) -> ComposeResult:
        with TitledBox(self._question) as box:
            box.border_subtitle = f"⏎ {self._verb} · esc closes"
            yield self._input

    def on_mount(self) -> None:
        self._input.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss("")


class Consent(Dialog[bool]):
    """``y`` agrees. Every other key that closes it, including Enter, declines, so that nobody
    agrees by accident.
    """

    DEFAULT_CSS = """
    Consent { align: center middle; }
    Consent > Vertical {
        width: 80%; max-width: 90; height: auto; background: $surface; border: round $border;
        padding: 0 1;
    }
    Consent Label { width: 1fr; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(self, question: str, words: str) -> None:
        super().__init__()
        self._question = question
        self._words = words

    def compose(self) -> ComposeResult:
        with TitledBox(self._question) as box:
            box.border_subtitle = "y yes · n no"
            yield Label(printable(self._words), markup=False)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("y", "n", "enter"):
            event.stop()
            self.dismiss(event.key == "y")

    def action_leave(self) -> None:
        self.dismiss(False)


Keep = Literal["keep", "drop", "back"]


class Keeping(Dialog[Keep]):
    """``y`` keeps the input, ``n`` discards it, Escape returns to it. If it cannot be kept, ``y``
    and Enter do nothing.
    """

    DEFAULT_CSS = """
    Keeping { align: center middle; }
    Keeping > Vertical {
        width: 80%; max-width: 90; height: auto; background: $surface; border: round $border;
        padding: 0 1;
    }
    Keeping Label { width: 1fr; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(self, question: str, words: str, *, can_keep: bool = True) -> None:
        super().__init__()
        self._question = question
        self._words = words
        self._can_keep = can_keep

    def compose(self) -> ComposeResult:
        with TitledBox(self._question) as box:
            answers = "y yes · n no" if self._can_keep else "n discard it"
            box.border_subtitle = f"{answers} · esc back"
            yield Label(printable_text(self._words), markup=False)

    def on_key(self, event: events.Key) -> None:
        if event.key == "y" and self._can_keep:
            event.stop()
            self.dismiss("keep")
        elif event.key == "n":
            event.stop()
            self.dismiss("drop")

    def action_leave(self) -> None:
        self.dismiss("back")


# The screen below a dialog, as it is seen through the dialog's background.


class ScreenBelow(Visual):
    """Draws another screen under ``tint``, without the click actions of its texts.

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
        if height is None:
            height = self._screen.size.height
        base, tint = style.rich_style, self._tint
        strips = []
        for strip in self._screen._compositor.render_strips(Size(width, height)):
            segments = [
                Segment(text, _seen(look, tint, base), control) for text, look, control in strip
            ]
            strips.append(Strip(segments, strip.cell_length))
        return strips

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


@lru_cache(maxsize=2_048)
def _seen(look: RichStyle | None, tint: Color, base: RichStyle) -> RichStyle:
    """Return the style of a text below ``tint``, over the style ``base`` of the whole."""
    if look is None:
        return base
    look = look.clear_meta_and_links()
    if not tint.a:
        return base + look
    if look.color:
        colour = (Color.from_rich_color(look.color) + tint).rich_color
    else:
        colour = None
    if look.bgcolor:
        background = (Color.from_rich_color(look.bgcolor) + tint).rich_color
    else:
        background = None
    return base + look + RichStyle.from_color(colour, background)
