"""The code objects of a capture that Dynamo made, and those it made them of."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownCode:
    """Bytecode that Dynamo made and the session has."""

    artifact: int
    line_of: Mapping[int, int]
    """Offset of an instruction → its line in the listing, from 1."""


@dataclass
class MadeCode:
    modified: dict[types.CodeType, KnownCode] = field(default_factory=dict)
    original: set[types.CodeType] = field(default_factory=set)
    """What Dynamo made bytecode for: when it runs all the same, no guards of what was made held."""

    def add(self, original: types.CodeType, modified: types.CodeType, known: KnownCode) -> None:
        self.original.add(original)
        self.modified[modified] = known
