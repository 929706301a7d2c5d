"""These tests align graphs whose difference was planted, and check that it alone is told."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fx_explorer import model
from fx_explorer.analysis.alignment_words import describe_alignment
from fx_explorer.analysis.graph_alignment import align_graphs


def node(
    name: str, target: str, arguments: str, shape: tuple[str, ...] | None, **given: str
) -> model.Node:
    op = "call_function" if target else "placeholder"
    values = {"dtype": "f32" if shape is not None else "", **given}
    return model.Node(0, 0, 0, name, op, target, arguments, shape, **values)  # type: ignore[arg-type]


def network(batch: str, layers: int = 3) -> list[model.Node]:
    """A residual network: in each layer x + linear(gelu(linear(x))), the weights first."""
    nodes = [node(f"p_{at}", "", "", ("8", "8")) for at in range(2 * layers)]
    nodes.append(node("x", "", "", (batch, "8")))
    last = "x"
    for layer in range(layers):
        module = f"layers.{layer}"
        steps = (
            ("mm", "aten.mm.default", f"{last}, p_{2 * layer}"),
            ("gelu", "aten.gelu.default", f"mm_{layer}"),
            ("view", "aten.view.default", f"gelu_{layer}, [{batch}, 8]"),
            ("mmb", "aten.mm.default", f"view_{layer}, p_{2 * layer + 1}"),
            ("add", "aten.add.Tensor", f"{last}, mmb_{layer}"),
        )
        for name, target, arguments in steps:
            nodes.append(node(f"{name}_{layer}", target, arguments, (batch, "8"), module=module))
        last = f"add_{layer}"
    nodes.append(model.Node(0, 0, 0, "output", "output", "output", f"({last},)"))
    return nodes


def renamed(nodes: Sequence[model.Node], names: dict[str, str]) -> list[model.Node]:
    """Return the graph with other names, which its arguments use."""

    def other(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    return [
        replace(
            node,
            name=names.get(node.name, node.name),
            arguments=re.sub(r"[A-Za-z_]\w*", other, node.arguments),
        )
        for node in nodes
    ]


def words(before: Sequence[model.Node], after: Sequence[model.Node]) -> str:
    return describe_alignment(align_graphs(before, after))


def test_one_batch_size_is_one_phrase() -> None:
    # All but the six weights and the output.
    assert words(network("8"), network("16")) == "sizes: 8 → 16 in 16 nodes"


def test_a_symbolic_batch_is_the_same_graph_with_other_sizes() -> None:
    after = [node("s", "", "", None, value="Sym(s77)"), *network("s77")]
    after = [replace(row, arguments=row.arguments.replace("s77", "s")) for row in after]
    assert words(network("8"), after) == "1 node added (size); sizes: 8 → s77 in 16 nodes"


def test_another_name_of_a_symbol_is_no_difference() -> None:
    assert words(network("s77"), network("s27")) == "no difference"
    swapped = [replace(network("s77")[6], shape=("s77", "s27")), *network("s77")[7:]]
    assert "sizes" in words([network("s27")[6], *network("s27")[7:]], swapped)


def test_names_and_the_order_of_inputs_do_not_count() -> None:
    nodes = network("8")
    names = {one.name: f"n{at}" for at, one in enumerate(nodes)}
    assert words(nodes, renamed(nodes, names)) == "no difference"
    inputs, rest = nodes[:7], nodes[7:]
    assert words(nodes, [*reversed(inputs), *rest]) == "no difference"


def test_an_input_more_leaves_the_others_what_they_are() -> None:
    """AOTAutograd numbers its inputs: one more, and each has another name."""
    nodes = network("8")
    names = {f"p_{at}": f"p_{at + 1}" for at in range(6)}
    after = [node("p_0", "", "", ("3",)), *renamed(nodes, names)]
    assert words(nodes, after) == "1 node added (input)"


CHANGES = {
    "another operation": (
        {"target": "aten.relu.default"},
        "1 node changed (aten.gelu.default → aten.relu.default)",
    ),
    "another dtype": ({"dtype": "bf16"}, "1 node changed (f32 → bf16)"),
    "a number that is no size": (
        {"arguments": "mm_1, 0.5"},
        "1 node changed (0.1 → 0.5)",
    ),
    "another flag": ({"arguments": "mm_1, approximate = 'tanh'"}, "1 node changed (other arguments)"),
    "another input": ({"arguments": "mm_0, 0.1"}, "1 node changed (other inputs)"),
    "another rank": ({"shape": ("8", "8", "1")}, "1 node changed ([8, 8] → [8, 8, 1])"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_one_node_is_told_of_that_node_alone(change: str) -> None:
    given, expected = CHANGES[change]
    before = network("8")
    at = next(at for at, one in enumerate(before) if one.name == "gelu_1")
    if "0." in given.get("arguments", ""):
        before[at] = replace(before[at], arguments="mm_1, 0.1")
    after = [*before]
    after[at] = replace(before[at], **given)  # type: ignore[arg-type]
    assert words(before, after) == expected


def test_a_number_equal_to_a_size_is_a_size_only_where_its_node_has_that_size() -> None:
    before, after = network("8"), network("16")
    scaled = [node("mul", "aten.mul.Tensor", "p_0, {}", ("8", "8"))]
    assert words(
        [*before, replace(scaled[0], arguments="p_0, 8")],
        [*after, replace(scaled[0], arguments="p_0, 16")],
    ) == "1 node changed (8 → 16); sizes: 8 → 16 in 16 nodes"  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_of_planted_insertions_and_removals_each_is_told_and_no_other(seed: int) -> None:
    """Between two operations in a chain a new one is put; another is taken out of it."""
    chance = random.Random(seed)
    before, layers = network("8", layers=8), 8
    after = network("16", layers=8)
    put, taken = chance.sample(range(layers), 2)
    inserted = chance.choice(("aten.sin.default", "aten.gelu.default"))
    at = next(i for i, row in enumerate(after) if row.name == f"gelu_{put}")
    after.insert(at, node("new", inserted, f"mm_{put}", ("16", "8")))
    after[at + 1] = replace(after[at + 1], arguments="new")
    gone = next(i for i, row in enumerate(after) if row.name == f"gelu_{taken}")
    del after[gone]
    user = next(i for i, row in enumerate(after) if row.name == f"view_{taken}")
    after[user] = replace(after[user], arguments=f"mm_{taken}, [16, 8]")
    names = {row.name: f"n{chance.random()}".replace(".", "_") for row in after}
    alignment = align_graphs(before, renamed(after, names))
    added = [pair.after for pair in alignment.pairs if pair.before is None]
    removed = [pair.before for pair in alignment.pairs if pair.after is None]
    assert [row.target for row in added if row] == [inserted]
    assert [row.name for row in removed if row] == [f"gelu_{taken}"]
    changed = [pair for pair in alignment.pairs if pair.changes]
    assert {pair.changes for pair in changed} == {("other inputs",)}
    assert len(changed) == 2, "their users"
    assert alignment.sizes == {("8", "16"): alignment.resized}
    assert len(alignment.pairs) == len(before) + 1


def test_each_node_of_both_graphs_is_in_one_pair() -> None:
    before, after = network("8", layers=4), network("8", layers=6)
    pairs = align_graphs(before, after).pairs
    assert [pair.before for pair in pairs if pair.before] == before
    found = [pair.after for pair in pairs if pair.after]
    assert sorted(map(id, found)) == sorted(map(id, after))
