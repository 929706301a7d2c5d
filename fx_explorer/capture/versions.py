"""What torch's releases do differently, and private names that may go: the one place that asks which of them are there.

Everything else says what it needs and gets it, or a ``MissingInTorch`` that names the release.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import torch


class MissingInTorch(Exception):
    """This torch has no such part; the message names part and release."""


def part(module: str, name: str) -> Any:
    """``module.name`` of the installed torch; raises MissingInTorch where it has none."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise MissingInTorch(f"torch {torch.__version__} has no {module}.{name}") from None


def dataclass_of(module: str, name: str, **values: object) -> Any:
    """A dataclass of torch's with those of ``values`` that this release has fields for."""
    wanted = part(module, name)
    known = {field.name for field in dataclasses.fields(wanted)}
    return wanted(**{key: value for key, value in values.items() if key in known})
