"""This module says what can be asked of Inductor's scheduler: that two kernels of a session become
one, or that each operation of one kernel has a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted, size
from fx_explorer.errors import UsageError
from fx_explorer.instruments.fusion.figures import pairs_of_kernel
from fx_explorer.model import FusionChange, FusionKind
from fx_explorer.session import SessionReader

GATE: model.Gate = "post_grad"
"""The stage from which the graph is recompiled: fusion and code are all that is redone."""


@dataclass(frozen=True, slots=True)
class KernelNamed:
    """A kernel as every capture of the program names it."""

    name: str
    compilation: str
    direction: model.Direction


@dataclass(frozen=True, slots=True)
class AskedFusion:
    """What is asked of Inductor."""

    kind: FusionKind
    """``together``: one kernel for both, at each place where both are called. ``apart``: a kernel
    of its own for each operation of the first.
    """
    first: KernelNamed
    second: KernelNamed
    """For ``apart``: the first again."""


def kernel_named(reader: SessionReader, given: str) -> model.Kernel:
    """Return the kernel that the user means: its name, the end of it, or ``#`` and its number.
    Raises UsageError for none and for several.
    """
    kernels = reader.rows(model.Kernel)
    if given.startswith("#") and given[1:].isdecimal():
        fitting = [kernel for kernel in kernels if kernel.id == int(given[1:])]
    else:
        fitting = [kernel for kernel in kernels if kernel.name == given]
        fitting = fitting or [kernel for kernel in kernels if kernel.name.endswith(given)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UsageError(
            f"there is no kernel {given}; fx-explorer fusion X lists kernels that are not fused"
        )
    some = ", ".join(f"#{kernel.id} {kernel.name}" for kernel in fitting[:4])
    raise UsageError(f"{given} matches several: {some}; give the number with #")


def asked_fusion(reader: SessionReader, kind: FusionKind, given: Iterable[str]) -> AskedFusion:
    """Return what is asked of the kernels of a session. Raises UsageError for kernels that cannot
    be told apart or fused.
    """
    kernels = [kernel_named(reader, name) for name in given]
    first, second = kernels[0], kernels[-1]
    if kind == "together" and first.id == second.id:
        raise UsageError("give two kernels to fuse")
    if (first.compilation, first.direction) != (second.compilation, second.direction):
        raise UsageError(
            f"#{first.id} and #{second.id} belong to two graphs: only kernels of one graph can be "
            "fused"
        )
    for kernel in kernels:
        if kernel.language == "extern":
            raise UsageError(
                f"{kernel.name} is a library call, which Inductor can neither fuse nor split"
            )
    return AskedFusion(kind, _named(reader, first), _named(reader, second))


def changes_for(reader: SessionReader, asked: AskedFusion) -> tuple[FusionChange, ...]:
    """Return what is asked of each place where the kernels are called; empty without one."""
    direction = asked.first.direction
    first, second = _calls_of(reader, asked.first), _calls_of(reader, asked.second)
    if asked.kind == "apart":
        return tuple(apart_change(call, direction) for call in first.values())
    changes = []
    for pair in reader.rows(model.UnfusedPair):
        is_of_both = (pair.first in first and pair.second in second) or (
            pair.first in second and pair.second in first
        )
        if is_of_both:
            changes.append(
                FusionChange("together", pair.first_buffers, pair.second_buffers, direction)
            )
    return tuple(changes)


def apart_change(call: model.KernelCall, direction: model.Direction) -> FusionChange:
    """Return the change that gives each operation of a call a kernel of its own."""
    return FusionChange("apart", call.buffers, call.buffers, direction)


def _calls_of(reader: SessionReader, named: KernelNamed) -> dict[int, model.KernelCall]:
    """Return the calls of a kernel, by id."""
    compilations = {row.name: row.id for row in reader.rows(model.Compilation)}
    kernels = {
        row.id
        for row in reader.rows(model.Kernel, compilation=compilations.get(named.compilation, 0))
        if (row.name, row.direction) == (named.name, named.direction)
    }
    return {row.id: row for row in reader.rows(model.KernelCall) if row.kernel in kernels}


# Offers for the kernel under the cursor.


@dataclass(frozen=True, slots=True)
class OfferedFusion:
    """What can be asked of one kernel, as a choice of a menu."""

    words: str
    detail: str
    asked: AskedFusion


def offered_fusions(reader: SessionReader, kernel: model.Kernel) -> list[OfferedFusion]:
    """Return what can be asked of a generated kernel: first one kernel with each that it is apart
    from, those first that would save most; then each of its operations alone.
    """
    named = _named(reader, kernel)
    offers: dict[AskedFusion, OfferedFusion] = {}
    for pair in pairs_of_kernel(reader, kernel.id):
        if pair.is_of_library:
            continue
        other = pair.second if pair.first.kernel.id == kernel.id else pair.first
        asked = AskedFusion("together", named, _named(reader, other.kernel))
        saves = f"{pair.cause.kind} · would save {size(pair.pair.saved_bytes)}"
        if pair.has_one_between:
            saves = f"{pair.cause.kind}: cannot be fused alone"
        words = f"fuse it with #{other.kernel.id} {other.kernel.name}"
        offers.setdefault(asked, OfferedFusion(words, saves, asked))
    operations: set[str] = set()
    for call in reader.rows(model.KernelCall, kernel=kernel.id):
        operations.update(call.buffers)
    listed = list(offers.values())
    if len(operations) > 1:
        apart = AskedFusion("apart", named, named)
        detail = f"Inductor computes {counted(len(operations), 'buffer')} in it"
        listed.append(OfferedFusion("give each of its operations its own kernel", detail, apart))
    return listed


def _named(reader: SessionReader, kernel: model.Kernel) -> KernelNamed:
    (compilation,) = reader.by_ids(model.Compilation, [kernel.compilation])
    return KernelNamed(kernel.name, compilation.name, kernel.direction)
