"""A file of the user's before and after a change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fx_explorer.model.bounded_matching import unified_diff


@dataclass(frozen=True, slots=True)
class FileEdit:
    path: str
    """The user's file, as torch named it."""
    before: str
    after: str
    r"""Text of the whole file, with ``\n`` at the ends of lines."""

    @property
    def diff(self) -> str:
        """Return a unified diff that ``patch -p1`` and ``git apply`` take in the working directory,
        or else in ``/``.
        """
        path = str(relative(self.path)).lstrip("/")
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return unified_diff(before, after, path)


def relative(path: str) -> Path:
    """Return the path relative to the working directory when the file lies below it, else as it
    is.
    """
    file, here = Path(path), Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file
