"""These tests check that the number of guards is the same everywhere, and is that of torch's own
tree.
"""

import re
import sqlite3
from pathlib import Path

import torch
from torch import nn

from fx_explorer import model
from fx_explorer.instruments.diff.two_sessions import figures_of_both
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.instruments.trace.view import trace_table
from fx_explorer.overview.overview import overview
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count
from tests.capture.recorded import Compile, record


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.names = {"a": 1.0, "b": 2.0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        for name in self.names:
            x = x * self.names[name]
        return x


def in_the_tree(reader: SessionReader) -> int:
    """Leaves of the tree that torch prints; that on the marks of a tensor has a line for each kind
    of mark.
    """
    (tree,) = reader.rows(model.Artifact, kind="guard_tree")
    kinds = re.findall(r"\+- (?!\w*Manager)([A-Z_]+):", reader.text(tree.text))
    return sum(
        kind != "DIMENSION_DYNAMIC_MARKING_GUARD" or kinds[i - 1] != kind
        for i, kind in enumerate(kinds)
    )


def test_the_number_of_guards_is_that_of_torchs_tree_in_every_place(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compile_(Net())(torch.ones(4, 4))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    count = check_count(reader)
    assert count == in_the_tree(reader)
    assert count < reader.count(model.Guard)  # what Dynamo asked for, of which some has no check
    (said,) = (fact.text for fact in overview(reader) if "its guards hold" in fact.text)
    assert f"hold: {count}" in said
    assert guards_table(reader).notice.startswith(f"{count} checks for the ")
    (told,) = json_report(reader)["compilations"]  # type: ignore[misc]
    assert told["guards"] == count
    assert {f.left for f in figures_of_both(reader, reader) if f.what == "guards"} == {str(count)}


def test_of_several_compilations_each_has_guards_of_its_own(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(lambda x: x * 2)
        for size in (4, 6):
            compiled(torch.ones(size))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    each = [check_count(reader, row.id) for row in reader.rows(model.Compilation)]
    assert check_count(reader) == sum(each)
    (said,) = (fact.text for fact in overview(reader) if "its guards hold" in fact.text)
    assert f"{sum(each)} in total over all compilations" in said


class Scaled(nn.Module):
    """It has a number that becomes dynamic, and that is a key: its guard has two parts alike."""

    def __init__(self) -> None:
        super().__init__()
        self.base = 1.0
        self.by_base = {1.0: 2, 2.0: 3}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by_base[self.base] + self.base


def test_what_torch_evaluates_twice_counts_twice_in_every_place(tmp_path: Path) -> None:
    net = Scaled()

    def program(compile_: Compile) -> None:
        compiled = compile_(net)
        for base in (1.0, 2.0):
            net.base = base
            compiled(torch.ones(4))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    codes = [(row.compilation, row.code) for row in reader.rows(model.GuardCheck)]
    assert len(codes) > len(set(codes))
    table = guards_table(reader)
    checks = [row for row in table.rows if not row.cells[1].startswith("▾")]
    assert check_count(reader) == len(checks)
    assert table.notice.startswith(f"{len(checks)} checks for the ")


def test_the_views_of_guards_and_of_the_trace_say_what_each_counts(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compile_(Net())(torch.ones(4, 4))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    checks, asked = check_count(reader), reader.count(model.Guard)
    assert checks != asked
    words = f" checks for the {asked} guards that Dynamo made"
    assert words in guards_table(reader).notice
    assert (
        f"torch runs {checks} checks for the {asked} guards it made (5)"
        in trace_table(reader).answer
    )


def test_of_a_compilation_without_a_tree_the_guards_count_and_are_listed(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(lambda x: x * 2)
        for size in (4, 6):
            compiled(torch.ones(size))

    record(tmp_path / "s.fxs", program, backend="eager").close()
    with sqlite3.connect(tmp_path / "s.fxs") as file:
        file.execute("DELETE FROM guard_check WHERE compilation = 1")
    with SessionReader(tmp_path / "s.fxs") as reader:
        of_first = reader.count(model.Guard, compilation=1)
        assert check_count(reader, 1) == of_first
        assert check_count(reader) == of_first + reader.count(model.GuardCheck)
        rows = [row for row in guards_table(reader).rows if not row.cells[1].startswith("▾")]
        assert len(rows) == check_count(reader)
