"""Inductor's selector of algorithms (``AlgorithmSelectorCache``,
torch/_inductor/select_algorithm.py) times the candidates for an operation: this module watches it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched


@contextlib.contextmanager
def watching_selector(
    *,
    candidates: Callable[[list[Any]], list[Any]] | None = None,
    times: Callable[..., None] | None = None,
) -> Iterator[None]:
    """Call these functions of ours, inside the block, when the selector chooses. ``candidates`` is
    given the candidates for an operation and returns those to be timed, ``times`` is given their
    times. Raises AttributeError in a release without the selector.

    There is one selector for the process. Making it takes 0.4 s on a GPU, because Triton then
    hashes itself, and is left to whoever has something to choose from.
    """
    from torch._inductor import select_algorithm

    selectors: list[Any] = []

    def added_to(selector: Any) -> list[tuple[list[Any], Any]]:
        """Return our functions, each with the list of the selector's that it belongs to."""
        lists = (selector.preprocessing_fns, candidates), (selector.feedback_saver_fns, times)
        return [(functions, ours) for functions, ours in lists if ours is not None]

    def make(original: Callable[[], Any]) -> Callable[[], Any]:
        def get_algorithm_selector_cache() -> Any:
            selector = original()
            for functions, ours in added_to(selector):
                if ours not in functions:
                    functions.append(ours)
            if not any(selector is known for known in selectors):
                selectors.append(selector)
            return selector

        return get_algorithm_selector_cache

    with patched(select_algorithm, "get_algorithm_selector_cache", make):
        try:
            yield
        finally:
            for selector in selectors:
                for functions, ours in added_to(selector):
                    if ours in functions:  # the program may have cleared them
                        functions.remove(ours)
