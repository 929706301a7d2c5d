"""Inductor's selector of algorithms (``AlgorithmSelectorCache``,
torch/_inductor/select_algorithm.py), which times the candidates for an operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched


@contextlib.contextmanager
def told_by_selector(
    *,
    candidates: Callable[[list[Any]], list[Any]] | None = None,
    times: Callable[..., None] | None = None,
) -> Iterator[None]:
    """Let the selector tell what it does inside the block. ``candidates`` is given the candidates
    for an operation and returns those to be timed, ``times`` is given their times. Raises
    AttributeError in a release without the selector.

    There is one selector for the process. Making it takes 0.4 s on a GPU, because Triton then
    hashes itself, and is left to whoever has something to choose from.
    """
    from torch._inductor import select_algorithm

    selectors: list[Any] = []

    def added_to(selector: Any) -> list[tuple[list[Any], Any]]:
        lists = (selector.preprocessing_fns, candidates), (selector.feedback_saver_fns, times)
        return [(functions, own) for functions, own in lists if own is not None]

    def make(original: Callable[[], Any]) -> Callable[[], Any]:
        def get_algorithm_selector_cache() -> Any:
            selector = original()
            for functions, own in added_to(selector):
                if own not in functions:
                    functions.append(own)
            if not any(selector is one for one in selectors):
                selectors.append(selector)
            return selector

        return get_algorithm_selector_cache

    with patched(select_algorithm, "get_algorithm_selector_cache", make):
        try:
            yield
        finally:
            for functions, own in (added for selector in selectors for added in added_to(selector)):
                if own in functions:  # the program may have cleared them
                    functions.remove(own)
