"""These tests check dynamic shapes while a capture is driven: requested at a gate, and in graphs
that are compiled when the program has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer.model import Changes, Command, Compilation, Guard, Mark, Pause, Symbol
from fx_explorer.model.protocol import CommandKind
from tests.capture.stepping.driving import STEPS, Broken, Driven, WithNorm, drive
from tests.exhaustive import in_exhaustive_runs, with_others

DYNAMIC = Changes({"compile.dynamic": True})
ANEW = Command("again", gate="dynamo", changes=DYNAMIC)


def symbols(driven: Driven, name: str = "0/0") -> set[str]:
    return {row.source for row in driven.reader.rows(Symbol, compilation=driven.variant(name).id)}


def guards(driven: Driven, name: str = "0/0") -> set[str]:
    """Return the guards on sizes."""
    rows = driven.reader.rows(Guard, compilation=driven.variant(name).id)
    return {part for row in rows if row.kind == "SHAPE_ENV" for part in row.code.split(" and ")}


@pytest.fixture(scope="module")
def asked_for(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """Drive a capture that is dynamic from the beginning, without stepping."""
    return drive(tmp_path_factory.mktemp("dynamic") / "s.fxs", dynamic=True)


@pytest.fixture(scope="module")
def with_norm(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    path = tmp_path_factory.mktemp("with_norm") / "s.fxs"
    return drive(path, model=WithNorm, dynamic=True)


@pytest.mark.parametrize("steps", with_others([0], [4]))
def test_other_dynamic_shapes_at_a_gate_have_dynamo_begin_anew(
    asked_for: Driven, tmp_path: Path, steps: int
) -> None:
    driven = drive(tmp_path / "s.fxs", [*STEPS[:steps], ANEW], pause="step")
    assert driven.error is None
    assert driven.codes() == asked_for.codes() != {}
    assert symbols(driven) == symbols(asked_for) >= {"L['x'].size()[0]"}
    assert guards(driven) == guards(asked_for) >= {"2 <= L['x'].size()[0]"}
    assert (driven.variant("0/0").status, driven.variant("0/0").in_use) == ("ok", True)
    assert driven.variant("0/0_0").status == "restarted"
    assert "the user had it captured" in driven.variant("0/0_0").error


def test_torchs_settings_are_afterwards_as_they_were(tmp_path: Path) -> None:
    before = (
        torch._dynamo.config.assume_static_by_default,
        torch._dynamo.config.automatic_dynamic_shapes,
    )
    drive(tmp_path / "s.fxs", [ANEW], pause="step", dynamic=False)
    assert before == (
        torch._dynamo.config.assume_static_by_default,
        torch._dynamo.config.automatic_dynamic_shapes,
    )


@in_exhaustive_runs
def test_variants_of_what_was_captured_before_keep_its_name(tmp_path: Path) -> None:
    again = Command("again", gate="dynamo")
    driven = drive(
        tmp_path / "s.fxs",
        [again, ANEW, again, Command("go")],
        pause="step",
        model=lambda: nn.Linear(16, 3),
    )
    variants = {
        row.name: (row.variant_of, row.status)
        for row in driven.reader.rows(Compilation)
        if row.variant_of
    }
    assert variants == {"0/0_0~1": ("0/0_0", "left"), "0/0~1": ("0/0", "ok")}


def test_what_was_changed_holds_when_dynamo_begins_anew_by_itself(
    with_norm: Driven, tmp_path: Path
) -> None:
    """For dynamic shapes it does so with this model: its floats turn out to be constants."""
    changed = Command("again", gate="dynamo", changes=Changes({"inductor.cpp.simdlen": 0}))
    driven = drive(
        tmp_path / "s.fxs", [changed, Command("go")], pause="step", model=WithNorm, dynamic=True
    )
    assert driven.variant("0/0_0~1").status == "restarted"
    assert "at::vec::" in with_norm.codes()["forward"]
    assert "at::vec::" not in driven.codes()["forward"]


def test_set_at_a_gate_they_hold_from_the_next_frame_on(tmp_path: Path) -> None:
    change = Command("set", changes=DYNAMIC)
    driven = drive(tmp_path / "s.fxs", [change, Command("go")], pause="step", model=Broken)
    assert "dynamic shapes apply from the next frame" in driven.said("done")[0]
    first, second = (name for name in ("0/0", "1/0"))
    assert "L['x'].size()[0]" not in symbols(driven, first)
    assert any(".size()[0]" in source for source in symbols(driven, second))


@pytest.mark.parametrize("pause", with_others([""], ["dynamo"]))
def test_where_dynamo_is_through_they_are_refused(tmp_path: Path, pause: Pause) -> None:
    kinds: tuple[CommandKind, ...] = ("again", "set")
    commands = [Command(kind, gate="dynamo", changes=DYNAMIC) for kind in kinds]
    driven = drive(tmp_path / "s.fxs", commands, pause=pause)
    answers = driven.said("refused")
    assert len(answers) == len(kinds)
    assert all("capture again with --dynamic" in answer for answer in answers)
    assert [row.name for row in driven.reader.rows(Compilation)] == ["0/0"]
    assert driven.variant("0/0").status == "ok"


@pytest.mark.parametrize(
    "command",
    with_others(
        [Command("again", gate="joint", changes=DYNAMIC)],
        [
            Command(
                "again",
                gate="dynamo",
                changes=DYNAMIC.plus(Changes(marks=(Mark("up", module="up"),))),
            )
        ],
    ),
)
def test_what_does_not_go_with_a_new_graph_is_refused_at_the_gate(
    tmp_path: Path, command: Command
) -> None:
    driven = drive(tmp_path / "s.fxs", [*STEPS[:3], command, Command("go")], pause="step")
    assert "ynamo" in driven.said("refused")[0]
    assert driven.variant("0/0").status == "ok"


def marked_dynamic() -> tuple[torch.Tensor, ...]:
    x = torch.randn(4, 16)
    torch._dynamo.mark_dynamic(x, 0)
    return (x,)


@in_exhaustive_runs
@pytest.mark.parametrize(
    ("how", "model"),
    with_others(
        [({"dynamic": True}, Broken)],
        [
            ({"dynamic": True}, WithNorm),
            ({"inputs": marked_dynamic}, WithNorm),
            ({"inputs": marked_dynamic}, Broken),
        ],
    ),
)
def test_compiled_when_the_program_has_ended_dynamic_code_is_the_same(
    tmp_path: Path, model: Any, how: Any
) -> None:
    at_once = drive(tmp_path / "a.fxs", model=model, **how)
    later = drive(tmp_path / "b.fxs", pause="dynamo", model=model, **how)
    names = [row.name for row in at_once.reader.rows(Compilation)]
    assert names == [row.name for row in later.reader.rows(Compilation)]
    for name in names:
        assert later.codes(name) == at_once.codes(name)
        assert symbols(later, name) == symbols(at_once, name)
        assert guards(later, name) == guards(at_once, name)
    assert later.codes("0/0") != {}
    assert "s77" in later.codes("0/0")["forward"]
