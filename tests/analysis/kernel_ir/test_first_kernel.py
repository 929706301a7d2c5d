"""These tests check which kernel's levels are shown when no kernel is selected."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels import candidates
from fx_explorer.instruments.kernels.candidates import first_triton_kernel, why_no_triton
from fx_explorer.session import SessionReader, SessionWriter
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import sample


def test_the_first_one_is_that_of_the_compilation_that_is_looked_at(tmp_path: Path) -> None:
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"), built=False)
    with SessionWriter(written.path) as writer:
        other = writer.add(model.Compilation(0, "1/0", 1, 0, "g", "/p/m.py", 9, status="ok"))
        second = writer.add(
            model.Kernel(0, other, "forward", 0, "triton_second", "triton", written.artifact)
        )
    with SessionReader(written.path) as reader:
        found = [first_triton_kernel(reader, compilation) for compilation in (0, 1, other)]
    assert [kernel.id for kernel in found if kernel] == [written.kernel, written.kernel, second]


@pytest.mark.parametrize(
    ("languages", "gpu", "why"),
    [
        ((), "h100", candidates.NONE_YET),
        (("cpp", "extern"), "", candidates.FOR_THE_CPU),
        (("extern",), "h100", candidates.ONLY_LIBRARIES),
        (("extern",), "", candidates.NO_GPU),
    ],
)
def test_a_session_without_one_says_why(
    tmp_path: Path, languages: tuple[model.kernel.KernelLanguage, ...], gpu: str, why: str
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta(
            "request", {"target": "m.py", "gpu": dataclasses.asdict(find_gpu(gpu)) if gpu else None}
        )
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        for position, language in enumerate(languages):
            writer.add(model.Kernel(0, compilation, "forward", position, "k", language))
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert first_triton_kernel(reader, compilation) is None
        assert why_no_triton(reader) == why
