"""The pipeline bar: which stage torch.compile is in, what each stage found and how long it took.
Live while the worker compiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from fx_explorer.tui.status.pipeline import COLOURS, GLYPHS, StepState, bar_for
from fx_explorer.tui.widgets.one_line import Cached


class PipelineBar(Cached):
    """Shows ``✓ Dynamo 1 graph · 0 breaks 0.4 s ━━ ▷ Inductor ━━ · Kernels``, always visible."""

    DEFAULT_CSS = """
    PipelineBar { height: 1; width: 1fr; padding: 0 1; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._states: Sequence[StepState] = ()

    def show(self, states: Sequence[StepState]) -> None:
        if list(states) != list(self._states):
            self._states = states
            self.refresh()

    @property
    def text(self) -> str:
        return bar_content(self._states, 10_000).plain

    def render(self) -> Content:
        return bar_content(self._states, self.size.width).truncate(self.size.width, ellipsis=True)


def bar_content(states: Sequence[StepState], room: int) -> Content:
    bar = bar_for(states, room)
    steps = [_step(state, text) for state, text in zip(states, bar.texts, strict=True)]
    return Content.styled(bar.separator, "$foreground 30%").join(steps)


def _step(state: StepState, text: str) -> Content:
    colour = COLOURS[state.state]
    name = Content.styled(
        f"{GLYPHS[state.state]} {state.name}",
        f"bold {colour}" if state.state != "waiting" else colour,
    )
    return name + Content.styled(f" {text}", "$foreground 60%") if text else name
