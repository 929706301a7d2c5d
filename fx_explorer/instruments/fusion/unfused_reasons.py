"""This module says in a sentence why Inductor did not fuse two kernels, and what would change that.

Reasons are Inductor's own (``WhyNoFuse`` in torch/_inductor/scheduler.py, choices.py and
codegen/simd.py); C++ gives none, and its checks are in codegen/cpp.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fx_explorer import model
from fx_explorer.model.rows.fusion import KEPT_APART


@dataclass(frozen=True, slots=True)
class Cause:
    """Why two kernels were not fused."""

    kind: str
    """In two words, for a column: ``other order``."""
    text: str
    """A sentence about "the first" and "the second"."""
    change: str = ""
    """A sentence about what would change it; empty where nothing that the user has would."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of torch's that would let Inductor fuse them, for a trial."""


ONE_BETWEEN = "one between"
"""Kind of the causes for which two kernels cannot be fused alone: a kernel between needs one of
them and is needed by the other.
"""

ANOTHER_KERNEL = "Another kernel"
"""Stands for the kernel between in the sentence, until its number is known."""

_SAME_ORDER = (
    "Make both access the tensor in the same order: no transpose, slice or shift between them, or "
    "the same memory layout on both sides."
)

_OTHER_ORDER = Cause(
    "other order",
    "The second reads the tensor in another order than the first writes it, or reads other parts.",
    _SAME_ORDER,
)

_READS_DIFFER = Cause(
    "other order",
    "Both read the same tensor, but in another order or other parts of it.",
    _SAME_ORDER,
)

_NOTHING_SHARED = Cause(
    "other order",
    "Inductor finds no memory that both access in the same order: they share none, or access it "
    "in another order or in other parts.",
)

_SIZES = Cause("sizes differ", "They loop over different sizes: {first} and {second}.")

_TEMPLATE = Cause(
    "template",
    "A template can be fused only with pointwise operations that read its result, or that make "
    "inputs only it reads: {own}",
)

_BY_REASON: tuple[tuple[str, Cause], ...] = (
    ("memory deps did not match", _OTHER_ORDER),
    (
        "intermediate nodes between",
        Cause(
            ONE_BETWEEN,
            f"{ANOTHER_KERNEL} runs between them: it needs the first, and the second needs it. So "
            "these two alone cannot become one kernel.",
        ),
    ),
    (
        "will create cycle",
        Cause(
            ONE_BETWEEN,
            "A fused kernel would depend on its own result.",
        ),
    ),
    (
        "Fusion will increase peak memory",
        Cause(
            "peak memory",
            "Inductor estimates that one kernel for both would hold more memory at a time: "
            "tensors of one could not reuse the memory of the other's.",
        ),
    ),
    (
        "Nodes are too far away",
        Cause(
            "far apart",
            "More than 64 operations lie between them. Inductor does not fuse them, because one "
            "kernel would keep tensors in memory for longer.",
        ),
    ),
    (
        "exceeds max fusion",
        Cause(
            "size limit",
            "One kernel for both would have more operations than "
            "torch._inductor.config.max_fusion_size allows.",
            "Set torch._inductor.config.max_fusion_size = 256.",
            {"inductor.max_fusion_size": 256},
        ),
    ),
    (
        "fusion_prevent_too_many_reads_and_writes",
        Cause(
            "buffer limit",
            "One kernel for both would read and write more tensors than "
            "torch._inductor.config.max_fusion_unique_io_buffers allows.",
            "Set torch._inductor.config.max_fusion_unique_io_buffers = None.",
            {"inductor.max_fusion_unique_io_buffers": None},
        ),
    ),
    (
        "score_fusion_memory_threshold",
        Cause(
            "shares little",
            "They share fewer bytes than torch._inductor.config.score_fusion_memory_threshold "
            "requires.",
            "Set torch._inductor.config.score_fusion_memory_threshold = 1.",
            {"inductor.score_fusion_memory_threshold": 1},
        ),
    ),
    ("device mismatch", Cause("devices differ", "They run on different devices: {own}")),
    ("numel/rnumel mismatch", _SIZES),
    ("nodes numel", _SIZES),
    (
        "tiling mismatch",
        Cause(
            "tiles differ",
            "They split their work into tiles along other dimensions.",
            "Set torch._inductor.config.triton.tiling_prevents_pointwise_fusion = False.",
            {"inductor.triton.tiling_prevents_pointwise_fusion": False},
        ),
    ),
    (
        "invalid tiling for reduction",
        Cause(
            "tiles differ",
            "The pointwise part is split into tiles that do not fit the reduction.",
            "Set torch._inductor.config.triton.tiling_prevents_reduction_fusion = False.",
            {"inductor.triton.tiling_prevents_reduction_fusion": False},
        ),
    ),
    (
        "Split scan",
        Cause("scan", "One is a scan over several blocks, which cannot be fused with a reduction."),
    ),
    ("template", _TEMPLATE),
    ("prologue fusion", _TEMPLATE),
    ("multi-output template", _TEMPLATE),
    (
        "fusion for buffer explicit disabled",
        Cause("kept apart", "Fusing is switched off for one of their tensors."),
    ),
    (
        KEPT_APART,
        Cause("as asked", "You asked for separate kernels."),
    ),
    (
        "grouped node",
        Cause("kept apart", "One belongs to a group whose order Inductor preserves."),
    ),
    ("foreach", Cause("foreach", "One is a foreach kernel over other tensors: {own}")),
)
"""Beginning of Inductor's words → what they mean."""

