"""Modules that keys will need and the first screen does not are imported in a thread while the user
reads it.

Imported by the first key that needs them, those of the tables alone would keep it waiting for 150
ms.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
import threading
from collections.abc import Iterator

FIRST = (
    "fx_explorer.overview.view_tables",
    "fx_explorer.instruments.kernels.costs",
    "fx_explorer.tui.dialogs.choose",
    "fx_explorer.tui.content.inspect",
)
"""Modules that the most frequent keys need, which are imported first."""

IN_FUNCTIONS = (
    "fx_explorer.instruments.diff.screen",
    "fx_explorer.instruments.diff.since_last",
    "fx_explorer.analysis.graph_files",
    "fx_explorer.instruments.kernels.candidates",
    "fx_explorer.analysis.hand_marks",
    "fx_explorer.analysis.step_record",
    "fx_explorer.analysis.other_variants",
    "fx_explorer.instruments.options.explained_options",
    "fx_explorer.client.session_files",
    "fx_explorer.trials",
)
"""Modules of other packages that the app imports inside functions."""

ANOTHER_APP = "fx_explorer.instruments.ranks"

SHOWN = re.compile(r"(?:\w+_)?(?:view|screen)")
"""Modules of each instrument that the app needs to show it."""


class LaterImports:
    """Imports modules in a thread, once. When it is stopped, it ends after the module it is
    importing.
    """

    def __init__(self) -> None:
        self._thread = threading.Thread(
            target=self._import, name="fx-explorer imports", daemon=True
        )
        self._is_stopped = False
        self._has_ended = threading.Event()

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped = True

    def wait(self) -> None:
        """Return when all are imported, for who measures or tests."""
        self._has_ended.wait()

    def _import(self) -> None:
        try:
            self._import_each()
        finally:
            self._has_ended.set()

    def _import_each(self) -> None:
        for name in later_modules():
            if self._is_stopped:
                return
            # A key may import the package of a module at the same time, and Python then gives one
            # of the two threads half of it. What cannot be imported is told where it is needed.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def later_modules() -> Iterator[str]:
    """Yield the names, the most used first: all modules of the app, and those it imports inside
    functions.
    """
    yield from FIRST
    yield from _modules_in("fx_explorer.tui")
    for name in _modules_in("fx_explorer.instruments"):
        is_shown = SHOWN.fullmatch(name.rpartition(".")[2])
        if is_shown and not name.startswith(ANOTHER_APP):
            yield name
    yield from IN_FUNCTIONS


def _modules_in(package: str) -> Iterator[str]:
    """Yield the names of all modules below a package, importing only packages."""
    folder = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folder, f"{package}."):
        yield module.name
