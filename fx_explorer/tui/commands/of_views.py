"""The commands that matter in each view, in words: the footer and the help begin with them."""

from __future__ import annotations

from collections.abc import Mapping

OF_VIEW: Mapping[str, tuple[tuple[str, str], ...]] = {
    "overview": (("line.follow", "go there"), ("breaks.fix", "fix")),
    "source": (
        ("line.follow", "links"),
        ("find.in_pane", "find"),
        ("preset.below", "below the kernel"),
        ("pane.next", "next pane"),
        ("find.anything", "find anything"),
        ("place.inspect", "facts"),
        ("place.edit", "edit"),
        ("pane.document", "document"),
        ("pane.zoom", "zoom"),
    ),
    "below": (
        ("pane.next", "next pane"),
        ("line.follow", "links"),
        ("find.in_pane", "find"),
        ("place.inspect", "facts"),
        ("history.back", "back"),
        ("view.candidates", "configurations"),
        ("pane.machine", "control bits"),
        ("pane.zoom", "zoom"),
    ),
    "neighbourhood": (
        ("line.follow", "walk there"),
        ("history.back", "back"),
        ("place.inspect", "facts"),
        ("place.edit", "edit"),
        ("pane.zoom", "zoom"),
    ),
    "graphs": (("line.follow", "open"),),
    "stages": (("line.follow", "before | after"),),
    "breaks": (
        ("breaks.fix", "fix"),
        ("step.measure", "time"),
        ("line.follow", "source"),
        ("place.edit", "edit"),
    ),
    "guards": (
        ("table.filter", "filter"),
        ("step.what_if", "other inputs"),
        ("line.follow", "source"),
        ("place.edit", "edit"),
    ),
    "kernels": (
        ("line.follow", "code"),
        ("table.sort", "sort"),
        ("preset.below", "below"),
        ("view.candidates", "configurations"),
        ("kernel.passes", "passes"),
    ),
    "memory": (("line.follow", "node"), ("view.step_memory", "kernel by kernel")),
    "time": (
        ("view.flame", "flame chart"),
        ("view.ledger", "a call"),
        ("ledger.run", "measure a call"),
    ),
    "flame": (
        ("line.follow", "open"),
        ("capture.cancel", "leave"),
        ("picture.save", "SVG"),
        ("view.time", "by stage"),
    ),
    "profile": (
        ("line.follow", "source or code"),
        ("table.sort", "sort"),
        ("view.kernels", "kernels"),
        ("view.modules", "modules"),
    ),
    "roofline": (
        ("line.follow", "code"),
        ("ledger.run", "measure a call"),
        ("picture.save", "SVG"),
        ("view.kernels", "kernels"),
    ),
    "step_memory": (("line.follow", "code"), ("view.memory", "saved tensors")),
    "modules": (("line.follow", "only this"), ("table.sort", "sort"), ("table.filter", "filter")),
    "regions": (
        ("line.follow", "first node"),
        ("pane.region", "only this"),
        ("step.mark", "mark"),
        ("step.export", "diff"),
    ),
    "sizes": (("sizes.try", "try"), ("line.follow", "source"), ("place.edit", "edit")),
    "ledger": (("ledger.run", "measure"), ("line.follow", "source"), ("picture.save", "SVG")),
    "backend": (("line.follow", "open"),),
    "bench": (("bench.run", "measure"), ("picture.save", "SVG")),
    "support": (("line.follow", "first node"), ("pane.region", "only this")),
    "candidates": (("line.follow", "levels"), ("kernel.passes", "passes")),
    "outline": (("line.follow", "open"),),
}
"""View → its commands, each with the word that says what it does there."""

OF_A_PLACE = ("place.edit", "place.inspect", "preset.below", "view.candidates", "kernel.passes")
"""Commands that need a row which stands for a place in the code."""

OF_TRITON = ("preset.below", "view.candidates", "kernel.passes")
"""Commands for a Triton kernel only."""
