"""Graph breaks that torch's own code makes: an optimizer's step, a hook, a layer. The user's line
only calls it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_FIELD

# The last folder of that name, since one above it may be called torch, too.
_IN_TORCH = re.compile(r"[/\\](?P<part>torch[/\\](?!.*[/\\]torch[/\\]).+)$")

_SKIPPED = re.compile(r"qualname: (?P<name>[\w.<>]+), name: \S+, filename: `(?P<file>[^`]+)`")
"""Matches the debug context of a function that Dynamo skips
(``torch/_dynamo/variables/functions.py``).
"""

ASKED_FOR = "GB0025"
"""The id of a break that a call of ``torch._dynamo.graph_break`` asks for."""


@dataclass(frozen=True, slots=True)
class BreakInTorch:
    """Where torch's code breaks, or the function of torch's that Dynamo is kept out of."""

    what: str
    """The place: ``_use_grad (torch/optim/optimizer.py:79)``."""
    is_inside: bool
    """Whether Dynamo had gone into torch's code and broke there."""

    def in_words(self, registry_id: str, plain: str) -> str:
        if not self.is_inside:
            return f"it calls {self.what}, which torch keeps out of compilation"
        if registry_id == ASKED_FOR:
            return f"torch itself asks for a graph break in {self.what}, which this line calls"
        return f"{plain}, in torch's own {self.what}, which this line calls"

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints in place of torch's, which are for whoever wrote the code that breaks."""
        return (
            (
                "Call it outside of the compiled function, or leave it: the break is made by "
                "torch, and not by your line."
            ),
        )


def torchs_own(
    reader: SessionReader, hit: model.GraphBreak, chain: Sequence[model.Frame]
) -> BreakInTorch | None:
    """Tell whether torch's own code breaks. None for a break in the user's code, or in that of
    another library.
    """
    inner = chain[-1] if chain else None
    # torch reports the user's line, and its chain continues into the code that breaks.
    if inner is not None and (inner.file, inner.line) != (hit.file, hit.line):
        part = _part(reader, inner.file)
        return BreakInTorch(f"{inner.function} ({part}:{inner.line})", True) if part else None
    skipped = _SKIPPED.search(reader.text(hit.text)[:MAX_FIELD]) if hit.text else None
    part = _part(reader, skipped["file"]) if skipped else ""
    return BreakInTorch(f"{skipped['name']} of torch", False) if skipped and part else None


def _part(reader: SessionReader, path: str) -> str:
    """Return ``torch/optim/optimizer.py``; empty for a file that is not torch's, such as one of the
    user's in a folder of that name.
    """
    match = _IN_TORCH.search(path)
    known = reader.rows(model.SourceFile, path=path, limit=1)
    return match["part"].replace("\\", "/") if match and not (known and known[0].is_user) else ""
