"""These tests check the record of Inductor's autotuner, which is torch's own here; only building
and timing are made up (autotuned.py).
"""

from __future__ import annotations

import subprocess
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="there is no autotuner without triton")

from fx_explorer.capture.inductor import kernel_launches
from fx_explorer.capture.inductor.built_texts import spilled_bytes
from fx_explorer.capture.inductor.kernel_launches import KernelNotes, launch_hook, noting_launches
from fx_explorer.capture.inductor.launch_rows import LEFT_OUT, add_launch_rows
from fx_explorer.capture.recording.state import Recording
from fx_explorer.errors import WorkerError
from fx_explorer.instruments.kernels.builder_pool import disassembled, with_sass
from fx_explorer.model import (
    Artifact,
    CaptureRequest,
    Compilation,
    Failure,
    Kernel,
    KernelBuild,
    KernelLaunch,
)
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.inductor.autotuned import CACHE_KEY, NAME, SOURCE, autotuner_without_gpu

SIZE = 2000


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        yield Recording(writer, CaptureRequest("test", "", build=True), lambda _: None)


@pytest.fixture
def autotuner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(warp_size=32)
    )
    return autotuner_without_gpu(monkeypatch, tmp_path)


def launch(autotuner: Any, *sizes: int) -> None:
    for size in sizes:
        autotuner.run(torch.empty(size), torch.empty(2, size)[:, ::2], size, stream=0)


def add_kernel(recording: Recording, source: str = SOURCE, compilation: str = "0/0") -> int:
    writer = recording.writer
    owner = writer.add(Compilation(0, compilation, 0, 0, "f", "f.py", 1))
    artifact = writer.add(
        Artifact(0, owner, "kernel", "kernel", "forward", NAME, "triton", writer.text(source), 1)
    )
    return writer.add(Kernel(0, owner, "forward", 0, NAME, "triton", artifact))


def noted_rows(
    recording: Recording, notes: KernelNotes
) -> tuple[list[KernelBuild], list[KernelLaunch]]:
    add_launch_rows(recording, notes.kernels)
    with SessionReader(recording.writer.path) as reader:
        assert not reader.rows(Failure)
        return reader.rows(KernelBuild), reader.rows(KernelLaunch)


def test_every_configuration_comes_with_its_time_and_the_fastest_is_the_pick(
    recording: Recording, autotuner: Any
) -> None:
    kernel = add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        autotuner.precompile()
        launch(autotuner, SIZE)
    builds, _ = noted_rows(recording, notes)
    assert [(row.kernel, row.options["XBLOCK"], row.timing_s, row.is_picked) for row in builds] == [
        (kernel, 1024, pytest.approx(25e-6), False),
        (kernel, 512, pytest.approx(20e-6), True),
    ]
    assert [row.registers for row in builds] == [32, 16]
    assert {
        (row.stack_bytes, row.shared_bytes, row.gpu, row.origin, row.state) for row in builds
    } == {(12, 64, "NVIDIA H200", "heuristic", "built")}
    assert [row.threads for row in builds] == [128, 256]
    assert builds[0].file == Path(autotuner.filename).name


def test_launches_with_equal_sizes_are_one_row_with_their_grid(
    recording: Recording, autotuner: Any
) -> None:
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, SIZE, SIZE, 100, SIZE)
    builds, launches = noted_rows(recording, notes)
    assert [(row.count, row.grid) for row in launches] == [(3, (4, 1, 1)), (1, (1, 1, 1))]
    assert {row.build for row in launches} == {row.id for row in builds if row.is_picked}


def test_arguments_are_described_without_their_contents(
    recording: Recording, autotuner: Any
) -> None:
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, SIZE)
    _, [row] = noted_rows(recording, notes)
    tensor = {"dtype": "float32", "device": "cpu"}
    assert row.arguments == (
        {**tensor, "name": "in_out_ptr0", "shape": [SIZE], "stride": [1], "is_mutated": True},
        {
            **tensor,
            "name": "in_ptr0",
            "shape": [2, SIZE // 2],
            "stride": [SIZE, 2],
            "is_mutated": False,
        },
        {"name": "xnumel", "value": SIZE},
    )


def test_launches_that_only_time_something_are_not_counted(
    recording: Recording, autotuner: Any
) -> None:
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        autotuner.run(torch.empty(SIZE), torch.empty(SIZE), SIZE, stream=0, benchmark_run=True)
    assert noted_rows(recording, notes) == ([], [])


def test_a_configuration_that_could_not_be_loaded_is_told(
    recording: Recording, autotuner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    every = CachingAutotuner._make_launchers

    def only_the_first(autotuner: Any) -> None:
        every(autotuner)
        autotuner.launchers = autotuner.launchers[:1]

    monkeypatch.setattr(CachingAutotuner, "_make_launchers", only_the_first)
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        autotuner.precompile()
        launch(autotuner, SIZE)
    builds, _ = noted_rows(recording, notes)
    assert [(row.state, row.is_picked, row.error) for row in builds] == [
        ("built", True, ""),
        ("failed", False, LEFT_OUT),
    ]


def test_a_pick_out_of_inductors_cache_says_so(recording: Recording, autotuner: Any) -> None:
    autotuner.configs = autotuner.configs[:1]
    autotuner.autotune_cache_info = {"autotune_cache_state": "hit"}
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        autotuner.precompile()
        launch(autotuner, SIZE)
    [build], _ = noted_rows(recording, notes)
    assert (build.origin, build.timing_s, build.is_picked) == ("cached", 0.0, True)


def test_of_equal_kernels_the_one_of_its_own_compilation_is_taken(
    recording: Recording, autotuner: Any
) -> None:
    add_kernel(recording)
    second = add_kernel(recording, compilation="1/0")
    autotuner.compile_id = "1/0"
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, SIZE)
    assert {row.kernel for row in noted_rows(recording, notes)[1]} == {second}


def test_a_template_is_found_by_its_function(recording: Recording, autotuner: Any) -> None:
    add_kernel(recording)
    autotuner.filename = None
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, SIZE)
    assert len(noted_rows(recording, notes)[1]) == 1


