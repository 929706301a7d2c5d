"""The kernel to look below when nothing is selected: the first Triton kernel, or why a session has
none.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import not_decoded, why_not_in_text
from fx_explorer.instruments.kernels.candidates import triton_kernels
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernel_languages

NONE_YET = "No kernel was generated in this session yet, so there is none to look below."
FOR_THE_CPU = (
    "This session has no Triton kernels: its code is for the CPU. Capture it with --gpu "
    "h100, for example."
)
ONLY_LIBRARIES = "This session has no Triton kernels: all it computes are calls of libraries."
NO_GPU = (
    "This session has no Triton kernels: all it computes are calls of libraries. Capture it "
    "with --gpu h100, for example."
)


def first_triton_kernel(reader: SessionReader, compilation: int) -> model.Kernel | None:
    """Return the first Triton kernel of the compilation that is looked at, forward before backward;
    of any other compilation if it has none.
    """
    kernels = triton_kernels(reader)
    return next(
        (kernel for kernel in kernels if kernel.compilation == compilation),
        next(iter(kernels), None),
    )


def why_no_triton(reader: SessionReader) -> str:
    languages = kernel_languages(reader)
    if not languages:
        return NONE_YET
    if languages != {"extern"}:
        return FOR_THE_CPU
    return ONLY_LIBRARIES if session_gpu(reader) else NO_GPU


def why_no_kernels(reader: SessionReader) -> str:
    """Return why a view of kernels is empty."""
    if why := not_decoded(reader) or why_not_in_text(reader, "kernels"):
        return why
    if reader.meta("outcome") is None:
        return "None so far: kernels are written at the end of a compilation."
    compilations = reader.rows(model.Compilation)
    reasons = {(c.missing_stages or {}).get("kernel", "") for c in compilations} - {""}
    if reasons:
        return f"No kernels: {'; '.join(sorted(reasons))}."
    return "No kernels: no compilation got as far as generating code."
