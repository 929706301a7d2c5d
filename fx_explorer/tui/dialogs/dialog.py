"""What every dialog is made from: a modal screen that can be dismissed once."""

from __future__ import annotations

from typing import Generic, TypeGuard, TypeVar

from textual.app import RenderResult
from textual.await_complete import AwaitComplete
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.worker import Worker

from fx_explorer.tui.dialogs.screen_below import ScreenBelow

AnswerT = TypeVar("AnswerT")


class Dialog(ModalScreen[AnswerT], Generic[AnswerT]):
    """Dismissed a second time, by a key that was under way already, it leaves the screen below it
    alone.

    Textual's ``Screen.dismiss`` (8.2) pops whatever screen is on top then.
    """

    def render(self) -> RenderResult:  # type: ignore[override]  # Screen narrows what Widget may give
        below = super().render()
        return (
            ScreenBelow(below.screen, below.color) if isinstance(below, BackgroundScreen) else below
        )

    def dismiss(self, result: AnswerT | None = None) -> AwaitComplete:
        """Close this dialog with ``result``, if it is still the one on top."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


def is_under_way(trial: Worker[None] | None) -> TypeGuard[Worker[None]]:
    """Return whether a trial runs that nobody has stopped. One that is stopped before it began
    never says that it has ended.
    """
    return trial is not None and not trial.is_cancelled
