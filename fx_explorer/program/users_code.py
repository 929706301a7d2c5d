"""This module decides which files and modules are the user's own. Python's, torch's, installed ones
and ours are not.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from fx_explorer.model import CaptureRequest
from fx_explorer.program.place import TargetPlace

_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


@functools.lru_cache(maxsize=16384)
def is_users_file(path: str) -> bool:
    """Return whether a file is the user's. A path that does not exist (``<string>``) is: exec and
    notebooks make such functions. But the code of a graph (torch/fx/graph_module.py) is torch's.
    """
    if not path or path.startswith(("<frozen", "<eval_with_key>")):
        return False
    real = _real(path)
    return not (_is_below(real, _OWN) or _is_installed(real) or _is_generated(real))


def _real(path: str) -> str:
    """Return the path without symbolic links. Each folder is resolved once: a process with torch
    has 3,000 modules in 400 folders.
    """
    if not os.path.isabs(path) or os.path.islink(path):
        return os.path.realpath(path)
    return os.path.join(_real_folder(os.path.dirname(path)), os.path.basename(path))


@functools.lru_cache(maxsize=16384)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


@functools.lru_cache(maxsize=16384)
def _folder_of(path: str) -> str:
    """Return the folder of a file, without symbolic links. Give absolute paths only: a change of
    directory does not change them.
    """
    return os.path.dirname(_real(path))


def _is_generated(real: str) -> bool:
    """Return whether Inductor wrote and imported the file
    (torch/_inductor/runtime/cache_dir_utils.py).
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return f"{os.sep}torchinductor_" in real or (
        bool(folder) and real.startswith(os.path.realpath(str(folder)) + os.sep)
    )


def _is_installed(real: str) -> bool:
    parts = real.split(os.sep)
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or any(_is_below(real, folder) for folder in _pythons())
    )


@functools.lru_cache(maxsize=1)
def _pythons() -> tuple[str, ...]:
    """Return the folders of the standard library. Packages in them were installed."""
    return tuple(os.path.realpath(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib"))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep) and "site-packages" not in path[len(folder) :].split(
        os.sep
    )


@dataclass(frozen=True)
class UsersCode:
    """The code that is inspected: the user's own files, and installed files with the target or a
    change.
    """

    folders: frozenset[str] = frozenset()
    _known: dict[str, tuple[object, bool]] = field(default_factory=dict, compare=False, repr=False)
    """Name → (module, whether it is inspected). It is a cache, since a process with torch has about
    3,000 modules, which are checked before and after each call.
    """

    def has(self, path: str) -> bool:
        if is_users_file(path):
            return True
        if os.path.isabs(path):
            folder = _folder_of(path)
        else:
            folder = os.path.dirname(os.path.realpath(path))
        return folder in self.folders

    def modules(self) -> list[ModuleType]:
        """Return the user's modules that are imported now, in the order of their imports."""
        return [
            module for name, module in list(sys.modules.items()) if self._looks_into(name, module)
        ]

    def _looks_into(self, name: str, module: object) -> bool:
        known = self._known.get(name)
        if known is None or known[0] is not module:
            known = self._known[name] = (
                module,
                isinstance(module, ModuleType) and self._is_of_a_file(module),
            )
        return known[1]

    def _is_of_a_file(self, module: ModuleType) -> bool:
        """Return whether the module comes from a file. ``torch.ops`` and others name a file that
        does not exist.
        """
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and os.path.isabs(file) and self.has(file)


def users_code(place: TargetPlace, request: CaptureRequest) -> UsersCode:
    target = place.file or getattr(sys.modules.get(place.module), "__file__", None)
    files: list[str | Path] = list(request.overlay)
    if target:
        files.append(target)
    return UsersCode(frozenset(os.path.dirname(os.path.realpath(path)) for path in files))
