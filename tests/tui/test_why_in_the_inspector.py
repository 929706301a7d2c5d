"""These tests check that the facts of a kernel lead to its missed fusions, and those of a node to
the pass that made it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Place,
    place_of_kernel,
    place_of_node,
    place_of_source,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.content.destinations import Entry, RowOfView, Stop
from fx_explorer.tui.content.inspect import entries
from fx_explorer.tui.screens.inspector import MOST_ROWS, Inspector, entry_rows
from tests.sessions import Hand, write_training_step
from tests.tui.conftest import Driver, OpenApp


@pytest.fixture
def decided(tmp_path: Path) -> Hand:
    """A training step whose kernel was fused with neither library call, and whose gelu a pass made."""
    hand = write_training_step(tmp_path / "decided.fxs")
    with SessionReader(hand.path) as reader:
        (call,) = reader.rows(model.KernelCall)
        externs = reader.rows(model.Kernel, language="extern")
        gelu = reader.get(model.Node, hand.node("post_forward", 2))
    with SessionWriter(hand.path) as writer:
        calls = [writer.add(model.KernelCall(0, row.id, 1, row.first_line)) for row in externs]
        for other, saved in zip(calls, (64, 4096), strict=True):
            writer.add(unfused(call.id, other, saved))
        for position, name in enumerate(("reinplace", "fuse_gelu")):
            row = model.GraphPass(0, gelu.graph, position, -1, name, "", 0.1, 1, 0, 0)
            writer.add(row)
        writer.add(made(gelu.graph, 0, 0, "addmm"))
        writer.add(made(gelu.graph, 1, gelu.id, "gelu"))
    return hand


def unfused(first: int, second: int, saved_bytes: int) -> model.UnfusedPair:
    return model.UnfusedPair(
        0,
        first,
        second,
        True,
        "not asked",
        "",
        "",
        saved_bytes,
        "",
        "",
        (),
        (),
        ("buf1",),
        (),
        True,
    )


def made(graph: int, graph_pass: int, node: int, name: str) -> model.PassChange:
    return model.PassChange(0, graph, graph_pass, "made", node, name, "", f"aten.{name}(x)", (), "")


def test_a_kernel_names_its_missed_fusions_with_bytes_and_reason(decided: Hand) -> None:
    with SessionReader(decided.path) as reader:
        kernel = reader.get(model.Kernel, decided.kernel)
        missed = [
            entry
            for entry in entries(reader, place_of_kernel(reader, kernel))
            if entry.label == "not fused"
        ]
        pairs = {pair.saved_bytes: pair.id for pair in reader.rows(model.UnfusedPair)}
    assert [entry.text.partition(" (")[2] for entry in missed] == [
        "library call): one kernel would save 4.1 kB",
        "library call): one kernel would save 64 B",
    ]
    assert [entry.row for entry in missed] == [
        RowOfView("fusion", (f"pair {pairs[4096]}",)),
        RowOfView("fusion", (f"pair {pairs[64]}",)),
    ]
    assert all("library call" in entry.note for entry in missed)


def test_both_kernels_of_a_pair_name_the_other(decided: Hand) -> None:
    with SessionReader(decided.path) as reader:
        for pair in reader.rows(model.UnfusedPair):
            calls = {row.id: row.kernel for row in reader.rows(model.KernelCall)}
            extern = reader.get(model.Kernel, calls[pair.second])
            place = place_of_kernel(reader, extern)
            texts = [entry.text for entry in entries(reader, place) if entry.label == "not fused"]
            assert [text.split()[2] for text in texts] == ["kernel"], extern.name


async def test_enter_leads_from_a_kernel_to_its_missed_fusion(
    open_app: OpenApp, decided: Hand
) -> None:
    async with open_app(decided.path) as driver:
        await driver.press("6", "down")
        await inspect(driver, "64 B")
        await driver.until(lambda: driver.explorer.history.current == Stop("fusion"))
        assert "64 B" in line_of_cursor(driver)
        await driver.press("b")
        await driver.until(lambda: driver.explorer.view == "kernels")


async def inspect(driver: Driver, words: str) -> None:
    """Follow the entry with these words in the facts of what the cursor is on."""
    await driver.press("i")
    screen = driver.app.screen
    assert isinstance(screen, Inspector)
    at = next(i for i, entry in enumerate(screen._entries) if words in entry.text)
    await driver.press(*["down"] * at)
    assert "⏎ goes there" in driver.screen
    await driver.press("enter")


def line_of_cursor(driver: Driver) -> str:
    rows = driver.explorer.table.rows
    return str(rows.line_text(rows.cursor))


async def test_enter_leads_from_a_node_to_the_pass_that_made_it(
    open_app: OpenApp, decided: Hand
) -> None:
    async with open_app(decided.path) as driver:
        await driver.press("2")
        await driver.explorer.go(gelu_of(decided))
        await inspect(driver, "fuse_gelu made it")
        await driver.until(lambda: driver.explorer.history.current == Stop("passes"))
        assert line_of_cursor(driver).split()[:2] == ["gelu", "made"]


async def test_a_node_without_a_row_leads_to_its_pass(
    open_app: OpenApp, decided: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.instruments.passes.view.MOST_NODES", 0)
    async with open_app(decided.path) as driver:
        await driver.press("2")
        await driver.explorer.go(gelu_of(decided))
        await inspect(driver, "fuse_gelu made it")
        assert "fuse_gelu" in line_of_cursor(driver)


async def test_a_filter_is_left_for_the_row_that_is_wanted(
    open_app: OpenApp, decided: Hand
) -> None:
    async with open_app(decided.path) as driver:
        await driver.press("v", "t", "v", "f")
        await driver.press(*"reinplace", "enter")
        assert "fuse_gelu" not in driver.screen
        await driver.press("2")
        await driver.explorer.go(gelu_of(decided))
        await inspect(driver, "fuse_gelu made it")
        assert line_of_cursor(driver).split()[:2] == ["gelu", "made"]


def gelu_of(hand: Hand) -> Place:
    """Return the place of the node that fuse_gelu made."""
    with SessionReader(hand.path) as reader:
        return place_of_node(reader, reader.get(model.Node, hand.node("post_forward", 2)))


def test_a_value_takes_as_many_rows_as_it_needs_and_no_more_than_the_width() -> None:
    text = "Inductor has no lowering for " + "call_function " * 12
    rows = entry_rows(Entry("why so", text), 40)
    values = [row[1][0] for row in rows]
    assert [row[0] for row in rows] == ["why so", *[""] * (len(rows) - 1)]
    assert " ".join(values) == text
    assert max(map(len, values)) <= 40


def test_a_very_long_value_ends_in_an_ellipsis() -> None:
    rows = entry_rows(Entry("node.meta", "value " * 200), 40)
    assert len(rows) == MOST_ROWS
    assert rows[-1][1][0].endswith("…")


def test_the_inputs_that_a_line_reads_are_counted_after_its_operations(decided: Hand) -> None:
    with SessionReader(decided.path) as reader:
        (file,) = reader.rows(model.SourceFile)[:1]
        lines = {node.line for node in reader.rows(model.Node) if node.file == file.id}
        for line in lines:
            facts = entries(reader, place_of_source(reader, file.id, line))
            labels = [entry.label for entry in facts if entry.label in ("became", "reads")]
            assert labels == sorted(labels)


def test_the_same_reason_is_given_once_for_a_kernel(decided: Hand) -> None:
    with SessionReader(decided.path) as reader:
        for kernel in reader.rows(model.Kernel):
            place = place_of_kernel(reader, kernel)
            if place is None:
                continue
            reasons = [entry.text for entry in entries(reader, place) if entry.label == "why so"]
            assert len(reasons) == len(set(reasons))
