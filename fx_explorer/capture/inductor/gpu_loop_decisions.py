"""This module records how Inductor loops over the elements of a kernel on a GPU, and why: whether a
reduction is split, and the tiles of a Triton kernel.

Whether a reduction is split is decided in ``Reduction.num_splits`` (torch/_inductor/ir.py), with
``reduction_split_factor`` (torch/_inductor/choices.py). A Triton kernel holds what was decided
about its tiles (torch/_inductor/codegen/simd.py).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.decisions import Decision, add, hint, node_here
from fx_explorer.capture.inductor.kernel_text import buffers
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    DeviceProperties,
    inductor_config,
    inductor_ir,
)


class _Reductions(threading.local):
    split: tuple[str, int] = ("", 0)
    """The node of the last reduction that was split, and the number of elements of its first part:
    Inductor asks about that part once more.
    """


_reductions = _Reductions()


@contextlib.contextmanager
def reduction_hook(recording: Recording) -> Iterator[None]:
    """Note why reductions are split or not, for as long as the block lasts."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def num_splits(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            with recording.noting("why a reduction is split", "schedule"):
                _add_reduction(answer, *args, **kwargs)
            return answer

        return num_splits

    with patched(inductor_ir.Reduction, "num_splits", make):
        yield


def _add_reduction(
    answer: tuple[Any, Any],
    device: torch.device,
    dst_dtype: object = None,
    src_dtype: object = None,
    inner_fn: object = None,
    ranges: Iterable[Any] = (),
    reduction_ranges: object = None,
    reduction_type: str = "",
    reduction_numel: Any = 1,
    input_node: object = None,
) -> None:
    # C++ splits its loops among threads, which is decided when they are written.
    if device.type == "cpu":
        return
    node = node_here()
    outputs = 1
    for size in ranges:
        outputs *= hint(size)
    elements = hint(reduction_numel)
    if _reductions.split == (node, outputs):
        return
    order, splits = answer
    splits = hint(splits) if not isinstance(splits, int) else splits
    numbers = {"outputs": outputs, "elements": elements, "splits": splits}
    processors = DeviceProperties.create(device).multi_processor_count
    if processors:
        numbers["processors"] = processors
    outcome = "not split"
    if splits > 1:
        outcome = "split"
        _reductions.split = node, outputs * splits
    elif splits < 0:
        outcome = "split as its input"
    texts = {"reduction": str(reduction_type), "order": order.name}
    texts["may_split"] = str(inductor_config.split_reductions)
    add(Decision("reduction", outcome, node=node, numbers=numbers, texts=texts))


# Triton kernels.


def triton_decisions(kernel: Any, node_schedule: Iterable[Any]) -> Iterator[Decision]:
    """Yield what was decided about the loops of a Triton kernel that was just written."""
    features = getattr(kernel, "features", None)
    tiling = getattr(kernel, "numels", None)
    if features is None or not isinstance(tiling, dict):
        return
    written = frozenset(buffers(node_schedule))
    sizes = {name.rstrip("_"): hint(size) for name, size in tiling.items()}
    if features.is_reduction():
        yield _loop_of_reduction(kernel, features, written)
    parallel = {name: size for name, size in sizes.items() if not name.startswith("r")}
    if len(parallel) > 1:
        yield _tiles(kernel, features, parallel, written)


def _loop_of_reduction(kernel: Any, features: Any, written: frozenset[str]) -> Decision:
    outcome = "loop"
    if kernel.cooperative_reduction:
        outcome = "cooperative"
    elif kernel.persistent_reduction:
        outcome = "persistent"
    numbers = {"outputs": hint(features.numel), "elements": hint(features.reduction_numel)}
    texts = {
        "order": features.get_reduction_hint().name,
        "may_be_persistent": str(inductor_config.triton.persistent_reductions),
    }
    return Decision("reduction", outcome, buffers=written, numbers=numbers, texts=texts)


_DIMENSIONS = {2: "two dimensions", 3: "three dimensions"}


def _tiles(kernel: Any, features: Any, sizes: dict[str, int], written: frozenset[str]) -> Decision:
    numbers = dict(sizes)
    scores = getattr(kernel, "tiling_scores", None) or {}
    for name, score in scores.items():
        numbers[f"score_{name.rstrip('_')}"] = hint(score)
    analysis = getattr(features, "coalesce_analysis", None)
    if analysis is not None:
        numbers["not_in_order"] = sum(hint(n) for n in analysis.uncoalesced_addrs.values())
    outcome = _DIMENSIONS.get(len(sizes), "several dimensions")
    return Decision("tiles", outcome, buffers=written, numbers=numbers)
