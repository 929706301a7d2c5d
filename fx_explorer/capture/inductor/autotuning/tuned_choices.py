"""The candidates of a matrix multiplication, convolution or attention that Inductor timed on a real
GPU, each with its time.

Hooks: ``preprocessing_fns`` and ``feedback_saver_fns`` of ``AlgorithmSelectorCache``
(torch/_inductor/select_algorithm.py). Both only look. The first is called while a node is lowered,
the second with the times: perhaps much later, when it is decided what is fused into the one that is
taken.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.autotuning.template_choices import keep_timed
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import require


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
            found = next((self._known[id(one)] for one in timings_ms if id(one) in self._known), None)
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


@contextlib.contextmanager
def noting_choices(recording: Recording) -> Iterator[None]:
    """Hear of candidates and times inside the block, from when there is something to choose from. To make what tells
    takes 0.4 s on a GPU, in which Triton hashes itself.
    """
    module = "torch._inductor.select_algorithm"
    for name in ("add_preprocessing_fn", "add_feedback_saver", "get_algorithm_selector_cache"):
        require(module, name)
    lowered = _Lowered(recording)
    heard: list[Any] = []

    def told_by(selector: Any) -> list[tuple[list[Any], Any]]:
        return [(selector.preprocessing_fns, lowered.remember), (selector.feedback_saver_fns, lowered.timed)]

    def make(original: Callable[[], Any]) -> Callable[[], Any]:
        def get_algorithm_selector_cache() -> Any:
            selector = original()
            for functions, own in told_by(selector):
                if own not in functions:
                    functions.append(own)
            if not any(selector is one for one in heard):
                heard.append(selector)
            return selector

        return get_algorithm_selector_cache

    with patched(importlib.import_module(module), "get_algorithm_selector_cache", make):
        try:
            yield
        finally:
            for functions, own in (pair for selector in heard for pair in told_by(selector)):
                if own in functions:  # the program may have cleared them
                    functions.remove(own)
