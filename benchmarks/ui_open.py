"""How long it takes to open large things, and how much memory the UI holds.

    python -m benchmarks.ui_open

Three questions: a 100,000-node graph and a 100,000-line text, from the session file to the strips
of the first page (in this process); the app on a session in a 200×50 pseudo-terminal, from the
command to the first words and to the first full paint; and the memory of that process. CPU time is
given beside wall time because it is steadier where other programs run on the machine.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from textual.app import App, ComposeResult
from textual.geometry import Region

from benchmarks.ptybench import Terminal, cpu_ms, memory_mb
from benchmarks.synthetic import llama_session
from benchmarks.synthetic_code import kernel_code
from fx_explorer import model
from fx_explorer.analysis.documents import document_of, text_of
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.writer import finish_session
from fx_explorer.tui.content.graph_rows import COLUMNS, GraphRows
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.row_list import RowList

LARGE_LAYERS = 500
"""Its joint graph has 100,001 nodes."""

TEXT_LINES = 100_000
OPEN_BUDGET_MS, WORDS_BUDGET_MS, PAINT_BUDGET_MS, MEMORY_BUDGET_MB = 100, 300, 500, 150


class Panes(App[None]):
    """The two widgets alone."""

    def compose(self) -> ComposeResult:
        yield RowList(COLUMNS)
        yield CodeView()


def first_page(view: LineView) -> None:
    view.render_lines(Region(0, 0, *view.size))


async def opening_ms(path: Path) -> dict[str, list[float]]:
    """Five times each, with a fresh reader: nothing is remembered from the time before."""
    app = Panes()
    times: dict[str, list[float]] = {"100,000-node graph": [], "100,000-line text": []}
    async with app.run_test(size=(200, 100)):
        rows, code = app.query_one(RowList), app.query_one(CodeView)

        def open_graph(reader: SessionReader) -> None:
            graph = reader.rows(model.Graph, stage="joint")[0]
            rows.load(GraphRows(reader, document_of(reader, "graph", graph.id)), COLUMNS)
            first_page(rows)

        def open_text(reader: SessionReader) -> None:
            artifact = reader.rows(model.Artifact, kind="listing")[0]
            document = document_of(reader, "artifact", artifact.id)
            code.load(text_of(reader, document), document.language)
            first_page(code)

        steps: dict[str, Callable[[SessionReader], None]] = dict(
            zip(times, (open_graph, open_text), strict=True)
        )
        for _ in range(5):
            for name, step in steps.items():
                with SessionReader(path) as reader:
                    start = time.perf_counter()
                    step(reader)
                    times[name].append((time.perf_counter() - start) * 1000)
    return times


def add_long_text(path: Path) -> None:
    text = "".join(kernel_code(f"cpp_fused_{i}", 12) for i in range(TEXT_LINES // 20 + 1))
    text = "".join(text.splitlines(keepends=True)[:TEXT_LINES])
    with SessionWriter(path) as writer:
        body = writer.text(text)
        writer.add(
            model.Artifact(0, 1, "listing", "kernel", "forward", "long", "cpp", body, TEXT_LINES)
        )
    finish_session(path)


class Start(NamedTuple):
    """One start of the app."""

    words_ms: float
    paint_ms: float
    paint_cpu_ms: float
    memory_mb: float


def starts(path: Path, runs: int = 5) -> list[Start]:
    found = []
    for _ in range(runs):
        with Terminal([sys.executable, "-m", "fx_explorer", str(path)]) as terminal:
            words = terminal.first_output("fx-explorer")
            paint = terminal.wait_for("Dynamo graph")
            cpu = cpu_ms(terminal.pid)
            terminal.settle(500)
            found.append(Start(words, paint, cpu, memory_mb(terminal.pid)))
    return found


def report_starts(name: str, found: list[Start]) -> None:
    print(line(f"{name}: start to first words", [s.words_ms for s in found], "ms", WORDS_BUDGET_MS))
    print(
        line(
            f"{name}: start to first full paint", [s.paint_ms for s in found], "ms", PAINT_BUDGET_MS
        )
    )
    print(
        line(f"{name}: the same, CPU time", [s.paint_cpu_ms for s in found], "ms", PAINT_BUDGET_MS)
    )
    print(line(f"{name}: memory", [s.memory_mb for s in found], "MB", MEMORY_BUDGET_MB))


def line(what: str, values: list[float], unit: str, budget: float) -> str:
    median = statistics.median(values)
    verdict = "ok" if median <= budget else "OVER"
    return (
        f"{what:<44}{median:7.0f} {unit}   best {min(values):.0f}   budget {budget:.0f}   {verdict}"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        large, usual = Path(folder) / "large.fxs", Path(folder) / "llama48.fxs"
        written = llama_session(large, LARGE_LAYERS)
        llama_session(usual, 48)
        add_long_text(large)
        for name, values in asyncio.run(opening_ms(large)).items():
            print(line(f"{name}: open to first page", values, "ms", OPEN_BUDGET_MS))
        report_starts("48-layer Llama", starts(usual))
        report_starts(f"{written.nodes:,} nodes", starts(large, runs=3))


if __name__ == "__main__":
    main()
