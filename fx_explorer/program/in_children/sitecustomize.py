"""This file records the compilations of a Python that the recorded program starts (children.py). It
runs first in that Python.

It keeps to the standard library and to syntax that old interpreters read, leaves ``sys.path`` as it
would be, and imports the ``sitecustomize`` that it hides.
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def _make_way() -> None:
    """Import the ``sitecustomize`` that would have been found without us."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        # One that is there, and lacks something, fails as it would without us.
        if error.name != "sitecustomize":
            raise
    finally:
        # The import that runs us looks for it there when we are through, and would fail.
        sys.modules.setdefault("sitecustomize", ours)


def _record_later() -> None:
    """Wait until the program imports torch's compiler. Before that, no other module of ours is
    imported.
    """
    on_import = _load("_fx_explorer_on_import", "on_import.py")
    on_import.after_import("torch", lambda: None, _Marked)
    on_import.after_import("torch._dynamo", _record)


class _Marked:
    """Marks this process as recorded while torch is imported, in a file that the capture looks for
    (client/descendants.py).
    """

    def __enter__(self) -> None:
        import contextlib

        status = _load("_fx_explorer_process_status", os.pardir, "process_status.py")
        with contextlib.suppress(OSError):  # the capture is over, and nobody looks for the mark
            status.leave_mark(os.environ["FX_EXPLORER_CHILDREN"])

    def __exit__(self, *_: object) -> None:
        pass


def _load(name: str, *path: str) -> Any:
    """Load a file of ours that needs only the standard library, outside of our package."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, os.path.join(os.path.dirname(HERE), *path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _record() -> None:
    worker = _load("_fx_explorer_worker", os.pardir, "worker", "worker.py")
    if "fx_explorer" not in sys.modules:
        worker.load_package()
    from fx_explorer.program.recording_children import record_when_used

    record_when_used(os.environ["FX_EXPLORER_CHILDREN"], "started")


_make_way()
if os.environ.get("FX_EXPLORER_CHILDREN") and sys.version_info >= (3, 10):
    _record_later()
