"""These tests check that no two rows of the memory view have the same name."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from fx_explorer.instruments.memory.row_names import distinguishing
from fx_explorer.instruments.memory.view import memory_table
from tests.capture.recorded import Compile, record


def test_a_row_alone_needs_nothing() -> None:
    assert distinguishing([("m.py:8", "f32[2]")]) == [""]


def test_the_line_tells_rows_apart() -> None:
    rows = [("m.py:8", "f32[2]", "[0/0]"), ("m.py:9", "f32[2]", "[0/0]")]
    assert distinguishing(rows) == ["m.py:8", "m.py:9"]


def test_the_shape_or_the_graph_does_where_the_line_is_the_same() -> None:
    rows = [("m.py:8", "f32[2]", "[0/0]"), ("m.py:8", "f32[3]", "[0/0]")]
    assert distinguishing(rows) == ["f32[2]", "f32[3]"]
    rows = [("", "f32[2]", "[0/0]"), ("", "f32[2]", "[1/0]")]
    assert distinguishing(rows) == ["[0/0]", "[1/0]"]


def test_two_of_them_do_where_neither_does_alone() -> None:
    rows = [("m.py:8", "f32[2]"), ("m.py:8", "f32[3]"), ("m.py:9", "f32[3]")]
    assert distinguishing(rows) == ["m.py:8 f32[2]", "m.py:8 f32[3]", "m.py:9 f32[3]"]


def test_rows_that_are_the_same_in_all_are_numbered() -> None:
    assert distinguishing([("m.py:8",), ("m.py:8",)]) == ["1 of 2", "2 of 2"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.up(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)


def test_no_two_rows_of_a_model_with_a_break_have_one_name(tmp_path: Path) -> None:
    def run(compile_: Compile) -> None:
        compile_(Net())(torch.randn(4, 8, requires_grad=True)).sum().backward()

    backend = "aot_eager_decomp_partition"
    with record(tmp_path / "s.fxs", run, backend=backend, build=True) as reader:
        table = memory_table(reader)
        titles = [column.title for column in table.columns]
        kinds = [row.cells[titles.index("kind")] for row in table.rows]
        names = [row.cells[titles.index("saved value")] for row in table.rows]
    assert set(kinds) > {"recomputed", "activation"}
    rows = list(zip(kinds, names, strict=True))
    assert len(set(rows)) == len(rows)
    assert any("(first)" in name for name in names), names
    assert any("(second)" in name for name in names), names


def test_versions_have_one_name_for_one_value_and_the_cursor_is_on_the_largest_activation(
    tmp_path: Path,
) -> None:
    def run(compile_: Compile) -> None:
        compiled = compile_(Block())
        for rows in (4, 6):
            compiled(torch.randn(rows, 8, requires_grad=True)).sum().backward()

    backend = "aot_eager_decomp_partition"
    with record(tmp_path / "s.fxs", run, backend=backend, build=True) as reader:
        table = memory_table(reader)
        titles = [column.title for column in table.columns]
        version, name = titles.index("version"), titles.index("saved value")
        rows = [(row.cells[version], row.cells[name]) for row in table.rows]
        kind = table.rows[table.first].cells[titles.index("kind")]
    assert len(set(rows)) == len(rows)
    names = {
        version: {row[1] for row in rows if row[0] == version} for version in ("[0/0]", "[0/1]")
    }
    assert names["[0/0]"] & names["[0/1]"]
    assert kind == "activation"
    assert table.answer.startswith(
        f"Largest activation saved: {' '.join(reversed(rows[table.first]))},"
    )
