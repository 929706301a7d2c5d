"""These tests check the sentences with which the views of modules and kernels begin, and the cost
of a break: each says what its figure counts.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fx_explorer.instruments.breaks.break_cost import BreakCost
from fx_explorer.instruments.breaks.cut_tensors import Tensors
from fx_explorer.instruments.compile_time.timing import describe_phase
from fx_explorer.instruments.compile_time.view import _phase_text, time_table
from fx_explorer.instruments.kernels.costs import KernelCost
from fx_explorer.instruments.kernels.view import _most_expensive as slowest_kernel
from fx_explorer.instruments.modules.tree import ModuleFigures, ModuleRow, ModuleTree
from fx_explorer.instruments.modules.view import WIDEST_NAMES, _Shown
from fx_explorer.instruments.modules.view import _most_expensive as most_expensive_module
from fx_explorer.model import Span
from tests.conftest import Captured, OpenedReader


def kernel(name: str, time_s: float, calls: int, kind: Any = "estimated") -> KernelCost:
    row = SimpleNamespace(id=1, name=name, language="triton")
    use = SimpleNamespace(kernel=row, calls=calls, nodes=())
    return KernelCost(cast(Any, use), None, (), (), 0, time_s, kind)


def test_an_estimate_of_several_calls_says_how_many() -> None:
    costs = [kernel("fused", 3e-6, 2), kernel("other", 1e-6, 1)]
    assert (
        slowest_kernel(costs) == "Slowest: #1 fused, at least 3.00 µs in 2 calls, 75 % of 4.00 µs."
    )


def test_kernels_that_take_as_long_as_the_slowest_are_counted() -> None:
    costs = [kernel("fused", 1.5e-6, 1), kernel("other", 1.5e-6, 1), kernel("quick", 1e-6, 1)]
    assert slowest_kernel(costs) == (
        "Slowest: #1 fused, at least 1.50 µs, 38 % of 4.00 µs; 1 other takes as long."
    )


def test_a_measured_time_of_one_call_is_no_minimum() -> None:
    costs = [kernel("fused", 3e-6, 1, "alone")]
    assert slowest_kernel(costs) == "Slowest: #1 fused, 3.00 µs, 100 % of 3.00 µs."


def test_several_modules_alike_are_named_as_several() -> None:
    whole, part = ModuleFigures(operations=10), ModuleFigures(operations=8)
    path = ("blocks", "0")
    rows = [
        ModuleRow(path[:1], 0, "blocks", "ModuleList", part, part),
        ModuleRow(path, 1, "0, 1", "Block", part, part, count=2),
    ]
    answer = most_expensive_module(ModuleTree(rows, whole, 3, frozenset()))
    assert answer.startswith("Most expensive: the 2 modules 0, 1 of blocks together, 80 %")


@pytest.mark.parametrize(
    ("name", "width"),
    [("fc", 22), ("token_embeddings_of", 23), ("a" * 300, WIDEST_NAMES)],
)
def test_the_names_of_modules_have_room_up_to_a_limit(name: str, width: int) -> None:
    part = ModuleFigures(operations=8)
    rows = [
        ModuleRow(("model",), 0, "model", "Model", part, part),
        ModuleRow(("model", name), 1, name, "Block", part, part),
    ]
    first = _Shown(ModuleTree(rows, part, 2, frozenset())).columns[0]
    # A name is indented by its depth, and has room for the arrow of a folded row.
    assert first.min_width == width


def test_a_phase_has_plain_words_and_torchs_name_in_its_details() -> None:
    span = Span(0, 0, "GraphLowering.run", "schedule", 1.0, 2.0, 3)
    text = _phase_text(describe_phase(span.name), span)
    assert text == (
        "lowering: 2.00 s, starting 1.00 s after the start, inside 3 other phases\n"
        "torch calls it GraphLowering.run"
    )


def test_the_time_view_names_phases_as_the_flame_chart_does(
    captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured("mlp"))
    shown = {row.cells[0] for row in time_table(session).rows}
    names = {span.name for span in session.rows(Span)}
    assert "GraphLowering.run" in names
    assert "GraphLowering.run" not in shown
    assert "lowering" in shown


def test_the_time_view_counts_each_second_once_in_each_level(
    captured: Captured, reader: OpenedReader
) -> None:
    table = time_table(reader(captured("mlp")))
    assert table.tree is not None
    outermost = [at for at, depth in enumerate(table.tree.depths) if depth == 0]
    assert [table.rows[at].cells[0] for at in outermost] == ["by stage", "by function"]
    for at, row in enumerate(table.rows):
        depth = table.tree.depths[at]
        inner = [
            table.rows[inside].values["time"]
            for inside in range(at + 1, table.tree.end(at))
            if table.tree.depths[inside] == depth + 1
        ]
        assert sum(inner) <= row.values["time"] * 1.0001


def test_no_phase_of_the_time_view_has_the_name_of_the_phase_around_it(
    captured: Captured, reader: OpenedReader
) -> None:
    table = time_table(reader(captured("mlp")))
    assert table.tree is not None
    around: list[str] = []
    for row, depth in zip(table.rows, table.tree.depths, strict=True):
        del around[depth:]
        assert row.cells[0] not in around[-1:]
        around.append(row.cells[0])


ONE, THREE = Tensors(1, 128), Tensors(3, 384)


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (Tensors(), "3 tensors (384 B) written and read back"),
        (
            ONE,
            "3 tensors (384 B) written and read back, of which 1 (128 B) is saved for the backward",
        ),
        (THREE, "3 tensors (384 B) written and read back, and saved for the backward"),
    ],
)
def test_tensors_that_cross_a_break_are_counted_once(saved: Tensors, words: str) -> None:
    cost = BreakCost(extra_graphs=1, read_again=THREE, saved=saved)
    assert cost.description == f"1 more graph, {words}"
