"""This module finds which packages are installed beside torch, and their versions, under any name
of their distribution.

Wheels of one module come under many names: triton is ``triton``, ``pytorch-triton`` in torch's
nightly builds, ``pytorch-triton-rocm`` and ``pytorch-triton-xpu`` for other GPUs, and none where it
is a folder on PYTHONPATH. So the module is asked, not the list of distributions. Nothing here
imports what it is asked about, and nothing raises.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import metadata
from pathlib import Path

UNKNOWN = "of unknown version"

_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"'\n]{1,100})["']""", re.MULTILINE)


def is_installed(module: str) -> bool:
    """Return whether a top-level module can be imported, without importing it. A module that the
    program created itself has no file, and counts.
    """
    if module in sys.modules:
        return sys.modules[module] is not None
    return _place(module) is not None


def version_of(module: str) -> str:
    """Return the version that the module states, else that of its distribution."""
    imported = getattr(sys.modules.get(module), "__version__", None)
    return str(imported or _written_version(module) or _distributed_version(module) or UNKNOWN)


def requirements_of(distribution: str) -> list[str]:
    """Return the requirements of a distribution, ``triton==3.7.1; platform_system == "Linux"``;
    empty if it is not installed.
    """
    try:
        return metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return []


def _place(module: str) -> Path | None:
    """Return the file or the folder of a module that is not imported yet."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a finder of the program's that fails
        return None
    if spec is None:
        return None
    return Path(spec.origin or next(iter(spec.submodule_search_locations or ()), module))


def _written_version(module: str) -> str:
    place = _place(module)
    try:
        if place and place.is_file():
            text = place.read_text("utf-8", errors="replace")
        else:
            text = ""
    except OSError:
        return ""
    written = _VERSION.search(text)
    return written[1] if written else ""


def _distributed_version(module: str) -> str:
    """Return the version of the first distribution that has the module. Looks at all of them."""
    distributions = metadata.packages_distributions().get(module, ())
    if not distributions:
        return ""
    return metadata.version(distributions[0])
