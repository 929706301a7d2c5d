"""These tests check a template's choices with the operations fused into them: what Inductor writes
when it is made to take another choice than the first.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer.model import Artifact, Kernel, KernelBuild, LineNode, Node
from fx_explorer.session import SessionReader
from tests.exhaustive import in_exhaustive_runs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or shutil.which("g++") is None,
    reason="triton or a C++ compiler is not there",
)

ROOT = Path(__file__).parents[3]

PROGRAM = """
import torch
from torch._inductor.select_algorithm import get_algorithm_selector_cache

def wanted_first(candidates):
    return [candidates[{taken}], *candidates[:{taken}], *candidates[{taken} + 1 :]]

get_algorithm_selector_cache().preprocessing_fns.insert(0, wanted_first)

if {is_left_out}:
    from fx_explorer.capture.inductor import generated as kernels
    kernels.write_choices = lambda *_: None

def model(a, b, c):
    return torch.relu(a @ b + c) * 2

example_inputs = [torch.randn(*shape, dtype=torch.bfloat16) for shape in ((256, 128), (128, 512), (512,))]
"""
TAKEN = 5
"""Index of the chosen entry in Inductor's list, where the library comes first: the templates' own
fourth.
"""

Read = Callable[[int], SessionReader]


@pytest.fixture(scope="module")
def read(
    tmp_path_factory: pytest.TempPathFactory, warm_python_for_h100: str, fx_explorer: list[str]
) -> Iterator[Read]:
    """``read(n)``: the program's session, with choice ``n`` of Inductor's list in front."""
    folder = tmp_path_factory.mktemp("whole")
    opened: dict[int, SessionReader] = {}

    def read_session(taken: int) -> SessionReader:
        if taken not in opened:
            session = _capture(folder, taken, warm_python_for_h100, fx_explorer)
            opened[taken] = SessionReader(session)
        return opened[taken]

    yield read_session
    for reader in opened.values():
        reader.close()


LEFT_OUT = -1
"""In place of a choice's number: the first, and no choice is asked for."""


def _capture(folder: Path, taken: int, python: str, fx_explorer: list[str]) -> Path:
    script, session = folder / "product.py", folder / f"{taken}.fxs"
    script.write_text(PROGRAM.format(taken=max(taken, 0), is_left_out=taken == LEFT_OUT))
    options = [
        "--python",
        python,
        "--gpu",
        "h100",
        "--mode",
        "max-autotune-no-cudagraphs",
        "-o",
        str(session),
    ]
    subprocess.run(
        [*fx_explorer, "capture", str(script), *options],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return session


def _template(reader: SessionReader) -> Kernel:
    (kernel,) = (kernel for kernel in reader.rows(Kernel) if kernel.name.startswith("triton_tem"))
    return kernel


def _links(reader: SessionReader, artifact: int) -> set[tuple[int, str]]:
    rows = reader.rows(LineNode, artifact=artifact)
    names = {node.id: node.name for node in reader.by_ids(Node, [row.node for row in rows])}
    return {(row.line, names[row.node]) for row in rows}


def _taken(reader: SessionReader, of: SessionReader) -> KernelBuild:
    """The configuration among ``reader``'s that is the kernel in the session ``of``."""
    (first, *_) = of.rows(KernelBuild, kernel=_template(of).id)
    (row,) = (
        row
        for row in reader.rows(KernelBuild, kernel=_template(reader).id)
        if row.options == first.options
    )
    return row


def test_a_choice_is_shown_as_inductor_writes_it_when_it_is_the_one_that_is_taken(
    read: Read,
) -> None:
    plain, other = read(0), read(TAKEN)
    row = _taken(plain, other)
    kernel = _template(other)
    assert row.position > 0
    source = plain.text(plain.get(Artifact, row.source_artifact).text)
    assert source == other.text(other.get(Artifact, kernel.artifact).text)
    assert "tl.where" in source or "maximum" in source, "relu is fused into it"
    assert _links(plain, row.source_artifact) == _links(other, kernel.artifact)


def test_every_choice_is_a_document_with_the_lines_that_compute_what_is_fused_into_it(
    read: Read,
) -> None:
    reader = read(0)
    first, *others = reader.rows(KernelBuild, kernel=_template(reader).id)
    templates = [row for row in others if row.origin == "template"]
    assert first.source_artifact == 0
    assert len(templates) > 10
    for row in templates:
        artifact = reader.get(Artifact, row.source_artifact)
        assert (artifact.kind, artifact.language, artifact.text, row.name) == (
            "candidate",
            "triton",
            row.source,
            "",
        )
        linked = _links(reader, artifact.id)
        assert {node for line, node in linked if not line} == {"mm", "add", "relu", "mul"}
        text = reader.text(artifact.text).split("\n")
        assert any("maximum" in text[line - 1] for line, node in linked if node == "relu" and line)


def test_the_library_is_among_the_choices_and_nothing_of_it_can_be_built(read: Read) -> None:
    reader = read(0)
    libraries = [
        row
        for row in reader.rows(KernelBuild, kernel=_template(reader).id)
        if row.origin == "library"
    ]
    assert [row.options for row in libraries] == [{"library": "mm"}]
    assert all(row.state == "built" and not row.levels and not row.is_picked for row in libraries)


@in_exhaustive_runs
def test_what_inductor_generates_is_the_same_when_no_choice_is_asked_for(read: Read) -> None:
    def generated(reader: SessionReader) -> list[str]:
        return [reader.text(row.text) for row in reader.rows(Artifact, kind="output_code")]

    assert generated(read(0)) == generated(read(LEFT_OUT))
    rows = [row for row in read(LEFT_OUT).rows(KernelBuild) if row.source]
    assert rows
    assert all(row.name.startswith("triton_mm") for row in rows), "each alone"
