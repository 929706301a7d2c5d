"""A pair of kernels for two GPUs: the estimated time of each, and what every configuration uses of
its GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.instruments.diff.kernel_pairs import KernelPair
from fx_explorer.instruments.kernels.candidates import Candidate, candidates, estimate
from fx_explorer.instruments.kernels.roofline import bound_in_words, microseconds
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class ConfigurationPair:
    """One set of options. A side is None where the autotuner would not try them."""

    options: dict[str, object]
    left: Candidate | None
    right: Candidate | None

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


def estimated(reader: SessionReader, kernel: model.Kernel | None) -> str:
    """Return ``3.8 µs, bound by memory``; empty for a missing kernel, or one of which nothing is
    known.
    """
    gpu = session_gpu(reader)
    if kernel is None or gpu is None:
        return ""
    roofline = estimate(reader, kernel, gpu)
    if roofline.bound == "unknown":
        return ""
    return f"{microseconds(roofline.estimated_s)}, {bound_in_words(roofline)}"


def configuration_pairs(
    left: SessionReader, right: SessionReader, pair: KernelPair
) -> list[ConfigurationPair]:
    """Pair the configurations that were built: those of both sides and those of one, in the order
    of the first.
    """
    sides = [
        _by_options(reader, use.kernel) if use else {}
        for reader, use in ((left, pair.left), (right, pair.right))
    ]
    every = dict.fromkeys([*sides[0], *sides[1]])
    return [ConfigurationPair(dict(key), sides[0].get(key), sides[1].get(key)) for key in every]


def _by_options(
    reader: SessionReader, kernel: model.Kernel
) -> dict[tuple[tuple[str, object], ...], Candidate]:
    gpu = session_gpu(reader)
    found = candidates(reader, kernel, gpu) if gpu else []
    return {
        tuple(candidate.build.options.items()): candidate
        for candidate in found
        if candidate.build.state == "failed" or candidate.build.has_resources
    }


def resources_in_words(candidate: Candidate | None) -> str:
    """Return ``27 registers, 100 % occupied``, with spills and shared memory where there are
    any.
    """
    if candidate is None:
        return "not tried"
    build = candidate.build
    if build.error:
        return "cannot be built"
    said = [f"{build.registers} registers" if build.registers >= 0 else "registers not known"]
    said += [f"{build.spill_bytes} B spilled"] if build.spill_bytes > 0 else []
    said += [f"{build.shared_bytes:,} B shared"] if build.shared_bytes > 0 else []
    said += [f"{candidate.occupancy.share:.0%} occupied"] if candidate.occupancy else []
    return ", ".join(said)
