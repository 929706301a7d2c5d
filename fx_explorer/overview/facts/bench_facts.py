"""What a bench found, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.session import SessionReader


def is_bench_alone(reader: SessionReader) -> bool:
    """Return whether the session holds a bench and no capture (``fx-explorer bench -o``)."""
    return reader.has(model.BenchCell) and (reader.meta("target") or {}).get("kind") == "bench"


def bench_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the sentences of the verdict; nothing where nothing was measured."""
    if not reader.has(model.BenchCell):
        return
    from fx_explorer.instruments.bench.cells import (
        bench_figures,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.bench.verdict import problems, verdict

    figures = bench_figures(reader)
    if figures is None:
        return
    wrong = problems(figures)
    for sentence in verdict(figures):
        yield Fact("bench", "problem" if sentence in wrong else "notice", sentence, view="bench")
