"""Text that is run in place of a file's own, under the file's name, to try a change of the user's
program.

Imports, ``loading.py`` and whoever asks ``linecache`` for a source line (Dynamo, tracebacks, the
recorder) get the given text. The file on disk stays as it is, and so does its cached bytecode.
"""

from __future__ import annotations

import importlib.abc
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType

_texts: dict[str, str] = {}
"""Real path → text."""


def install(texts: Mapping[str, str]) -> None:
    """Run these texts in place of the files' own from now on in this process. Modules that are
    imported already stay what they are.
    """
    if not texts:
        return
    for path, text in texts.items():
        _texts[os.path.realpath(path)] = text
        # Without a time of change linecache.checkcache leaves the entry alone.
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    sys.meta_path.insert(0, _OverlayFinder())


def text_of(path: str) -> str | None:
    """Return the text that stands for the file; None for a file that is run as it is."""
    return _texts.get(os.path.realpath(path)) if _texts else None


class _OverlayFinder(importlib.abc.MetaPathFinder):
    """Finds what other finders find, and replaces the loader of a file that has another text."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        others = (
            finder
            for finder in sys.meta_path
            if finder is not self and hasattr(finder, "find_spec")
        )
        spec = next(
            filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None
        )
        if spec and isinstance(spec.loader, SourceFileLoader):
            text = text_of(spec.loader.path)
            if text is not None:
                spec.loader = _OverlayLoader(fullname, spec.loader.path, text)
        return spec


class _OverlayLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text, neither reading nor writing cached bytecode."""
        return compile(self._text, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:
        return self._text
