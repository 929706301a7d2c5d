"""The flame chart of a ledger as SVG."""

from __future__ import annotations

from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted, share
from fx_explorer.drawing.flame_svg import FlamePicture, flame_picture_svg
from fx_explorer.instruments.ledger.figures import LedgerFigures
from fx_explorer.instruments.ledger.flame import flame, unaccounted_in_words
from fx_explorer.instruments.ledger.flame_colours import COLOURS, kind_in_words, kinds_in
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.session.file_names import in_file


def flame_svg(figures: LedgerFigures) -> str:
    """Return the picture."""
    root = flame(figures)
    return flame_picture_svg(
        FlamePicture(
            root,
            titles=[verdict(figures)[0], unaccounted_in_words(figures)],
            about=lambda frame: _about(figures, frame),
            colours=COLOURS,
            legend={kind: kind_in_words(figures, kind) for kind in kinds_in(root)},
        )
    )


def _about(figures: LedgerFigures, frame: FlameFrame) -> list[str]:
    part = share(frame.duration_s, figures.call.call_s)
    parts = [
        frame.name,
        (
            f"{frame.duration_s * 1e6:,.3f} µs, {part} of a call; it begins after "
            f"{run_time(frame.began_s)}"
        ),
        kind_in_words(figures, frame.kind)
        + (f", {counted(len(frame.steps), 'step')}" if frame.children else ""),
    ]
    if frame.line:
        parts.append(in_file(*frame.line))
    if not frame.children and frame.steps:
        device_s = figures.entries[frame.steps[0]].step.device_s
        parts += [f"the GPU computes for {run_time(device_s)}"] if device_s > 0 else []
    return parts
