"""Memory against time, a point for each budget, as SVG by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from fx_explorer.analysis.words import size
from fx_explorer.drawing.chart import NO_LIBRARY, SVG_SALT
from fx_explorer.errors import UsageError

NOTHING = (
    "There is nothing to draw: a picture of memory against time takes --budgets and --measure."
)


class BudgetPoint(NamedTuple):
    """What one way of running a step takes."""

    name: str
    bytes_: int
    call_s: float


def budgets_svg(points: Sequence[BudgetPoint], title: str) -> str:
    """Return the picture. Raises UsageError when there is nothing to draw, or no matplotlib."""
    if not points:
        raise UsageError(NOTHING)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(NO_LIBRARY.format(library="matplotlib")) from error
    with matplotlib.rc_context({"svg.hashsalt": SVG_SALT, "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for name, bytes_, call_s in points:
            axes.plot([bytes_ / 1e6], [call_s * 1e3], marker="o", linestyle="")
            axes.annotate(
                f"{name}: {size(bytes_)}",
                (bytes_ / 1e6, call_s * 1e3),
                xytext=(6, 6),
                textcoords="offset points",
            )
        axes.set_xlabel("memory of a step beyond what is there before it, MB (measured)")
        axes.set_ylabel("a step, ms (median)")
        axes.margins(0.2)
        axes.set_title(title.replace("$", r"\$"))
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "fx-explorer"})
    return out.getvalue()
