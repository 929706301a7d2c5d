"""These tests check how fx-explorer shows the sample backend: its stages, the lines of its program,
its runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.stage_work import points_in_use, works_at
from fx_explorer.session import SessionReader

ROOT = Path(__file__).parents[2]
OpenedReader = Callable[[str | Path], SessionReader]


def artefact_of(seen: SessionReader) -> str:
    """The text of the last stage that was published, as the session has it."""
    last = seen.rows(model.PublishedStage)[-1]
    return seen.text(seen.get(model.Artifact, last.artifact).text)


def test_a_capture_has_its_stages_and_runs_and_nothing_fails(
    tmp_path: Path,
    capture_environment: dict[str, str],
    runtime_cache: Path,
    warm_python: str,
    fx_explorer: list[str],
    reader: OpenedReader,
) -> None:
    session = tmp_path / "mlp.fxs"
    command = [
        *fx_explorer,
        "capture",
        "sample_models/mlp.py",
        "-o",
        str(session),
    ]
    command += ["--backend", "sample_backends/small.py:small", "--python", warm_python]
    environment = {**os.environ, **capture_environment, "SMALL_BACKEND_CACHE": str(runtime_cache)}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=300, check=True)

    seen = reader(session)
    assert seen.rows(model.Failure) == []
    stages = [(stage.name, stage.direction) for stage in seen.rows(model.PublishedStage)]
    names = ("support", "segments", "program", "artefact")
    assert stages == [(name, direction) for direction in ("forward", "backward") for name in names]
    told = [
        (point.title, point.direction) for point in points_in_use(seen) if point.key == "backend"
    ]
    assert told == [(f"{name} of small", direction) for name, direction in stages]
    (at_pause,) = works_at(
        session, "0/0", "backend", "backward"
    )  # each stage has a pause, which tells of the last one only
    lines = len(artefact_of(seen).splitlines())
    assert (
        at_pause.sentence
        == f"artefact of small: {lines} lines for the 15 operations that the backend was given."
    )
    runs = {run.entry: run.id for run in seen.rows(model.BackendRun)}
    assert list(runs) == ["forward", "backward"]
    instructions = seen.rows(model.BackendInstruction)
    assert not any(each.fell_back for each in instructions)
    assert all(
        each.line and each.node for each in instructions
    )  # each is linked to its line and to the node it computes
    # by hand: two products and a GELU; in the backward three products (x needs no gradient), two
    # sums and GELU's own
    by_run = {
        entry: sorted(each.name for each in instructions if each.run == run)
        for entry, run in runs.items()
    }
    assert by_run["forward"] == ["gelu", "matmul", "matmul"]
    assert by_run["backward"] == ["gelu_backward", "matmul", "matmul", "matmul", "sum", "sum"]
