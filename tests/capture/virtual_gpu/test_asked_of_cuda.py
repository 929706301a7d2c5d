"""These tests check calls of ``torch.cuda`` besides tensors: each is answered, or refused in one
sentence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.virtual_gpu.conftest import ForGpu, needs_triton

pytestmark = needs_triton

MODEL = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1)).cuda()
x = torch.randn(4, 16).cuda()
compiled = torch.compile(net)
"""

EVERYTHING = (
    MODEL
    + """
torch.cuda.manual_seed(1)
generator = torch.Generator(device="cuda").manual_seed(3)
assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
assert torch.Generator().device.type == "cpu"
drawn = torch.randn(4, 16, device="cuda", generator=generator)
with torch.random.fork_rng(devices=[0]):
    torch.rand(3, device="cuda")
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    loss = compiled(drawn).sum()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    compiled(x)
graph.replay()
torch.cuda.make_graphed_callables(net, (x,))
torch.randn(4, 16).pin_memory().to("cuda", non_blocking=True)
torch.cuda.memory._record_memory_history()
torch.accelerator.synchronize()
print(torch.cuda.get_arch_list(), torch.cuda.memory_snapshot(), torch.cuda.get_device_properties(0).name)
"""
)

NCCL = """
import os
import torch
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("nccl")
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


@pytest.mark.filterwarnings("ignore")
def test_a_program_that_uses_all_of_it_comes_to_its_end(for_gpu: ForGpu, tmp_path: Path) -> None:
    ended = for_gpu(script(tmp_path, EVERYTHING), "h100", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.printed() == ["['sm_90'] [] NVIDIA H100 80GB HBM3"]


def test_a_second_gpu_is_not_there(for_gpu: ForGpu, tmp_path: Path) -> None:
    ended = for_gpu(script(tmp_path, MODEL + "\nnet.to('cuda:1')\n"), "h100", as_script=True)
    assert ended.outcome.kind == "raised"
    assert (
        "there is one virtual GPU, cuda:0, and no cuda:1: use cuda:0 for this run"
        in ended.outcome.message
    )


def test_that_nothing_can_be_sent_between_gpus_is_said_with_what_to_do(
    for_gpu: ForGpu, tmp_path: Path
) -> None:
    ended = for_gpu(script(tmp_path, NCCL), "h100", as_script=True)
    assert ended.outcome.kind == "raised"
    assert ended.outcome.message.startswith("NCCL sends data between GPUs")
    assert 'Choose the backend "gloo"' in ended.outcome.message
