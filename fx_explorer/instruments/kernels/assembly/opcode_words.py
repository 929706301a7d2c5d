"""This module says in words what an instruction does: ``ld.global.v4.b32`` and ``LDG.E.128`` load from
global memory.

Only names of the data files are explained, and only modifiers whose words hold wherever they stand.
An instruction that is not there is said not to be known.
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fx_explorer.model import Level

OPCODES = Path(__file__).parent / "opcodes"

EXPLAINED_LEVELS: tuple[Level, ...] = ("ptx", "sass")

NOT_EXPLAINED = "fx-explorer does not know what this instruction does"
UNIFORM = "once for the whole warp, in uniform registers"

_PART = re.compile(r"[.]")


@dataclass(frozen=True, slots=True)
class ExplainedOpcode:
    """What is known of one instruction's name."""

    opcode: str
    """The beginning of the name that the sentence is about: ``ld.global`` of ``ld.global.b32``."""
    sentence: str
    modifiers: tuple[tuple[str, str], ...] = ()
    """Those of the rest that are known, each with its words."""

    @property
    def words(self) -> str:
        """Return all of it in one line: ``Loads from global memory (v4: 4 values at once).``."""
        text = "; ".join(f"{name}: {words}" for name, words in self.modifiers)
        return f"{self.sentence.removesuffix('.')} ({text})." if text else self.sentence


def explained(level: Level, name: str) -> ExplainedOpcode | None:
    """Explain an instruction by its name with its modifiers. None for a name that the level's data
    file does not have, and at other levels.
    """
    if level not in EXPLAINED_LEVELS:
        return None
    opcodes, words = _data(level)
    parts = _PART.split(name)
    plain = [part.partition("::")[0] for part in parts]  # .shared::cta is shared memory, too
    known = _longest(opcodes, plain)
    is_uniform = not known and level == "sass" and name.startswith("U")
    if is_uniform:
        known = _longest(opcodes, [plain[0][1:], *plain[1:]])
    if not known:
        return None
    modifiers = [(part, words[part]) for part in parts[known:] if part in words]
    modifiers += [(parts[0], UNIFORM)] * is_uniform
    sentence = opcodes[
        ".".join([plain[0].removeprefix("U") if is_uniform else plain[0], *plain[1:known]])
    ]
    return ExplainedOpcode(".".join(parts[:known]), sentence, tuple(dict(modifiers).items()))


def _longest(opcodes: dict[str, str], parts: list[str]) -> int:
    """Return of how many parts the longest beginning is that is known; 0 for none."""
    return next(
        (count for count in range(len(parts), 0, -1) if ".".join(parts[:count]) in opcodes), 0
    )


@cache
def _data(level: Level) -> tuple[dict[str, str], dict[str, str]]:
    """Read the names and the modifiers of a level."""
    # Python 3.10 has no tomllib; tomli is the same module under its older name.
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    entries = tomllib.loads((OPCODES / f"{level}.toml").read_text(encoding="utf-8"))
    return entries["opcodes"], entries["modifiers"]
