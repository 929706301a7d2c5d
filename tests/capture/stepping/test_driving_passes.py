"""These tests run a pass of the user's at each gate: it shows in the code, both graphs are kept,
links still lead to the source.

It is applied once, however many variants are compiled.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.analysis.documents import Place, documents, lines_of
from fx_explorer.analysis.lineage import documents_of_variant
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.model import (
    Changes,
    Command,
    Compilation,
    Direction,
    Gate,
    Graph,
    Intervention,
    PassFile,
)
from tests.capture.stepping.driving import INDUCTORS_GATES, STEPS, Driven, Given, drive
from tests.exhaustive import in_exhaustive_runs, one_of

SWAP = """import torch

def pass_(gm):
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is {old}:
            node.target = {new}
"""
ATEN = "torch.ops.aten.{}.default"
SWAPS: dict[str, tuple[str, str, str, str]] = {
    "pre_grad": ("torch.sin", "torch.cos", ".sin()", ".cos()"),
    "joint": (ATEN.format("sin"), ATEN.format("sinh"), ".sin()", ".sinh()"),
    "partition": (ATEN.format("sin"), ATEN.format("tan"), ".sin()", ".tan()"),
    "post_grad": (ATEN.format("sin"), ATEN.format("atan"), ".sin()", ".atan()"),
}
"""For each gate: an operator to replace, its replacement, and both as they appear in the code."""


class Wave(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.up(x)) * 2


def swap(folder: Path, gate: Gate, direction: Direction = "", name: str = "") -> PassFile:
    file = folder / f"{name or gate}.py"
    file.write_text(SWAP.format(old=SWAPS[gate][0], new=SWAPS[gate][1]))
    return PassFile(gate, str(file), direction)


def driven(folder: Path, *commands: Given, **how: object) -> Driven:
    return drive(folder / "s.fxs", commands, model=Wave, **how)  # type: ignore[arg-type]


def edits(driven: Driven, name: str) -> list[tuple[Gate | None, Direction]]:
    return [
        (row.gate, row.direction)
        for row in driven.reader.rows(Intervention, compilation=driven.variant(name).id)
    ]


@pytest.mark.parametrize("gate", one_of(6, SWAPS))
def test_a_pass_shows_in_the_code_and_stays_in_every_variant_from_there(
    gate: Gate, tmp_path: Path
) -> None:
    """From before the gate it is applied again, from later on it is in what was kept: the code is
    the same.
    """
    first = Command("again", gate="dynamo", changes=Changes(passes=(swap(tmp_path, gate),)))
    more = [Command("again", gate=start, compilation="0/0~1") for start in INDUCTORS_GATES]
    result = driven(tmp_path, first, *more)
    assert result.said("refused") == []
    *_, old, new = SWAPS[gate]
    assert old in result.codes()["forward"]
    assert new in result.codes("0/0~1")["forward"]
    assert old not in result.codes("0/0~1")["forward"]
    expected = edits(result, "0/0~1")
    assert expected == (
        [(gate, "forward"), (gate, "backward")]
        if gate in ("partition", "post_grad")
        else [(gate, "")]
    )
    for position, start in enumerate(INDUCTORS_GATES, 2):
        assert result.codes(f"0/0~{position}") == result.codes("0/0~1"), start
        assert edits(result, f"0/0~{position}") == (
            expected if INDUCTORS_GATES.index(start) <= INDUCTORS_GATES.index(gate) else []
        )


def test_links_still_lead_from_the_kernel_to_the_source(tmp_path: Path) -> None:
    result = driven(
        tmp_path,
        Command("again", gate="post_grad", changes=Changes(passes=(swap(tmp_path, "post_grad"),))),
    )
    shown = documents_of_variant(result.reader, result.variant("0/0~1"))
    (kernel,) = [one for one in shown if one.stage == "kernel" and one.direction == "forward"]
    (source,) = [
        one
        for one in documents(result.reader)
        if one.kind == "source" and one.title == Path(__file__).name
    ]
    line = next(i for i, text in enumerate(lines_of(result.reader, kernel)) if ".atan()" in text)
    (lit,) = linked_places(result.reader, Place(kernel, line), [source])[source]
    assert "torch.sin(self.up(x))" in lines_of(result.reader, source)[lit]


def test_before_and_after_a_pass_are_kept(tmp_path: Path) -> None:
    result = driven(
        tmp_path, Command("again", gate="joint", changes=Changes(passes=(swap(tmp_path, "joint"),)))
    )
    (edit,) = result.reader.rows(Intervention)
    before, after = (
        [n.target for n in result.reader.nodes(result.reader.get(Graph, g))]
        for g in (edit.before, edit.after)
    )
    assert [name.replace("aten.sin.", "aten.sinh.") for name in before] == after != before
    assert "torch.ops.aten.sinh" in result.reader.text(edit.text)


@in_exhaustive_runs
def test_a_pass_applied_at_a_gate_belongs_to_the_variant(tmp_path: Path) -> None:
    here = Command("pass", changes=Changes(passes=(swap(tmp_path, "joint"),)))
    result = driven(
        tmp_path, *STEPS[:2], here, Command("again", gate="pre_grad"), Command("go"), pause="step"
    )
    assert edits(result, "0/0") == edits(result, "0/0~1") == [("joint", "")]
    assert ".sinh()" in result.codes("0/0~1")["forward"]


@in_exhaustive_runs
def test_a_file_that_is_given_again_takes_the_place_of_what_it_did(tmp_path: Path) -> None:
    one = swap(tmp_path, "joint")

    def edited() -> Command:
        Path(one.path).write_text(SWAP.format(old=ATEN.format("sin"), new=ATEN.format("atan")))
        return Command("again", gate="joint", compilation="0/0~1", changes=Changes(passes=(one,)))

    result = driven(
        tmp_path, Command("again", gate="joint", changes=Changes(passes=(one,))), edited
    )
    assert ".atan()" in result.codes("0/0~2")["forward"]
    assert edits(result, "0/0~2") == [("joint", "")]


def test_a_pass_that_fails_while_dynamo_waits_pauses_there_and_the_variant_does_without_it(
    tmp_path: Path,
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def pass_(gm):\n    gm.nothing\n")
    again = Command("again", gate="dynamo", changes=Changes(passes=(PassFile("joint", str(bad)),)))
    good = Command("pass", changes=Changes(passes=(swap(tmp_path, "joint"),)))
    result = driven(tmp_path, again, Command("go"), good, Command("go"), pause="step")
    assert any("bad.py:2: AttributeError" in text for text in result.said("note"))
    assert result.paused_at() == [("dynamo", ""), ("dynamo", ""), ("joint", ""), (None, "")]
    assert (result.variant("0/0~1").status, result.error) == ("ok", None)
    assert ".sinh()" in result.codes("0/0~1")["forward"]


def test_a_pass_that_fails_when_the_program_has_ended_fails_its_variant_alone(
    tmp_path: Path,
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def pass_(gm):\n    gm.nothing\n")
    again = Command("again", gate="dynamo", changes=Changes(passes=(PassFile("joint", str(bad)),)))
    result = driven(tmp_path, again, Command("again", gate="joint"))
    assert "bad.py:2: AttributeError" in result.said("refused")[0]
    assert [result.variant(name).status for name in ("0/0", "0/0~1", "0/0~2")] == [
        "ok",
        "failed",
        "ok",
    ]


REFUSED: dict[str, tuple[Gate, Gate, str, str]] = {
    "syntax": ("dynamo", "joint", "def pass_(gm)\n", "bad.py:1: SyntaxError"),
    "missing": ("dynamo", "joint", "", "cannot read the pass file"),
    "none": ("dynamo", "joint", "def fold(gm): pass\n", "no function pass_(gm)"),
    "too late": ("dynamo", "pre_fusion", "def pass_(gm): pass\n", "no FX graph"),
    "too early": ("post_grad", "joint", "def pass_(gm): pass\n", "comes before"),
}


@in_exhaustive_runs
def test_a_pass_that_cannot_be_applied_for_another_variant_is_refused_before_it_begins(
    tmp_path: Path,
) -> None:
    commands = []
    for case, (start, gate, source, _) in REFUSED.items():
        file = tmp_path / case / "bad.py"
        file.parent.mkdir()
        if source:
            file.write_text(source)
        changes = Changes(passes=(PassFile(gate, str(file)),))
        commands.append(Command("again", gate=start, changes=changes))
    result = driven(tmp_path, *commands)
    for (*_, complaint), said in zip(REFUSED.values(), result.said("refused"), strict=True):
        assert complaint in said
    assert result.reader.rows(Intervention) == []
    assert [row.status for row in result.reader.rows(Compilation)] == ["ok"]
