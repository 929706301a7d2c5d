"""Kernels that were built, in the JSON report: every configuration with its resources, and the
estimate.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.kernels.candidates import Candidate, builds, candidates, estimate
from fx_explorer.analysis.kernels.card import card
from fx_explorer.analysis.kernels.launched import real_builds, real_candidates
from fx_explorer.analysis.kernels.occupancy import Occupancy
from fx_explorer.model import Gpu
from fx_explorer.model.rows.kernels.kernel_build import NOT_KNOWN
from fx_explorer.session import SessionReader

Json = dict[str, object]


def kernel_configs(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None) -> list[Json]:
    """Return the configurations of a kernel: for a virtual GPU those that somebody has asked for,
    else those that a real one built and ran.
    """
    rows = (
        candidates(reader, kernel, gpu)
        if gpu and kernel.language == "triton"
        else real_candidates(reader, kernel)
    )
    # No pick at all: nothing was timed, and "not picked" would be wrong of every row.
    is_known = any(one.build.is_picked for one in rows)
    return [_config(one, is_known) for one in rows if one.build.state != "candidate"]


def kernel_launches(reader: SessionReader, kernel: model.Kernel) -> list[Json]:
    """Return the launches of a kernel on a real GPU: one row per size of its arguments."""
    rows = reader.rows(model.KernelLaunch, kernel=kernel.id)
    return [
        {"count": row.count, "grid": list(row.grid), "arguments": list(row.arguments)}
        for row in rows
    ]


def _config(one: Candidate, is_pick_known: bool) -> Json:
    """Return one configuration; null stands for what is not known."""
    build = one.build
    return {
        "config": build.position,
        "origin": build.origin,
        "options": build.options,
        "gpu": build.gpu,
        "toolchain": build.toolchain or None,
        "threads": _known(build.threads),
        "registers": _known(build.registers),
        "spills": _known(build.spill_bytes),
        "shared_bytes": _known(build.shared_bytes),
        "ptx_lines": one.ptx_lines or None,
        "occupancy": _occupancy(one.occupancy) if one.occupancy else None,
        "picked": build.is_picked if is_pick_known else None,
        "autotuner_s": build.timing_s or None,
        "error": build.error or None,
    }


def _known(number: int) -> int | None:
    return None if number == NOT_KNOWN else number


def _occupancy(found: Occupancy) -> Json:
    return {
        "share": round(found.share, 4),
        "blocks": found.blocks,
        "warps": found.warps,
        "limited_by": list(found.limited_by),
    }


def kernel_estimate(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None) -> Json | None:
    """Return the estimate for a GPU; ``gpu`` is the virtual one. It is None where too little is
    known of the GPU, and where Inductor estimated no bytes.
    """
    of = gpu or card(reader)
    if of is None or kernel.estimated_bytes < 0:
        return None
    rows = builds(reader, kernel, gpu) if gpu else real_builds(reader, kernel)
    # The configuration that runs, where the autotuner has picked one.
    built = sorted((row for row in rows if row.state == "built"), key=lambda row: not row.is_picked)
    found = estimate(reader, kernel, of, built[0] if built else None)
    if not found.estimated_s:
        return None
    return {
        "bytes": kernel.estimated_bytes,
        "flops": _known(kernel.estimated_flops),
        "kind": found.kind,
        "bound": None if found.bound == "unknown" else found.bound,
        "memory_s": found.memory_s,
        "arithmetic_s": found.arithmetic_s,
        "seconds": found.estimated_s,
    }
