import re
from typing import Any

import pytest
import torch

from fx_explorer.capture.inductor import ir_text
from fx_explorer.capture.torch_compat.patching import patched
from tests.capture.lowering import lower

Listing = tuple[str, list[tuple[int, str]]]


def program(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    y = (x @ x).relu()
    return torch.cat([y[index].sum(-1), y.softmax(-1).amax(0)]) * 2


@pytest.fixture(scope="module")
def listings() -> list[Listing]:
    """Before fusion, after fusion; and torch's own names of the scheduler nodes."""
    from torch._inductor.scheduler import Scheduler

    found: list[Listing] = []

    def make(original: Any) -> Any:
        def fuse_nodes(scheduler: Any, nodes: list[Any]) -> list[Any]:
            found.append(ir_text.describe(nodes))
            fused: list[Any] = original(scheduler, nodes)
            found.append(ir_text.describe(fused))
            return fused

        return fuse_nodes

    with patched(Scheduler, "fuse_nodes", make):
        (graph,) = lower(lambda f: f(torch.ones(64, 64), torch.tensor([1, 2])), program)
    calls = {node.name for node in graph.module.graph.nodes}
    assert {name for _, links in found for _, name in links} <= calls
    return found


def lines_with(listing: Listing, pattern: str) -> list[int]:
    return [n for n, line in enumerate(listing[0].split("\n"), 1) if re.search(pattern, line)]


def nodes_at(listing: Listing, line: int) -> set[str]:
    return {node for number, node in listing[1] if number == line}


def test_each_operation_is_named_with_its_kind_buffer_and_origins(listings: list[Listing]) -> None:
    (line,) = lines_with(
        listings[0], r"^op0: extern_kernels\.mm → buf0 f32\[64, 64\] stride \[64, 1\] cpu  # mm$"
    )
    assert nodes_at(listings[0], line) == {"mm"}


def test_a_loop_shows_ranges_loads_operations_and_stores(listings: list[Listing]) -> None:
    text = listings[0][0]
    assert re.search(
        r"for p0 < 2, reduce p1 < 64:\n +tmp0 = arg1_1\[p0\]\n +(\w+) = tmp0\n +tmp1 = buf\d\[64\*\1 \+ p1\]",
        text,
    )
    assert "reduce sum(" in text
    assert "reduce max(" in text


def test_a_line_of_a_loop_links_to_the_node_it_was_traced_for(listings: list[Listing]) -> None:
    sums = lines_with(listings[0], r"= reduce sum\(")
    assert [nodes_at(listings[0], line) for line in sums] == [{"sum_1"}, {"sum_2"}]
    relu = lines_with(listings[0], r"= relu\(|= maximum\(")
    assert all(nodes_at(listings[0], line) == {"relu"} for line in relu)


def test_fusion_shows_as_members_of_one_kernel(listings: list[Listing]) -> None:
    assert "operations in one kernel" not in listings[0][0]
    fused = lines_with(listings[1], r"^op\w+: outer loop fused, 3 operations in one kernel")
    assert fused
    members = listings[1][0].split("\n")[fused[0]]
    assert members.startswith("    op")


def test_an_operation_without_a_loop_shows_what_it_reads_and_writes(
    listings: list[Listing],
) -> None:
    text = listings[0][0]
    assert re.search(
        r"concat kernel → buf\d f32\[66\].*\n    reads buf\d, buf\d\n    writes buf\d", text
    )
