"""The keys of the release before, which work in this one too: each does what it did, and says once
what it is now. This file goes with the next release.
"""

from __future__ import annotations

from collections.abc import Mapping

OLD_KEYS: Mapping[str, tuple[str, ...]] = {
    "view.regions": ("R",),
    "view.sizes": ("D",),
    "view.backend": ("at",),
    "view.ledger": ("0",),
    "view.step_memory": ("percent_sign",),
    "view.bench": ("H",),
    "view.support": ("plus",),
    "view.candidates": ("u",),
    "variants.compare": ("equals_sign",),
    "table.filter": ("L",),
    "kernel.passes": ("I",),
    "breaks.fix": ("E",),
    "sizes.try": ("V",),
    "bench.run": ("Z",),
    "ledger.run": ("Q",),
    "preset.source": ("S",),
    "preset.backward": ("F",),
    "preset.joint": ("J",),
    "preset.front_ends": ("vertical_line",),
    "preset.bytecode": ("C",),
    "preset.below": ("U",),
    "pane.document": ("d",),
    "pane.region": ("ampersand",),
    "pane.add": ("a",),
    "pane.zoom": ("z",),
    "graph.form": ("comma",),
    "graph.script": ("semicolon",),
    "step.run_to": ("greater_than_sign",),
    "step.skip": ("K",),
    "step.abort": ("X",),
    "step.option": ("O",),
    "step.pass": ("P",),
    "step.again": ("A",),
    "step.measure": ("T",),
    "step.what_if": ("W",),
    "step.mark": ("m",),
    "step.export": ("M",),
    "app.theme": ("t",),
    "fixes.try": ("t",),
    "fixes.accept": ("a",),
    "steps.into": ("i",),
    "steps.out": ("o",),
    "steps.caller": ("u",),
    "steps.next_graph": ("c",),
    "steps.graph_before": ("C",),
    "settings.try": ("ctrl+t",),
}
"""Command → the keys it had."""

NOW_LEADERS: Mapping[str, str] = {
    "space": "line.page_down",
    "v": "capture.without_weights",
    "c": "step.go",
    "x": "pane.close",
    "o": "outline.toggle",
    "p": "step.bytecode",
    "Y": "kernel.bench",
}
"""Key that opens a menu now → the command that it had. It cannot do both, so it opens its menu, and
says once where the command went.
"""
