"""Graph breaks that torch's DistributedDataParallel makes around the user's model, before and after its
forward. No line of the user's makes them, and no change of one takes them away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_FIELD

_FILE = re.compile(r"[/\\]torch[/\\]nn[/\\]parallel[/\\]distributed\.py$")

_SKIPPED = re.compile(r"module: torch\.nn\.parallel\.distributed, qualname: (?P<name>[\w.<>]+)")
"""Matches the debug context of a function of its that Dynamo does not look into."""

_CALLED = re.compile(
    r"call_method \w+\((?:Logger\) (?P<logged>set_runtime_stats_and_log)|Reducer\) (?P<reduced>\w+))"
)
"""Matches the debug context of a call of its own two helpers, which are C++. A log has no chain of calls."""


@dataclass(frozen=True, slots=True)
class BreakInWrapper:
    """A break of DistributedDataParallel's own."""

    what: str
    """The function: ``_pre_forward``."""

    def in_words(self, registry_id: str, plain: str) -> str:
        return f"torch's DistributedDataParallel breaks there itself ({self.what}), around your model and not inside it"

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints in place of torch's, which ask to change DistributedDataParallel."""
        return (
            "Leave it: none of your lines makes it. torch.compile compiles the forward of the model inside by itself.",
        )


def wrappers_own(
    reader: SessionReader, hit: model.GraphBreak, chain: Sequence[model.Frame]
) -> BreakInWrapper | None:
    """Tell whether DistributedDataParallel breaks, before it calls the model or behind that."""
    if chain and _FILE.search(chain[-1].file):
        return BreakInWrapper(chain[-1].function)
    text = reader.text(hit.text)[:MAX_FIELD] if hit.text else ""
    if skipped := _SKIPPED.search(text):
        return BreakInWrapper(skipped["name"].rpartition(".")[2])
    called = _CALLED.search(text)
    return BreakInWrapper(called["logged"] or called["reduced"]) if called else None
