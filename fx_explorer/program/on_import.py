"""This module calls a function right after the user's program has imported a module, as if the
import had done it.

A script must be the first to import torch: what it puts into ``os.environ`` before that
(``TORCH_LOGS``, ``OMP_NUM_THREADS``, ``CUDA_VISIBLE_DEVICES``) is read by the import.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

During = Callable[[], contextlib.AbstractContextManager[object]]


def after_import(
    name: str, action: Callable[[], None], during: During = contextlib.nullcontext
) -> None:
    """Call ``action`` once, in the thread that imports ``name``, when the import is done; at once
    if the module is imported already.

    The import itself happens inside ``during()``.
    """
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _AfterImportFinder(name, action, during))


class _AfterImportFinder(MetaPathFinder):
    """Wraps the loader that other finders return for the module, and then leaves ``sys.meta_path``.
    It finds nothing itself.
    """

    def __init__(self, name: str, action: Callable[[], None], during: During) -> None:
        self._name = name
        self._action = action
        self._during = during

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _AfterImportLoader(spec.loader, self._action, self._during)
        return spec


class _AfterImportLoader(Loader):
    def __init__(self, loader: Loader, action: Callable[[], None], during: During) -> None:
        self._loader = loader
        self._action = action
        self._during = during

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader: inspect and pkgutil ask it for source and data files.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with self._during():
            self._loader.exec_module(module)
        self._action()