_ALLOWED = Cause(
    "allowed",
    "Inductor's checks allow fusing them. It fused others first, or timed both versions and one "
    "kernel was not faster.",
)

_USERS_KERNEL = Cause("own kernel", "One is your own Triton kernel, which is used unchanged.")

_LIBRARY = Cause(
    "library call",
    "{library} is a library call, which cannot be fused.",
)

_MULTIPLICATION = Cause(
    "library call",
    "{library} is a library call, which cannot be fused.",
    'On a GPU, mode="max-autotune" may use a Triton template instead, and fuse the following '
    "operations into it.",
)

_MULTIPLIES = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_mm", "_int_mm")

_RUNS_GRAPHS = Cause(
    "own graph",
    "One contains graphs (a conditional, a loop, a region), so it cannot be fused.",
)

_LOOPS = Cause("loops differ", "Their loops differ: {first} and {second}.")

_SPLIT = Cause(
    "split reduction",
    "Both compute the same operation: Inductor splits a reduction in two, so that its first part "
    "runs in parallel.",
)

_OF_LOOPS = ("no shared data", "numel/rnumel mismatch (reduce)", "nodes numel")
"""Beginnings of the reasons that the parts of a split reduction are apart for."""

_INNER_LOOPS = Cause(
    "inner loops",
    "They share their outer loops, but each has its own inner loops: {why}",
)

_REDUCTION_FIRST = Cause(
    "reduction first",
    "The first reduces over a dimension that the second loops over: its result is complete only "
    "after the loop.",
)

_WIDTH = Cause(
    "size limit",
    "Fused, they have more operations than torch._inductor.config.cpp.max_horizontal_fusion_size "
    "allows.",
    "Set torch._inductor.config.cpp.max_horizontal_fusion_size = 64.",
    {"inductor.cpp.max_horizontal_fusion_size": 64},
)


_SIZE = re.compile(r"[^\s(),]+")


def cause_of(
    pair: model.UnfusedPair, first: model.Kernel, second: model.Kernel, *, is_split: bool
) -> Cause:
    """Return why two kernels were not fused. ``is_split``: both compute the same node."""
    if is_split and pair.is_dependent and pair.reason.startswith(_OF_LOOPS):
        cause = _SPLIT
    else:
        cause = _cause(pair, first, second)
    library = next((kernel.name for kernel in (first, second) if kernel.language == "extern"), "")
    why = ""
    if pair.state == "outer loop":
        cause, why = _INNER_LOOPS, _without_reason(pair).text.replace("Their loops", "these")
        why = why.format(first=pair.first_loops, second=pair.second_loops)
        why = why[0].lower() + why[1:]
    text = cause.text.format(
        why=why,
        first=pair.first_loops or "a whole tensor",
        second=pair.second_loops or "a whole tensor",
        own=f"“{pair.reason}”.",
        check=pair.check,
        library=library,
    )
    return Cause(cause.kind, text, cause.change, cause.settings)


def cause_of_words(words: str) -> Cause:
    """Return why two nodes were not fused, by Inductor's words alone, as a log has them."""
    if words.startswith("no shared data"):
        cause = _NOTHING_SHARED
    else:
        of_reason = [cause for beginning, cause in _BY_REASON if words.startswith(beginning)]
        cause = of_reason[0] if of_reason else Cause("other", "Inductor says: {own}")
    text = cause.text.format(own=f"“{words}”.", first="those of the first", second="of the second")
    return Cause(cause.kind, text, cause.change, cause.settings)


def _cause(pair: model.UnfusedPair, first: model.Kernel, second: model.Kernel) -> Cause:
    if pair.state == "allowed":
        return _ALLOWED
    libraries = [kernel.name for kernel in (first, second) if kernel.language == "extern"]
    if pair.state == "not asked" or pair.reason.startswith("node1 is"):
        if first.runs or second.runs:
            return _RUNS_GRAPHS
        if not libraries:
            return _USERS_KERNEL
        if any(name.rpartition(".")[2] in _MULTIPLIES for name in libraries):
            return _MULTIPLICATION
        return _LIBRARY
    if pair.reason.startswith("no shared data"):
        return _OTHER_ORDER if pair.is_dependent else _READS_DIFFER
    for beginning, cause in _BY_REASON:
        if pair.reason.startswith(beginning):
            return cause
    if pair.reason:
        return Cause("other", "Inductor says: {own}")
    return _without_reason(pair)


def _without_reason(pair: model.UnfusedPair) -> Cause:
    """Return the cause of a pair that a backend refused without a word."""
    if pair.check == "cpp.max_horizontal_fusion_size":
        return _WIDTH
    if not pair.check.startswith("CppScheduling"):
        return Cause("no reason", "Inductor gives no reason ({check}).")
    if _numbers(pair.first_loops) == _numbers(pair.second_loops):
        return _REDUCTION_FIRST
    return _LOOPS


def _numbers(loops: str) -> list[str]:
    """Return the sizes of loops, those of a reduction behind the others: ``(96,), (80,)`` and
    ``(96, 80), ()`` have the same.
    """
    return _SIZE.findall(loops)
