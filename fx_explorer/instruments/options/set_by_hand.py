"""Options that the user set while a compilation waited, and what it takes to see what they changed:
the same stages once more without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.other_variants import VariantStart, variant_starts
from fx_explorer.instruments.options.settings import read_settings
from fx_explorer.model import Gate
from fx_explorer.model.setting_values import python_text
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class SetByHand:
    """Options that were set at a gate."""

    gate: Gate
    compilation: str
    """The one that waited there; empty where the whole program did."""
    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Without:
    """A variant in which options have the values again that they had before they were set by hand."""

    start: VariantStart
    settings: dict[str, object]
    had: dict[str, object]
    """What was set by hand, and is left out."""

    @property
    def title(self) -> str:
        """Return what is left out: ``max_fusion_size = 8``."""
        return ", ".join(
            f"{name.partition('.')[2] or name} = {python_text(value)}"
            for name, value in self.had.items()
        )

    @property
    def words(self) -> str:
        return f"without {self.title} · [{self.start.compilation}]"

    @property
    def detail(self) -> str:
        return "and compare"


def without_what_was_set(reader: SessionReader, done: Iterable[SetByHand]) -> Iterator[Without]:
    """Yield the variants that leave out what was set, the newest first. Only a stage that a variant
    can set out from counts.
    """
    before = {setting.full_name: json.loads(setting.value) for setting in read_settings(reader)}
    originals = {row.name for row in reader.rows(model.Compilation) if not row.variant_of}
    starts = [
        start
        for start in variant_starts(reader)
        if start.compilation in originals and not start.region
    ]
    for hand in reversed(list(done)):
        settings = {name: before[name] for name in hand.settings if name in before}
        if not settings:
            continue
        had = {name: hand.settings[name] for name in settings}
        for start in starts:
            if start.gate == hand.gate and hand.compilation in ("", start.compilation):
                yield Without(start, settings, had)
