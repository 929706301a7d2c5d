"""The request for the original of a changed program. torch is not imported for it."""

from __future__ import annotations

from dataclasses import replace

from fx_explorer.instruments.fixes.measure.observed.branch_coverage import text_on_disk
from fx_explorer.model import CaptureRequest


def as_on_disk(request: CaptureRequest) -> CaptureRequest:
    """Return the request for the original: its files keep the text they have on disk, and its own
    options are used.
    """
    texts = {path: text_on_disk(path) for path in request.overlay}
    return replace(request, overlay=texts, settings=request.original_settings)
