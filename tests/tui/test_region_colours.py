"""These tests check that a region has its name and a colour that stays the same and is not used by
another region.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.drawing.colours import REGION_COLOURS, RegionColours, colours_of
from fx_explorer.model import Node
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.content.graph_rows import region_cell
from fx_explorer.tui.theme import KINDS

NODE = Node(1, 1, 0, "mul", "call_function", "aten.mul.Tensor", "")


def test_a_string_and_the_dict_given_to_inductor_are_the_same_region() -> None:
    one = replace(NODE, annotations={"compile_with_inductor": "mlp"})
    other = replace(
        NODE,
        annotations={"compile_with_inductor": {"inductor_region": "mlp", "inductor_configs": {}}},
    )
    assert region_cell(one) == region_cell(other) == [("mlp", RegionColours().kind("mlp"))]


def test_several_regions_are_listed_and_none_is_empty() -> None:
    both = replace(NODE, annotations={"a": "first", "b": "second"})
    assert "".join(text for text, _ in region_cell(both)) == "first, second"
    assert region_cell(NODE) == []


def test_every_colour_is_a_kind_of_the_palette_and_all_are_used() -> None:
    kinds = {RegionColours().kind(f"layer {i}") for i in range(100)}
    assert len(kinds) == REGION_COLOURS
    assert kinds <= KINDS.keys()


@pytest.mark.parametrize(
    "names",
    [
        [f"layer {i}" for i in range(REGION_COLOURS)],
        [f"segment {i + 1}" for i in range(REGION_COLOURS)],
    ],
)
def test_no_two_regions_of_a_session_have_one_colour_while_there_are_enough(
    names: list[str],
) -> None:
    colours = RegionColours(names)
    assert len({colours.kind(name) for name in names}) == REGION_COLOURS
    looks = [
        (KINDS[colours.kind(name)].variable, KINDS[colours.kind(name)].attributes) for name in names
    ]
    assert all(one != other for one, other in itertools.combinations(looks, 2))


def test_with_more_regions_than_colours_each_still_has_one() -> None:
    colours = RegionColours(f"layer {i}" for i in range(3 * REGION_COLOURS))
    assert {colours.kind(f"layer {i}") for i in range(3 * REGION_COLOURS)} <= KINDS.keys()


def test_a_region_has_the_same_colour_wherever_it_is_asked_for(tmp_path: Path) -> None:
    colliding = _two_of_one_colour()
    with SessionWriter(tmp_path / "s.fxs") as writer:
        nodes = [replace(NODE, annotations={"part": name}) for name in reversed(colliding)]
        writer.add_graph(model.Graph(0, 0, "dynamo", ""), nodes, [])
    with SessionReader(tmp_path / "s.fxs") as reader:
        first, second = colours_of(reader), colours_of(reader)
    kinds = [first.kind(name) for name in colliding]
    assert kinds == [second.kind(name) for name in colliding]
    assert kinds[0] != kinds[1]


def _two_of_one_colour() -> list[str]:
    """Two names whose own colour is the same."""
    by_kind: dict[str, str] = {}
    for name in (f"block {i}" for i in range(REGION_COLOURS + 1)):
        kind = RegionColours().kind(name)
        if kind in by_kind:
            return [by_kind[kind], name]
        by_kind[kind] = name
    raise AssertionError("more names than colours, and none is shared")
