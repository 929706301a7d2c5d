"""These tests send impossible commands: each gets a clear answer, nothing is lost, and the
compilation waits where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo import register_backend
from torch._dynamo.backends import registry
from torch._inductor.graph import GraphLowering

from fx_explorer.capture.stepping.after_the_program import NOT_RAISED
from fx_explorer.model import Changes, Command, Compilation, Failure, Gate, Graph, PassFile
from tests.capture.stepping.driving import INDUCTORS_GATES, STEPS, Broken, Driven, Given, drive
from tests.exhaustive import in_exhaustive_runs, one_of, with_others

AT: list[tuple[Gate, int]] = [(gate, position) for position, gate in enumerate(INDUCTORS_GATES)]
"""Gate → how many steps lead to it."""


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x))


def driven(folder: Path, *commands: Given, **how: object) -> Driven:
    return drive(folder / "s.fxs", commands, **{"model": Small, **how})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    return driven(tmp_path_factory.mktemp("straight"))


@pytest.mark.parametrize(("gate", "steps"), one_of(6, AT))
def test_aborted_at_any_gate_the_same_variant_can_be_compiled_again(
    straight: Driven, tmp_path: Path, gate: Gate, steps: int
) -> None:
    again = Command("again", gate=gate)
    result = driven(tmp_path, *STEPS[:steps], Command("abort"), again, Command("go"), pause="step")
    assert result.paused_at()[steps][0] == gate
    assert (result.variant("0/0").status, result.variant("0/0").error) == (
        "left",
        "the user aborted here",
    )
    assert result.variant("0/0~1").status == "ok"
    graphs = {row.stage for row in result.reader.rows(Graph, compilation=result.variant("0/0").id)}
    assert graphs >= {"dynamo"}
    assert result.codes("0/0~1") == straight.codes()


@pytest.mark.parametrize("kind", with_others(["abort"], ["skip"]))
def test_a_variant_that_is_left_when_the_program_has_ended_leaves_the_rest_at_hand(
    tmp_path: Path, kind: Any
) -> None:
    again = Command("again", gate="dynamo")
    result = driven(
        tmp_path,
        Command("abort"),
        again,
        Command("step"),
        Command(kind),
        again,
        Command("go"),
        pause="step",
    )
    assert [result.variant(name).status for name in ("0/0", "0/0~1", "0/0~2")] == [
        "left",
        "left",
        "ok",
    ]
    assert result.paused_at()[-1] == (None, "")


def test_a_graph_that_fails_when_it_no_longer_waits_is_told_as_an_exception_that_a_run_without_pause_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no lowering")

    monkeypatch.setattr(GraphLowering, "run", fails)
    waited = driven(tmp_path, Command("go"), pause="dynamo")
    assert waited.error is None
    (told,) = [text for text in waited.said("note") if text.startswith("[0/0] failed:")]
    assert "no lowering" in told
    assert told.endswith(NOT_RAISED)
    with pytest.raises(Exception, match="no lowering"):
        torch.compile(Small())(torch.randn(2, 16))
    torch._dynamo.reset()


WRONG: dict[str, Command] = {
    "did not reach code generation": Command("again", gate="output_code"),
    "There is no [9/9]": Command("again", gate="dynamo", compilation="9/9"),
    "there is no option": Command("again", gate="dynamo", changes=Changes({"inductor.no_such": 1})),
    "max_fusion_size": Command("set", changes=Changes({"inductor.max_fusion_size": "many"})),
    "The compile is at the pre-grad passes": Command(
        "pass", changes=Changes(passes=(PassFile("joint", "a.py"),))
    ),
    "cannot read the pass file": Command(
        "pass", changes=Changes(passes=(PassFile("pre_grad", "/no/such.py"),))
    ),
}


def test_what_cannot_be_done_at_a_gate_is_refused_and_the_gate_stays(tmp_path: Path) -> None:
    commands = Command("step"), *WRONG.values(), Command("step"), Command("go")
    result = driven(tmp_path, *commands, pause="step")
    for complaint, said in zip(WRONG, result.said("refused"), strict=True):
        assert complaint in said
    assert [gate for gate, _ in result.paused_at()] == ["dynamo", "pre_grad", "joint", None]
    assert [row.status for row in result.reader.rows(Compilation)] == ["ok"]


@in_exhaustive_runs
def test_what_makes_no_sense_when_the_program_has_ended_is_refused(tmp_path: Path) -> None:
    senseless = [Command(kind) for kind in ("go", "abort", "mark", "step", "skip", "pass")]
    result = driven(tmp_path, *senseless, Command("again", gate="joint"))
    assert len(result.said("refused")) == len(senseless)
    assert result.variant("0/0~1").status == "ok"


def test_a_pass_needs_a_graph(tmp_path: Path) -> None:
    late = Command("pass", changes=Changes(passes=(PassFile("post_fusion", "a.py"),)))
    result = driven(
        tmp_path, Command("run_to", gate="post_fusion"), late, Command("go"), pause="step"
    )
    assert "no FX graph" in result.said("refused")[0]
    assert result.variant("0/0").status == "ok"


# compilers that misbehave


def raising(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    raise ValueError("no such luck")


def nonsense(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return 3


def mutilating(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    last = next(iter(reversed(module.graph.nodes)))
    module.graph.erase_node(last)
    for node in list(reversed(module.graph.nodes)):
        module.graph.erase_node(node)
    module.recompile()
    raise ValueError("and what now?")


@pytest.fixture
def backends() -> Iterator[None]:
    functions = {"fx_raising": raising, "fx_nonsense": nonsense, "fx_mutilating": mutilating}
    for name, function in functions.items():
        register_backend(function, name=name)
    yield
    for name in functions:
        registry._BACKENDS.pop(name, None)
        registry._COMPILER_FNS.pop(name, None)


EACH_ONCE = [
    ("fx_raising", "at the start"),
    ("fx_nonsense", "at a gate"),
    ("fx_mutilating", "later"),
    ("fx_raising", "at the end"),
]

IN_EACH_WAY = [
    (name, when)
    for name in ("fx_raising", "fx_nonsense", "fx_mutilating")
    for when in ("at the start", "at a gate", "later", "at the end")
    if (name, when) not in EACH_ONCE
]


@pytest.mark.parametrize(("name", "when"), with_others(EACH_ONCE, IN_EACH_WAY))
def test_a_compiler_that_misbehaves_is_told_and_another_variant_works(
    straight: Driven, tmp_path: Path, backends: None, name: str, when: str
) -> None:
    bad, good = ({"compile.backend": backend} for backend in (name, "inductor"))
    again = Command("again", gate="dynamo", changes=Changes(good))
    first = Command("again", gate="dynamo", changes=Changes(bad))
    if when == "at the start":
        result = driven(tmp_path, again, backend=name)
    elif when == "at a gate":
        result = driven(tmp_path, first, Command("go"), again, pause="step")
    elif when == "later":
        result = driven(
            tmp_path, Command("set", changes=Changes(bad)), Command("go"), again, pause="dynamo"
        )
    else:
        result = driven(tmp_path, first, again)
    failed = [row for row in result.reader.rows(Compilation) if row.status == "failed"]
    assert len(failed) == 1
    assert failed[0].error
    assert result.reader.rows(Failure)
    last = result.reader.rows(Compilation)[-1]
    assert last.status == "ok"
    assert result.codes(last.name) == straight.codes()


@in_exhaustive_runs
def test_another_variant_at_the_first_pause_is_in_use_and_the_other_graphs_follow(
    tmp_path: Path,
) -> None:
    changes = Changes({"inductor.max_fusion_size": 1})
    again = Command("again", gate="dynamo", compilation="1/0", changes=changes)
    driven = drive(tmp_path / "s.fxs", [again], pause="dynamo", model=Broken)
    assert {row.name: (row.status, row.in_use) for row in driven.reader.rows(Compilation)} == {
        "0/0": ("broke", True),
        "1/0": ("left", False),
        "1/0~1": ("ok", True),
    }
    assert driven.codes("0/0").keys() == driven.codes("1/0~1").keys() == {"forward", "backward"}


def test_skipping_at_the_first_pause_says_that_it_is_of_all_graphs(tmp_path: Path) -> None:
    driven = drive(tmp_path / "s.fxs", [Command("skip")], pause="dynamo", model=Broken)
    assert driven.said("done") == ["all of them run eagerly"]
    assert driven.codes("0/0") == driven.codes("1/0") == {}
