"""These tests change the user's source on disk while a capture is being driven: the old source is
kept.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

from fx_explorer.model import Changes, Command, Compilation, Mark
from tests.capture.stepping.driving import Driven, Given, drive
from tests.exhaustive import in_exhaustive_runs

SOURCE = """import torch
from torch import nn

def scale():
    return 2.0

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 4)

    def forward(self, x):
        return torch.relu(self.up(x)) * scale()
"""
AGAIN = Command("again", gate="partition")
LINES = Mark("act", first_line=12, last_line=12)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return path


def made_by(file: Path) -> Callable[[], nn.Module]:
    spec = importlib.util.spec_from_file_location("driven_model", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Model  # type: ignore[no-any-return]


def after(write: Callable[[], object], command: Command) -> Callable[[], Command]:
    def do() -> Command:
        write()
        return command

    return do


def driven(file: Path, *commands: Given, **how: object) -> Driven:
    return drive(file.with_name("s.fxs"), commands, model=made_by(file), **how)  # type: ignore[arg-type]


def edit(file: Path) -> Callable[[], object]:
    return lambda: file.write_text(SOURCE.replace("2.0", "3.0"))


def restore(file: Path) -> Callable[[], object]:
    return lambda: file.write_text(SOURCE)


def test_another_variant_is_refused_when_a_file_that_was_read_has_changed_and_compiled_when_it_is_put_back(
    file: Path,
) -> None:
    result = driven(file, after(edit(file), AGAIN), after(restore(file), AGAIN))
    (said,) = result.said("refused")
    assert said.startswith(f"{file} has changed, first in line 5; ")
    assert "Capture again (r)" in said
    assert "restore the file" in said
    assert [row.status for row in result.reader.rows(Compilation)] == ["ok", "ok"]
    assert result.codes("0/0~1") == result.codes()


def test_a_deleted_file_is_told_and_everything_stays_at_hand(file: Path) -> None:
    result = driven(
        file,
        after(file.unlink, AGAIN),
        Command("set", changes=Changes({"inductor.max_fusion_size": 3})),
    )
    assert f"{file} is gone" in result.said("refused")[0]
    assert "max_fusion_size = 3" in result.said("done")[0]


def test_at_a_gate_the_compile_goes_on_with_what_was_captured(file: Path) -> None:
    result = driven(file, after(edit(file), AGAIN), Command("go"), pause="step")
    assert "has changed" in result.said("refused")[0]
    assert result.paused_at() == [("dynamo", ""), (None, "")]
    assert result.variant("0/0").status == "ok"


@in_exhaustive_runs
def test_a_deferred_compile_waits_until_the_file_is_put_back(file: Path) -> None:
    result = driven(
        file, after(edit(file), Command("go")), after(restore(file), Command("go")), pause="dynamo"
    )
    assert "has changed" in result.said("refused")[0]
    assert result.codes() != {}


def test_lines_are_marked_in_the_source_that_was_captured(file: Path) -> None:
    mark = Command("mark", changes=Changes(marks=(Mark("up", module="up"),)))
    lines = Command(
        "mark", changes=Changes(marks=(Mark("act", file=str(file), first_line=13, last_line=13),))
    )
    result = driven(file, after(edit(file), lines), mark, Command("abort"), pause="step")
    assert "has changed" in result.said("refused")[0]
    assert 'region "up"' in result.said("done")[0]


@in_exhaustive_runs
def test_a_file_that_was_only_touched_or_was_not_read_is_no_obstacle(file: Path) -> None:
    (file.parent / "other.py").write_text("1")
    result = driven(
        file, after(restore(file), AGAIN), after((file.parent / "other.py").unlink, AGAIN)
    )
    assert result.said("refused") == []
    assert result.reader.count(Compilation) == 3
