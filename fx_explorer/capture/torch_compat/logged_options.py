"""The options of Dynamo that torch writes into the metrics of each compilation.

Hook: ``_get_dynamo_config_for_logging`` (torch/_dynamo/utils.py). It sorts every option that is a
set and turns all of them into JSON. torch 2.11 does so with ``ignore_logging_functions``, whose
members are functions: the metrics of every compilation were lost, and with them how it ended.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch._dynamo.config
import torch._dynamo.utils

from fx_explorer.capture.torch_compat.patching import patched

_LOGGED = "_get_dynamo_config_for_logging"


@contextlib.contextmanager
def logged_as(values: Mapping[str, object]) -> Iterator[None]:
    """Have torch log these values of options inside the block, whatever values are in force: those of
    a run that nobody records.
    """
    if not hasattr(torch._dynamo.utils, _LOGGED):
        yield
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def options_for_the_log(*args: Any, **kwargs: Any) -> Any:
            with torch._dynamo.config.patch(dict(values)):
                return original(*args, **kwargs)

        return options_for_the_log

    with patched(torch._dynamo.utils, _LOGGED, make):
        yield
