"""These tests check real jobs of two ranks: a DDP step in which one rank takes another branch, and
an FSDP2 step in which one gets a longer batch.

tests/data/ranks_h100 holds logs of two H100s with NCCL (torch 2.11,
``TORCH_TRACE=… torchrun --nproc-per-node 2``), without the records that no rank is compared by. The
job that runs here is on the CPU with gloo, recorded by ``fx-explorer run`` while torch writes its
own logs, so that both are of the same compilations.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.ranks.compared import ComparedRanks, compare
from fx_explorer.instruments.ranks.sentences import describe_first_divergence, headline
from fx_explorer.session import SessionReader
from tests.ranks.logs_of_ranks import DATA

H100 = DATA / "ranks_h100"

PROGRAM = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 512)
        self.second = nn.Linear(512, 1024)
        self.third = nn.Linear(1024, 4)

    def forward(self, x, rank):
        x = self.second(self.first(x).relu())
        if rank == 1:
            x = x.softmax(-1)
        return self.third(x).sum()


compiled = torch.compile(DistributedDataParallel(Net(), bucket_cap_mb=1), backend="aot_eager")
compiled(torch.ones(2, 16), rank).backward()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that was run: a session per rank, and torch's logs in ``trace``."""
    folder = tmp_path_factory.mktemp("job of two")
    (folder / "train.py").write_text(PROGRAM)
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    ended = subprocess.run(
        [*launcher, "-m", "fx_explorer", "run", "-o", "train.fxs", "train.py"],
        cwd=folder,
        env={**os.environ, "TORCH_TRACE": str(folder / "trace"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return folder


def sessions_of(job: Path) -> list[Path]:
    return [job / f"train.rank{rank}.fxs" for rank in (0, 1)]


def told(ranks: ComparedRanks) -> tuple[str, str]:
    assert ranks.first is not None
    return headline(ranks), describe_first_divergence(ranks.first)


def test_the_branch_of_a_rank_on_an_h100_is_named() -> None:
    assert told(compare([H100 / "ddp"])) == (
        "Rank 1 diverges from rank 0.",
        "Rank 1 took a different branch at ddp.py:26, where rank 0 had rank == 0: its graph has softmax, which the graph of rank 0 "
        "lacks (ddp.py:27) ([4/0]).",
    )


def test_the_longer_batch_of_a_rank_on_an_h100_is_named() -> None:
    assert told(compare([H100 / "fsdp"])) == (
        "Rank 1 diverges from rank 0.",
        "Rank 1 recompiled forward() at modeling_llama.py:295, but rank 0 did not: size 1 of hidden_states was 32 and now is "
        "48 ([0/1]).",
    )


def test_sessions_and_logs_of_one_job_say_the_same_of_its_ranks(job: Path) -> None:
    line = next(at for at, text in enumerate(PROGRAM.splitlines(), 1) if "if rank == 1" in text)
    of_sessions, of_logs = told(compare(sessions_of(job))), told(compare([job / "trace"]))
    assert of_sessions == of_logs
    assert of_sessions[0] == "Rank 1 diverges from rank 0."
    assert (
        f"took a different branch at train.py:{line}, where rank 0 had rank == 0: its graph has softmax"
        in of_sessions[1]
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_the_backend_of_a_rank_is_the_one_its_program_asked_for(job: Path, rank: int) -> None:
    with SessionReader(sessions_of(job)[rank]) as reader:
        assert {row.backend for row in reader.rows(model.Compilation)} == {"aot_eager"}
        assert {row.backend for row in reader.rows(model.BackendEntry)} <= {"aot_eager"}
        assert {row.backend for row in reader.rows(model.SupportReport)} <= {"aot_eager"}


def test_a_program_that_ended_has_no_unknown_end_whatever_torch_wrote_of_its_compilations(
    job: Path, tmp_path: Path
) -> None:
    paths = []
    for path in sessions_of(job):
        paths.append(tmp_path / path.name)
        paths[-1].write_bytes(path.read_bytes())
        without_ends(paths[-1])
    found = compare(paths)
    assert found.first is not None
    assert found.differing == (1,)
    assert not any(one.unknown_end for one in found.summaries)


def without_ends(session: Path) -> None:
    """Make the compilations of a session as those of a torch that lost its metrics."""
    with sqlite3.connect(session) as connection:
        connection.execute("UPDATE compilation SET status='running'")


def test_a_session_and_logs_are_not_held_against_one_another(job: Path, tmp_path: Path) -> None:
    """They name functions otherwise. What there is more of is compared."""
    logs = sorted((job / "trace").glob("*.log"))
    found = compare([*logs, sessions_of(job)[0]])
    assert told(found) == told(compare(logs))
    assert [
        (one.path.name, one.why.partition(",")[0], one.is_unread) for one in found.left_out
    ] == [("train.rank0.fxs", "is a session", False)]
    alone = compare([sessions_of(job)[0], next(one for one in logs if "rank_1" in one.name)])
    assert alone.first is None
    assert [one.rank for one in alone.summaries] == [0]
    assert "is a log, and the others are sessions" in alone.left_out[0].why
    assert alone.left_out[0].is_unread  # of rank 1 nothing is known