def test_many_sizes_are_counted_together(
    recording: Recording, autotuner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_launches, "MAX_SIZES", 2)
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, 1, 2, 3, 4, 5)
    assert [(row.count, row.grid) for row in noted_rows(recording, notes)[1]] == [
        (1, (1, 1, 1)),
        (1, (1, 1, 1)),
        (3, ()),
    ]


def test_what_goes_wrong_while_noting_is_told_and_the_launch_stands(
    recording: Recording, autotuner: Any
) -> None:
    add_kernel(recording)
    notes = KernelNotes(recording)
    autotuner.inductor_meta["grid_type"] = "NoSuchGrid"
    with noting_launches(notes):
        launch(autotuner, SIZE, SIZE)
    with SessionReader(recording.writer.path) as reader:
        assert [row.where for row in reader.rows(Failure)] == ["recorder"], (
            "once, not at every launch"
        )
    assert next(iter(notes.kernels[0].launches.values())).count == 2


def test_nothing_is_hooked_while_inspecting(recording: Recording) -> None:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    before = CachingAutotuner.run
    recording.request = CaptureRequest("test", "")
    with launch_hook(recording):
        assert CachingAutotuner.run is before


def test_texts_come_from_tritons_cache(
    recording: Recording, autotuner: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "triton" / CACHE_KEY.format(block=512)
    folder.mkdir(parents=True)
    (folder / f"{NAME}.ttir").write_text("module {}\n")
    (folder / f"{NAME}.ptx").write_text(".version 8.7\n")
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, SIZE)
    builds, _ = noted_rows(recording, notes)
    with SessionReader(recording.writer.path) as reader:
        [picked] = [row for row in builds if row.is_picked]
        assert {
            level: reader.text(reader.get(Artifact, row).text)
            for level, row in picked.levels.items()
        } == {
            "ttir": "module {}\n",
            "ptx": ".version 8.7\n",
        }


SPILLING = 200
"""Values that are alive at once, with 32 registers for them."""


def test_spills_are_told_apart_from_other_local_memory() -> None:
    pytest.importorskip("triton.backends.nvidia.compiler")
    header = ".version 8.0\n.target sm_80\n.address_size 64\n"
    loads = "".join(f"ld.volatile.global.u32 %r{i}, [%rd1+{4 * i}];\n" for i in range(SPILLING))
    stores = "".join(f"st.volatile.global.u32 [%rd1+{4 * i}], %r{i};\n" for i in range(SPILLING))
    entry = ".visible .entry k(.param .u64 p) .maxnreg 32 {\n.reg .u64 %rd<2>;\n.reg .u32 %r<201>;\nld.param.u64 %rd1, [p];\n"
    assert spilled_bytes(f"{header}{entry}{loads}{stores}ret;\n}}\n") > SPILLING
    local = ".visible .entry k() {\n.local .b32 kept[8];\nst.local.u32 [kept], 1;\nret;\n}\n"
    assert spilled_bytes(header + local) == 0
    assert spilled_bytes("no PTX") == -1


def test_the_machines_code_is_kept_and_disassembled_when_somebody_looks(
    recording: Recording, autotuner: Any, tmp_path: Path
) -> None:
    from triton import knobs

    folder = tmp_path / "triton" / CACHE_KEY.format(block=512)
    folder.mkdir(parents=True)
    ptx = folder / f"{NAME}.ptx"
    ptx.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n"
    )
    try:
        command = [
            knobs.nvidia.ptxas.path,
            "--gpu-name=sm_80",
            str(ptx),
            "-o",
            str(ptx.with_suffix(".cubin")),
        ]
    except RuntimeError:
        pytest.skip("this Triton carries no ptxas")
    subprocess.run(command, check=True)
    add_kernel(recording)
    notes = KernelNotes(recording)
    with noting_launches(notes):
        launch(autotuner, SIZE)
    [picked] = [row for row in noted_rows(recording, notes)[0] if row.is_picked]
    assert set(picked.levels) == {"ptx"}
    path = recording.writer.path
    looked_at = with_sass(path, picked)
    with SessionReader(path) as reader:
        assert reader.get(KernelBuild, picked.id) == looked_at
        assert "EXIT" in reader.text(reader.get(Artifact, looked_at.levels["sass"]).text)
    assert with_sass(path, looked_at) is looked_at, "once"


def test_without_a_disassembler_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="SASS needs nvdisasm"):
        disassembled(b"", str(tmp_path / "none"))


def test_what_is_no_machine_code_is_told_with_the_tools_words() -> None:
    with pytest.raises(WorkerError, match="cannot read the machine code"):
        disassembled(b"nothing of the kind")
