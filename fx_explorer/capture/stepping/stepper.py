"""This module has the stepper, which knows the graphs of a capture that is stepped through, their
variants, and the variant that torch compiles now. Each variant has a row in the session, which is
updated when it begins, ends or is left.

The hooks of each stage come to it through the boundary (stepped_boundary.py): they ask whether an
earlier variant made the same, and hand over what they made. A capture that nobody steps through has
none. Where to read on: a graph comes from Dynamo (stepped_boundary.py), is compiled and comes to
its gates, where another variant may set out (through_the_gates.py), and is taken up again when the
program has ended (after_the_program.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fx_explorer.capture import option_settings
from fx_explorer.capture.backends.asking import answerer
from fx_explorer.capture.backends.users_backend import backend_name
from fx_explorer.capture.inductor.asked_choices import asked_candidates, asked_layouts
from fx_explorer.capture.inductor.asked_fusions import asked_fusions
from fx_explorer.capture.option_settings import SETTING, Compiler, DynamicShapes, compiler_for
from fx_explorer.capture.recording import stage_events
from fx_explorer.capture.recording.boundary import Key
from fx_explorer.capture.recording.compilation_state import Segment
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.editing import GraphEdits
from fx_explorer.capture.stepping.gates import Gates, LeftAtGate
from fx_explorer.capture.stepping.variant import CapturedSegment, Variant
from fx_explorer.errors import UsageError
from fx_explorer.model import Changes, Command, Compilation, Gate, Intervention


class Stepper:
    """The state of one capture that is stepped through. With ``defers``, graphs first run in eager
    mode and are compiled at the end.
    """

    def __init__(self, recording: Recording, gates: Gates, *, defers: bool) -> None:
        self.recording = recording
        self.gates = gates
        self.defers = defers
        self.kept: dict[str, CapturedSegment] = {}
        """Compilation → the graph that Dynamo captured for it."""
        self.current: dict[str, Variant] = {}
        """Compilation → the variant that torch compiles now."""
        self.edits = GraphEdits(recording)
        self.settings = VariantSettings(recording)
        self.rows = VariantRows(recording)
        self.carried: dict[str, Changes] = {}
        """Compilation → the user's changes, kept for a frame that Dynamo captures again."""
        self.in_dynamo: CapturedSegment | None = None
        """The graph whose compilation Dynamo waits for."""
        self.is_probing = False
        """Whether a deferred graph is only being traced, and left afterwards."""
        self.is_outside = False
        """Whether a graph is being compiled after Dynamo has finished its frame."""

    # what the hooks ask and tell

    @property
    def variant(self) -> Variant | None:
        return self.current.get(self.recording.compilation_name())

    def replay(self, key: Key) -> Any:
        """Return an earlier variant's result for this stage, if this variant shares it; None when
        the stage must run.
        """
        variant = self.variant
        if variant is None or key not in variant.replays:
            return None
        return variant.kept.get(key)

    def is_deferred(self, name: str) -> bool:
        """Return whether this compilation's graph is still deferred."""
        return self.defers and name in self.kept and not self.kept[name].variants[0].is_finished

    @property
    def waits(self) -> bool:
        """Return whether there are deferred graphs."""
        return any(map(self.is_deferred, self.kept))

    def keep(self, key: Key, made: Any, took_s: float | None = None) -> None:
        variant = self.variant
        if variant is not None and key not in variant.kept:
            variant.keep(key, made, took_s)

    def spent_s(self) -> float:
        """Return the seconds spent compiling the current variant."""
        return self.variant.spent_s() if self.variant else 0.0

    @contextlib.contextmanager
    def lowering(self, key: Key) -> Iterator[None]:
        """Apply the variant's settings while a stage is lowered inside the block, and fuse as the
        user asked. A rebuilt variant gets the settings of its first lowering.
        """
        variant = self.variant
        if variant is None:
            yield
            return
        changes, direction = variant.changes, key[1]
        with (
            asked_fusions(changes.fusions, direction),
            asked_layouts(changes.layouts, direction),
            asked_candidates(changes.candidates, direction),
        ):
            if not variant.is_rebuilt:
                variant.lowered_with[key] = self.settings.for_variant(variant)
                yield
                return
            restore = option_settings.apply(variant.settings_again(key))
            try:
                yield
            finally:
                restore()

    @property
    def is_lazy(self) -> bool:
        """Return whether a backward is being compiled when the program runs it: Dynamo has finished
        its frame, but the program has not ended.
        """
        return self.in_dynamo is None and not self.is_outside

    @contextlib.contextmanager
    def lazily(self) -> Iterator[None]:
        """Compile a backward inside the block, when the program runs it, with its variant's
        settings. The variant ends with the backward.
        """
        variant = self.variant
        if variant is None or not self.is_lazy:
            yield
            return
        try:
            with self.settings.of(variant):
                yield
        except LeftAtGate:
            self.rows.leave(variant, "the user aborted the backward")
            missing = stage_events.missing(
                self.recording, self.recording.compilation_name(), "left"
            )
            self.rows.change(variant, missing_stages=missing or None)
            raise
        except Exception as error:
            self.rows.fail(variant, error)
            raise

    # which variant is being compiled

    @contextlib.contextmanager
    def as_current(self, kept: CapturedSegment, variant: Variant) -> Iterator[None]:
        """Record compiles inside the block under ``variant``."""
        state = self.recording.of(kept.name)
        before = state.segment, state.variant, state.backend, self.current.get(kept.name)
        state.segment = variant.segment
        if variant.row.variant_of:
            state.variant = variant.row.id
        self.current[kept.name] = variant
        try:
            yield
        except BaseException:
            self._put_back(kept.name, *before)
            raise
        # Within Dynamo it stays the current one: its backward may be lowered later, when it runs.
        if self.is_outside:
            self._put_back(kept.name, *before)

    def _put_back(
        self,
        name: str,
        segment: Segment | None,
        variant_id: int,
        backend: str,
        variant: Variant | None,
    ) -> None:
        state = self.recording.of(name)
        state.segment, state.variant, state.backend = segment, variant_id, backend
        if variant is None:
            self.current.pop(name, None)
        else:
            self.current[name] = variant

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Record that Dynamo has finished the frame whose graph is compiled inside the block."""
        before, self.is_outside = self.is_outside, True
        try:
            yield
        finally:
            self.is_outside = before

    def as_in_dynamo(self, kept: CapturedSegment) -> contextlib.AbstractContextManager[None]:
        """Restore, inside the block, the state in which Dynamo captured the graph, except for
        settings that the user changed since.
        """
        return self.settings.over(kept.as_in_dynamo())

    def compiler(self, kept: CapturedSegment) -> Compiler:
        """Return the backend for the variant that is being compiled. It is also recorded, so that
        it can be asked which operators it supports.
        """
        variant = self.current[kept.name]
        compiler = compiler_for(self.settings.for_variant(variant), kept.compiler)
        with self.recording.noting("the backend of a variant"):
            if compiler is not kept.compiler or variant.row.variant_of:
                self._note_backend(kept, variant, compiler)
        return compiler

    def _note_backend(self, kept: CapturedSegment, variant: Variant, compiler: Compiler) -> None:
        if compiler is kept.compiler:
            backend = kept.variants[0].row.backend
        else:
            backend = backend_name(compiler)
        self.recording.of(kept.name).backend = backend
        variant.segment.answerer = answerer(backend, compiler)
        if variant.row.backend != backend:
            self.rows.change(variant, backend=backend)

    # what was captured

    def kept_of(self, name: str) -> CapturedSegment:
        if not self.kept:
            raise UsageError("Nothing was captured that could be compiled again.")
        if not name:
            return next(iter(self.kept.values()))
        for kept in self.kept.values():
            if kept.variant(name) or kept.name == name:
                return kept
        raise UsageError(f"There is no [{name}] to restart; there are {', '.join(self.kept)}.")

    def current_kept(self) -> CapturedSegment:
        """Return the graph being compiled."""
        return self.kept[self.recording.compilation_name()]

    def check_source(self, *kept: CapturedSegment) -> None:
        """Raise UsageError when a source file that Dynamo read for these graphs (default: all) has
        changed.
        """
        for segment in kept or self.kept.values():
            self.recording.sources.check_unchanged(sorted(segment.files))


# Options that the user sets while a capture is stepped through: for everything that follows, or
# for one variant.


class VariantSettings:
    """Holds the settings of the variants of one capture."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.changes = Changes()
        """Settings for everything that is compiled from now on."""
        self.dynamic_shapes = DynamicShapes()
        self._restore: list[Callable[[], None]] = []

    def set(self, wanted: dict[str, object], gate: Gate | None) -> str:
        """Set options for everything that is compiled from now on, and describe them. Raises
        UsageError with none of them set.
        """
        option_settings.check_at_gate(wanted)
        self._restore.append(option_settings.apply(wanted))
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
        """Keep the user's settings in force inside the block, including those set in it. Afterwards
        torch's settings are as before.
        """
        self._restore.append(option_settings.apply(self.changes.settings))
        try:
            with self.dynamic_shapes.in_frames():
                yield
        finally:
            self._put_back()

    @contextlib.contextmanager
    def over(self, block: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Enter ``block``, which restores earlier settings of torch, and apply the user's settings
        over them. Settings that are changed inside stay in force afterwards.
        """
        outside, known = self._restore, self.changes
        try:
            with block:
                self._restore = [option_settings.apply(known.settings)]
                try:
                    yield
                finally:
                    self._put_back()
        finally:
            self._restore = outside
            # What was set in the block was undone with the block.
            if self.changes != known:
                outside.append(option_settings.apply(self.changes.settings))

    def _put_back(self) -> None:
        while self._restore:
            self._restore.pop()()

    @contextlib.contextmanager
    def of(self, variant: Variant) -> Iterator[None]:
        """Apply the variant's own settings inside the block."""
        restore = option_settings.apply(variant.changes.settings)
        try:
            yield
        finally:
            restore()


# The rows of variants.


class VariantRows:
    """Writes the rows of one capture's variants. The row of a first variant is that of its
    compilation, which Dynamo's records change too.
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
        """Add the row of a variant that begins at ``gate`` of another one."""
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
        """Record that the user replaced the first variant with another before it began."""
        first = kept.variants[0]
        first.is_finished = True
        self.leave(first, "the user chose another variant")
        self.change(first, missing_stages=stage_events.missing(self._recording, kept.name, "left"))

    def fail(self, variant: Variant, error: Exception) -> None:
        message = one_line(f"{type(error).__name__}: {error}")
        self.change(variant, status="failed", error=message)
        self._recording.add_failure("compiler", self._recording.stage, error, message)

    def finish(self, variant: Variant) -> None:
        """Record that the variant was finished. For a first variant, Dynamo may have ended its row
        before.
        """
        variant.is_finished = True
        if not variant.row.variant_of:
            self.add_time(variant)
        elif variant.row.status == "running":
            self.change(variant, status="ok", saved_s=variant.row.saved_s + variant.spared_s)

    def add_time(self, variant: Variant) -> None:
        """Add the time for which a first variant was compiled after Dynamo had ended its row."""
        row = self._recording.row(variant.row.name)
        missing = stage_events.missing(self._recording, row.name, row.status)
        self.change(
            variant, duration_s=row.duration_s + variant.spent_now_s(), missing_stages=missing
        )

    def use(self, kept: CapturedSegment, variant: Variant) -> None:
        """Record that the program runs ``variant``."""
        for other in kept.variants:
            if other.row.in_use != (other is variant):
                self.change(other, in_use=other is variant)

    def set_aside(self, kept: CapturedSegment, aside: str) -> None:
        """Rename this variant to ``aside``, together with the variants that began from it."""
        for variant in kept.variants[1:]:
            row = variant.row
            status = "restarted" if row.status == "running" else row.status
            self.change(
                variant,
                name=row.name.replace(kept.name, aside, 1),
                variant_of=row.variant_of.replace(kept.name, aside, 1),
                status=status,
            )
