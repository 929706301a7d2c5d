"""These tests check what is said where torch.compile meets FSDP2, in one process with gloo: the
advice is followed, and the breaks are counted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import with_others

SHARDED = """
import os
import tempfile
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

store = "file://" + tempfile.mktemp()
dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.relu(self.linear(x))


model = nn.Sequential(Block(), Block())
{before}
for block in model:
    fully_shard(block)
fully_shard(model)
{after}
model(torch.randn(4, 8)).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("before", "after", "breaks"),
    with_others(
        [("", "model = torch.compile(model)", True)],
        [("for block in model:\n    block.compile()", "", False)],
    ),
)
def test_blocks_are_compiled_before_they_are_sharded(
    before: str,
    after: str,
    breaks: bool,
    tmp_path: Path,
    captured: Captured,
    reader: OpenedReader,
) -> None:
    file = tmp_path / "sharded.py"
    file.write_text(SHARDED.format(before=before, after=after))
    found = findings(reader(captured(file, backend="aot_eager")))
    of_fsdp = [finding for finding in found if "fully_shard wraps it" in finding.detail]
    assert bool(of_fsdp) == breaks
    assert any(finding.kind == "graph break" for finding in found) == breaks


SHARDED_LATE = """
import os
import tempfile
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

store = "file://" + tempfile.mktemp()
dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16, bias=False)

    def forward(self, x):
        return torch.relu(self.up(x))


def shard():
    parallelize_module(model, init_device_mesh("cpu", (1,)), {{"up": ColwiseParallel()}})


model = Block()
model.compile(backend="aot_eager")
{before}
model(torch.randn(4, 8)).sum().backward()
{after}
model(torch.randn(4, 8)).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("before", "after", "recompiles"),
    with_others([("", "shard()", True)], [("shard()", "", False)]),
)
def test_parameters_that_become_dtensors_are_told_as_that(
    before: str,
    after: str,
    recompiles: bool,
    tmp_path: Path,
    captured: Captured,
    reader: OpenedReader,
) -> None:
    file = tmp_path / "sharded_late.py"
    file.write_text(SHARDED_LATE.format(before=before, after=after))
    found = findings(reader(captured(file)))
    told = [finding for finding in found if finding.kind == "recompile"]
    assert bool(told) == recompiles
    for finding in told:
        assert "self.up.weight is a tensor of another class now" in finding.text
        assert "torch.distributed.tensor.DTensor" in finding.text
        assert "Shard the model (parallelize_module, fully_shard) before" in finding.detail
