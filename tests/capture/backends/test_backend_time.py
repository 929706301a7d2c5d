"""These tests compare the compile time attributed to a backend with the backend's own clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record

WORK_S = 0.3


def busy() -> None:
    """Work for a while, by the clock that the claim is about."""
    until = time.perf_counter() + WORK_S
    while time.perf_counter() < until:
        pass


def recorded(path: Path, backend: Callable[..., Any]) -> SessionReader:
    weight = torch.randn(4, 4, requires_grad=True)

    def program(compile: object) -> None:
        torch.compile(lambda x: (x @ weight).relu(), backend=backend)(
            torch.randn(4, 4)
        ).sum().backward()

    return record(path / "s.fxs", program)


def test_time_within_a_backend_of_dynamos_graphs_is_the_backends(tmp_path: Path) -> None:
    def slow(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        busy()
        return module.forward

    with recorded(tmp_path, slow) as reader:
        spent = stage_times(reader).by_stage
        assert not failures(reader)
    assert spent["backend"] >= WORK_S
    assert spent.get("pre_grad", 0.0) < WORK_S


def test_time_within_the_compilers_of_aotautograd_is_the_backends(tmp_path: Path) -> None:
    def compile_graph(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        busy()
        return module.forward

    with recorded(
        tmp_path, aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph)
    ) as reader:
        spent = stage_times(reader).by_stage
        assert not failures(reader)
    assert spent["backend"] >= 2 * WORK_S  # forward and backward


def test_inductor_has_no_time_of_a_backend(tmp_path: Path) -> None:
    with recorded(tmp_path, torch._dynamo.lookup_backend("inductor")) as reader:
        assert "backend" not in stage_times(reader).by_stage
