"""These tests check that torch's reasons for skipping CUDA graphs are recorded wherever torch gives
them, and that torch still prints them.
"""

from __future__ import annotations

import sys

import torch._inductor.compile_fx
import torch._inductor.cudagraph_trees  # noqa: F401 - one of the modules that say so
from torch._dynamo.utils import counters

from fx_explorer.capture.inductor.cuda_graphs import NAME, hearing_skips


def places() -> list[object]:
    found = (
        module for name, module in list(sys.modules.items()) if name.startswith("torch._inductor")
    )
    return [vars(module)[NAME] for module in found if NAME in vars(module)]


def test_every_module_of_torch_that_skips_is_heard_and_left_as_it_was() -> None:
    before = places()
    assert len(before) > 1
    heard: list[str] = []
    counters["inductor"]["cudagraph_skips"] = 0
    with hearing_skips(heard.append):
        for number, skip in enumerate(places()):
            assert callable(skip)
            skip(f"skipping cudagraphs, reason {number}")
    assert heard == [f"skipping cudagraphs, reason {number}" for number in range(len(before))]
    assert counters["inductor"]["cudagraph_skips"] == len(before)
    assert places() == before
