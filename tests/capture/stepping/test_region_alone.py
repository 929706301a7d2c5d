"""These tests lower one region again alone. Lowerings are counted at Inductor's own GraphLowering."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch._inductor.graph import GraphLowering
from torch.fx.traceback import annotate

from fx_explorer.analysis.annotated_regions import lowerings
from fx_explorer.analysis.lineage import documents_of_variant, kernels_of_variant
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.instruments.diff.compare import figures
from fx_explorer.model import (
    Artifact,
    Changes,
    Command,
    Compilation,
    Direction,
    Kernel,
    PassFile,
    RegionLowering,
)
from fx_explorer.report.json_report import json_report
from tests.capture.stepping.driving import STEPS, Driven, drive
from tests.exhaustive import in_exhaustive_runs

SCALAR = Changes(settings={"inductor.cpp.simdlen": 1})
"""Code without vector instructions: every kernel differs."""


class Regions(nn.Module):
    """Twice a region ``up`` and a region ``down``."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            with annotate({"compile_with_inductor": "up"}):
                x = nn.functional.gelu(self.up(x))
            with annotate({"compile_with_inductor": "down"}):
                x = torch.tanh(self.down(x)) * 2
        return x.cos()


def alone(region: str, direction: Direction = "", changes: Changes = SCALAR) -> Command:
    return Command("again", gate="partition", direction=direction, region=region, changes=changes)


def regional(path: Path, *commands: Command, **options: object) -> Driven:
    return drive(path, commands, model=Regions, backend="regional_inductor", **options)  # type: ignore[arg-type]


def lowered(driven: Driven, variant: str, *, reused: bool = False) -> set[tuple[str, str]]:
    """Return (region, direction) of the regions that were lowered, or reused, for this variant."""
    rows = driven.reader.rows(RegionLowering, compilation=driven.variant(variant).id)
    return {(row.name, row.direction) for row in rows if row.subgraph and row.is_reused == reused}


def codes(driven: Driven, variant: str) -> dict[tuple[str, str], str]:
    """(direction, subgraph) → code of its kernels, all that this variant runs."""
    found: dict[tuple[str, str], str] = {}
    for kernel in kernels_of_variant(driven.reader, driven.variant(variant)):
        code = kernel_code(driven, kernel)
        found[kernel.direction, kernel.subgraph] = (
            found.get((kernel.direction, kernel.subgraph), "") + code
        )
    return found


def kernel_code(driven: Driven, kernel: Kernel) -> str:
    if not kernel.artifact:
        return kernel.name
    text = driven.reader.text(driven.reader.get(Artifact, kernel.artifact).text)
    return "\n".join(line for line in text.splitlines() if "#include" not in line)


def subgraphs(driven: Driven, region: str) -> set[tuple[str, str]]:
    rows = driven.reader.rows(RegionLowering, name=region)
    return {(row.direction, row.subgraph) for row in rows if row.subgraph}


