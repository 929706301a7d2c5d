"""Source files: their paths, and which of them somebody will want to read."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from fx_explorer.session.queries.sql import column
from fx_explorer.session.reader import SessionReader


def source_paths(reader: SessionReader) -> dict[int, str]:
    """Return the path of every source file, by its id."""
    return dict(reader.query("SELECT id, path FROM source_file"))


def user_paths(reader: SessionReader) -> set[str]:
    """Return the paths of the user's own source files."""
    return set(column(reader, "SELECT path FROM source_file WHERE is_user"))


def sources_to_read(reader: SessionReader) -> set[int]:
    """Return the ids of the user's own files, and of those that a node or a break is in (a
    library's model).

    Guards have stacks too, through files nobody asked for.
    """
    used = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {table}.stack=stack.id)"
        for table in ("node", "graph_break")
    )
    innermost = f"SELECT json_extract(frames, '$[#-1][0]') FROM stack WHERE {used}"  # a frame is [file, line, function, code]
    return set(column(reader, f"SELECT id FROM source_file WHERE is_user OR path IN ({innermost})"))


def source_files(session: Path) -> list[Path]:
    """Return the source files that a session holds, without a reader, which refuses what is not
    whole. Raises sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(session)) as db:
        return [
            Path(path)
            for (path,) in db.execute("SELECT path FROM source_file")
            if isinstance(path, str)
        ]
