"""Why torch does not run a graph as a CUDA graph. There is no structured record of it.

Hook: ``log_cudagraph_skip_and_bump_counter`` (torch/_inductor/cudagraph_utils.py), which every
place that skips CUDA graphs calls; read in 2.11 and 2.13.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched

NAME = "log_cudagraph_skip_and_bump_counter"


@contextlib.contextmanager
def hearing_skips(hear: Callable[[str], object]) -> Iterator[None]:
    """Tell ``hear`` the reason of each skip, in torch's words, with the line that torch found."""

    def telling(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def skip(message: str) -> Any:
            hear(message)
            return original(message)

        return skip

    with contextlib.ExitStack() as stack:
        # Modules that took the function by its name call their own.
        for name, module in list(sys.modules.items()):
            if name.startswith("torch._inductor") and NAME in vars(module):
                stack.enter_context(patched(module, NAME, telling))
        yield
