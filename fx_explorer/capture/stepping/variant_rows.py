"""A compilation's variants have one row each in the session, which is kept up to date as they
begin, end or are left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fx_explorer.capture.recording import stages
from fx_explorer.capture.recording.boundary import Key
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variant import CapturedSegment, Variant
from fx_explorer.model import Command, Compilation, Gate


class VariantRows:
    """Writes the rows of one capture's variants. A first variant has the row of its compilation,
    which Dynamo's records change too.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def add_variant(
        self,
        kept: CapturedSegment,
        origin: Variant,
        gate: Gate,
        command: Command,
        replays: frozenset[Key],
    ) -> Compilation:
        """Add the row of a variant that sets out from ``gate`` of another one."""
        row = replace(
            kept.variants[0].row,
            id=0,
            name=f"{kept.name}~{len(kept.variants)}",
            status="running",
            error="",
            variant_of=origin.row.name,
            variant_from=gate,
            changes=command.changes.to_json(),
            in_use=False,
            saved_s=kept.traced_s + origin.shared_s(replays),
            start_s=self._recording.elapsed(),
            duration_s=0.0,
            missing_stages=None,
        )
        return replace(row, id=self._recording.writer.add(row))

    def change(self, variant: Variant, **changes: Any) -> None:
        if variant.row.variant_of:
            variant.row = replace(
                variant.row, **{"duration_s": round(variant.spent_s(), 6), **changes}
            )
            self._recording.writer.update(variant.row)
        else:
            self._recording.change_compilation(variant.row.name, **changes)
            variant.row = self._recording.row(variant.row.name)

    def leave(self, variant: Variant, why: str) -> None:
        self.change(variant, status="left", error=why)

    def replace_first(self, kept: CapturedSegment) -> None:
        """Record that the user chose another variant before the first one had begun."""
        first = kept.variants[0]
        first.is_finished = True
        self.leave(first, "the user chose another variant")
        self.change(first, missing_stages=stages.missing(self._recording, kept.name, "left"))

    def fail(self, variant: Variant, error: Exception) -> None:
        message = one_line(f"{type(error).__name__}: {error}")
        self.change(variant, status="failed", error=message)
        self._recording.add_failure("compiler", self._recording.stage, error, message)

    def finish(self, variant: Variant) -> None:
        """Record that the variant was finished. For a first variant, that may be after Dynamo had
        ended its row.
        """
        variant.is_finished = True
        if not variant.row.variant_of:
            self.add_time(variant)
        elif variant.row.status == "running":
            self.change(variant, status="ok", saved_s=variant.row.saved_s + variant.spared_s)

    def add_time(self, variant: Variant) -> None:
        """Add the time for which a first variant was compiled further, after Dynamo had ended its
        row.
        """
        row = self._recording.row(variant.row.name)
        missing = stages.missing(self._recording, row.name, row.status)
        self.change(
            variant, duration_s=row.duration_s + variant.spent_now_s(), missing_stages=missing
        )

    def use(self, kept: CapturedSegment, variant: Variant) -> None:
        """Record that the program runs ``variant``."""
        for other in kept.variants:
            if other.row.in_use != (other is variant):
                self.change(other, in_use=other is variant)

    def set_aside(self, kept: CapturedSegment, aside: str) -> None:
        """Rename this attempt to ``aside``, and with it the variants that set out from it."""
        for variant in kept.variants[1:]:
            row = variant.row
            status = "restarted" if row.status == "running" else row.status
            self.change(
                variant,
                name=row.name.replace(kept.name, aside, 1),
                variant_of=row.variant_of.replace(kept.name, aside, 1),
                status=status,
            )
