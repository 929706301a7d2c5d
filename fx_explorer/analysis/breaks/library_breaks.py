"""Graph breaks in code that is not the user's but a package's or Python's: the user's line only led
there.

A package is often the model itself, so a break in it is described like one in the user's own code.
Nobody changes Python's own library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

# Packages lie below Python's own folder, too. What is frozen into the interpreter is Python's.
_STANDARD_LIBRARY = re.compile(r".*[/\\]python3\.\d+t?[/\\](?!(site|dist)-packages[/\\])|<frozen ")


@dataclass(frozen=True, slots=True)
class BreakInLibrary:
    """A break in a file of a library or of Python, and the user's line that led there."""

    called_from: model.Frame
    is_pythons_own: bool
    """Whether it is a file of Python's standard library."""

    @property
    def caller(self) -> str:
        """Return ``train.py:9``."""
        return in_file(self.called_from.file, self.called_from.line)

    def in_words(self, registry_id: str, plain: str) -> str:
        """Return torch's reason (``plain``), and which line of the user's led there."""
        whose = "Python's own code" if self.is_pythons_own else "a package"
        return f"{plain}, in {whose}, called from {self.caller}"

    @property
    def hints(self) -> tuple[str, ...]:
        """Return hints in place of torch's, where nobody changes the code that breaks; otherwise
        empty.
        """
        return (
            ()
            if not self.is_pythons_own
            else (
                f"Look at the call in {self.caller}: what it calls is compiled with it, and breaks go when the call does.",
            )
        )


def library_files(reader: SessionReader) -> frozenset[str]:
    """Return the paths of a session's source files that are not the user's."""
    return frozenset(file.path for file in reader.rows(model.SourceFile) if not file.is_user)


def in_library(
    file: str, stack: Sequence[model.Frame], libraries: Collection[str]
) -> BreakInLibrary | None:
    """Tell whether a break in ``file`` is in a library, and which line of the user's led there.
    None for the user's own code, and where no line of the user's is known.

    ``stack``: who called the compiled function, and what was inlined into it down to the break,
    outermost first. ``libraries``: ``library_files``.
    """
    mine = (
        (frame for frame in reversed(stack) if frame.file not in libraries)
        if file in libraries
        else ()
    )
    found = next(iter(mine), None)
    return BreakInLibrary(found, bool(_STANDARD_LIBRARY.match(file))) if found else None
