"""These tests check the findings about operators that slow compiled code down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.findings.every_kind import findings
from fx_explorer.session import SessionReader, SessionWriter
from tests.shared_files import CASES


def test_a_derivative_of_many_operations(captured, reader) -> None:
    session = reader(captured(CASES / "26_cumprod.py"))
    finding = findings(session)[0]
    assert finding.kind == "expanding operator"
    assert finding.place is not None
    assert finding.place.line + 1 == 15
    assert "cumprod" in finding.text
    assert "in the backward" in finding.text
    assert "torch.cumsum(torch.log(x)" in finding.detail


@pytest.mark.parametrize("sample", ["mlp", "transformer", "convnet"])
def test_healthy_samples_have_no_finding(sample: str, captured, reader) -> None:
    problems = [row for row in findings(reader(captured(sample))) if row.severity == "problem"]
    assert not problems


WARNED = (
    "x.py:3: UserWarning: Torchinductor does not support code generation for complex operators."
)


@pytest.mark.parametrize(("text", "number"), [(WARNED, 1), ("complex numbers are fine", 0)])
def test_a_warning_that_torch_printed(
    text: str, number: int, written: Callable[[Callable[[SessionWriter], object]], SessionReader]
) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.ConsoleLine(0, "stderr", text))

    warned = [row for row in findings(written(write)) if row.kind == "warning of torch"]
    assert len(warned) == number


CHECKPOINTED = """
import torch
from torch.utils.checkpoint import checkpoint

attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)

def block(x):
    return x + attention(x, x, x, need_weights=False)[0]

@torch.compile
def loss(x):
    return checkpoint(block, x, use_reentrant=False).sum()

loss(torch.randn(2, 4, 16, requires_grad=True)).backward()
"""


def test_what_checkpointing_calls_is_no_slow_operator(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "checkpointed.py"
    file.write_text(CHECKPOINTED)
    session = reader(captured(file))
    names = [row.name for row in session.rows(model.Kernel, language="extern")]
    assert any("run_and_save_rng_state" in name for name in names)
    assert not [row.text for row in findings(session)]


PARALLEL = """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
mesh = init_device_mesh("cpu", (2,))
parallelize_module(layers, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
step = torch.compile(lambda x: layers(x).relu())
print(step(torch.ones(2, 4)).shape)
"""


def test_collectives_are_no_operators_to_fuse(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "parallel.py"
    file.write_text(PARALLEL)
    session = reader(captured(file))
    names = [row.name for row in session.rows(model.Kernel, language="extern")]
    assert any("all_reduce" in name for name in names)
    assert not findings(session)
