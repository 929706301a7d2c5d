"""Kernels that take much of the GPU's time in a profile, and reach a small part of what the GPU can
do: neither its memory bandwidth nor its arithmetic is what they wait for.

Only kernels whose work is known are judged: generated ones, with the bytes that they read and
write, and library calls whose operations torch counts. What sizes vary for is left out, since
bytes are counted for one size.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_kernel, place_of_path
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share, counted
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.kernels.candidates import kind_of_inputs
from fx_explorer.instruments.kernels.roofline_picture import Roof, describe_rate, roof
from fx_explorer.instruments.profile.figures import KernelShare, ProfileFigures, profile_figures
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.kernels import kernel_nodes

LARGE_SHARE = 0.2
"""Smallest share of the GPU's work at which a kernel is judged."""

LEAST_OF_SPAN = 0.1
"""Smallest share of the profile's time at which a kernel is judged: where the GPU mostly waits, a
faster kernel changes little.
"""

SMALL_PART = 0.3
"""Largest part of the bandwidth, and of the peak of arithmetic, that counts as far below."""

LEAST_RUN_S = 30e-6
"""Shortest run that is judged. A kernel that takes a few microseconds is as long as its launch."""

LONG_OPERATORS = (
    "exp", "log", "pow", "sqrt", "sin", "cos", "tan", "erf", "sigmoid", "gamma", "bessel", "rand",
    "div", "remainder", "fmod", "bernoulli", "dropout",
)  # fmt: skip
"""Parts of names of operators that take many instructions for an element."""

LONG, SHORT = 40, 4
"""Instructions for an element of one of these, and of any other operator: with room, so that a
kernel that computes much for each byte is not taken for one that computes nothing.
"""

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp64": 8, "fp8": 1, "int8": 1}
"""Kind of numbers → size of one; 4 for the others."""

_HINTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        (
            "scatter_add", "index_put", "scatter_reduce", "embedding_dense_backward", "index_add",
        ),
        "It adds with atomic operations, at places given by an index: additions to the same place "
        "happen one after the other.",
        "Add up before writing: with few places, use a sum over a mask of each, or a matrix "
        "product with a one-hot matrix; otherwise sort by index first.",
    ),
    (
        ("index", "gather"),
        "It reads at places given by an index, and uses only a few bytes of each piece of memory "
        "that is fetched.",
        ("If the order is free, sort the indices; or store values that are read together next to "
        "each other."),
    ),
    (
        ("cumsum", "cumprod", "scan"),
        "Each result depends on the previous one.",
        "Compute along the dimension that is contiguous, over more rows at once.",
    ),
)  # fmt: skip
"""Parts of names of operators, then why kernels with them are slow, and what to do. The first whose
operators are in a kernel counts.
"""


def find_slow_kernels(reader: SessionReader) -> Iterator[Finding]:
    """Yield kernels that take a large part of the profile and are far below the GPU's limits."""
    figures = profile_figures(reader)
    limits = roof(reader)
    if figures is None or limits is None or not figures.profile.is_of_gpu:
        return
    for share in figures.kernels:
        if share.time.seconds < LARGE_SHARE * figures.profile.work_s:
            return  # the most expensive come first
        if _is_judged(reader, figures, share) and _is_far_below(reader, limits, share):
            yield _slow(reader, figures, limits, share)


def _is_judged(reader: SessionReader, figures: ProfileFigures, share: KernelShare) -> bool:
    kernel, time = share.cost.use.kernel, share.time
    if time.is_similar or time.seconds < LEAST_OF_SPAN * figures.profile.span_s:
        return False
    if time.runs <= 0 or time.seconds / time.runs < LEAST_RUN_S or kernel.estimated_bytes <= 0:
        return False
    if reader.count(model.Symbol, compilation=kernel.compilation):
        return False
    if kernel.estimated_flops > 0:
        return True
    is_template = kernel.name.startswith(TEMPLATE)
    return kernel.language == "triton" and not is_template and not _reads_rows(reader, kernel)


TEMPLATE = "triton_tem_"
"""Beginning of the name of a kernel from one of Inductor's templates. They multiply matrices, which
torch counts for mm and not for flex_attention.
"""


