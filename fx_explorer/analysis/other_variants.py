"""This module describes every variant of a compilation except the first: its changes, its cost and
savings, which one is active, and from which stages another can begin. It also lists the parts of a
session that can be built and timed.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import documents_of
from fx_explorer.analysis.lineage import (
    first_variants,
    kernels_after,
    kernels_of_variant,
    root_name,
)
from fx_explorer.analysis.measured_times import call_time, measured, run_time
from fx_explorer.model import GATE_WORDS, GRAPH_GATES, Gate
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries import compilations
from fx_explorer.session.queries.compilations import compile_seconds


@dataclass(frozen=True, slots=True)
class OtherVariant:
    """A variant other than the first."""

    variant: model.Compilation
    first: str
    """Name of the compilation, ``0/0``. ``variant.variant_of`` may name another variant."""
    changes: tuple[str, ...]
    """Its changes, in words; empty if it was only repeated."""
    seconds: float
    """Seconds spent on the stages that it did not share."""
    kernels: tuple[str, ...]
    """Kernels that it runs, including shared ones."""
    graphs: tuple[str, ...]
    """Titles of its own graphs."""

    @property
    def gate_name(self) -> str:
        """Return ``the joint graph``; empty when the gate is not known."""
        gate = self.variant.variant_from
        return model.GATE_WORDS[gate] if gate else ""


def other_variants(reader: SessionReader) -> list[OtherVariant]:
    """List the variants in the order in which they were compiled."""
    running: dict[str, list[model.Kernel]] = {}
    variants = []
    for variant in reader.rows(model.Compilation):
        if variant.variant_of:
            # From the one before, since to walk the whole lineage of each is quadratic for variants
            # in a row.
            before = None
            if variant.variant_from:
                before = running.get(variant.variant_of)
            if before is None:
                kernels = kernels_of_variant(reader, variant)
            else:
                kernels = kernels_after(reader, before, variant)
            variants.append(_other_variant(reader, variant, kernels))
            running.setdefault(variant.name, kernels)
    return variants


def _other_variant(
    reader: SessionReader, variant: model.Compilation, kernels: list[model.Kernel]
) -> OtherVariant:
    graphs = [document for document in documents_of(reader, variant) if document.kind == "graph"]
    return OtherVariant(
        variant=variant,
        first=root_name(variant.name),
        changes=tuple(describe_variant(reader, variant)),
        seconds=compile_seconds(reader, variant.id),
        kernels=tuple(kernel.name for kernel in kernels),
        graphs=tuple(graph.title for graph in graphs),
    )


def describe_variant(reader: SessionReader, variant: model.Compilation) -> list[str]:
    """Describe how a variant differs from the one from which it began: its changes, and the only
    region that was lowered again.
    """
    lowerings = reader.rows(model.RegionLowering, compilation=variant.id)
    lowered = [lowering for lowering in lowerings if lowering.subgraph]
    words = []
    if any(lowering.is_reused for lowering in lowered):
        alone = dict.fromkeys(lowering.name for lowering in lowered if not lowering.is_reused)
        words += [f'only region "{name}"' for name in alone]
    return words + describe_changes(model.Changes.from_json(variant.changes or {}))


def describe_changes(changes: model.Changes) -> list[str]:
    """Return ``inductor.max_fusion_size = 8``, ``region "mlp"`` or
    ``pass_ of fold.py after the joint graph`` for each change.
    """
    words = [f"{name} = {value}" for name, value in changes.settings.items()]
    words += [f'region "{mark.name}"' for mark in changes.marks]
    for pass_file in changes.passes:
        text = f"pass_ of {file_name(pass_file.path)} after {model.GATE_WORDS[pass_file.gate]}"
        if pass_file.direction:
            text += f" ({pass_file.direction})"
        words.append(text)
    words += [describe_fusion(fusion) for fusion in changes.fusions]
    words += [describe_layout(layout) for layout in changes.layouts]
    words += [describe_candidate(candidate) for candidate in changes.candidates]
    return words


def describe_fusion(fusion: model.FusionChange) -> str:
    """Return ``sum_1 and add_3 in one kernel`` or ``sum_1 apart from add_3``."""
    first, second = _some(fusion.first), _some(fusion.second)
    if fusion.kind == "together":
        return f"{first} and {second} in one kernel"
    if fusion.first == fusion.second:
        return f"{first} in separate kernels"
    return f"{first} apart from {second}"


def describe_layout(layout: model.LayoutChange) -> str:
    """Return ``relu in channels_last``."""
    return f"{layout.node} in {words_for_order(layout.order)}"


def describe_candidate(candidate: model.CandidateChange) -> str:
    """Return ``mm by triton_mm BLOCK_M=64, …``."""
    return f"{candidate.node} by {candidate.candidate}"


CHANNELS_LAST = {(3, 0, 2, 1): "channels_last", (4, 0, 3, 2, 1): "channels_last_3d"}


def words_for_order(order: tuple[int, ...]) -> str:
    """Return ``contiguous order``, ``channels_last`` or the dimensions from the outermost to the
    innermost in memory: ``the order 0, 2, 1``.
    """
    if order == tuple(range(len(order) - 1, -1, -1)):
        return "contiguous order"
    if order in CHANNELS_LAST:
        return CHANNELS_LAST[order]
    outermost_first = sorted(range(len(order)), key=lambda dim: -order[dim])
    return f"the order {', '.join(map(str, outermost_first))}"


def _some(names: tuple[str, ...]) -> str:
    """Return the last two names: what is computed last is what a kernel is known by."""
    if len(names) > 2:
        return f"… {', '.join(names[-2:])}"
    return ", ".join(names)


def variants_of(reader: SessionReader, compilation: model.Compilation) -> list[model.Compilation]:
    """Return all variants of the same compilation, the first one first."""
    first = root_name(compilation.name)
    every = reader.rows(model.Compilation)
    return [variant for variant in every if root_name(variant.name) == first]


MOST_CELLS = 40
"""Maximum length of the description of a variant's changes, in cells; longer ones are only in the
outline.
"""


def describe_active_variant(reader: SessionReader, paused_in: str = "") -> str:
    """Return ``variant 1: inductor.max_fusion_size = 8`` or ``original``; empty with only one
    variant. ``paused_in`` is the name of the waiting one, if any.

    With several compilations it says whose variant it is: ``variant 1 of [0/0]``.
    """
    if not paused_in and not compilations.other_variants(reader):
        return ""
    rows = reader.rows(model.Compilation)
    with_variants = {root_name(row.name) for row in rows if row.variant_of}
    if paused_in and root_name(paused_in) not in with_variants and "~" not in paused_in:
        return ""
    active = _active(rows, paused_in)
    if len(active) > 1 and not paused_in:
        return f"variants in use: {', '.join(f'[{row.name}]' for row in active)}"
    has_several = len({root_name(row.name) for row in rows}) > 1
    name = paused_in
    if not name and active:
        name = active[0].name
    number = ""
    if "~" in name:
        number = name.rpartition("~")[2]
    text = f"variant {number}" if number else "original"
    if has_several and name:
        text += f" of [{root_name(name)}]"
    if not number or not active:
        return text
    changes = ", ".join(describe_variant(reader, active[0]))
    if 0 < len(changes) <= MOST_CELLS:
        return f"{text}: {changes}"
    return text


def _active(rows: list[model.Compilation], paused_in: str) -> list[model.Compilation]:
    """Return the active variants. An original counts only if no other variant of its compilation is
    in use.
    """
    if paused_in:
        return [row for row in rows if row.name == paused_in]
    others = [row for row in rows if row.variant_of and row.in_use]
    with_variants = {root_name(row.name) for row in rows if row.variant_of}
    return others or [row for row in rows if row.in_use and row.name in with_variants][:1]


_LEFT_BEHIND: dict[Gate, tuple[model.Stage, ...]] = {
    "dynamo": ("dynamo",),
    "pre_grad": ("pre_grad",),
    "joint": ("joint",),
    "partition": ("forward", "backward"),
    "post_grad": ("post_grad",),
}
"""Gate → the stages whose results show that a compilation has passed it. After the last of these
gates torch keeps nothing from which to start again.
"""


@dataclass(frozen=True, slots=True)
class VariantStart:
    """A stage of a compilation from which a new variant begins."""

    compilation: str
    gate: Gate
    region: str = ""
    """The only region to lower, from the partition on, with the others reused; empty for all."""

    @property
    def words(self) -> str:
        only = f" · only region {self.region}" if self.region else ""
        return f"[{self.compilation}] from {GATE_WORDS[self.gate]}{only}"

    @property
    def redone(self) -> str:
        if self.region:
            return "that region is lowered again, the others are unchanged"
        return REDONE[self.gate]


REDONE: dict[Gate, str] = {
    "dynamo": "everything after Dynamo runs again",
    "pre_grad": "AOTAutograd and Inductor run again",
    "joint": "the partition and Inductor run again",
    "partition": "the lowering runs again",
    "post_grad": "fusion and code run again",
}


def variant_starts(reader: SessionReader, at: str = "") -> list[VariantStart]:
    """Return the stages from which another variant can begin, in the order in which they ran.

    ``at`` is the compilation that waits at a gate. torch is inside it, so no other one can be taken
    up until it has ended.
    """
    starts: list[VariantStart] = []
    for variant in reader.rows(model.Compilation):
        if at and root_name(variant.name) != root_name(at):
            continue
        for gate in GRAPH_GATES:
            if _passed(reader, variant, gate):
                starts.append(VariantStart(variant.name, gate))
                if gate == "partition":
                    starts += _regions(reader, variant)
    return starts


def _regions(reader: SessionReader, variant: model.Compilation) -> list[VariantStart]:
    """Return a start for each compiled region, if there are several."""
    rows = reader.rows(model.RegionLowering, compilation=variant.id)
    names = dict.fromkeys(row.name for row in rows if row.subgraph and row.name)
    if len(names) > 1:
        return [VariantStart(variant.name, "partition", name) for name in names]
    return []


@dataclass(frozen=True, slots=True)
class OfferedChanges:
    """Changes for another variant, as one choice of a menu."""

    words: str
    detail: str
    settings: dict[str, object] | None
    """The options to set; None if the user is asked for them."""


def changes_offered(start: VariantStart) -> list[OfferedChanges]:
    """Return the possible changes. Another backend is possible only after Dynamo; the usual ones
    are offered for a comparison.
    """
    other_options = OfferedChanges("with other options", "choose them first", None)
    if start.gate == "dynamo":
        return [*_BACKENDS, SAME, other_options]
    return [SAME, other_options]


SAME = OfferedChanges("with the same options", "", {})

_BACKENDS = (
    OfferedChanges(
        "with regional Inductor",
        "only marked regions are compiled",
        {"compile.backend": "regional_inductor"},
    ),
    OfferedChanges("with Inductor", "everything is compiled", {"compile.backend": "inductor"}),
    OfferedChanges("eagerly", "nothing is compiled", {"compile.backend": "eager"}),
)


def _passed(reader: SessionReader, compilation: model.Compilation, gate: Gate) -> bool:
    stages = _LEFT_BEHIND[gate]
    return any(
        reader.count(model.Graph, compilation=compilation.id, stage=stage) for stage in stages
    )


@dataclass(frozen=True, slots=True)
class Measurable:
    """A choice of a measurement: some variants, or the graph breaks."""

    words: str
    detail: str
    variants: tuple[str, ...]
    """Names of the variants to build and run; empty for the graph breaks."""


def measurable_variants(reader: SessionReader) -> list[Measurable]:
    """Return the variants that were compiled to their end: all of a compilation together first,
    then each.
    """
    measurables: list[Measurable] = []
    for compilation in first_variants(reader):
        variants = variants_of(reader, compilation)
        variants = [variant for variant in variants if variant.status in ("ok", "broke")]
        if len(variants) > 1:
            names = tuple(variant.name for variant in variants)
            title = f"all variants of [{compilation.name}]"
            measurables.append(Measurable(title, "one after the other", names))
        for variant in variants:
            detail = _detail(reader, variant)
            measurables.append(Measurable(f"[{variant.name}]", detail, (variant.name,)))
    return measurables


def measurable_breaks(reader: SessionReader) -> list[Measurable]:
    """Return the graph breaks of a call as a measurement; empty without any."""
    if not reader.count(model.GraphBreak):
        return []
    call = call_time(reader)
    if call:
        last = f" · measured: a call of {run_time(call.median_s)}"
    else:
        last = ""
    return [Measurable("graph breaks", f"time of a call at each{last}", ())]


def _detail(reader: SessionReader, variant: model.Compilation) -> str:
    """Return the variant's changes, and its measured times."""
    detail = ", ".join(describe_variant(reader, variant))
    if not detail:
        detail = "as before" if variant.variant_of else "the first variant"
    times = [
        f"{row.what.replace('+', ' and ')} {run_time(row.median_s)}"
        for row in measured(reader, variant).values()
    ]
    if times:
        detail += f" · measured: {', '.join(times)}"
    return detail
