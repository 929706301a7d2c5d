"""The target of a place, whatever it is: an object in Python code, or an exported program."""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.model import CaptureRequest
from fx_explorer.program.place import TargetPlace
from fx_explorer.program.target import Target, find_target


def find_any_target(
    place: TargetPlace, request: CaptureRequest, say: Callable[[str], None]
) -> Target:
    """Return the target. Raises TargetError, and whatever the user's code raises."""
    if place.is_exported:
        from fx_explorer.program.exported_program import load_exported_target

        return load_exported_target(place, request, say)
    return find_target(place, request, say)
