"""What the user changed between two captures of a program: its source files, and the options of the
capture.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from fx_explorer.model import SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import sources_to_read


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """A source file that has another text now."""

    path: str
    before: str
    after: str


def changed_sources(before: SessionReader, after: SessionReader) -> list[ChangedSource]:
    """Return the files with other text. A file that only one of the sessions read is none of them."""
    old, new = (_texts(reader) for reader in (before, after))
    return [
        ChangedSource(path, old[path], new[path])
        for path in sorted({*old} & {*new})
        if old[path] != new[path]
    ]


def _texts(reader: SessionReader) -> dict[str, str]:
    rows = reader.by_ids(SourceFile, sources_to_read(reader))
    return {row.path: reader.text(row.text) for row in rows if row.text}


NO_OPTIONS = ("session", "pause", "stay", "trusts_target", "raised_inspecting")
"""Fields of a request that change nothing of what is compiled: where the session is written, where
the compiler pauses.
"""


def changed_options(before: SessionReader, after: SessionReader) -> list[str]:
    """Return the names of what was asked for otherwise, ``no_weights``."""
    old, new = before.request(), after.request()
    if old is None or new is None:
        return []
    names = (field.name for field in fields(old) if field.name not in NO_OPTIONS)
    return [name for name in names if getattr(old, name) != getattr(new, name)]
