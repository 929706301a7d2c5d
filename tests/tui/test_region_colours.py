"""A region has its name and a colour that stays the same."""

from dataclasses import replace

from fx_explorer.model import Node
from fx_explorer.tui.palette import KINDS
from fx_explorer.tui.selection.graph_rows import region_cell
from fx_explorer.tui.selection.region_colours import COLOURS, region_kind

NODE = Node(1, 1, 0, "mul", "call_function", "aten.mul.Tensor", "")


def test_a_string_and_the_dict_given_to_inductor_are_the_same_region() -> None:
    one = replace(NODE, annotations={"compile_with_inductor": "mlp"})
    other = replace(NODE, annotations={"compile_with_inductor": {"inductor_region": "mlp", "inductor_configs": {}}})
    assert region_cell(one) == region_cell(other) == [("mlp", region_kind("mlp"))]


def test_several_regions_are_listed_and_none_is_empty() -> None:
    both = replace(NODE, annotations={"a": "first", "b": "second"})
    assert "".join(text for text, _ in region_cell(both)) == "first, second"
    assert region_cell(NODE) == []


def test_every_colour_is_a_kind_of_the_palette_and_all_are_used() -> None:
    kinds = {region_kind(f"layer {i}") for i in range(50)}
    assert len(kinds) == COLOURS
    assert kinds <= KINDS.keys()
