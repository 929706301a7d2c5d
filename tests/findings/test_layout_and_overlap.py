"""These tests plant an input that is copied into another layout in each call, and a collective that
other work could run beside; and the same where nothing could be gained.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.testing._internal.distributed.fake_pg import FakeStore

from fx_explorer import model
from fx_explorer.findings.layout_copies import find_layout_copies
from fx_explorer.findings.waited_for_collectives import find_waited_for_collectives
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record


@pytest.fixture
def group() -> Iterator[str]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        yield dist.group.WORLD.group_name  # type: ignore[union-attr]
    finally:
        dist.destroy_process_group()


def independent(x: torch.Tensor, y: torch.Tensor, group: str) -> tuple[torch.Tensor, torch.Tensor]:
    reduced = functional.all_reduce(x, "sum", group)
    return reduced + 1, (y.sin() * 2).cumsum(0)


def dependent(x: torch.Tensor, y: torch.Tensor, group: str) -> torch.Tensor:
    reduced = functional.all_reduce(x.sin(), "sum", group)
    return (reduced + y).cos()


@pytest.mark.parametrize(
    ("function", "rows", "count"),
    [(independent, 1024, 1), (dependent, 1024, 0), (independent, 8, 0)],
)
def test_a_collective_is_a_finding_where_other_work_could_run(
    function: object, rows: int, count: int, group: str, tmp_path: Path
) -> None:
    def program(compile_it: Compile) -> None:
        x, y = torch.ones(rows, 512), torch.ones(rows, 512)
        with torch.no_grad():
            compile_it(function)(x, y, group)

    with record(tmp_path / "s.fxs", program) as session:
        found = list(find_waited_for_collectives(session))
        assert len(found) == count
        for finding in found:
            assert "all_reduce (test_layout_and_overlap.py:" in finding.text
            assert "2.1 MB" in finding.text
            (remedy,) = finding.remedies
            (setting,) = remedy.changes["settings"]
            option = torch._inductor.config.aten_distributed_optimizations
            assert hasattr(option, setting.rpartition(".")[2])


def convolved(session_path: Path, image: torch.Tensor) -> SessionReader:
    layer = nn.Conv2d(16, 16, 3, padding=1).eval()
    layer = layer.to(memory_format=torch.channels_last)

    def program(compile_it: Compile) -> None:
        with torch.no_grad():
            compile_it(layer)(image)

    return record(session_path, program)


def test_an_input_that_is_copied_in_each_call_is_a_finding(tmp_path: Path) -> None:
    with convolved(tmp_path / "s.fxs", torch.ones(2, 16, 128, 128)) as session:
        (finding,) = find_layout_copies(session)
    assert "4.2 MB read and written in each call" in finding.text
    assert "channels_last" in finding.remedies[0].text


@pytest.mark.parametrize(
    "image",
    [
        torch.ones(2, 16, 128, 128).to(memory_format=torch.channels_last),
        torch.ones(1, 16, 16, 16),
    ],
    ids=["in the layout", "small"],
)
def test_what_costs_nothing_is_no_finding(image: torch.Tensor, tmp_path: Path) -> None:
    with convolved(tmp_path / "s.fxs", image) as session:
        assert session.has(model.Kernel)
        assert not list(find_layout_copies(session))
