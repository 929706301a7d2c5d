"""Commands of the guided tour. They have a place in the menus only while one continues."""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared


def _tour_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "tour.skip",
            "space n",
            lambda c: c.tour.skip(),
            "skip this step",
            "In the tour, continue with the next step without doing this one.",
        ),
        Declaration(
            "tour.back",
            "space N",
            lambda c: c.tour.back(),
            "step before",
            "In the tour, go back to the step before.",
        ),
        Declaration(
            "tour.leave",
            "space l",
            lambda c: c.tour.leave(),
            "leave the tour",
            "Close the tour; fx-explorer tour continues from here.",
        ),
    )


TOUR_COMMANDS = declared("app", "Tour", *_tour_commands())
