"""These tests check that kernels are counted while they are built, in this process and in a child
of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.async_compile import AsyncCompile

from fx_explorer.capture.inductor.kernel_builds import builds_told
from fx_explorer.capture.recorder import recording
from fx_explorer.instruments.fixes.measure.child_program import ChildProgram, Count
from fx_explorer.model import CaptureRequest, Kernel, Notice
from fx_explorer.session import SessionReader, SessionWriter

TWO_KERNELS = """
async_compile = AsyncCompile()
one = async_compile.cpp_pybinding(['float*'], r'''
void one(float* p) {}
''')
two = async_compile.cpp_pybinding(['float*'], r'''
void two(float* p) {}
''')
async_compile.wait(globals())
"""
"""A generated file with two kernels, as Inductor writes it."""


def run_file(path: Path, text: str = TWO_KERNELS) -> dict[str, Any]:
    path.write_text(text)
    names = {"__file__": str(path), "AsyncCompile": AsyncCompile}
    exec(compile(text, str(path), "exec"), names)
    return names


def built_by(monkeypatch: pytest.MonkeyPatch, build: Callable[..., object]) -> None:
    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", lambda compiler, *_: build())
    monkeypatch.setattr("torch._inductor.async_compile.get_compile_threads", lambda: 2)


def test_each_kernel_of_a_file_is_told_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_by(monkeypatch, lambda: "a kernel")
    told: list[tuple[int, int]] = []
    with builds_told(lambda *counts: told.append(counts)):
        run_file(tmp_path / "one.py")
        run_file(tmp_path / "other.py")
    assert told == [(0, 2), (1, 2), (2, 4), (3, 4)]
    run_file(tmp_path / "later.py")
    assert len(told) == 4


def test_kernels_that_a_file_waits_for_are_counted_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submitted() -> Future[str]:
        future: Future[str] = Future()
        future.set_result("a kernel")
        return future

    built_by(monkeypatch, submitted)
    told: list[tuple[int, int]] = []
    with builds_told(lambda *counts: told.append(counts)):
        names = run_file(tmp_path / "one.py")
    assert (names["one"], names["two"]) == ("a kernel", "a kernel")
    assert told[-2:] == [(0, 2), (1, 2)]


@pytest.mark.parametrize("builds", [True, False])
def test_a_capture_that_builds_tells_the_client_which_kernel_is_built(
    tmp_path: Path, *, builds: bool
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x, -1) @ x.T).relu()

    path = tmp_path / "s.fxs"
    request = CaptureRequest("model.py", str(path), build=builds)
    notices: list[Notice] = []
    with SessionWriter(path) as writer, recording(writer, request, notices.append):
        torch.compile(program)(torch.ones(8, 8))
    counts = [notice for notice in notices if notice.kind == "count"]
    if not builds:
        assert not counts
        return
    assert [notice.text for notice in counts] == ["building kernel"] * len(counts)
    with SessionReader(path) as reader:
        generated = [row for row in reader.rows(Kernel) if row.artifact]
    assert counts[-1].planned == len(generated)
    assert counts[-1].done == len(generated) - 1


def test_a_parent_sees_how_far_its_child_is(tmp_path: Path) -> None:
    class Counting(ChildProgram):
        def __init__(self) -> None:
            super().__init__(request, self._run, waits=True)

        def _run(self) -> dict[str, Any]:
            for done in range(3):
                self.progress.show_kernels(done, 3)
            return {}

    request = CaptureRequest("model.py", str(tmp_path / "s.fxs"))
    counts: list[Count] = []
    with Counting() as child:
        assert child.progress.read() == ("", 0, 0)
        child.begin()
        assert child.wait(counts.append) == 0
        assert child.progress.read() == ("building kernel", 2, 3)
    assert all(work == "building kernel" for work, _, _ in counts)
