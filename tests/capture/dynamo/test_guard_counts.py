"""These tests check that the number of guards is the same everywhere, and is that of torch's own
tree.
"""

import re
from pathlib import Path

import torch
from torch import nn

from fx_explorer import model
from fx_explorer.instruments.diff.two_sessions import figures_of_both
from fx_explorer.instruments.guards.view import guards_table
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
    assert guards_table(reader).notice.startswith(f"{count} guards,")
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
