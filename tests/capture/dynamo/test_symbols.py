"""These tests check that dynamic sizes are rows with the decisions about them, and the lines of
these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fx_explorer import model
from fx_explorer.instruments.guards.symbols import symbols as explained_symbols
from fx_explorer.session import SessionReader
from tests.capture.recorded import record


def line_of(code: str) -> int:
    return next(
        i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if code in line
    )


def sizes(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    if x.shape[0] > 2:
        x = x * 2
    x = x + torch.zeros(8)
    return x.sum() * n + y.sum()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    path = tmp_path_factory.mktemp("symbols") / "s.fxs"
    return record(
        path, lambda c: c(sizes)(torch.ones(4, 8), torch.ones(4), 3), backend="eager", dynamic=True
    )


def symbols(reader: SessionReader) -> dict[str, model.Symbol]:
    return {row.source: row for row in reader.rows(model.Symbol)}


def events(reader: SessionReader, kind: str) -> list[model.SymbolEvent]:
    return reader.rows(model.SymbolEvent, kind=kind)


def test_a_symbol_has_its_value_range_and_every_input_of_that_size(recorded: SessionReader) -> None:
    rows = symbols(recorded)
    rows_of_x = rows["L['x'].size()[0]"]
    assert (rows_of_x.hint, rows_of_x.range, rows_of_x.final_range) == (
        "4",
        "[2, int_oo]",
        "[3, int_oo]",
    )
    assert rows_of_x.sources == ("L['x'].size()[0]", "L['y'].size()[0]")
    assert rows["L['n']"].hint == "3"


def test_equal_sizes_are_told_to_be_taken_for_one(recorded: SessionReader) -> None:
    name = symbols(recorded)["L['x'].size()[0]"].name
    assert [(row.symbols, row.expression) for row in events(recorded, "same_as")] == [
        ((name,), "L['y'].size()[0]")
    ]


def test_a_size_that_became_a_constant_says_at_which_line(recorded: SessionReader) -> None:
    row = symbols(recorded)["L['x'].size()[1]"]
    assert row.became == "8"
    (event,) = events(recorded, "specialized")
    assert (event.symbols, event.expression) == ((row.name,), "8")
    assert (event.file, event.line) == (__file__, line_of("x + torch.zeros(8)"))


def test_who_fixed_a_size_is_told_with_the_stack(recorded: SessionReader) -> None:
    fixed = next(one for one in explained_symbols(recorded) if one.symbol.became == "8")
    assert [(frame.function, frame.line) for frame in fixed.stack[-1:]] == [
        ("sizes", line_of("x + torch.zeros(8)"))
    ]
    assert fixed.state == "specialized to 8"


def test_a_condition_on_a_size_says_at_which_line(recorded: SessionReader) -> None:
    name = symbols(recorded)["L['x'].size()[0]"].name
    (event,) = (row for row in events(recorded, "constrained") if row.expression == f"{name} > 2")
    assert (event.symbols, event.line) == ((name,), line_of("if x.shape[0] > 2:"))
    assert recorded.get(model.Stack, event.stack).frames[-1].function == "sizes"


def test_the_symbols_are_those_of_the_shape_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: set[str] = set()
    original = ShapeEnv.create_symbol

    def create_symbol(*args: Any, **kwargs: Any) -> Any:
        symbol = original(*args, **kwargs)
        made.add(str(symbol))
        return symbol

    monkeypatch.setattr(ShapeEnv, "create_symbol", create_symbol)
    with record(tmp_path / "s", run(sizes), backend="eager", dynamic=True) as reader:
        assert {row.name for row in reader.rows(model.Symbol)} == {
            name for name in made if not name.isdigit()
        }


def run(function: Callable[..., Any]) -> Callable[[Any], object]:
    return lambda compile: compile(function)(torch.ones(4, 8), torch.ones(4), 3)


def test_a_value_read_from_a_tensor_is_a_symbol_without_a_source(tmp_path: Path) -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        n = x.sum().item()
        torch._check(n >= 2)
        return torch.zeros(n) + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        reader = record(tmp_path / "s", lambda c: c(read)(torch.tensor([1, 2])), backend="eager")
    (row,) = reader.rows(model.Symbol)
    assert (row.name, row.source, row.hint) == ("u0", "", "")
    assert [event.line for event in events(reader, "constrained")] == [
        line_of("torch._check(n >= 2)")
    ]


def test_only_the_last_attempt_of_a_restarted_frame_counts(tmp_path: Path) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x * x.shape[0]
        torch._dynamo.graph_break()
        return x + 1

    with record(
        tmp_path / "s", lambda c: c(broken)(torch.ones(4)), backend="eager", dynamic=True
    ) as reader:
        first = [row for row in reader.rows(model.Symbol) if row.compilation == 1]
        last = max(row.attempt for row in first)
        assert [bool(row.final_range) for row in first] == [row.attempt == last for row in first]
