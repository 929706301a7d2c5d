"""Options that the user sets while a capture is stepped through: for everything that follows, or
for one variant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from fx_explorer.capture.options import settings
from fx_explorer.capture.options.dynamic_shapes import SETTING, DynamicShapes
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variants.variant import Variant
from fx_explorer.model import Changes, Gate, Intervention


class VariantSettings:
    """Holds the settings of the variants of one capture."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.changes = Changes()
        """Settings for everything that follows."""
        self.dynamic_shapes = DynamicShapes()
        self._restore: list[Callable[[], None]] = []

    def set(self, wanted: dict[str, object], gate: Gate | None) -> str:
        """Set options for everything that follows, and return the words for them. Raises UsageError
        with none of them set.
        """
        settings.check_at_gate(wanted)
        self._restore.append(settings.apply(wanted))
        if SETTING in wanted:
            self.dynamic_shapes.want(wanted[SETTING])
        self.changes = self.changes.plus(Changes(wanted))
        title = ", ".join(f"{name} = {value!r}" for name, value in wanted.items())
        self._recording.writer.add(Intervention(0, 0, gate, "", "setting", title))
        return title

    def for_variant(self, variant: Variant) -> dict[str, object]:
        return {**self.changes.settings, **variant.changes.settings}

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Keep the user's settings in force inside the block, also those set meanwhile. Afterwards
        torch's settings are as before.
        """
        self._restore.append(settings.apply(self.changes.settings))
        try:
            with self.dynamic_shapes.in_frames():
                yield
        finally:
            self._put_back()

    @contextlib.contextmanager
    def over(self, block: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Enter ``block``, which restores earlier settings of torch, and keep the user's settings
        in force in it. What is set in the block holds afterwards too.
        """
        outside, known = self._restore, self.changes
        try:
            with block:
                self._restore = [settings.apply(known.settings)]
                try:
                    yield
                finally:
                    self._put_back()
        finally:
            self._restore = outside
            # What was set in the block was undone with the block.
            if self.changes != known:
                outside.append(settings.apply(self.changes.settings))

    def _put_back(self) -> None:
        while self._restore:
            self._restore.pop()()

    @contextlib.contextmanager
    def of(self, variant: Variant) -> Iterator[None]:
        """Put the variant's own settings in force inside the block."""
        restore = settings.apply(variant.changes.settings)
        try:
            yield
        finally:
            restore()
