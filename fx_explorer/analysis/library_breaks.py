"""Graph breaks in code that is not the user's, a package's or Python's own: the user's line only led there.

A package is often the model itself, so what breaks in it is told like the user's own code. Nobody changes Python's own library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import in_file
from fx_explorer.session import SessionReader

_STANDARD_LIBRARY = re.compile(r".*[/\\]python3\.\d+t?[/\\](?!(site|dist)-packages[/\\])|<frozen ")


@dataclass(frozen=True, slots=True)
class InLibrary:
    """A break in a file of a library or of Python, and the user's line that led there."""

    called_from: model.Frame
    is_pythons_own: bool
    """Whether it is a file of Python's standard library."""

    @property
    def caller(self) -> str:
        """``train.py:9``"""
        return in_file(self.called_from.file, self.called_from.line)

    def in_words(self, registry_id: str, plain: str) -> str:
        """torch's reason (``plain``), and which line of the user's it comes from."""
        whose = "Python's own code" if self.is_pythons_own else "a package"
        return f"{plain}, in {whose}, called from {self.caller}"

    @property
    def hints(self) -> tuple[str, ...]:
        """In place of torch's, where nobody changes the code that breaks; else empty."""
        return (
            ()
            if not self.is_pythons_own
            else (f"Look at the call in {self.caller}: what it calls is compiled with it, and breaks go when the call does.",)
        )


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
    return InLibrary(found, bool(_STANDARD_LIBRARY.match(hit.file))) if found else None


def _is_of_library(reader: SessionReader, path: str) -> bool:
    """Not said of a file that the session does not know."""
    known = reader.rows(model.SourceFile, path=path, limit=1)
    return bool(known) and not known[0].is_user
