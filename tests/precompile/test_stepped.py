"""These tests step through ``Precompile``: a pause changes nothing, and its graphs can be compiled
again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx.passes.regional_inductor import regional_inductor

from fx_explorer.model import CaptureRequest, Changes, Command, Compilation, Graph, Kernel, Pause
from fx_explorer.precompile import Precompile
from fx_explorer.precompile.phases import Compiler
from tests.capture.stepping.driving import STEPS, Driven, Net, drive
from tests.exhaustive import in_exhaustive_runs, with_others


class Annotated(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.fx.traceback.annotate({"compile_with_inductor": "up"}):
            x = nn.functional.gelu(self.up(x))
        return self.down(x)


def precompiled(compiler: Compiler | None = None, edit: bool = False) -> object:
    def program(
        net: nn.Module, arguments: tuple[torch.Tensor, ...], request: CaptureRequest
    ) -> torch.Tensor:
        gm, _, guards, example_inputs = Precompile.dynamo(net, *arguments)
        if edit:
            for node in gm.graph.find_nodes(op="call_function", target=nn.functional.gelu):
                node.target = torch.relu
                node.kwargs = {}
            gm.recompile()
        compiled_fn, guards = Precompile.aot_autograd(gm, guards, compiler)
        output: torch.Tensor = compiled_fn(example_inputs)
        return output

    return program


def made(driven: Driven, name: str = "0/0") -> dict[str, object]:
    """Return the results of a compilation: its code, its kernels and the size of each of its
    graphs.
    """
    of = driven.variant(name).id
    graphs = [
        (row.stage, row.direction, row.node_count)
        for row in driven.reader.rows(Graph, compilation=of)
    ]
    kernels = [row.name for row in driven.reader.rows(Kernel, compilation=of)]
    return {
        "code": driven.codes(name),
        "kernels": kernels,
        "graphs": [one for one in graphs if one[0] != "dynamo"],
    }


@pytest.mark.parametrize(
    ("pause", "model", "compiler"),
    with_others(
        [("step", Net, None)],
        [
            ("dynamo", Annotated, regional_inductor),
            ("dynamo", Net, None),
            ("step", Annotated, regional_inductor),
        ],
    ),
)
def test_a_pause_changes_nothing(
    tmp_path: Path, pause: Pause, model: type[Net], compiler: Compiler | None
) -> None:
    straight = drive(tmp_path / "straight.fxs", model=model, program=precompiled(compiler))
    paused = drive(
        tmp_path / "paused.fxs",
        STEPS if pause == "step" else (),
        pause=pause,
        model=model,
        program=precompiled(compiler),
    )
    assert (straight.error, paused.error) == (None, None)
    assert made(paused) == made(straight)
    assert made(straight)["kernels"]
    assert ("dynamo", "") in paused.paused_at()
    torch.testing.assert_close(paused.output, straight.output)


@pytest.mark.parametrize("edit", with_others([True], [False]))
def test_a_variant_is_made_of_the_graph_that_was_given_to_the_compiler(
    tmp_path: Path, edit: bool
) -> None:
    again = [
        Command("go"),
        Command("again", gate="dynamo", changes=Changes({"inductor.max_fusion_size": 64})),
    ]
    driven = drive(tmp_path / "s.fxs", again, pause="dynamo", program=precompiled(edit=edit))
    assert driven.error is None
    assert driven.said("refused") == []
    assert [row.name for row in driven.reader.rows(Compilation)] == ["0/0", "0/0~1"]
    assert made(driven, "0/0~1") == made(driven), "64 is what Inductor has by itself"
    assert any("relu" in name for name in made(driven)["kernels"]) == edit  # type: ignore[attr-defined]


@in_exhaustive_runs
def test_a_graph_that_is_compiled_twice_has_variants_by_its_first_compiler(tmp_path: Path) -> None:
    def program(
        net: nn.Module, arguments: tuple[torch.Tensor, ...], request: CaptureRequest
    ) -> torch.Tensor:
        gm, _, guards, example_inputs = Precompile.dynamo(net, *arguments)
        Precompile.aot_autograd(gm, guards)
        compiled_fn, _ = Precompile.aot_autograd(gm, guards, lambda graph, inputs: graph.forward)
        output: torch.Tensor = compiled_fn(example_inputs)
        return output

    again = [
        Command("go"),
        Command("again", gate="dynamo", changes=Changes({"inductor.max_fusion_size": 64})),
    ]
    driven = drive(tmp_path / "s.fxs", again, pause="dynamo", program=program)
    assert driven.error is None
    assert [(row.name, row.backend) for row in driven.reader.rows(Compilation)][:2] == [
        ("0/0", "inductor"),
        ("0/0#2", "<lambda>"),
    ]
    assert made(driven, "0/0~1") == made(driven)
