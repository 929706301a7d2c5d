"""View 6: generated kernels and library calls, in the order the compiled code runs them."""

from __future__ import annotations

from collections import Counter

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_kernel
from fx_explorer.analysis.kernels.counts import KernelUse, kernel_uses, kind_in_words, run_in_words
from fx_explorer.analysis.kernels.kernel_documents import gpu_of
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.tui.views.table import Detail, Table, TableColumn, TableRow

COLUMNS = (
    TableColumn("frame", "annotation", priority=6),
    TableColumn("direction", "type", min_width=9, priority=1),
    TableColumn("kernel", "strong", min_width=32),
    TableColumn("language", "muted", min_width=7, priority=4),
    TableColumn("nodes", is_number=True),
    TableColumn("calls", is_number=True, priority=5),
    TableColumn("lines", is_number=True, priority=3),
    TableColumn("computes", "muted", min_width=20, max_width=90, priority=2),
)
ESTIMATE = TableColumn("estimate", "number", is_number=True, min_width=8)

BELOW = "p k shows what is below a Triton kernel, v c its configurations."


def kernels_table(reader: SessionReader) -> Table:
    uses = kernel_uses(reader)
    names = compilation_names(reader)
    gpu = gpu_of(reader)
    times = [_estimate(reader, use.kernel, gpu) for use in uses] if gpu else None
    return Table(
        shows="Generated kernels and library calls, in the order the compiled code runs them.",
        notice=_notice(reader, uses, gpu),
        origin="Inductor's code generation; nodes from the scheduler's origins",
        columns=(*COLUMNS[:3], ESTIMATE, *COLUMNS[3:]) if times else COLUMNS,
        rows=[
            _row(reader, use, names.get(use.kernel.compilation, ""), [times[i]] if times else []) for i, use in enumerate(uses)
        ],
        empty=_why_empty(reader),
    )


def _estimate(reader: SessionReader, kernel: model.Kernel, gpu: model.Gpu) -> str:
    """Return the least time of one call that the data sheet allows; empty where Inductor estimated
    nothing.
    """
    from fx_explorer.analysis.kernels.candidates import estimate
    from fx_explorer.analysis.kernels.roofline import microseconds, roofline

    counts = kernel.estimated_flops > 0  # without operations, their dtype does not matter
    found = estimate(reader, kernel, gpu) if counts else roofline(gpu, kernel.estimated_bytes, 0)
    return microseconds(found.estimated_s) if found.estimated_s else ""


def _row(reader: SessionReader, use: KernelUse, owner: str, time: list[str]) -> TableRow:
    kernel = use.kernel
    cells = (
        f"[{owner}]",
        kernel.direction,
        kernel.name,
        *time,
        kind_in_words(kernel).removesuffix(" call"),
        f"{len(use.nodes):,}",
        f"{use.calls:,}",
        f"{use.line_count:,}" if use.line_count else "",
        ", ".join(use.nodes),
    )
    return TableRow(cells, place_of_kernel(reader, kernel), lambda: _detail(reader, kernel))


def _detail(reader: SessionReader, kernel: model.Kernel) -> Detail:
    if not kernel.artifact:
        where = f"line {kernel.first_line} of the output code" if kernel.first_line else "the output code"
        what = run_in_words(reader, kernel) if kernel.runs else _library(reader)
        return Detail(f"{what} Enter goes to {where}, which makes the call.")
    artifact = reader.get(model.Artifact, kernel.artifact)
    return Detail(reader.text(artifact.text), artifact.language)


def _library(reader: SessionReader) -> str:
    if gpu_of(reader) is None:
        return "A library call: it has no generated code of its own."
    from fx_explorer.analysis.kernels.unknown_without_gpu import LIBRARY

    return LIBRARY


def _notice(reader: SessionReader, uses: list[KernelUse], gpu: model.Gpu | None) -> str:
    generated = [use for use in uses if use.kernel.language != "extern"]
    if not uses:
        return ""
    control = Counter(kind_in_words(use.kernel) for use in uses if use.kernel.runs)
    libraries = len(uses) - len(generated) - control.total()
    counts = [counted(len(generated), "generated kernel"), counted(libraries, "library call")]
    words = f"{', '.join([*counts, *(counted(number, kind) for kind, number in control.items())])}."
    if gpu:
        return f"{words} Nothing ran: times are the least that the data sheet allows. {BELOW}"
    if generated:
        widest = max(generated, key=lambda use: len(use.nodes))
        words += f" {widest.kernel.name} fuses the most: {counted(len(widest.nodes), 'node')}."
    return words if reader.meta("build") else f"{words} Nothing was built: this is what would be (--build builds it)."


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "None so far: kernels are written at the end of a compilation."
    compilations = reader.rows(model.Compilation)
    reasons = {(c.missing_stages or {}).get("kernel", "") for c in compilations} - {""}
    if reasons:
        return f"No kernels: {'; '.join(sorted(reasons))}."
    return "No kernels: no compilation got as far as generating code."
