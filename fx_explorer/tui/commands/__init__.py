"""This package declares every command of the app once: bindings, footer, palette, help and the key
table in the docs are made from it. It also has the most important commands of each view, with which
footer and help begin.

Data only, no Textual: ``fx-explorer keys`` prints it without starting anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from fx_explorer.tui.commands.application import (
    APPLICATION_COMMANDS,
    AT_A_GATE,
    AT_HAND,
    CAPTURE_COMMANDS,
    GOES_ON,
    STEPPING_COMMANDS,
    TOUR_COMMANDS,
)
from fx_explorer.tui.commands.command import (
    GROUPS,
    LEADERS,
    ON_TOP,
    SYNONYMS,
    AppCommand,
    Group,
    Keymap,
    Menu,
    Scope,
    is_sequence,
    key_label,
    keys_of,
    menus,
    singles,
)
from fx_explorer.tui.commands.dialogs import DIALOG_COMMANDS, RANKS_COMMANDS
from fx_explorer.tui.commands.pane_commands import (
    FINDING_COMMANDS,
    MOVING_COMMANDS,
    PANE_COMMANDS,
    SELECTION_COMMANDS,
)
from fx_explorer.tui.commands.view_commands import VIEW_COMMANDS, VIEWS, sentence_of

__all__ = [
    "AT_A_GATE",
    "AT_HAND",
    "COMMANDS",
    "GOES_ON",
    "GROUPS",
    "LEADERS",
    "OF_A_PLACE",
    "OF_TRITON",
    "OF_VIEW",
    "ON_TOP",
    "SYNONYMS",
    "VIEWS",
    "AppCommand",
    "Group",
    "Keymap",
    "Menu",
    "Scope",
    "by_id",
    "is_sequence",
    "key_label",
    "keys_of",
    "menus",
    "of_scope",
    "sentence_of",
    "singles",
]


COMMANDS: tuple[AppCommand, ...] = (
    *VIEW_COMMANDS,
    *PANE_COMMANDS,
    *MOVING_COMMANDS,
    *FINDING_COMMANDS,
    *SELECTION_COMMANDS,
    *STEPPING_COMMANDS,
    *CAPTURE_COMMANDS,
    *DIALOG_COMMANDS,
    *APPLICATION_COMMANDS,
    *TOUR_COMMANDS,
    *RANKS_COMMANDS,
)


def by_id(command_id: str) -> AppCommand:
    """Return the command with this id. Raises KeyError when there is none."""
    for command in COMMANDS:
        if command.id == command_id:
            return command
    raise KeyError(command_id)


def of_scope(*scopes: Scope) -> list[AppCommand]:
    return [command for command in COMMANDS if command.scope in scopes]


OF_VIEW: Mapping[str, tuple[tuple[str, str], ...]] = {
    "overview": (("line.follow", "go there"), ("breaks.fix", "fix")),
    "source": (
        ("line.follow", "links"),
        ("find.in_pane", "find"),
        ("preset.below", "below the kernel"),
        ("pane.next", "next pane"),
        ("find.anything", "find anything"),
        ("preset.backward", "backward"),
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
    "memory": (
        ("line.follow", "node"),
        ("view.step_memory", "kernel by kernel"),
        ("preset.backward", "forward | backward"),
    ),
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
    "trace": (
        ("step.trace", "step through"),
        ("line.follow", "source"),
        ("view.breaks", "breaks"),
    ),
    "side_effects": (("line.follow", "source"), ("view.guards", "guards")),
    "values": (("line.follow", "source"), ("view.side_effects", "side effects")),
    "collectives": (
        ("line.follow", "node"),
        ("table.sort", "sort"),
        ("view.kernels", "kernels"),
    ),
    "passes": (("line.follow", "graph or node"), ("view.stages", "stages"), ("view.time", "time")),
    "fusion": (
        ("line.follow", "code"),
        ("step.fusion", "try it"),
        ("table.sort", "sort"),
        ("view.kernels", "kernels"),
    ),
    "decisions": (
        ("line.follow", "code"),
        ("step.choice", "try another"),
        ("table.filter", "filter"),
        ("view.kernels", "kernels"),
    ),
    "step_memory": (
        ("line.follow", "code"),
        ("picture.save", "SVG"),
        ("view.memory", "saved tensors"),
    ),
    "modules": (("line.follow", "only this"), ("table.sort", "sort"), ("table.filter", "filter")),
    "regions": (
        ("line.follow", "first node"),
        ("pane.region", "only this"),
        ("step.mark", "mark"),
        ("step.export", "diff"),
    ),
    "sizes": (("sizes.try", "try"), ("line.follow", "source"), ("place.edit", "edit")),
    "ledger": (("ledger.run", "measure"), ("line.follow", "source"), ("picture.save", "SVG")),
    "numerics": (("numerics.run", "compare"), ("line.follow", "source")),
    "backend": (("line.follow", "open"),),
    "bench": (("bench.run", "measure"), ("picture.save", "SVG")),
    "support": (("line.follow", "first node"), ("pane.region", "only this")),
    "candidates": (("line.follow", "levels"), ("kernel.passes", "passes")),
    "outline": (("line.follow", "open"),),
}
"""View → (id of a command, its label in that view)."""

OF_A_PLACE = ("place.edit", "place.inspect", "preset.below", "view.candidates", "kernel.passes")
"""Commands that need a row with a place in the code."""

OF_TRITON = ("preset.below", "view.candidates", "kernel.passes")
"""Commands for a Triton kernel only."""
