"""These tests check candidates that the selector timed: it calls us as torch's own does, with
candidates and times that are made up.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.capture.inductor.autotuner_choices import NOT_RUN, choices_for, noting_choices
from fx_explorer.capture.inductor.launch_rows import (
    NotedBuild,
    NotedKernel,
    NotedLaunch,
    add_launch_rows,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import (
    SOURCE_LEVEL,
    Artifact,
    CaptureRequest,
    Compilation,
    Kernel,
    KernelBuild,
)
from fx_explorer.session import SessionReader, SessionWriter

PROPERTIES = types.SimpleNamespace(name="NVIDIA H200", warp_size=32, major=9, minor=0)
TEXT = "def triton_mm_{number}(arg_A):\n    BLOCK_M : tl.constexpr = {block}\n    \n    pass\n"
"""With a line of spaces, which Inductor writes and Triton does not keep (``textwrap.dedent``)."""


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: PROPERTIES)
    with SessionWriter(tmp_path / "s.fxs") as writer:
        yield Recording(writer, CaptureRequest("test", "", build=True), lambda _: None)


@dataclass(eq=False)
class Caller:
    """Caller has the attributes of torch's ``ChoiceCaller`` that are read."""

    name: str
    bmreq: types.SimpleNamespace
    description: str = ""


def template(folder: Path, number: int, block: int) -> Caller:
    file = folder / f"{number}.py"
    file.write_text(TEXT.format(number=number, block=block))
    request = types.SimpleNamespace(module_path=str(file), kernel_name=f"triton_mm_{number}")
    description = f"ACC_TYPE='tl.float32', BLOCK_M={block}, num_stages=3, num_warps=4"
    return Caller(request.kernel_name, request, description)


def timed(recording: Recording, folder: Path) -> tuple[Any, torch.fx.Node]:
    """The lowering and the node whose candidates were timed, through the lists of torch's selector."""
    from torch._inductor import select_algorithm
    from torch._inductor.virtualized import V

    library = Caller("mm", types.SimpleNamespace(kernel_name="mm"))
    broken, fast = template(folder, 1, 128), template(folder, 2, 64)
    candidates = [library, broken, fast]
    graph = torch.fx.Graph()
    node = graph.call_function(torch.mm)
    lowering = types.SimpleNamespace()
    cache = select_algorithm.get_algorithm_selector_cache()
    before = list(cache.preprocessing_fns), list(cache.feedback_saver_fns)
    with noting_choices(recording):
        for _ in range(2):  # as torch asks for it, for each operation
            assert select_algorithm.get_algorithm_selector_cache() is cache
        with V.set_graph_handler(lowering), V.set_current_node(node):
            for function in cache.preprocessing_fns[len(before[0]) :]:
                assert function(candidates) is candidates
        times = {library: 0.02, broken: float("inf"), fast: 0.01}
        for function in cache.feedback_saver_fns[len(before[1]) :]:
            function(times, "mm", [], candidates, lambda: {}, {})
    assert (cache.preprocessing_fns, cache.feedback_saver_fns) == before
    return lowering, node


