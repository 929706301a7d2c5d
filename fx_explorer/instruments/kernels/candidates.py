"""This module lists the builds of a kernel in a session: its configurations side by side, the texts
of each, and the estimate of a call. It also picks the kernel whose levels are shown when nothing is
selected, or says why there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import options_that_differ, session_gpu, text_of_level
from fx_explorer.analysis.whole_session import not_decoded, why_not_in_text
from fx_explorer.instruments.kernels.counts import kernel_uses
from fx_explorer.instruments.kernels.gpu_limits import (
    ATTENTION_BY_OUR_RULES,
    TEMPLATE_WITHOUT_FUSION,
    UNKNOWN_LIBRARY_KERNEL,
    UNKNOWN_LIBRARY_PICK,
    UNKNOWN_PADDING,
    UNKNOWN_PICK,
    UNKNOWN_TEMPLATE_OR_LIBRARY,
    Occupancy,
    Roofline,
    number_kind,
    occupancy,
    roofline,
)
from fx_explorer.instruments.kernels.instructions import InstructionMix, instructions, mix
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernel_languages


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration of a kernel, as a row of the table of configurations."""

    build: KernelBuild
    occupancy: Occupancy | None
    """The occupancy; None for a configuration that is not built."""
    ptx_lines: int = 0
    """Number of lines of PTX or AMDGCN; 0 for a configuration that is not built."""


def triton_kernels(reader: SessionReader) -> list[model.Kernel]:
    """Return the kernels of the variants in use that can be built, forward before backward."""
    kernels = [use.kernel for use in kernel_uses(reader)]
    return [kernel for kernel in kernels if kernel.language == "triton" and kernel.artifact]


def tuned_libraries(reader: SessionReader) -> list[model.Kernel]:
    """Return the library calls that were chosen among several candidates."""
    every = [use.kernel for use in kernel_uses(reader) if use.kernel.language == "extern"]
    return [kernel for kernel in every if reader.count(KernelBuild, kernel=kernel.id)]


def kernels_named(reader: SessionReader, name: str) -> list[model.Kernel]:
    """Find kernels by their whole name, else by any part of it. Several compilations may have
    kernels of the same name.
    """
    every = [*triton_kernels(reader), *tuned_libraries(reader)]
    return [kernel for kernel in every if kernel.name == name] or [
        kernel for kernel in every if name in kernel.name
    ]


def builds(reader: SessionReader, kernel: model.Kernel, gpu: Gpu) -> list[KernelBuild]:
    """Return the builds of a kernel in the order the autotuner would try them; empty until somebody
    has asked a builder for them.
    """
    return sorted(
        reader.rows(KernelBuild, kernel=kernel.id, gpu=gpu.name), key=lambda row: row.position
    )


def candidates(reader: SessionReader, kernel: model.Kernel, gpu: Gpu) -> list[Candidate]:
    return make_candidates(reader, builds(reader, kernel, gpu), gpu)


def make_candidates(
    reader: SessionReader, rows: Iterable[KernelBuild], gpu: Gpu | None
) -> list[Candidate]:
    """Make candidates of rows. Without a data sheet of the GPU there is no occupancy."""
    built = list(rows)
    if built:
        assemblies = reader.by_ids(model.Artifact, [_assembly(row) for row in built])
    else:
        assemblies = []
    sizes = {artifact.id: artifact.line_count for artifact in assemblies}
    configurations = []
    for row in built:
        occupancy = occupancy_of(row, gpu) if gpu else None
        configurations.append(Candidate(row, occupancy, sizes.get(_assembly(row), 0)))
    return configurations


def occupancy_of(build: KernelBuild, gpu: Gpu) -> Occupancy | None:
    """Return the occupancy of a build; None if it is not built, or its registers are unknown."""
    if build.state != "built" or build.registers < 0:
        return None
    return occupancy(gpu, build.threads, build.registers, build.shared_bytes)


def shared_options(rows: Sequence[KernelBuild]) -> dict[str, object]:
    """Return the options that all configurations agree on. A flex attention template has twenty of
    them.
    """
    apart = options_that_differ(rows)
    first = next((row for row in rows if row.origin != "library"), None)
    if first:
        return {name: value for name, value in first.options.items() if name not in apart}
    return {}


def _assembly(build: KernelBuild) -> int:
    return build.levels.get("ptx", 0) or build.levels.get("amdgcn", 0)


# one configuration


