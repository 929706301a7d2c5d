"""These tests check which side effects are said to be replayed after a graph: against torch's own
log of them, ``TORCH_LOGS=side_effects``, and against the lines of a small program.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.instruments.side_effects import (
    NONE,
    NOTHING_COMPILED,
    changed_name,
    side_effect_json,
    side_effects_table,
)
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record

SEEN: list[torch.Tensor] = []
CALLS = {"count": 0}
Compile = Callable[[Any], Any]


class Counting(nn.Module):
    count = 0

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.total, torch.Tensor)
        self.count += 1
        y = x.sin()
        self.last = y
        SEEN.append(y.sum())
        CALLS["count"] = self.count
        self.total.add_(1)
        return y + self.total


def pure(x: torch.Tensor) -> torch.Tensor:
    own = [x]
    own.append(x.sin())
    return torch.stack(own)


def closing() -> Callable[[torch.Tensor], torch.Tensor]:
    called = 0

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal called
        called += 1
        return x + called

    return step


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def recorded(path: Path, program: Callable[[Compile], object]) -> tuple[SessionReader, list[str]]:
    """Record a program, and return what torch logged of its side effects, too."""
    log = torch._dynamo.side_effects.side_effects_log
    kept = Kept()
    torch._logging.set_logs(side_effects=True)
    log.addHandler(kept)
    try:
        return record(path, program), kept.texts
    finally:
        log.removeHandler(kept)
        torch._logging.set_logs()


LOGGED = re.compile(
    r"Mutating object of type (<unknown type>|\w+)(?: \(source name: (.*?)\)| \(source: (.*?)\))?"
)


def program(compile_it: Compile) -> None:
    compile_it(Counting())(torch.ones(3))
    compile_it(pure)(torch.ones(3))
    compile_it(closing())(torch.ones(3))


def test_side_effects_are_those_that_torch_logs(tmp_path: Path) -> None:
    reader, texts = recorded(tmp_path / "s.fxs", program)
    assert not failures(reader)
    if not texts:
        pytest.skip("this release of torch logs no side effects")
    logged = set()
    for text in texts:
        match = LOGGED.match(text)
        assert match is not None, text
        name = (match[2] or match[3] or "").replace("L['self']", "self")
        if name and "created in torch.compile" not in name:
            logged.add((match[1], name))
    assert {(row.type_name, row.changed) for row in reader.rows(model.SideEffect)} == logged
    reader.close()


def test_names_and_lines(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", program)
    lines = Path(__file__).read_text().split("\n")
    changed = {}
    for row in side_effect_json(reader):
        line = row["line"]
        changed[row["changed"]] = lines[line - 1].strip() if isinstance(line, int) else ""
    assert set(changed) == {"self.count, self.last", "SEEN", "CALLS", "called"}
    assert changed["SEEN"] == "SEEN.append(y.sum())"
    assert changed["CALLS"] == 'CALLS["count"] = self.count'
    table = side_effects_table(reader)
    assert table.answer.startswith("After its graphs, compiled code changes self.count, self.last,")
    assert table.rows[0].place is not None
    reader.close()


def test_a_tensor_that_changes_in_place_is_none(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", program)
    assert not [row for row in reader.rows(model.SideEffect) if "total" in changed_name(row)]
    reader.close()


def test_a_function_without_side_effects(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", lambda compile_it: compile_it(pure)(torch.ones(3)))
    table = side_effects_table(reader)
    assert not table.rows
    assert table.empty == NONE
    reader.close()


def test_a_program_that_compiles_nothing(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", lambda compile_it: None)
    assert side_effects_table(reader).empty == NOTHING_COMPILED
    reader.close()
