"""The user's source files as the session has them, by syntax: which loop a line stands in."""

from __future__ import annotations

import ast
import re

from fx_explorer import model
from fx_explorer.session import SessionReader

NOT_PARSED = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of parsing a file of a session, which may be anybody's."""


MOST_ROWS = 8
"""Maximum number of lines that a call of a logger is expected to take."""

_IN_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]python3\.\d+t?[/\\]|^<")
"""Matches files of packages and of Python's own library, and what is no file."""

_QUOTED = re.compile(r"""(?P<quote>["'])(?P<text>[^\n]{0,400}?)(?P=quote)""")
_REPLACED = re.compile(r"\{[^{}]{0,100}\}")
"""Matches what an f-string replaces."""


class SourceLines:
    """Answers questions about lines of the user's files. Each file is parsed once."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._files = {row.path: row for row in reader.rows(model.SourceFile)}
        self._loops: dict[str, dict[int, ast.For | ast.While]] = {}
        self._trees: dict[str, ast.Module | None] = {}

    def is_users(self, file: str) -> bool:
        """Return whether this is a file of the user's, and not of a package or of Python."""
        row = self._files.get(file)
        return row is not None and row.is_user

    def may_be_users(self, file: str) -> bool:
        """Return whether a file is the user's, or is not known and lies in no package: a session in
        which nothing was compiled has no files.
        """
        return self.is_users(file) or (file not in self._files and not _IN_PACKAGE.search(file))

    def text(self, file: str) -> str:
        """Return the text of a file; empty where it is not known."""
        row = self._files.get(file)
        return self._reader.text(row.text) if row and row.text else ""

    def code(self, file: str, line: int) -> str:
        """Return the code on a line, without its indentation; empty where it is not known."""
        rows = self.text(file).split("\n")
        return rows[line - 1].strip() if 0 < line <= len(rows) else ""

    def tree(self, file: str) -> ast.Module | None:
        """Return the syntax tree of a file; None where its text is not known or not Python."""
        if file not in self._trees:
            text = self.text(file)
            try:
                self._trees[file] = ast.parse(text) if text else None
            except NOT_PARSED:
                self._trees[file] = None
        return self._trees[file]

    def texts_near(self, file: str, line: int) -> list[str]:
        """Return the texts in quotes on a line and the few after it, f-strings in parts. The file
        is not parsed: a package's may be large.
        """
        rows = self.text(file).split("\n")[line - 1 : line - 1 + MOST_ROWS]
        texts: list[str] = []
        for quoted in _QUOTED.finditer("\n".join(rows)):
            texts += _REPLACED.split(quoted["text"])
        return [text.strip() for text in texts]

    def loop_around(self, file: str, line: int) -> ast.For | ast.While | None:
        """Return the innermost loop whose body has a line; None where there is none."""
        if file not in self._loops:
            self._loops[file] = self._lines_in_loops(file)
        return self._loops[file].get(line)

    def _lines_in_loops(self, file: str) -> dict[int, ast.For | ast.While]:
        tree = self.tree(file)
        loops: dict[int, ast.For | ast.While] = {}
        if tree is None:
            return loops
        # A tree is walked breadth first, so an inner loop comes after the loop around it.
        for node in ast.walk(tree):
            if isinstance(node, ast.For | ast.While):
                first = node.body[0].lineno
                last = node.body[-1].end_lineno or first
                for line in range(first, last + 1):
                    loops[line] = node
        return loops
