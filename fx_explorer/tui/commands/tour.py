"""Commands of the guided tour. They have a place in the menus only while one continues."""

from __future__ import annotations

from fx_explorer.tui.commands.command import HelpEntry, declared

_TOUR: tuple[HelpEntry, ...] = (
    (
        "tour.skip",
        "space n",
        "tour.skip",
        "skip this step",
        "In the tour, continue with the next step without doing this one.",
    ),
    (
        "tour.back",
        "space N",
        "tour.back",
        "step before",
        "In the tour, go back to the step before.",
    ),
    (
        "tour.leave",
        "space l",
        "tour.leave",
        "leave the tour",
        "Close the tour; fx-explorer tour continues from here.",
    ),
)

TOUR_COMMANDS = declared("app", "Tour", *_TOUR)
