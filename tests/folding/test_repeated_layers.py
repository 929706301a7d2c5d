"""These tests check what is said to differ among layers: exactly what was planted in one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fx_explorer import model
from fx_explorer.analysis.repeated_layers import Layer, LayerDifferences, compare_layers
from tests.folding.layers import Change, graph_nodes, node

LAYERS = 6


def compare(nodes: list[model.Node]) -> LayerDifferences:
    by_name = {each.name: each for each in nodes}
    layers: list[Layer] = []
    for number in range(LAYERS):
        of_layer = [each for each in nodes if each.name.startswith(f"l{number}_")]
        layers.append(Layer(str(number), f"model.layers.{number}", of_layer))
    return compare_layers(layers, by_name)


def changed(name: str, **fields: object) -> Change:
    """Return a change of the node whose name ends with ``name``."""

    def change(nodes: list[model.Node]) -> list[model.Node]:
        return [
            replace(each, **fields) if each.name.endswith(name) else each  # type: ignore[arg-type]
            for each in nodes
        ]

    return change


def with_relu(nodes: list[model.Node]) -> list[model.Node]:
    relu = node("l3_relu", "aten.relu.default", "l3_mul", "model.layers.3.act")
    add = replace(nodes[-1], arguments=nodes[-1].arguments.replace("l3_mul", "l3_relu"))
    return [*nodes[:-1], relu, add]


def without_mul(nodes: list[model.Node]) -> list[model.Node]:
    add = replace(nodes[-1], arguments=nodes[-1].arguments.replace("l3_mul", "l3_mm"))
    return [*nodes[:2], add]


def test_layers_that_do_the_same_are_alike_whatever_they_are_called() -> None:
    assert compare(graph_nodes(LAYERS)).sentence == ""


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (changed("_mul", arguments="l3_mm, 0.25"), "0.5 → 0.25 in mul"),
        (changed("_mul", dtype="bf16"), "f32 → bf16 in mul"),
        (changed("_mul", target="aten.div.Tensor"), "also div; without mul"),
        (changed("_w", shape=("8", "16")), "sizes: 8 → 16 in 1 node"),
        (changed("_add", arguments="l3_mul, l3_mm"), "1 operation with other inputs"),
        (with_relu, "also relu"),
        (without_mul, "without mul"),
    ],
)
def test_what_was_planted_in_one_layer_is_what_differs(change: Change, difference: str) -> None:
    differences = compare(graph_nodes(LAYERS, {3: change}))
    assert dict(differences.of_layer) == {3: difference}
    assert differences.sentence == f"3: {difference}"


def test_layers_that_differ_alike_are_named_together() -> None:
    wide = changed("_w", shape=("8", "16"))
    differences = compare(graph_nodes(LAYERS, {1: wide, 4: wide, 5: with_constant("0.1")}))
    assert differences.sentence == "1 and 4: sizes: 8 → 16 in 1 node; 5: 0.5 → 0.1 in mul"


def with_constant(constant: str) -> Change:
    def change(nodes: list[model.Node]) -> list[model.Node]:
        mul = replace(nodes[2], arguments=f"{nodes[1].name}, {constant}")
        return [*nodes[:2], mul, nodes[3]]

    return change


def numbered(constant: Callable[[int], str]) -> dict[int, Change]:
    return {number: with_constant(constant(number)) for number in range(LAYERS)}


def test_a_number_of_every_layer_is_told_once() -> None:
    differences = compare(graph_nodes(LAYERS, numbered(str)))
    assert not differences.of_layer
    assert differences.sentence == "each has a different number in mul"


def test_a_text_with_the_number_of_the_layer_is_no_difference() -> None:
    changes = numbered(lambda number: f"'model.layers.{number}.act'")
    assert compare(graph_nodes(LAYERS, changes)).sentence == ""
    changes[3] = with_constant("'model.layers.0.act'")
    assert list(compare(graph_nodes(LAYERS, changes)).of_layer) == [3]
