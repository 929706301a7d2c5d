"""These tests measure one kernel: the parts that can be tested without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fx_explorer.errors import UsageError, WorkerError
from fx_explorer.instruments.kernels.kernel_times import measure_kernel
from fx_explorer.instruments.kernels.measure.kernel_bench import measured, usual_launch
from fx_explorer.instruments.kernels.measure.kernel_timing import (
    MAX_RUNS,
    MIN_RUNS,
    SMALLEST_FLUSH,
    flush_bytes,
    make_values,
    runs_for,
    spans,
    with_options,
)
from fx_explorer.model import BenchAnswer, BenchRequest, CardCeiling, KernelTime
from fx_explorer.session import SessionReader
from tests.worker.launched import ARGUMENTS, FLOATS, launched_session

NO_GPU = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU, so nothing is refused"
)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "s.fxs"


def without_words(text: str) -> None:
    del text


@NO_GPU
def test_without_a_gpu_it_is_refused_with_a_sentence(session: Path) -> None:
    kernel = launched_session(session, "", "triton_poi_0")
    with pytest.raises(UsageError, match=r"finds no GPU here"):
        measured(BenchRequest(str(session), kernel.id), without_words)


@NO_GPU
async def test_the_client_is_told_why_nothing_was_measured(session: Path) -> None:
    kernel = launched_session(session, "", "triton_poi_0")
    said: list[str] = []
    with pytest.raises(UsageError, match="finds no GPU here"):
        await measure_kernel(session, kernel.id, said.append)
    assert said == ["importing torch"]


async def test_an_interpreter_that_dies_is_told_with_its_last_words(
    session: Path, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho out of luck >&2; exit 3\n")
    python.chmod(0o755)
    kernel = launched_session(session, "", "triton_poi_0")
    with pytest.raises(WorkerError, match=r"died \(exit status 3\)(.|\n)*out of luck"):
        await measure_kernel(session, kernel.id, python=str(python))
    with pytest.raises(WorkerError, match="cannot be started"):
        await measure_kernel(session, kernel.id, python=str(tmp_path / "none"))


def test_a_kernel_that_was_never_launched_is_refused(session: Path) -> None:
    kernel = launched_session(session, "", "triton_poi_0", is_launched=False)
    with pytest.raises(UsageError, match="No launch of triton_poi_0 was recorded"):
        measured(BenchRequest(str(session), kernel.id), without_words)


def test_a_library_call_is_refused(session: Path) -> None:
    kernel = launched_session(session, "", "extern_kernels.mm", language="extern")
    with pytest.raises(UsageError, match="is a library call"):
        measured(BenchRequest(str(session), kernel.id), without_words)


def test_the_launch_that_there_were_most_of_is_measured(session: Path) -> None:
    kernel = launched_session(session, "", "triton_poi_0")
    with SessionReader(session) as reader:
        assert usual_launch(reader, kernel).count == 7


def test_arguments_have_the_strides_of_the_launch() -> None:
    first, second, size = make_values(ARGUMENTS, "cpu")
    assert (first.shape, first.stride(), first.dtype) == ((4, 8), (8, 1), torch.float32)
    assert second.stride() == (1, 4)
    assert size == 32
    assert not torch.equal(first, first.new_zeros(first.shape)), (
        "random, as zeros would be too easy for the card"
    )


def test_indices_are_zero_and_so_within_any_table() -> None:
    [indices] = make_values(({**FLOATS, "name": "in_ptr0", "dtype": "int64"},), "cpu")
    assert indices.dtype == torch.int64
    assert not indices.any()


def test_an_argument_that_cannot_be_made_up_is_named() -> None:
    with pytest.raises(UsageError, match="its argument desc is a TensorDescriptor"):
        make_values(({"name": "desc", "type": "TensorDescriptor"},), "cpu")


class Config:
    """Like ``triton.Config``."""

    def __init__(self) -> None:
        self.kwargs, self.num_warps, self.num_stages = {"XBLOCK": 1024}, 4, 1


def test_the_configuration_is_the_one_that_ran() -> None:
    own = Config()
    found = with_options(
        own, {"XBLOCK": 512, "ACC_TYPE": "tl.float32", "num_warps": 8, "num_stages": 3}
    )
    assert (found.kwargs, found.num_warps, found.num_stages) == ({"XBLOCK": 512}, 8, 3)
    assert own.kwargs == {"XBLOCK": 1024}


def test_times_are_those_of_what_follows_the_preparation() -> None:
    flush, put_back, kernel, second = (0.0, 60.0), (61.0, 5.0), (70.0, 10.0), (82.0, 3.0)
    later = [(start + 100.0, took + 1.0) for start, took in (flush, put_back, kernel, second)]
    events = [*later, second, kernel, put_back, flush]
    assert spans(events, runs=2, before=2) == pytest.approx([15e-6, 16e-6])


@pytest.mark.parametrize(("events", "runs", "before"), [(0, 2, 1), (3, 2, 1), (4, 2, 2)])
def test_what_is_no_equal_rounds_is_not_taken_for_times(
    events: int, runs: int, before: int
) -> None:
    with pytest.raises(ValueError, match="are no"):
        spans([(float(i), 1.0) for i in range(events)], runs, before)


def test_what_is_read_to_empty_the_cache_is_twice_its_size() -> None:
    assert flush_bytes(50 << 20) == SMALLEST_FLUSH
    assert flush_bytes(200 << 20) == 400 << 20


def test_short_kernels_are_run_more_often() -> None:
    assert runs_for(1e-6) == MAX_RUNS
    assert runs_for(1e-3) == 100
    assert runs_for(10.0) == MIN_RUNS


def test_an_answer_comes_back_from_json_as_it_was() -> None:
    time = KernelTime(0, 1, 2, {"XBLOCK": 512}, "NVIDIA H200", 1e-5, 1e-6, 100, 1e-6)
    answer = BenchAnswer(
        time=time, ceilings=(CardCeiling(0, "NVIDIA H200", "memory", 4e12, "copy"),)
    )
    assert BenchAnswer.from_json(answer.to_json()) == answer
    request = BenchRequest("s.fxs", 3)
    assert BenchRequest.from_json(request.to_json()) == request
    with pytest.raises(TypeError, match="kernel cannot be 'x'"):
        BenchRequest.from_json('{"session": "s", "kernel": "x"}')
