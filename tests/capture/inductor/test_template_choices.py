"""These tests check a session's data on a kernel for a GPU besides its code: every configuration of
a template, bytes and operations.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.session import SessionReader

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or shutil.which("g++") is None,
    reason="triton or a C++ compiler is not there",
)

ROOT = Path(__file__).parents[3]

ROWS, INNER, COLUMNS = 256, 128, 512

PROGRAM = f"""
import torch

def model(a, b):
    return torch.relu(a @ b).sum(-1)

example_inputs = torch.randn({ROWS}, {INNER}, dtype=torch.bfloat16), torch.randn({INNER}, {COLUMNS}, dtype=torch.bfloat16)
"""


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory, warm_python_for_h100: str, fx_explorer: list[str]
) -> Iterator[SessionReader]:
    folder = tmp_path_factory.mktemp("choices")
    (folder / "product.py").write_text(PROGRAM)
    options = ["--gpu", "h100", "--mode", "max-autotune-no-cudagraphs", "-o", str(folder / "s.fxs")]
    options += ["--python", warm_python_for_h100]
    subprocess.run(
        [*fx_explorer, "capture", str(folder / "product.py"), *options],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=300,
    )
    with SessionReader(folder / "s.fxs") as opened:
        yield opened


def _template(reader: SessionReader) -> model.Kernel:
    (kernel,) = (
        kernel for kernel in reader.rows(model.Kernel) if kernel.name.startswith("triton_tem")
    )
    return kernel


def test_a_template_has_many_configurations_and_the_first_is_the_kernel(
    reader: SessionReader,
) -> None:
    kernel = _template(reader)
    rows = reader.rows(model.KernelBuild, kernel=kernel.id)
    assert [row.position for row in rows] == list(range(len(rows)))
    assert len({tuple(row.options.items()) for row in rows}) == len(rows) > 10
    assert {row.origin for row in rows[:-1]} == {"template"}
    assert rows[-1].options == {"library": "mm"}
    source = reader.text(reader.get(model.Artifact, kernel.artifact).text)
    assert f"BLOCK_M : tl.constexpr = {rows[0].options['BLOCK_M']}\n" in source
    assert f"num_warps={rows[0].options['num_warps']},\n" in source


def test_each_configuration_but_the_first_has_a_source_of_its_own(reader: SessionReader) -> None:
    kernel = _template(reader)
    first, *others = reader.rows(model.KernelBuild, kernel=kernel.id, origin="template")
    assert not first.source
    for row in others:
        source = reader.text(row.source)
        assert f"def {kernel.name}(" in source
        assert f"BLOCK_M : tl.constexpr = {row.options['BLOCK_M']}\n" in source


def test_operations_and_bytes_are_those_of_the_product(reader: SessionReader) -> None:
    kernel = _template(reader)
    assert kernel.estimated_flops == 2 * ROWS * INNER * COLUMNS
    read = 2 * (ROWS * INNER + INNER * COLUMNS)
    assert read < kernel.estimated_bytes <= read + 4 * ROWS * COLUMNS