def estimate(
    reader: SessionReader, kernel: model.Kernel, gpu: Gpu, build: KernelBuild | None = None
) -> Roofline:
    """Estimate one call of a kernel. The GPU's peak is chosen by the build's matrix instructions;
    without a build, by the type of the inputs.
    """
    assembly = text_of_level(reader, build, "ptx") or text_of_level(reader, build, "amdgcn")
    kind = number_kind(assembly) if assembly else ""
    return roofline(
        gpu, kernel.estimated_bytes, kernel.estimated_flops, kind or kind_of_inputs(reader, kernel)
    )


_KINDS = {
    "bf16": "bf16",
    "f16": "fp16",
    "fp16": "fp16",
    "f64": "fp64",
    "fp64": "fp64",
    "i8": "int8",
}

_POINTERS = re.compile(r"'\*(\w+)'")
"""Matches pointers in a kernel's signature: ``{'arg_A': '*bf16', …}``."""


def kind_of_inputs(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the number type of a kernel's inputs: of the data that its pointer arguments point to;
    for a library call, of its nodes' results, which have the type of the factors.
    """
    if kernel.artifact:
        code = reader.text(reader.get(model.Artifact, kernel.artifact).text)
        types = [_kind_of_pointer(name) for name in _POINTERS.findall(code)]
    else:
        of_line = reader.nodes_of_line(kernel.output_code, kernel.first_line)
        nodes = reader.by_ids(model.Node, [row.node for row in of_line])
        types = [_KINDS.get(node.dtype, "") for node in nodes]
    return next(filter(None, types), "fp32")


def _kind_of_pointer(name: str) -> str:
    if name.startswith("fp8"):
        return "fp8"
    return _KINDS.get(name, "")


def instruction_mix(reader: SessionReader, build: KernelBuild) -> InstructionMix | None:
    """Count the instructions of the machine code, SASS or AMDGCN; None for a kernel that is not
    built.
    """
    for level in ("sass", "amdgcn", "ptx"):
        if text := text_of_level(reader, build, level):
            return mix(instructions(level, text))
    return None


def what_is_not_known(kernel: model.Kernel, rows: Iterable[KernelBuild]) -> list[str]:
    """Return the sentences beside the table, on facts that are not known."""
    rows = list(rows)
    if any(row.is_picked for row in rows):
        return []
    if kernel.language == "extern":
        of_library = [UNKNOWN_LIBRARY_KERNEL, *_of_library(kernel.name)]
        if len(rows) > 1:
            return [UNKNOWN_LIBRARY_PICK, *of_library]
        return of_library
    if len(rows) < 2:
        return []
    if not any(row.origin == "template" for row in rows):
        return [UNKNOWN_PICK]
    sentences = [UNKNOWN_PICK, UNKNOWN_TEMPLATE_OR_LIBRARY]
    if any(row.origin == "template" and row.name for row in rows):
        sentences.append(TEMPLATE_WITHOUT_FUSION)
    return sentences


def may_be_template(kernel: model.Kernel) -> bool:
    """Return whether Inductor has Triton templates for this library call."""
    return bool(_PRODUCT.search(kernel.name)) or kernel.name.endswith("convolution")


_PRODUCT = re.compile(r"\b(?:mm|addmm|bmm|baddbmm)\b")


def _of_library(name: str) -> list[str]:
    """Return sentences on the limits of what is known about a library call, by its name:
    ``extern_kernels.addmm``, ``torch.ops.aten._scaled_dot_product_flash_attention.default``.
    """
    if "scaled_dot_product" in name:
        return [ATTENTION_BY_OUR_RULES]
    return [UNKNOWN_PADDING] if _PRODUCT.search(name) else []


# The kernel to look below when nothing is selected.


NONE_YET = "No kernel was generated in this session yet, so there are no lower levels."
FOR_THE_CPU = (
    "This session has no Triton kernels: its code is for the CPU. Capture it with --gpu "
    "h100, for example."
)
ONLY_LIBRARIES = "This session has no Triton kernels: it only calls libraries."
NO_GPU = (
    "This session has no Triton kernels: it only calls libraries. Capture it with --gpu h100, for "
    "example."
)


def first_triton_kernel(reader: SessionReader, compilation: int) -> model.Kernel | None:
    """Return the first Triton kernel of ``compilation``, forward before backward; of any other
    compilation if it has none.
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
    return "No kernels: no compilation reached code generation."
