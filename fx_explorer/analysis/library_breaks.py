"""Graph breaks in code that is not the user's, as in a library's or Python's own: the user's line only led there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import in_file
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class InLibrary:
    """A break in a file of a library or of Python, and the user's line that led there."""

    called_from: model.Frame

    @property
    def caller(self) -> str:
        """``train.py:9``"""
        return in_file(self.called_from.file, self.called_from.line)

    def in_words(self, registry_id: str, plain: str) -> str:
        """torch's reason (``plain``), and which line of the user's it comes from."""
        return f"{plain}, in a library that {self.caller} calls"

    @property
    def hints(self) -> tuple[str, ...]:
        """In place of torch's, which are for whoever wrote the code that breaks."""
        return (f"Look at the call in {self.caller}: what it calls is compiled with it, and breaks go when the call does.",)


def in_library(
    reader: SessionReader, hit: model.GraphBreak, chain: Sequence[model.Frame], callers: Sequence[model.Frame]
) -> InLibrary | None:
    """None for a break in the user's code, or where no line of the user's is known.

    ``chain``: what was inlined down to the break. ``callers``: the stack that called the compiled function. Outermost first.
    """
    if not _is_of_library(reader, hit.file):
        return None
    mine = (frame for frame in reversed([*callers, *chain]) if not _is_of_library(reader, frame.file))
    found = next(mine, None)
    return InLibrary(found) if found else None


def _is_of_library(reader: SessionReader, path: str) -> bool:
    """Not said of a file that the session does not know."""
    known = reader.rows(model.SourceFile, path=path, limit=1)
    return bool(known) and not known[0].is_user
