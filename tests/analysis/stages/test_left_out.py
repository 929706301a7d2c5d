"""An operation that AOTAutograd left out is told by what became of it: it returned its input, as
the same call does in eager mode; nothing used its result; or it calls a graph that was traced in
its place. One that did something is never among them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from fx_explorer import model
from fx_explorer.analysis.stage_data import StageWork
from fx_explorer.analysis.stage_work import points_in_use, stage_work
from fx_explorer.session import SessionReader
from fx_explorer.tui.content import inspect
from tests.capture.recorded import record
from tests.exhaustive import with_others

Call = Callable[[torch.Tensor], torch.Tensor]

CALLS: dict[str, Call] = {
    "contiguous": lambda x: x.contiguous(),
    "contiguous in another order": lambda x: x.contiguous(memory_format=torch.channels_last),
    "float": lambda x: x.float(),
    "double": lambda x: x.double(),
    "to the same dtype": lambda x: x.to(torch.float32),
    "to another dtype": lambda x: x.to(torch.float16),
    "to the same device": lambda x: x.to("cpu"),
    "a copy": lambda x: x.to(torch.float32, copy=True),
    "type_as": lambda x: x.type_as(x),
    "view of the same shape": lambda x: x.view(2, 3, 4, 4),
    "view of another shape": lambda x: x.view(6, 16),
    "reshape to the same shape": lambda x: x.reshape(2, 3, 4, 4),
    "expand to the same size": lambda x: x.expand(2, 3, 4, 4),
    "dropout while evaluating": lambda x: torch.nn.functional.dropout(x, 0.5, training=False),
    "squeeze of nothing": lambda x: x.squeeze(0),
    "clone": lambda x: x.clone(),
    "real": lambda x: torch.real(x),
    "positive": lambda x: +x,
    "in place": lambda x: x.add_(1),
    "relu in place": lambda x: torch.nn.functional.relu(x, inplace=True),
}

TRACED = "dropout while evaluating"
"""Returns its input in eager mode. Before torch 2.14 AOTAutograd traces a copy for it."""

ASKED = ("inductor", False), ("inductor", True), ("aot_eager", False), ("aot_eager", True)
"""Backend, and whether there is a backward."""

CASES = with_others(
    [(name, *ASKED[number % len(ASKED)]) for number, name in enumerate(CALLS)],
    [
        (name, *asked)
        for number, name in enumerate(CALLS)
        for asked in ASKED
        if asked != ASKED[number % len(ASKED)]
    ],
)
"""Each call in one of the four ways, and each way with five calls; an exhaustive run has all."""


def tracing_of(reader: SessionReader) -> StageWork:
    (point,) = [point for point in points_in_use(reader) if point.key == "joint"]
    return stage_work(reader, point)


def fates_by_name(reader: SessionReader, work: StageWork) -> dict[str, str]:
    nodes = reader.by_ids(model.Node, work.fates)
    graphs = {document.id for document in work.point.before}
    return {node.name: work.fates[node.id] for node in nodes if node.graph in graphs}


@pytest.mark.parametrize(("name", "backend", "trained"), CASES)
def test_a_call_that_returns_its_input_is_told_as_that_and_no_other(
    tmp_path: Path, name: str, backend: str, trained: bool
) -> None:
    """Whether it does is asked of eager mode: the result is the argument, and has its numbers."""
    call = CALLS[name]
    given = torch.randn(2, 3, 4, 4, requires_grad=trained) * 2
    numbers = given.detach().clone()
    returns_its_input = call(given) is given and torch.equal(given.detach(), numbers)

    def program(compile: Callable[[Call], Call]) -> None:
        x = torch.randn(2, 3, 4, 4, requires_grad=trained)
        compile(lambda x: call(x * 2).sin())(x)

    with record(tmp_path / "s.fxs", program, backend=backend) as reader:
        work = tracing_of(reader)
    is_unchanged = returns_its_input
    if name == TRACED:
        is_unchanged = work.made["kept"] == 2
    assert work.became.get("removed", 0) == 0
    assert work.became.get("unchanged", 0) == is_unchanged
    assert ("of the 3, 1 returned its input unchanged" in work.sentence) == is_unchanged
    assert "no known successor" not in work.sentence


def test_what_returns_all_its_inputs_or_nothing_is_told(tmp_path: Path) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.sin()
        left, right = torch.broadcast_tensors(x, y)
        wide, _ = torch.broadcast_tensors(x, y[:1])
        return left * right + wide

    def program(compile: Callable[[Call], Call]) -> None:
        compile(f)(torch.randn(4, 8, requires_grad=True))

    with record(tmp_path / "s.fxs", program, backend="aot_eager") as reader:
        work = tracing_of(reader)
        fates = fates_by_name(reader, work)
    assert fates["_set_grad_enabled"] == fates["_set_grad_enabled_1"] == "empty"
    assert fates["broadcast_tensors"] == fates["left"] == fates["right"] == "unchanged"
    assert "removed" not in work.became
    assert "2 returned nothing and have nothing to trace" in work.sentence


def test_what_nothing_uses_and_what_a_checkpoint_holds_are_told(tmp_path: Path) -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous().sin().cos()

    def f(x: torch.Tensor) -> torch.Tensor:
        written = x + 1
        written.mul_(2)
        y = checkpoint(block, x, use_reentrant=False)
        return y * 3

    def program(compile: Callable[[Call], Call]) -> None:
        compile(f)(torch.randn(4, 8, requires_grad=True))

    with record(tmp_path / "s.fxs", program, backend="aot_eager") as reader:
        work = tracing_of(reader)
        fates = fates_by_name(reader, work)
        nodes = {node.id: node for node in reader.by_ids(model.Node, work.fates)}
        details = {
            nodes[node].name: [
                entry.text
                for entry in inspect.entries(reader, inspect.place_of_node(reader, nodes[node]))
                if entry.label == "became"
            ]
            for node, fate in work.fates.items()
            if fate in ("unchanged", "unused", "inlined")
        }
    assert fates["tag_activation_checkpoint"] == "inlined"
    assert fates["contiguous"] == fates["y"] == "unchanged"
    assert fates["written"] == fates["mul_"] == "unused"
    assert {fates[name] for name in ("sin", "cos")} == {"kept"}
    assert work.sentence.endswith(
        "; of the 8, 2 returned their input unchanged, 2 were traced, then removed because "
        "nothing used their results and 1 was replaced by the operations of the graph it calls."
    )
    assert details["contiguous"] == [inspect._LEFT_OUT["unchanged"]]
    assert details["mul_"] == [inspect._LEFT_OUT["unused"]]
