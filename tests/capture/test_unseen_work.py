"""These tests check that graphs that torch makes only to throw away are left out, and nothing else
changes.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import nn
from torch._inductor import output_code
from torch._inductor.graph import GraphLowering
from torch._logging._internal import trace_log

from benchmarks.compare_code import without_comments
from fx_explorer.capture.inspecting import inspecting
from tests.capture.lowering import fresh_compiler, unseen_work
from tests.exhaustive import with_others


def test_graphs_are_still_printed_for_the_user() -> None:
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    with unseen_work():
        assert "relu" in module.print_readable(print_output=False).lower()


def test_a_trace_of_the_users_still_has_the_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", heard.append)

    def texts_of_joint_graphs() -> list[str]:
        heard.clear()
        with fresh_compiler(), unseen_work(), inspecting():
            torch.compile(lambda x: x.sin().sum())(torch.ones(3, requires_grad=True))
        return [record.payload for record in heard if "aot_joint_graph" in record.metadata]

    assert not texts_of_joint_graphs()
    monkeypatch.setattr(trace_log, "propagate", False)
    trace_log.addHandler(handler)
    try:
        (joint,) = texts_of_joint_graphs()
    finally:
        trace_log.removeHandler(handler)
    assert "torch.ops.aten.sin.default" in joint


@pytest.mark.parametrize("is_cached", [False, True])
def test_graphs_are_printed_for_entries_of_a_cache(
    is_cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    original = output_code.CompiledFxGraph.__init__

    def noted(entry: Any, *args: Any, **kwargs: Any) -> None:
        original(entry, *args, **kwargs)
        kept.append(entry)

    monkeypatch.setattr(output_code.CompiledFxGraph, "__init__", noted)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(vars(trace_log), "handlers", [])  # torch's own leaves with the first record
    with (
        fresh_compiler(),
        inspecting(),
        unseen_work(),
        torch._inductor.config.patch(fx_graph_cache=is_cached),
    ):
        torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    (entry,) = kept
    assert ("sin" in entry.inductor_post_grad_graph_str) == is_cached
    assert "class Repro" in entry.runnable_graph_str


@pytest.mark.parametrize("dynamic", with_others([True], [False]))
def test_leaving_work_out_changes_nothing_of_what_is_generated(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))

    def generated(around: contextlib.AbstractContextManager[None]) -> list[str]:
        codes: list[str] = []
        monkeypatch.setattr(GraphLowering, "save_output_code", staticmethod(codes.append))
        with fresh_compiler(), around, inspecting():
            torch.compile(lambda x: model(x).softmax(-1).square().sum(), dynamic=dynamic)(
                torch.randn(5, 8)
            ).backward()
        return [without_comments(code) for code in codes]  # these count the graphs of the process

    bare = generated(contextlib.nullcontext())
    assert len(bare) == 2
    assert any("s77" in code or "s0" in code for code in bare) == dynamic
    assert generated(unseen_work()) == bare
