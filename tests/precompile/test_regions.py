"""These tests check regions under regional_inductor: the marks on nodes, and the parts that torch
compiles as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
import torch.fx.traceback as fx_traceback
import torch.utils._pytree as pytree
from torch.fx.passes.regional_inductor import regional_inductor

from fx_explorer.precompile import CompilerError, Precompile, PrecompileWarning
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.precompile.models import Block, Compiled, compiled, eager

KEY = "compile_with_inductor"


def named(node: torch.fx.Node) -> object:
    return (node.meta.get("custom") or {}).get(KEY)


def regions_compiled(model: Callable[..., object], *inputs: torch.Tensor) -> list[str]:
    """Names of the submodules that regional_inductor says it compiles: torch's own log, the second
    source.
    """
    heard: list[str] = []
    listener = logging.Handler(logging.INFO)
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("torch.fx.passes.regional_inductor")
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        gm, _, guards, inputs = Precompile.dynamo(model, *inputs)
        run, _ = Precompile.aot_autograd(gm, guards, compiler=regional_inductor)
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
    ours, theirs = pytree.tree_leaves(run(inputs)), pytree.tree_leaves(model(*inputs))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))
    return [message for message in heard if message.startswith("Compiling submodule")]


def test_forward_and_backward_nodes_carry_the_annotation() -> None:
    seen: list[set[object]] = []

    def looking(graph: torch.fx.GraphModule, inputs: object) -> object:
        seen.append(
            {named(node) for node in graph.graph.nodes if node.op == "call_function"} - {None}
        )
        return eager(graph, inputs)

    compiled(Block(), torch.randn(2, 3, 16), compiler=looking)
    assert seen == [{"attention", "mlp"}, {"attention", "mlp"}]


def test_the_users_graph_keeps_the_users_annotations(transformer: Compiled) -> None:
    assert {named(node) for node in transformer.gm.graph.nodes} - {None} == {"attention", "mlp"}


def test_touching_regions_with_different_names_stay_apart() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({KEY: "first"}):
            x = x.sin()
        with fx_traceback.annotate({KEY: "second"}):
            return x.cos()

    assert len(regions_compiled(model, torch.ones(4))) == 2


def test_touching_regions_with_different_configs_each_get_their_own() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({KEY: {"inductor_configs": {"max_autotune": False}}}):
            x = x.sin()
        with fx_traceback.annotate({KEY: {"inductor_configs": {"max_fusion_size": 8}}}):
            return x.cos()

    messages = regions_compiled(model, torch.ones(4))
    assert [message.partition("options: ")[2] for message in messages] == [
        "{'max_autotune': False}",
        "{'max_fusion_size': 8}",
    ]


@in_exhaustive_runs
def test_an_inner_region_is_its_own_inside_the_outer_one() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({KEY: "outer"}):
            x = x.sin()
            with fx_traceback.annotate({KEY: "inner"}):
                x = x.cos()
            return x.tan()

    assert len(regions_compiled(model, torch.ones(4))) == 3


def test_a_region_that_is_used_twice_is_compiled_at_each_place() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            with fx_traceback.annotate({KEY: "repeated"}):
                x = x.sin()
            x = x + 1
        return x

    assert len(regions_compiled(model, torch.ones(4))) == 2


def entangled(later: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """first computes for second, and second for what comes later."""

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with fx_traceback.annotate({KEY: "first"}):
            x = x.sin()
        with fx_traceback.annotate({KEY: "second"}):
            y = y.tan()
            product = x.cos() * y
        with fx_traceback.annotate({KEY: later}):
            return product, x + y

    return model


def test_regions_that_wait_for_each_other_are_named() -> None:
    with pytest.raises(
        CompilerError,
        match=r'regions "first", "second": two of them need '
        r"each other's results, .* Rename the later part of one",
    ):
        regions_compiled(entangled("first"), torch.ones(4), torch.ones(4))


@in_exhaustive_runs
@pytest.mark.parametrize(("later", "regions"), with_others([("third", 3)], [("second", 2)]))
def test_another_name_is_the_way_out_for_them(later: str, regions: int) -> None:
    assert len(regions_compiled(entangled(later), torch.ones(4), torch.ones(4))) == regions


def test_annotating_nothing_is_said() -> None:
    gm, _, guards, _ = Precompile.dynamo(lambda x: x * 2, torch.ones(3))
    with pytest.warns(PrecompileWarning, match="regional_inductor compiled nothing"):
        Precompile.aot_autograd(gm, guards, compiler=regional_inductor)
