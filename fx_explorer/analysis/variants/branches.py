"""Branches: every other way that was taken from a gate of a compilation, what made it differ, and what it cost and saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.documents import documents_of
from fx_explorer.analysis.timing import compile_seconds
from fx_explorer.analysis.variants.ways import kernels_after, kernels_of_way, root_name
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Branch:
    """A way other than the first."""

    way: model.Compilation
    first: str
    """Name of the compilation, ``0/0``; ``way.branch_of`` may be another branch."""
    changes: tuple[str, ...]
    """What was changed for it, in words; empty when it was only run again."""
    seconds: float
    """Spent on what it did not share."""
    kernels: tuple[str, ...]
    """Those that run when it does, the ones it shares included."""
    graphs: tuple[str, ...]
    """Titles of the graphs that are its own."""

    @property
    def gate_in_words(self) -> str:
        """``the joint graph``; empty when the gate is not known."""
        return model.GATE_WORDS[self.way.branch_from] if self.way.branch_from else ""


def branches(reader: SessionReader) -> list[Branch]:
    """In the order they were taken."""
    running: dict[str, list[model.Kernel]] = {}
    found = []
    for way in reader.rows(model.Compilation):
        if way.branch_of:
            before = running.get(way.branch_of) if way.branch_from else None
            kernels = kernels_of_way(reader, way) if before is None else kernels_after(reader, before, way)
            found.append(_branch(reader, way, kernels))
            running.setdefault(way.name, kernels)
    return found


def _branch(reader: SessionReader, way: model.Compilation, kernels: list[model.Kernel]) -> Branch:
    return Branch(
        way=way,
        first=root_name(way.name),
        changes=tuple(way_in_words(reader, way)),
        seconds=compile_seconds(reader, way.id),
        kernels=tuple(kernel.name for kernel in kernels),
        graphs=tuple(document.title for document in documents_of(reader, way) if document.kind == "graph"),
    )


def way_in_words(reader: SessionReader, way: model.Compilation) -> list[str]:
    """What makes it differ from the way it set out from: its changes, and the region that alone was lowered anew."""
    lowered = [one for one in reader.rows(model.RegionLowering, compilation=way.id) if one.subgraph]
    alone = dict.fromkeys(one.name for one in lowered if not one.is_reused) if any(one.is_reused for one in lowered) else {}
    return [*(f'only region "{name}"' for name in alone), *changes_in_words(model.Changes.from_json(way.changes or {}))]


def changes_in_words(changes: model.Changes) -> list[str]:
    """``inductor.max_fusion_size = 8``, ``region "mlp"``, ``pass_ of fold.py after the joint graph``."""
    words = [f"{name} = {value}" for name, value in changes.settings.items()]
    words += [f'region "{mark.name}"' for mark in changes.marks]
    for one in changes.passes:
        direction = f" ({one.direction})" if one.direction else ""
        words.append(f"pass_ of {PurePath(one.path).name} after {model.GATE_WORDS[one.gate]}{direction}")
    return words


def ways_of(reader: SessionReader, compilation: model.Compilation) -> list[model.Compilation]:
    """All ways of the compilation that this is a way of: the first one first."""
    first = root_name(compilation.name)
    return [way for way in reader.rows(model.Compilation) if root_name(way.name) == first]
