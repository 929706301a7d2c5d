"""These tests check that compiled artefacts are used again: in this process, in another one, and
without torch.compile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sample_backends.small_backend import cache, library
from sample_backends.small_backend.__main__ import main, numbers
from sample_models.mlp import MLP
from tests.sample_backends.conftest import compiled

ROOT = Path(__file__).parents[2]
Counts = cache.Counter[cache.Origin]


@pytest.fixture
def own_cache(runtime_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without artefacts, with the runtime that is built already."""
    library.library()  # both are there afterwards
    library.standalone()
    for built in runtime_cache.glob("*-*"):
        (tmp_path / built.name).symlink_to(built)
    monkeypatch.setenv("SMALL_BACKEND_CACHE", str(tmp_path))
    torch._dynamo.reset()
    return tmp_path


def artefacts(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.small")}


def test_a_second_compile_uses_the_program_of_the_first(own_cache: Path, counts: Counts) -> None:
    model, x = MLP(), torch.randn(4, 32)
    first = compiled(model)
    first(x)
    assert counts == {"lowered": 1}
    first(x)
    assert counts == {"lowered": 1}
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(model)(x), model(x))
    assert counts == {"lowered": 1, "in memory": 1}
    assert len(artefacts(own_cache)) == 1


def test_another_layout_is_another_program(own_cache: Path, counts: Counts) -> None:
    for x in (torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(3, 5)):
        torch._dynamo.reset()
        compiled(lambda x: x * 2)(x)
    assert counts["lowered"] == 3
    assert len(artefacts(own_cache)) == 3


def test_constants_are_part_of_what_is_the_same(own_cache: Path, counts: Counts) -> None:
    for constant in (1.0, 2.0):
        torch._dynamo.reset()
        result = compiled(lambda x, constant=constant: x + torch.tensor([constant]))(torch.zeros(2))
        assert result.tolist() == [constant, constant]  # type: ignore[attr-defined]
    assert counts["lowered"] == 2


PROGRAM = """
import torch
from sample_backends.small import small
from sample_backends.small_backend.cache import counts
linear = torch.compile(torch.nn.functional.linear, backend=small)
print(linear(torch.ones(2, 8), torch.ones(3, 8), torch.ones(3)).sum().item(), dict(counts))
"""


def run(*command: str, folder: Path) -> str:
    environment = {**os.environ, "SMALL_BACKEND_CACHE": str(folder), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ended.stdout


def test_another_process_reads_the_artefact_and_then_runs_it_without_torch_compile(
    own_cache: Path,
) -> None:
    compiled(torch.nn.functional.linear)(torch.ones(2, 8), torch.ones(3, 8), torch.ones(3))
    assert run("-c", PROGRAM, folder=own_cache) == "54.0 {'read from disk': 1}\n"

    (name,) = artefacts(own_cache)
    made = cache.load(own_cache / name)
    inputs = [numbers(layout, k) for k, layout in enumerate(made.program.inputs)]
    expected = _linear(inputs)
    printed = run(
        "-m", "sample_backends.small_backend", "run", str(own_cache / name), folder=own_cache
    )
    (told,) = re.findall(r"result 0: \(2, 3\), sum (\S+)", printed)
    assert float(told) == pytest.approx(expected.double().sum().item(), rel=1e-4)
    printed = run(
        "-m",
        "sample_backends.small_backend",
        "run",
        str(own_cache / name),
        "--standalone",
        folder=own_cache,
    )
    (told,) = re.findall(r"output 0: 6 numbers, sum (\S+)", printed)
    assert float(told) == pytest.approx(expected.double().sum().item(), rel=1e-4)


def _linear(inputs: list[torch.Tensor]) -> torch.Tensor:
    by_sizes = {tuple(each.shape): each for each in inputs}
    return by_sizes[2, 8] @ by_sizes[3, 8].t() + by_sizes[3,]


def test_an_artefact_that_was_altered_is_made_anew_and_that_is_told(
    own_cache: Path, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.randn(3)
    compiled(lambda x: x * 3)(x)
    (name,) = artefacts(own_cache)
    whole = (own_cache / name).read_bytes()
    (own_cache / name).write_bytes(whole[:-5])
    torch._dynamo.reset()
    cache._in_memory.clear()
    torch.testing.assert_close(compiled(lambda x: x * 3)(x), x * 3)
    assert counts == {"lowered": 2}
    assert "is made anew: the artefact is truncated" in caplog.text
    assert (own_cache / name).read_bytes() == whole


def test_the_command_refuses_in_a_sentence(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["small_backend", "show", str(own_cache / "none.small")])
    assert main() == 1
    assert (
        capsys.readouterr().err
        == f"the artefact {own_cache / 'none.small'} cannot be read: No such file or directory\n"
    )
