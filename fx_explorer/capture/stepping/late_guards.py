"""Guards on sizes that lowering asks for, which is too late for Dynamo's guard: Dynamo has finished
the graph before.

A compile without a pause checks them too, so they are recorded with Dynamo's own. Where:
``ShapeEnv.guards`` (torch/fx/experimental/symbolic_shapes.py); Dynamo makes its guard ``SHAPE_ENV``
of them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch.utils._sympy.printers import PythonPrinter

from fx_explorer.capture.dynamo.guards.guard_rows import SHAPES, add_late_checks
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variants.variant import CapturedSegment, Variant
from fx_explorer.capture.torch_compat.versions import name_of
from fx_explorer.model import Guard


@contextlib.contextmanager
def late_guards(recording: Recording, kept: CapturedSegment, variant: Variant) -> Iterator[None]:
    """Record what is asked of sizes inside the block: with Dynamo's guards for a first variant,
    else with the variant's.
    """
    shapes = kept.shape_env()
    asked_before = len(shapes.guards) if shapes else 0
    try:
        yield
    finally:
        with recording.noting("guards of lowering", "dynamo"):
            late = shapes.guards[asked_before:] if shapes else ()
            if late:
                _add(recording, variant, [_code(shapes, guard.expr) for guard in late])


def _add(recording: Recording, variant: Variant, codes: list[str]) -> None:
    code = " and ".join(codes)
    known = None if variant.row.variant_of else recording.of(variant.row.name).shape_guard
    if known is None:
        guard = Guard(0, variant.row.id, 0, SHAPES, "", code, "")
        add_late_checks(recording, replace(guard, id=recording.writer.add(guard)), codes)
        return
    both = " and ".join(filter(None, (known.code, code)))
    recording.of(variant.row.name).shape_guard = guard = replace(known, code=both)
    recording.writer.update(guard)
    add_late_checks(recording, guard, codes)


def _code(shapes: Any, expression: Any) -> str:
    """Return ``L['x'].size()[0] <= 4096``."""
    names = {
        str(symbol): name_of(sources[0])
        for symbol, sources in shapes.var_to_sources.items()
        if sources
    }
    text: str = PythonPrinter().doprint(expression)
    return re.sub(r"\b[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)
