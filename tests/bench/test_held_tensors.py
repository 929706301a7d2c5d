"""These tests compare the peak memory of an uncompiled step, by line, with torch's own allocator."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint

from fx_explorer.instruments.bench.measure.call_timing import held_by_line, peak_bytes


def here() -> int:
    return sys._getframe(1).f_lineno


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 512), torch.nn.Linear(512, 64)
        self.lines: dict[str, int] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, self.lines["up"] = self.up(x), here()
        h, self.lines["gelu"] = F.gelu(h), here()
        y, self.lines["down"] = self.down(h), here()
        return y


def step_of(network: Net, x: torch.Tensor) -> Callable[[], object]:
    def step() -> object:
        network.zero_grad(set_to_none=True)
        output = network(x)
        output.square().sum().backward()
        return output

    return step


def test_the_lines_add_up_to_what_the_allocator_counts() -> None:
    step = step_of(Net(), torch.randn(256, 64))
    step()
    held = held_by_line(step)
    assert sum(one.size_bytes for one in held) == pytest.approx(
        peak_bytes(step, is_gpu=False), rel=0.02
    )
    assert [one.size_bytes for one in held] == sorted(
        (one.size_bytes for one in held), reverse=True
    )


def test_activations_and_gradients_stand_on_the_line_of_their_forward() -> None:
    network, x = Net(), torch.randn(256, 64)
    forward_only = held_by_line(lambda: network(x))
    wide = 256 * 512 * 4
    kept = {one.line: one.size_bytes for one in forward_only}
    assert kept == {
        network.lines["up"]: wide,
        network.lines["gelu"]: wide,
        network.lines["down"]: 256 * 64 * 4,
    }
    assert {one.file for one in forward_only} == {__file__}
    step = step_of(network, x)
    step()
    lines = {one.line for one in held_by_line(step)}
    assert {network.lines["up"], network.lines["gelu"], network.lines["down"]} & lines
    assert not {one.file for one in held_by_line(step)} - {__file__, ""}


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_checkpoint_computes_again_stands_on_the_line_that_computes_it(
    use_reentrant: bool,
) -> None:
    lines: dict[str, int] = {}

    def block(x: torch.Tensor) -> torch.Tensor:
        p, lines["p"] = torch.sin(x), here()
        q, lines["q"] = torch.cos(p), here()
        r, lines["r"] = torch.exp(q), here()
        return r

    def step() -> None:
        x = torch.ones(1000, requires_grad=True)
        torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()

    held = {one.line: one.size_bytes for one in held_by_line(step)}
    assert held[lines["p"]] == 4000
    assert held[lines["q"]] >= 4000
    assert held[lines["r"]] >= 4000


def test_what_was_there_before_and_what_is_written_in_place_is_not_counted() -> None:
    x = torch.randn(100)
    assert held_by_line(lambda: x.mul_(2).add_(1)) == []
    assert held_by_line(lambda: x.view(10, 10).t()) == []
    assert [one.size_bytes for one in held_by_line(lambda: (x + 1).mul_(2).view(10, 10))] == [400]


def test_what_is_dropped_is_not_held_any_more() -> None:
    def one_after_another() -> torch.Tensor:
        y = torch.zeros(1000)
        for _ in range(10):
            y = y + 1
        return y

    assert sum(one.size_bytes for one in held_by_line(one_after_another)) == 2 * 4000


def test_odd_programs() -> None:
    sparse = torch.eye(4).to_sparse()
    assert isinstance(held_by_line(lambda: torch.sparse.mm(sparse, torch.ones(4, 4))), list)
    assert held_by_line(lambda: None) == []
    with pytest.raises(ZeroDivisionError):
        held_by_line(lambda: 1 / 0)
