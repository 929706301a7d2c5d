"""torch measures how long the guards of each function take, for its own log, and empties the
processor's caches for that: 34 ms of a compile by the backend eager that takes 80. Tests leave the
measuring out; nothing in a session is of it.
"""

from __future__ import annotations

import sys

FUNCTION = "profile_guard_manager"
"""It returns microseconds (torch/_dynamo/guards.py)."""


def leave_out_guard_latency() -> None:
    """Have Dynamo, where it is imported, take one microsecond for what it would measure."""
    guards = sys.modules.get("torch._dynamo.guards")
    if guards is not None and hasattr(guards, FUNCTION):
        setattr(guards, FUNCTION, lambda root, local_scope, iterations: 1.0)