@pytest.fixture
def lowerings_begun(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    begun: list[object] = []
    original = GraphLowering.run

    def run(self: GraphLowering, *args: object) -> object:
        begun.append(self)
        return original(self, *args)

    monkeypatch.setattr(GraphLowering, "run", run)
    return begun


REFUSED = [
    (alone("nope"), 'has no region "nope"; there are up, down'),
    (Command("again", gate="dynamo", region="up"), "from the partition"),
    (
        alone("up", changes=Changes(settings={"compile.backend": "inductor"})),
        "do not choose a region",
    ),
]
"""Commands that name a region, and what is said of them."""

TANH_TO_SIN = """
import torch

def pass_(gm):
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten.tanh.default:
            node.target = torch.ops.aten.sin.default
"""
"""A pass that changes the region ``down``."""


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """What is refused; ``up`` alone (0/0~1), everything (0/0~2), ``down`` alone in the backward
    (0/0~3), ``down`` alone from 0/0~1 (0/0~4), and ``up`` alone where a pass changed ``down`` in
    the forward (0/0~5).
    """
    folder = tmp_path_factory.mktemp("alone")
    file = folder / "tanh_to_sin.py"
    file.write_text(TANH_TO_SIN)
    further = Command("again", gate="partition", compilation="0/0~1", region="down")
    passes = Changes(passes=(PassFile("partition", str(file), "forward"),))
    return regional(
        folder / "s.fxs",
        *(command for command, _ in REFUSED),
        alone("up"),
        Command("again", gate="partition", changes=SCALAR),
        alone("down", "backward"),
        further,
        alone("up", changes=passes),
    )


def test_only_the_named_region_is_lowered_again(driven: Driven) -> None:
    assert lowered(driven, "0/0~1") == {("up", "forward"), ("up", "backward")}
    assert lowered(driven, "0/0~1", reused=True) == {("down", "forward"), ("down", "backward")}


@in_exhaustive_runs
def test_torch_lowers_no_more_graphs_than_the_region_has(
    tmp_path: Path, lowerings_begun: list[object]
) -> None:
    first = regional(tmp_path / "a.fxs")
    at_first = len(lowerings_begun)
    again = regional(tmp_path / "b.fxs", alone("up"))
    pieces = len(subgraphs(first, "up"))
    assert 0 < pieces < at_first
    assert len(lowerings_begun) - at_first == at_first + pieces
    assert again.variant("0/0~1").status == "ok"


def test_its_code_is_that_of_a_whole_variant_with_the_same_settings_and_the_others_keep_theirs(
    driven: Driven,
) -> None:
    first, only, whole = (codes(driven, variant) for variant in ("0/0", "0/0~1", "0/0~2"))
    up, down = subgraphs(driven, "up"), subgraphs(driven, "down")
    assert {key: only[key] for key in up} == {key: whole[key] for key in up}
    assert {key: only[key] for key in down} == {key: first[key] for key in down}
    assert all(first[key] != whole[key] for key in up | down)


def test_one_direction_of_a_region_leaves_the_other_direction_whole(driven: Driven) -> None:
    assert lowered(driven, "0/0~3") == {("down", "backward")}
    assert lowered(driven, "0/0~3", reused=True) == {("up", "backward")}
    forward = {
        kernel.id
        for kernel in driven.reader.rows(
            Kernel, compilation=driven.variant("0/0").id, direction="forward"
        )
    }
    assert forward <= {
        kernel.id for kernel in kernels_of_variant(driven.reader, driven.variant("0/0~3"))
    }


def test_a_variant_from_such_a_variant_takes_over_what_that_made(driven: Driven) -> None:
    settings_of_both = codes(driven, "0/0~4")
    assert settings_of_both == codes(driven, "0/0~2"), (
        "down is lowered with the settings of 0/0~1, up was"
    )


def test_documents_of_reused_regions_belong_to_the_variant_too(driven: Driven) -> None:
    first, only = (
        documents_of_variant(driven.reader, driven.variant(variant)) for variant in ("0/0", "0/0~1")
    )
    assert sorted(document.title for document in only) == sorted(
        document.title for document in first
    )
    shared = {
        document.title
        for document in set(first) & set(only)
        if document.stage in ("post_grad", "output_code")
    }
    down = {subgraph for _, subgraph in subgraphs(driven, "down")}
    assert shared
    assert {title.rpartition(" · ")[2] for title in shared} <= down


def test_what_was_not_repeated_is_counted(driven: Driven) -> None:
    """Not the graph's own tracing, nor the regions given again."""
    only, whole = driven.variant("0/0~1"), driven.variant("0/0~2")
    spared = [
        row
        for row in driven.reader.rows(RegionLowering, compilation=driven.variant("0/0").id)
        if row.name == "down"
    ]
    assert only.saved_s - whole.saved_s >= sum(row.duration_s for row in spared) > 0
    for variant in (only, driven.variant("0/0~3")):
        assert whole.saved_s < variant.saved_s < driven.variant("0/0").duration_s


def test_reports_say_what_was_reused_and_with_which_kernels(driven: Driven) -> None:
    by_variant = {
        (one.compilation, one.row.direction, one.row.subgraph): one
        for one in lowerings(driven.reader)
    }
    for (variant, direction, subgraph), one in by_variant.items():
        if variant == "0/0~1" and one.row.is_reused:
            assert one.kernels == by_variant["0/0", direction, subgraph].kernels != ()
    report = json_report(driven.reader)
    (down,) = [region for region in report["regions"] if region["name"] == "down"]  # type: ignore[attr-defined]
    assert {one["reused"] for one in down["lowerings"] if one["compilation"] == "0/0~1"} == {True}
    assert other_variants(driven.reader)[0].changes == (
        'only region "up"',
        "inductor.cpp.simdlen = 1",
    )


def test_what_runs_eagerly_is_the_same_whichever_region_was_lowered_again(driven: Driven) -> None:
    first = driven.variant("0/0")
    for name in ("0/0~1", "0/0~3"):
        compared = figures(driven.reader, first, driven.variant(name))
        (eager,) = [figure for figure in compared if figure.what == "operations run eagerly"]
        assert eager.left == eager.right != "0"


@in_exhaustive_runs
def test_a_region_alone_at_a_gate(tmp_path: Path) -> None:
    """At the backward's partition the forward is compiled, and nothing of the backward is there to
    be given again.
    """
    to_backward = [Command("run_to", gate="partition"), Command("run_to", gate="partition")]
    at_gate = regional(tmp_path / "s.fxs", STEPS[0], *to_backward, alone("up"), pause="step")
    variant = at_gate.variant("0/0~1")
    assert (variant.status, variant.in_use) == ("ok", True)
    assert lowered(at_gate, "0/0~1", reused=True) == {("down", "forward")}
    assert lowered(at_gate, "0/0~1") == {
        ("up", "forward"),
        ("up", "backward"),
        ("down", "backward"),
    }


def test_a_region_that_a_pass_changed_is_not_given_again(driven: Driven) -> None:
    assert lowered(driven, "0/0~5") == {("up", "forward"), ("up", "backward"), ("down", "forward")}
    assert lowered(driven, "0/0~5", reused=True) == {("down", "backward")}


def test_a_region_that_is_not_there_is_refused_and_nothing_is_changed(driven: Driven) -> None:
    answers = driven.said("refused")
    assert len(answers) == len(REFUSED)
    for answer, (_, complaint) in zip(answers, REFUSED, strict=True):
        assert complaint in answer
    names = [variant.name for variant in driven.reader.rows(Compilation)]
    assert names == ["0/0", *(f"0/0~{number}" for number in range(1, 6))], (
        "only those that were not refused were taken"
    )


@in_exhaustive_runs
def test_without_regional_inductor_the_answer_says_how_to_get_regions(tmp_path: Path) -> None:
    asked = drive(
        tmp_path / "s.fxs", [*STEPS[:5], alone("up"), Command("go")], pause="step", model=Regions
    )
    assert "regional_inductor has compiled no named region of [0/0]" in asked.said("refused")[0]
    assert asked.variant("0/0").status == "ok"
    assert asked.reader.count(Compilation) == 1
