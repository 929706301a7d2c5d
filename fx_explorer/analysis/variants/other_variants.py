"""Every variant of a compilation but the first: what makes it differ, what it cost and what it
saved.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import documents_of
from fx_explorer.analysis.variants.lineage import kernels_after, kernels_of_variant, root_name
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries.compilations import compile_seconds


@dataclass(frozen=True, slots=True)
class OtherVariant:
    """A variant other than the first."""

    variant: model.Compilation
    first: str
    """Name of the compilation, ``0/0``. ``variant.variant_of`` may name another variant."""
    changes: tuple[str, ...]
    """What was changed for it, in words; empty when it was only run again."""
    seconds: float
    """Seconds spent on what it did not share."""
    kernels: tuple[str, ...]
    """Kernels that run when it runs, including shared ones."""
    graphs: tuple[str, ...]
    """Titles of the graphs that are its own."""

    @property
    def gate_in_words(self) -> str:
        """Return ``the joint graph``; empty when the gate is not known."""
        return model.GATE_WORDS[self.variant.variant_from] if self.variant.variant_from else ""


def other_variants(reader: SessionReader) -> list[OtherVariant]:
    """List the variants in the order in which they were compiled."""
    running: dict[str, list[model.Kernel]] = {}
    found = []
    for variant in reader.rows(model.Compilation):
        if variant.variant_of:
            # From the one before, since to walk the whole lineage of each is quadratic for variants
            # in a row.
            before = running.get(variant.variant_of) if variant.variant_from else None
            if before is None:
                kernels = kernels_of_variant(reader, variant)
            else:
                kernels = kernels_after(reader, before, variant)
            found.append(_other_variant(reader, variant, kernels))
            running.setdefault(variant.name, kernels)
    return found


def _other_variant(
    reader: SessionReader, variant: model.Compilation, kernels: list[model.Kernel]
) -> OtherVariant:
    return OtherVariant(
        variant=variant,
        first=root_name(variant.name),
        changes=tuple(variant_in_words(reader, variant)),
        seconds=compile_seconds(reader, variant.id),
        kernels=tuple(kernel.name for kernel in kernels),
        graphs=tuple(
            document.title for document in documents_of(reader, variant) if document.kind == "graph"
        ),
    )


def variant_in_words(reader: SessionReader, variant: model.Compilation) -> list[str]:
    """Say what makes a variant differ from the one it set out from: its changes, and the region
    that alone was lowered again.
    """
    lowered = [
        one for one in reader.rows(model.RegionLowering, compilation=variant.id) if one.subgraph
    ]
    if any(one.is_reused for one in lowered):
        alone = dict.fromkeys(one.name for one in lowered if not one.is_reused)
    else:
        alone = {}
    return [
        *(f'only region "{name}"' for name in alone),
        *changes_in_words(model.Changes.from_json(variant.changes or {})),
    ]


def changes_in_words(changes: model.Changes) -> list[str]:
    """Return ``inductor.max_fusion_size = 8``, ``region "mlp"`` or
    ``pass_ of fold.py after the joint graph`` for each change.
    """
    words = [f"{name} = {value}" for name, value in changes.settings.items()]
    words += [f'region "{mark.name}"' for mark in changes.marks]
    for one in changes.passes:
        direction = f" ({one.direction})" if one.direction else ""
        words.append(
            f"pass_ of {file_name(one.path)} after {model.GATE_WORDS[one.gate]}{direction}"
        )
    return words


def variants_of(reader: SessionReader, compilation: model.Compilation) -> list[model.Compilation]:
    """Return all variants of the compilation that this is a variant of, the first one first."""
    first = root_name(compilation.name)
    return [
        variant for variant in reader.rows(model.Compilation) if root_name(variant.name) == first
    ]