def _reads_rows(reader: SessionReader, kernel: model.Kernel) -> bool:
    """Return whether a kernel looks up rows of an embedding. It may read each many times, and torch
    counts the bytes of the table once.
    """
    nodes = reader.by_ids(model.Node, kernel_nodes(reader).get(kernel.id, ()))
    targets = [node.target for node in nodes]
    return any("embedding" in target and "backward" not in target for target in targets)


def _is_far_below(reader: SessionReader, limits: Roof, share: KernelShare) -> bool:
    """Return whether a kernel takes far longer than its bytes and its operations explain."""
    kernel = share.cost.use.kernel
    run_s = share.time.seconds / share.time.runs
    kind = kind_of_inputs(reader, kernel)
    peak = limits.flops_per_s.get(kind, 0.0)
    if peak <= 0:
        return False
    operations = float(kernel.estimated_flops)
    if kernel.estimated_flops <= 0:
        # torch counts those of products and convolutions only. The others are computed in float32.
        peak = limits.flops_per_s.get("fp32", peak)
        elements = kernel.estimated_bytes / ELEMENT_BYTES.get(kind, 4)
        operations = elements * _instructions(reader, kernel)
    explained_s = max(kernel.estimated_bytes / limits.bytes_per_s, operations / peak)
    return explained_s <= SMALL_PART * run_s


def _instructions(reader: SessionReader, kernel: model.Kernel) -> int:
    """Return about how many instructions a kernel takes for an element."""
    count = 0
    for node in reader.by_ids(model.Node, kernel_nodes(reader).get(kernel.id, ())):
        is_long = any(part in node.target for part in LONG_OPERATORS)
        count += LONG if is_long else SHORT
    return count


def _slow(
    reader: SessionReader, figures: ProfileFigures, limits: Roof, share: KernelShare
) -> Finding:
    kernel, time = share.cost.use.kernel, share.time
    run_s = time.seconds / time.runs
    rate = kernel.estimated_bytes / run_s
    why, what = _hint(reader, kernel)
    evidence = [
        f"{counted(time.runs, 'run')} of {run_time(run_s)} each; it reads and writes "
        f"{describe_rate(float(kernel.estimated_bytes))}B a run.",
    ]
    if kernel.estimated_flops > 0:
        kind = kind_of_inputs(reader, kernel)
        flops = kernel.estimated_flops / run_s
        evidence.append(
            f"It computes {describe_rate(flops)}FLOP/s, "
            f"{careful_share(flops, limits.flops_per_s[kind])} of the peak of {kind}."
        )
    evidence.append(f"{limits.title} ({limits.origin}): {describe_rate(limits.bytes_per_s)}B/s.")
    return Finding(
        kind="slow kernel",
        text=(
            f"{kernel.name}{_where(share)} takes "
            f"{careful_share(time.seconds, figures.profile.work_s)} of the GPU's time and moves "
            f"{describe_rate(rate)}B/s: {careful_share(rate, limits.bytes_per_s)} of the GPU's "
            "memory bandwidth."
        ),
        urgency="slow",
        topic="kernels",
        place=_place(reader, share),
        view="roofline",
        evidence=tuple(evidence),
        explanation=why,
        remedies=what,
        cost=f"{run_time(time.seconds)} in the profile",
        cost_s=time.seconds,
    )


def _where(share: KernelShare) -> str:
    if share.cost.lines:
        return f" ({in_file(*share.cost.lines[0])})"
    return f" (module {share.cost.module_label})" if share.cost.module_label else ""


def _place(reader: SessionReader, share: KernelShare) -> Place | None:
    if share.cost.lines:
        return place_of_path(reader, *share.cost.lines[0])
    return place_of_kernel(reader, share.cost.use.kernel)


def _hint(reader: SessionReader, kernel: model.Kernel) -> tuple[str, tuple[Remedy, ...]]:
    """Return why a kernel may be slow, and what to do, as far as its operators show."""
    nodes = reader.by_ids(model.Node, kernel_nodes(reader).get(kernel.id, ()))
    targets = " ".join(node.target for node in nodes)
    for parts, why, what in _HINTS:
        if any(part in targets for part in parts):
            return why, (Remedy(what),)
    return (
        "Its bytes and operations explain a small part of its time. The usual causes: too few "
        "programs for the GPU, reads with large strides, or many registers.",
        (
            Remedy(
                'Let Inductor measure other configurations: torch.compile(…, mode="max-autotune").'
            ),
        ),
    )
