"""How long two variants run, where that was measured."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.comparing.figure import Figure, run_time_figure, text_figure
from fx_explorer.analysis.measured_times import measured, with_spread
from fx_explorer.session import SessionReader

_KINDS: dict[model.Measured, str] = {
    "forward": "running took, forward",
    "forward+backward": "running took, with backward",
}


def run_times(
    reader: SessionReader, left: model.Compilation, right: model.Compilation
) -> list[Figure]:
    """Compare the times of each kind that was measured for either side."""
    sides = [measured(reader, variant) for variant in (left, right)]
    return [
        _compared(words, sides[0].get(what), sides[1].get(what))
        for what, words in _KINDS.items()
        if what in sides[0] or what in sides[1]
    ]


def _compared(
    words: str, left: model.Measurement | None, right: model.Measurement | None
) -> Figure:
    if left and right:
        return run_time_figure(words, (left.median_s, left.iqr_s), (right.median_s, right.iqr_s))
    return text_figure(
        words,
        *(with_spread(one.median_s, one.iqr_s) if one else "not measured" for one in (left, right)),
    )
