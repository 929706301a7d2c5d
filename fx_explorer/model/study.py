"""This module has the parts of a study: what was asked of a program beyond its capture, and how
each part ended. They are one entry ``study`` of a session's ``meta``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fx_explorer.model.checked_json import checked

META = "study"
"""The key of the entry in ``meta``."""

PartState = Literal["done", "failed", "out of time", "stopped", "does not apply"]
"""How a part ended. ``out of time``: the budget was used up before or while it ran. ``stopped``: by
Ctrl-C or a signal. ``does not apply``: there is nothing to do, as a script cannot be called again.
"""


@dataclass(frozen=True, slots=True)
class StudyPart:
    name: str
    """What was done, as a noun: ``bench``."""
    state: PartState
    text: str
    """The result, or why there is none, as a sentence."""
    took_s: float = 0.0
    command: str = ""
    """The command that makes up for it; empty where there is nothing to make up for."""

    @property
    def is_missing(self) -> bool:
        """Whether it has to be made up for."""
        return self.state not in ("done", "does not apply")


def parts_as_json(parts: Sequence[StudyPart]) -> list[dict[str, Any]]:
    return [asdict(part) for part in parts]


def parts_from_json(stored: Any) -> list[StudyPart]:
    """Return the parts of an entry. Raises TypeError for one that is not of a study."""
    return [checked(StudyPart(**part)) for part in stored]
