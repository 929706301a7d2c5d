"""These tests compare ways of dealing with dynamic shapes on one program, each in a worker of its
own.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch

from fx_explorer.errors import UsageError
from fx_explorer.instruments.dynamic.trial import DynamicTrial, try_dynamic
from fx_explorer.model import CaptureRequest
from fx_explorer.program.fresh_inputs import mark_differing, with_twice_the_batch
from fx_explorer.program.inputs import Arguments
from tests.worker.capturing import processes_with

pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import torch

def model(x, y):
    return torch.relu(x) + y.sum()

example_inputs = (torch.ones(4, 8), torch.ones(3))
"""


async def trials(tmp_path: Path, others: str = "") -> dict[str, DynamicTrial]:
    file = tmp_path / "net.py"
    file.write_text(PROGRAM)
    request = CaptureRequest(str(file), "", backend="eager")
    return {trial.way: trial async for trial in try_dynamic(request, others)}


async def test_each_way_says_whether_twice_the_batch_is_compiled_again(tmp_path: Path) -> None:
    found = await trials(tmp_path)
    assert {way: trial.others for way, trial in found.items()} == {
        "dynamic=None": "recompiled",
        "dynamic=True": "used again",
        "dynamic=False": "recompiled",
        "mark_dynamic": "used again",
    }
    assert {way: trial.figures.free_sizes for way, trial in found.items()} == {
        "dynamic=None": 0,
        "dynamic=True": 3,
        "dynamic=False": 0,
        "mark_dynamic": 1,
    }
    assert {way: trial.free_sizes for way, trial in found.items()} == {
        "dynamic=None": (),
        "dynamic=True": (("x", 0), ("x", 1), ("y", 0)),
        "dynamic=False": (),
        "mark_dynamic": (("x", 0),),
    }
    assert {trial.figures.graphs for trial in found.values()} == {1}
    assert (
        found["dynamic=None"].reason == "tensor 'x' size mismatch at index 0. expected 4, actual 8"
    )


async def test_inputs_that_are_dynamic_in_no_way_are_refused_by_all(tmp_path: Path) -> None:
    found = await trials(tmp_path, "(torch.ones(4, 8, dtype=torch.float64), torch.ones(3))")
    assert {trial.others for trial in found.values()} == {"recompiled"}
    assert "dtype mismatch" in found["mark_dynamic"].reason


async def test_who_stops_listening_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOPPED_TRIAL", "1")
    running = asyncio.Event()

    async def listen() -> None:
        file = tmp_path / "net.py"
        file.write_text(PROGRAM)
        told = try_dynamic(
            CaptureRequest(str(file), "", backend="eager"), tell=lambda way, activity: running.set()
        )
        async for _ in told:
            raise AssertionError("it is stopped before the first trial is done")

    listener = asyncio.create_task(listen())
    await running.wait()
    await asyncio.sleep(0)
    listener.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listener
    assert processes_with("STOPPED_TRIAL") == []


async def test_an_expression_that_cannot_be_evaluated_is_told_with_each_way(tmp_path: Path) -> None:
    found = await trials(tmp_path, "torch.ones(unknown)")
    assert {trial.others for trial in found.values()} == {""}
    assert "name 'unknown' is not defined" in found["dynamic=None"].reason
    assert found["mark_dynamic"].outcome.kind != "finished"  # there is nothing to mark


async def test_a_script_is_refused_before_it_has_run(tmp_path: Path) -> None:
    file, ended = tmp_path / "train.py", tmp_path / "ended"
    file.write_text(
        f"import torch\ntorch.compile(torch.relu, backend='eager')(torch.ones(3))\nopen({str(ended)!r}, 'w')\n"
    )
    told: list[str] = []
    trials = try_dynamic(CaptureRequest(str(file), ""), tell=lambda way, activity: told.append(way))
    with pytest.raises(UsageError, match=r"give FILE\.py:OBJECT, and its inputs with --inputs"):
        await anext(trials)
    assert set(told) == {"dynamic=None"}
    assert not ended.exists()


def test_twice_the_batch_doubles_what_has_the_first_size_of_the_first_tensor() -> None:
    found = with_twice_the_batch(
        Arguments((torch.ones(4, 8), 4, torch.ones(3)), {"labels": torch.ones(4)})
    )
    assert [tuple(tensor.shape) for tensor in found.tensors()] == [(8, 8), (3,), (8,)]
    assert found.args[1] == 4


def test_only_dimensions_that_differ_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[tuple[torch.Tensor, int]] = []
    monkeypatch.setattr(
        torch._dynamo, "mark_dynamic", lambda tensor, dimension: marked.append((tensor, dimension))
    )
    first = Arguments((torch.ones(4, 8), torch.ones(3)))
    mark_differing(first, Arguments((torch.ones(4, 9), torch.ones(3, 1))))
    assert [(id(tensor), dimension) for tensor, dimension in marked] == [(id(first.args[0]), 1)]
