"""The candidates of a matrix multiplication, convolution or attention that Inductor timed on a real
GPU, each with its time.

Hooks: ``preprocessing_fns`` and ``feedback_saver_fns`` of ``AlgorithmSelectorCache``
(torch/_inductor/select_algorithm.py). Both only look. The first is called while a node is lowered,
the second with the times: perhaps much later, when it is decided what is fused into the one that is
taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.autotuning.template_choices import keep_timed
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.algorithm_selector import told_by_selector


class _Lowered:
    """Which node each candidate is for. It keeps the candidates alive until the recording ends:
    they are told apart by id.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._known: dict[int, tuple[Any, Any, str]] = {}

    def remember(self, candidates: list[Any]) -> list[Any]:
        from torch._inductor.virtualized import V

        with self._recording.noting("the candidates of an operation", "kernel"):
            node = V.current_node
            if isinstance(node, torch.fx.Node):
                self._known.update({id(one): (one, V.graph, node.name) for one in candidates})
        return candidates

    def timed(self, timings_ms: dict[Any, float], *_: object) -> None:
        """Keep the times of one operation's candidates, in milliseconds; a candidate that failed
        has an infinite time.
        """
        with self._recording.noting("what the autotuner timed", "kernel"):
            found = next(
                (self._known[id(one)] for one in timings_ms if id(one) in self._known), None
            )
            if found:
                keep_timed(found[1], found[2], timings_ms)


@contextlib.contextmanager
def choices_hook(recording: Recording) -> Iterator[None]:
    """Note the candidates that are timed inside the block. A virtual GPU has no times, and on a CPU
    without one nothing is tuned that we show.
    """
    if recording.request.gpu or not (torch.version.cuda or torch.version.hip):
        yield
        return
    with noting_choices(recording):
        yield


def noting_choices(recording: Recording) -> contextlib.AbstractContextManager[None]:
    lowered = _Lowered(recording)
    return told_by_selector(candidates=lowered.remember, times=lowered.timed)
