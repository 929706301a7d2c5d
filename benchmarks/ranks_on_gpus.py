"""Whether ranks that compiled the same are called alike, and a planted difference is found, on jobs
of two processes.

Four kinds of job (DDP, FSDP2, tensor parallel with DTensor, a pipeline), each as it should be and
with one rank that differs. On two GPUs with NCCL, else on the CPU with gloo. The jobs need torch
only.

    python -m benchmarks.ranks_on_gpus
    python benchmarks/ranks_on_gpus.py --kinds tp --keep /tmp/ranks
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch import distributed as dist

KINDS = ("ddp", "fsdp2", "tp", "pipeline")

PLANTED = ("none", "branch", "sizes", "break", "fails")
"""What rank 1 does otherwise: nothing, takes another branch, gets another batch, breaks its graph,
fails to compile.
"""

WIDTH = 64

BATCH = 8

JOB_TIMEOUT_S = 300


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    """The whole model, or one stage of a pipeline."""

    def __init__(self, planted: str, has_first: bool = True, has_last: bool = True) -> None:
        super().__init__()
        self.planted = planted
        self.first = nn.Linear(32, WIDTH) if has_first else None
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Linear(WIDTH, 16) if has_last else None

    def forward(self, x: Tensor) -> Tensor:
        if self.first is not None:
            x = self.first(x)
        for block in self.blocks:
            x = block(x)
        x = regularize(x, self.planted, RANK)
        if self.last is not None:
            x = self.last(x)
        return x


def regularize(x: Tensor, planted: str, rank: int) -> Tensor:
    if planted == "branch" and rank == 1:
        x = torch.softmax(x, -1)
    if planted == "break" and rank == 1:
        torch._dynamo.graph_break()
    return x * 0.5


@torch.compile
def penalty(x: Tensor, planted: str) -> Tensor:
    """Compiled on every rank of a pipeline, too."""
    if planted == "branch" and RANK == 1:
        x = x.tanh()
    return (x * x).mean()


RANK = int(os.environ.get("RANK", "0"))


def run_job(kind: str, planted: str) -> None:
    """Be one rank of a job."""
    is_on_gpus = torch.cuda.is_available() and torch.cuda.device_count() > 1
    device = torch.device("cuda", RANK) if is_on_gpus else torch.device("cpu")
    if is_on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if is_on_gpus else "gloo")
    torch.manual_seed(0)
    if planted == "fails" and RANK == 1:
        torch._dynamo.config.suppress_errors = True
        backend = _failing_backend
    else:
        backend = "inductor"
    batch = BATCH // 2 if planted == "sizes" and RANK == 1 and kind != "pipeline" else BATCH
    x = torch.randn(batch, 32, device=device)
    job = {"ddp": _ddp, "fsdp2": _fsdp2, "tp": _tensor_parallel, "pipeline": _pipeline}[kind]
    job(device, planted, backend, x)
    penalty(torch.randn(4, 4, device=device), planted)
    dist.barrier()
    dist.destroy_process_group()


def _failing_backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
    raise RuntimeError("planted: this backend compiles nothing")


def _ddp(device: torch.device, planted: str, backend: object, x: Tensor) -> None:
    model = Model(planted).to(device)
    wrapped = nn.parallel.DistributedDataParallel(
        model, device_ids=[RANK] if device.type == "cuda" else None
    )
    _train(torch.compile(wrapped, backend=backend), x)


def _fsdp2(device: torch.device, planted: str, backend: object, x: Tensor) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (2,))
    model = Model(planted).to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    _train(torch.compile(model, backend=backend), x)


def _tensor_parallel(device: torch.device, planted: str, backend: object, x: Tensor) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(device.type, (2,))
    model = Model(planted).to(device)
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    _train(torch.compile(model, backend=backend), x)


def _pipeline(device: torch.device, planted: str, backend: object, x: Tensor) -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = Model(planted, has_first=RANK == 0, has_last=RANK == 1).to(device)
    if planted == "sizes" and RANK == 1:
        # The stage is called once more, with a batch that the other one never sees.
        torch.compile(stage, backend=backend)(torch.randn(3, WIDTH, device=device))
    compiled = torch.compile(stage, backend=backend)
    schedule = ScheduleGPipe(
        PipelineStage(compiled, RANK, 2, device), n_microbatches=2, loss_fn=nn.MSELoss()
    )
    for _ in range(2):
        if RANK == 0:
            schedule.step(x)
        else:
            schedule.step(target=torch.zeros(BATCH, 16, device=device), losses=[])


def _train(model: nn.Module, x: Tensor) -> None:
    for _ in range(2):
        model(x).sum().backward()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--planted", nargs="+", choices=PLANTED, default=PLANTED[:2])
    parser.add_argument("--keep", type=Path, help="a folder for the logs")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(*arguments.job)
        return 0
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="ranks-on-gpus-"))
    is_right = True
    for kind in arguments.kinds:
        for planted in arguments.planted:
            is_right &= _try(kind, planted, folder / f"{kind}_{planted}")
    print(f"logs: {folder}")
    return 0 if is_right else 1


def _try(kind: str, planted: str, logs: Path) -> bool:
    """Run a job and compare its ranks; return whether the verdict is right."""
    job = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    ran = subprocess.run(
        [sys.executable, *job, "--job", kind, planted],
        env={**os.environ, "TORCH_TRACE": str(logs), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=JOB_TIMEOUT_S,
    )
    if ran.returncode:
        print(f"{kind:9} {planted:7} the job failed:\n{ran.stdout[-3000:]}")
        return False
    ranks = [sys.executable, "-m", "fx_explorer", "ranks", str(logs), "--format", "json"]
    compared = subprocess.run(ranks, stdout=subprocess.PIPE, text=True, timeout=JOB_TIMEOUT_S)
    if compared.returncode:
        print(f"{kind:9} {planted:7} fx-explorer ranks: exit {compared.returncode}")
        return False
    answer = json.loads(compared.stdout)
    first = answer["first_divergence"]
    is_right = (first is None) == (planted == "none")
    sentence = first["words"] if first else "no divergence"
    print(f"{kind:9} {planted:7} {'right' if is_right else 'WRONG'}: {sentence}", flush=True)
    return is_right


if __name__ == "__main__":
    sys.exit(main())
