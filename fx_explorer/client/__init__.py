"""This package starts a worker, follows it, and stores what it captured. It imports neither torch
nor Textual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fx_explorer.client.capture import Capture

__all__ = ["Capture"]


def __getattr__(name: str) -> object:
    """Import ``Capture``, and with it asyncio, where a capture is made: commands on sessions and
    logs start faster without it.
    """
    if name == "Capture":
        from fx_explorer.client.capture import Capture

        return Capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
