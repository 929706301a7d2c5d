"""These tests check the regions of a regional compilation, as the analysis, the report and the view
show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.fx.traceback import annotate

from fx_explorer.analysis.annotated_regions import eager_nodes, regions
from fx_explorer.instruments.regions import regions_table
from fx_explorer.model import Kernel
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from tests.capture.recorded import record


def step(x: torch.Tensor) -> torch.Tensor:
    with annotate(
        {
            "compile_with_inductor": {
                "inductor_region": "waves",
                "inductor_configs": {"max_fusion_size": 7},
            }
        }
    ):
        y = x.sin().cos()
    z = y.exp()
    with annotate({"compile_with_inductor": "constant"}):
        offset = x.detach().abs() + 1
    with annotate({"note": "plain"}):
        return (z + offset).sum()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("regions") / "s.fxs"
    x = torch.ones(3, requires_grad=True)
    reader = record(path, lambda compile: compile(step)(x).backward(), backend="regional_inductor")
    yield reader
    reader.close()


def test_a_region_knows_its_lowerings_by_direction_and_the_kernels_of_each(
    session: SessionReader,
) -> None:
    waves = next(one for one in regions(session) if one.name == "waves")
    assert [one.row.direction for one in waves.lowerings] == ["forward", "backward"]
    for one in waves.lowerings:
        kernels = [
            k.name
            for k in session.rows(Kernel)
            if (k.direction, k.subgraph) == (one.row.direction, one.row.subgraph)
        ]
        assert one.kernels == tuple(dict.fromkeys(kernels)) != ()
    assert waves.eager == ()


def test_a_region_without_backward_says_so_and_keeps_its_forward(session: SessionReader) -> None:
    constant = next(one for one in regions(session) if one.name == "constant")
    assert [
        (one.row.direction, bool(one.row.subgraph), bool(one.row.reason))
        for one in constant.lowerings
    ] == [
        ("forward", True, False),
        ("backward", False, True),
    ]


def test_an_annotation_that_is_not_for_inductor_stays_eager_and_is_counted(
    session: SessionReader,
) -> None:
    plain = next(one for one in regions(session) if one.key == "note")
    assert not plain.is_compiled
    assert {"aten.add.Tensor": 1, "aten.sum.default": 1}.items() <= plain.eager[0].ops.items()


def test_what_stayed_eager_is_what_stands_outside_of_every_region(session: SessionReader) -> None:
    forward = eager_nodes(session)[0]
    assert forward.direction == "forward"
    assert set(forward.ops) - {"aten.detach.default"} == {
        "aten.exp.default",
        "aten.add.Tensor",
        "aten.sum.default",
    }
    assert forward.nodes == sum(forward.ops.values())


def test_the_report_has_the_lowerings(session: SessionReader) -> None:
    found = {one["name"]: one for one in json_report(session)["regions"]}  # type: ignore[attr-defined]
    forward = found["waves"]["lowerings"][0]
    assert (forward["direction"], forward["configs"], forward["reason"]) == (
        "forward",
        {"max_fusion_size": 7},
        None,
    )
    assert forward["seconds"] > 0
    assert found["constant"]["lowerings"][1]["subgraph"] is None
    assert found["plain"]["eager_nodes"] >= 2


def test_the_view_says_in_words_what_was_compiled(session: SessionReader) -> None:
    table = regions_table(session)
    assert {row.cells[0]: row.cells[1] for row in table.rows} == {
        "waves": "on its own",
        "constant": "in part",
        "plain": "no",
    }
    details = {row.cells[0]: row.detail().text for row in table.rows if row.detail}
    assert "not compiled: no node of the backward graph belongs to it" in details["constant"]
    assert "1 × aten.sum" in details["plain"]
    assert "nodes of forward [0/0]" in table.notice


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with annotate({"note": "product"}):
        return (x @ w).sum()


def test_a_library_call_that_both_directions_make_stands_in_both_columns(tmp_path: Path) -> None:
    x, w = torch.ones(3, 4, requires_grad=True), torch.ones(4, 5, requires_grad=True)
    with record(
        tmp_path / "s.fxs", lambda compile: compile(product)(x, w).backward(), backend="inductor"
    ) as reader:
        (region,) = regions(reader)
        assert "extern_kernels.mm" in region.forward_kernels
        assert "extern_kernels.mm" in region.backward_kernels
        assert len(region.kernels) == len(set(region.kernels))
        (row,) = regions_table(reader).rows
        assert ["extern_kernels.mm" in cell for cell in row.cells[3:5]] == [True, True]