def test_the_selector_is_not_made_before_there_is_something_to_choose_from(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor import select_algorithm

    made: list[bool] = []
    monkeypatch.setattr(select_algorithm, "get_algorithm_selector_cache", lambda: made.append(True))
    with noting_choices(recording):
        pass
    assert not made


def test_every_candidate_is_kept_with_its_time_the_fastest_first(
    recording: Recording, tmp_path: Path
) -> None:
    lowering, node = timed(recording, tmp_path)
    found = choices_for(lowering, [node])
    assert [(one.name, one.timing_s, one.error) for one in found] == [
        ("triton_mm_2", pytest.approx(1e-5), ""),
        ("mm", pytest.approx(2e-5), ""),
        ("triton_mm_1", 0.0, NOT_RUN),
    ]
    assert found[0].options["BLOCK_M"] == 64
    assert found[1].options == {"library": "mm"}


OWN_SOURCE = 70
"""Artifact of the first candidate's source."""


def tuned_kernel(recording: Recording) -> int:
    """A template that ran with an epilogue, and the three candidates that were timed for it."""
    writer = recording.writer
    owner = writer.add(Compilation(0, "0/0", 0, 0, "f", "f.py", 1))
    artifact = writer.add(
        Artifact(
            0,
            owner,
            "kernel",
            "kernel",
            "forward",
            "k",
            "triton",
            writer.text("def fused(): ..."),
            1,
        )
    )
    kernel = writer.add(Kernel(0, owner, "forward", 0, "fused", "triton", artifact))
    for position, (number, block, warps) in enumerate([(2, 64, 4), (1, 128, 4), (1, 128, 8)]):
        options: dict[str, object] = {"BLOCK_M": block, "num_stages": 3, "num_warps": warps}
        text = writer.text(TEXT.format(number=number, block=block))
        name = f"triton_mm_{number}"
        row = KernelBuild(
            0,
            kernel,
            position,
            options,
            "NVIDIA H200",
            "built",
            "template",
            text,
            name,
            timing_s=1e-5,
        )
        writer.add(replace(row, levels={SOURCE_LEVEL: OWN_SOURCE + position}))
    row = KernelBuild(
        0, kernel, 3, {"library": "mm"}, "NVIDIA H200", "built", "library", name="mm", timing_s=3e-5
    )
    writer.add(row)
    return kernel


def noted(tmp_path: Path, source: str, block: int, registers: int) -> NotedKernel:
    """Return the record of an autotuner with one configuration, whose block is written in the
    source.
    """
    meta = {"config_args": {"BLOCK_M": block}}
    autotuner = types.SimpleNamespace(inductor_meta=meta, triton_meta={"device": 0}, filename=None)
    options = (("num_warps", 4), ("num_stages", 3))
    build = NotedBuild(dict(options), "heuristic", registers, 0, 64, tmp_path)
    return NotedKernel(
        autotuner, textwrap.dedent(source), "0/0", False, picked=options, builds={options: build}
    )


def test_the_candidate_that_ran_and_those_that_lost_have_their_resources(
    recording: Recording, tmp_path: Path
) -> None:
    pytest.importorskip("triton", reason="its version is told")
    kernel = tuned_kernel(recording)
    winner = noted(tmp_path, "def fused(): ...", 64, registers=90)
    winner.launches[()] = NotedLaunch()
    lost = noted(tmp_path, TEXT.format(number=1, block=128), 128, registers=120)
    lost.launches[()] = NotedLaunch(100)
    as_timed = noted(tmp_path, TEXT.format(number=2, block=64), 64, registers=80)
    add_launch_rows(recording, [lost, as_timed, winner])
    with SessionReader(recording.writer.path) as reader:
        rows = reader.rows(KernelBuild, kernel=kernel)
        launch_of = reader.query("SELECT build FROM kernel_launch")
    assert [
        (row.position, row.origin, row.registers, row.is_picked, row.timing_s) for row in rows
    ] == [
        (0, "template", 90, True, 1e-5),
        (1, "template", 120, False, 1e-5),
        (2, "template", -1, False, 1e-5),
        (3, "library", -1, False, 3e-5),
    ]
    assert launch_of == [(rows[0].id,)]
    assert (rows[0].source, rows[1].name) == (0, "triton_mm_1"), (
        "the winner's source is the kernel's"
    )
    assert [row.source_artifact for row in rows[:2]] == [0, OWN_SOURCE + 1]
    assert [row.lines_before for row in rows[:2]] == [1, 0], "a candidate's source is its module"


PROGRAM = """
import torch

def model(a, b):
    return a @ b

example_inputs = torch.randn(256, 128, dtype=torch.bfloat16), torch.randn(128, 512, dtype=torch.bfloat16)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="nothing is timed without a GPU")
def test_on_a_gpu_every_candidate_of_a_product_has_a_time_and_one_of_them_ran(
    tmp_path: Path,
) -> None:
    (tmp_path / "product.py").write_text(PROGRAM)
    options = [
        "--device",
        "cuda",
        "--build",
        "--mode",
        "max-autotune-no-cudagraphs",
        "-o",
        str(tmp_path / "s.fxs"),
    ]
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "capture",
        str(tmp_path / "product.py"),
        *options,
    ]
    subprocess.run(
        command, cwd=Path(__file__).parents[3], check=True, capture_output=True, timeout=300
    )
    with SessionReader(tmp_path / "s.fxs") as reader:
        rows = reader.rows(KernelBuild)
    assert {row.origin for row in rows} == {"template", "library"}
    assert [row.position for row in rows] == list(range(len(rows)))
    assert all(row.timing_s > 0 for row in rows if not row.error)
    assert len([row for row in rows if row.is_picked]) == 1
