"""These tests step through a compilation: gates, variants, edits. Its code is compared with that of
a capture without stepping.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.model import (
    AFTER_PASSES,
    Changes,
    Command,
    Compilation,
    Gate,
    Graph,
    Intervention,
    Mark,
    PassFile,
    RegionLowering,
)
from tests.capture.stepping.driving import (
    INDUCTORS_GATES,
    STEPS,
    Broken,
    Driven,
    WithNorm,
    drive,
)
from tests.exhaustive import in_exhaustive_runs, with_others


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """Drive a capture without pauses; at the end every stage is continued."""
    every = [Command("again", gate=gate) for gate in INDUCTORS_GATES]
    return drive(tmp_path_factory.mktemp("straight") / "s.fxs", every)


def test_stepping_through_every_gate_gives_the_same_code(straight: Driven, tmp_path: Path) -> None:
    stepped = drive(tmp_path / "s.fxs", STEPS, pause="step")
    lowering = ["partition", "post_grad", "pre_fusion", "post_fusion", "output_code"]
    expected = [("dynamo", ""), ("pre_grad", ""), ("joint", "")]
    expected += [(gate, direction) for direction in ("forward", "backward") for gate in lowering]
    assert stepped.paused_at() == [*expected, (None, "")]
    assert stepped.codes() == straight.codes()


@in_exhaustive_runs
@pytest.mark.parametrize("model", with_others([Broken], [WithNorm]))
def test_compiling_after_the_program_ended_gives_the_same_code(
    tmp_path: Path, model: Callable[[], nn.Module]
) -> None:
    at_once = drive(tmp_path / "a.fxs", model=model)
    later = drive(tmp_path / "b.fxs", pause="dynamo", model=model)
    assert later.paused_at() == [("dynamo", ""), (None, "")]
    for compilation in at_once.reader.rows(Compilation):
        assert later.codes(compilation.name) == at_once.codes(compilation.name) != {}
        assert later.variant(compilation.name).missing_stages == compilation.missing_stages


def test_paused_after_dynamo_nothing_has_been_lowered(tmp_path: Path) -> None:
    stopped = drive(tmp_path / "s.fxs", [Command("abort")], pause="dynamo")
    assert {graph.stage for graph in stopped.reader.rows(Graph)} == {"dynamo"}
    assert set((stopped.variant("0/0").missing_stages or {}).values()) == {"not compiled so far"}


@pytest.mark.parametrize(("position", "gate"), list(enumerate(INDUCTORS_GATES, 1)))
def test_a_variant_makes_the_same_code_and_repeats_nothing_before_it(
    straight: Driven, position: int, gate: Gate
) -> None:
    variant = straight.variant(f"0/0~{position}")
    assert (variant.status, variant.variant_of, variant.variant_from, variant.in_use) == (
        "ok",
        "0/0",
        gate,
        False,
    )
    assert straight.codes(variant.name) == straight.codes()
    # The joint graph after the passes over it comes after the gate there.
    graphs = [
        graph
        for graph in straight.reader.rows(Graph, compilation=variant.id)
        if graph.name != AFTER_PASSES
    ]
    made = {graph.stage for graph in graphs}
    stages = ["dynamo", "pre_grad", "joint", "forward", "post_grad"]
    shared = stages[: min(INDUCTORS_GATES.index(gate), 4) + 1]
    assert made.isdisjoint(shared)
    assert made >= set(stages) - set(shared)
    assert variant.saved_s > 0


@in_exhaustive_runs
def test_a_variant_with_another_option_differs_and_the_first_is_kept(tmp_path: Path) -> None:
    changes = Changes(
        settings={"inductor.realize_opcount_threshold": 1, "inductor.max_fusion_size": 1}
    )
    driven = drive(
        tmp_path / "s.fxs",
        [Command("again", gate="partition", changes=changes)],
        model=WithNorm,
    )
    assert driven.codes("0/0~1") != driven.codes()
    assert driven.variant("0/0~1").changes == changes.to_json() | {"marks": [], "passes": []}
    assert torch._inductor.config.max_fusion_size != 1


@in_exhaustive_runs
def test_an_option_set_at_a_gate_holds_for_what_follows_though_the_program_had_another(
    tmp_path: Path,
) -> None:
    """The program has left the block with its option when the graphs, which waited, are compiled."""
    config, before = torch._inductor.config, torch._inductor.config.max_fusion_size
    values: list[int] = []

    def inputs() -> tuple[torch.Tensor, ...]:
        config.max_fusion_size = 7
        return (torch.randn(4, 16),)

    def leave_block() -> Command:
        config.max_fusion_size = before
        return Command("step")

    chosen = Command("set", changes=Changes(settings={"inductor.max_fusion_size": 1}))
    to_pre_grad = Command("run_to", gate="pre_grad")
    commands = [
        leave_block,
        look_then(values, chosen),
        look_then(values, to_pre_grad),
        look_then(values, Command("go")),
    ]
    drive(tmp_path / "s.fxs", commands, pause="dynamo", model=Broken, inputs=inputs)
    assert values == [7, 1, 1]
    assert config.max_fusion_size == before


def look_then(values: list[int], command: Command) -> Callable[[], Command]:
    def take() -> Command:
        values.append(torch._inductor.config.max_fusion_size)
        return command

    return take


@in_exhaustive_runs
def test_one_direction_alone_is_lowered_again(tmp_path: Path) -> None:
    driven = drive(tmp_path / "s.fxs", [Command("again", gate="partition", direction="backward")])
    assert driven.codes("0/0~1") == {"backward": driven.codes()["backward"]}


def test_another_variant_at_a_gate_is_the_one_the_program_runs(tmp_path: Path) -> None:
    commands = [*STEPS[:4], Command("again", gate="dynamo"), Command("go")]
    driven = drive(tmp_path / "s.fxs", commands, pause="step")
    assert (driven.variant("0/0").status, driven.variant("0/0").in_use) == ("left", False)
    assert (driven.variant("0/0~1").status, driven.variant("0/0~1").in_use) == ("ok", True)
    assert driven.output is not None
    assert driven.model is not None
    assert all(parameter.grad is not None for parameter in driven.model.parameters())


def test_a_skipped_graph_runs_eagerly(straight: Driven, tmp_path: Path) -> None:
    driven = drive(tmp_path / "s.fxs", [Command("step"), Command("skip")], pause="step")
    assert driven.variant("0/0").status == "left"
    assert driven.codes() == {}
    torch.testing.assert_close(driven.output, straight.output)


@pytest.mark.parametrize("steps", with_others([5], [0, 2, 9]))
def test_aborting_at_a_gate_leaves_everything_at_hand(
    straight: Driven, tmp_path: Path, steps: int
) -> None:
    commands = [*STEPS[:steps], Command("abort"), Command("again", gate="dynamo")]
    driven = drive(tmp_path / "s.fxs", commands, pause="step")
    assert driven.output is None
    assert driven.variant("0/0").status == "left"
    assert driven.variant("0/0~1").status == "left" or driven.codes("0/0~1") == straight.codes()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    with_others(
        [({"inductor.max_fusion_sice": 3}, "max_fusion_size")],
        [({"inductor.max_fusion_size": "many"}, "whole number")],
    ),
)
def test_a_wrong_option_is_refused_and_the_gate_stays(
    tmp_path: Path, settings: dict[str, object], complaint: str
) -> None:
    wrong = Command("set", changes=Changes(settings=settings))
    driven = drive(tmp_path / "s.fxs", [wrong, Command("go")], pause="step")
    assert complaint in driven.said("refused")[0]
    assert driven.variant("0/0").status == "ok"


@in_exhaustive_runs
def test_a_pass_at_a_gate_changes_the_graph_and_both_are_kept(
    straight: Driven, tmp_path: Path
) -> None:
    file = tmp_path / "relu.py"
    file.write_text(
        "import torch\n\ndef pass_(gm):\n    for node in gm.graph.nodes:\n        if node.target is torch._C._nn.gelu:\n"
        "            node.target = torch.relu\n"
    )
    changes = Changes(passes=(PassFile("dynamo", str(file)),))
    driven = drive(tmp_path / "s.fxs", [Command("again", gate="dynamo", changes=changes)])
    assert driven.variant("0/0~1").status == "ok", driven.variant("0/0~1").error
    assert ".erf(" in driven.codes()["forward"]
    assert ".erf(" not in driven.codes("0/0~1")["forward"]
    edit = driven.reader.rows(Intervention)[0]
    targets = [
        {n.target for n in driven.reader.nodes(driven.reader.get(Graph, g))}
        for g in (edit.before, edit.after)
    ]
    assert "torch._C._nn.gelu" in targets[0] - targets[1]
    assert "torch.relu" in targets[1]


def test_a_broken_pass_is_refused_and_the_gate_stays(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def pass_(gm)\n    pass\n")
    command = Command("pass", changes=Changes(passes=(PassFile("dynamo", str(file)),)))
    driven = drive(tmp_path / "s.fxs", [command, Command("go")], pause="step")
    assert "broken.py:1" in driven.said("refused")[0]
    assert driven.variant("0/0").status == "ok"


@in_exhaustive_runs
def test_a_region_that_names_nothing_is_refused(tmp_path: Path) -> None:
    mark = Command(
        "again", gate="dynamo", changes=Changes(marks=(Mark("none", module="no.such.module"),))
    )
    driven = drive(tmp_path / "s.fxs", [mark])
    assert "no.such.module" in driven.said("refused")[0]
    assert driven.reader.count(Compilation) == 1


def test_a_backend_that_fails_is_told_and_the_rest_stays_at_hand(tmp_path: Path) -> None:
    fails = Command(
        "again",
        gate="dynamo",
        changes=Changes(settings={"compile.backend": "relu_compile_error_TESTING_ONLY"}),
    )
    driven = drive(tmp_path / "s.fxs", [fails, Command("again", gate="dynamo")], model=Broken)
    assert driven.variant("0/0~1").status in ("failed", "ok")
    again = drive(tmp_path / "t.fxs", [Command("again", gate="dynamo", compilation="9/9")])
    assert "9/9" in again.said("refused")[0]


def test_a_region_marked_at_the_first_pause_holds_for_the_graph_it_names(tmp_path: Path) -> None:
    marked = Command("mark", changes=Changes(marks=(Mark("up", module="up"),)))
    driven = drive(tmp_path / "s.fxs", [marked, Command("go")], pause="dynamo")
    assert driven.said("done")[0] == '[0/0] region "up" is one piece of 1 node'
    assert [edit.title for edit in driven.reader.rows(Intervention)] == ['region "up": 1 node']
    edit = driven.reader.rows(Intervention)[0]
    after = driven.reader.nodes(driven.reader.get(Graph, edit.after))
    assert [n.name for n in after if n.annotations] == [
        n.name for n in after if n.module == "up" and n.op == "call_function"
    ]
    forward = driven.reader.rows(Graph, stage="forward", direction="forward")[0]
    assert any(n.annotations for n in driven.reader.nodes(forward))


@in_exhaustive_runs
def test_marking_says_into_which_pieces_a_region_falls_that_would_wait_for_itself(
    tmp_path: Path,
) -> None:
    ends = Changes(marks=(Mark("ends", module="up"), Mark("ends", module="down")))
    driven = drive(tmp_path / "s.fxs", [Command("mark", changes=ends), Command("go")], pause="step")
    (answer,) = [text for text in driven.said("done") if "ends" in text]
    assert answer.startswith(
        'region "ends" is split into 2 pieces (1 + 1 nodes), each compiled on its own: '
    )
    assert "in one piece they would wait for each other" in answer
    assert [edit.title for edit in driven.reader.rows(Intervention)] == [
        'region "ends": 1 node',
        'region "ends": 1 node',
    ]


@in_exhaustive_runs
def test_regional_inductor_cuts_such_a_region_as_was_said(tmp_path: Path) -> None:
    settings: dict[str, object] = {"compile.backend": "regional_inductor"}
    ends = Changes(settings, marks=(Mark("ends", module="up"), Mark("ends", module="down")))
    driven = drive(tmp_path / "s.fxs", [Command("again", gate="dynamo", changes=ends)])
    (answer,) = driven.said("done")
    assert 'region "ends" is split into 2 pieces (1 + 1 nodes)' in answer
    lowered = driven.reader.rows(RegionLowering, direction="forward")
    assert [row.name for row in lowered] == ["ends", "ends"]
