"""This module finds what the user changed between two captures: source files and options."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fx_explorer.analysis.diff import describe_difference, text_diff
from fx_explorer.model import SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import sources_to_read


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """A source file whose text has changed."""

    path: str
    before: str
    after: str

    @property
    def edit(self) -> str:
        """Return ``3 lines added``."""
        rows = text_diff(self.before.splitlines(), self.after.splitlines())
        return describe_difference(rows, "line")


def changed_sources(before: SessionReader, after: SessionReader) -> list[ChangedSource]:
    """Return the files whose text has changed. A file that only one of the sessions read is left
    out.
    """
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
"""Fields of a request that do not affect what is compiled: the path of the session, where the
compiler pauses.
"""


def changed_options(before: SessionReader, after: SessionReader) -> list[str]:
    """Return the names of the options of the request that differ: ``no_weights``."""
    old, new = before.request(), after.request()
    if old is None or new is None:
        return []
    names = (field.name for field in fields(old) if field.name not in NO_OPTIONS)
    return [name for name in names if getattr(old, name) != getattr(new, name)]
