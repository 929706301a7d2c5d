"""These tests check that objects left over from a compile hold nothing of the program's, and are
not searched.
"""

from __future__ import annotations

import contextlib
import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.side_effects import SideEffects

from fx_explorer.capture.torch_compat import unseen_work as garbage
from tests.capture.lowering import fresh_compiler, unseen_work
from tests.conftest import count_frozen
from tests.exhaustive import one_of, with_others

Program = Callable[["Batch"], torch.Tensor]


class Part:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def moved(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.x


class Batch:
    """A Batch is made by a program for a call and released when the call has returned."""

    def __init__(self) -> None:
        self.x = torch.ones(4)
        self.parts = [Part(self.x)]
        self.named = {"first": torch.ones(4)}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.last: torch.Tensor | None = None

    def forward(self, batch: Batch) -> torch.Tensor:
        y = self.linear(batch.x)
        if y.sum() > 100:
            return y
        try:
            y = y + float("no number")
        except ValueError:
            y = y + 1
        self.last = batch.x + 1
        return torch.tensor(y.tolist()) + y


network = Network()


def straight(batch: Batch) -> torch.Tensor:
    return batch.parts[0].moved(batch.x) + batch.named["first"]


def cut(batch: Batch) -> torch.Tensor:
    y = batch.parts[0].moved(batch.x)
    torch._dynamo.graph_break()
    return y + batch.named["first"]


def branches(batch: Batch) -> torch.Tensor:
    if batch.x.sum() > 0:
        return batch.x + 1
    return batch.x


def inner(batch: Batch) -> torch.Tensor:
    y = batch.x.sin()
    if y.sum() > 100:
        return y
    return y + 1


def calls_what_breaks(batch: Batch) -> torch.Tensor:
    y = inner(batch)
    print(end="")
    return y * 2


def changes_its_argument(batch: Any) -> torch.Tensor:
    batch.count = 1
    batch.y = batch.x + 1
    batch.named["y"] = batch.y
    batch.parts.append(batch.y)
    return batch.y * 2


def looks_at_attributes(batch: Any) -> torch.Tensor:
    if not hasattr(batch, "more"):
        batch.more = len(batch.__dict__)
    return (
        sum(value for value in vars(batch).values() if isinstance(value, torch.Tensor)) + batch.more
    )


def catches(batch: Any) -> torch.Tensor:
    try:
        return batch.nothing
    except AttributeError:
        y = batch.x + 1
    torch._dynamo.graph_break()
    return y + 1


def calls_itself(batch: Batch) -> torch.Tensor:
    def total(what: Any) -> torch.Tensor:
        return sum(map(total, what)) if isinstance(what, (list, tuple)) else what

    return total([batch.x, [batch.x, (batch.named["first"],)]]) + torch.tensor(batch.x.tolist())


def generates(batch: Batch) -> torch.Tensor:
    def parts() -> Iterator[torch.Tensor]:
        yield batch.x
        yield batch.x + 1

    several = parts()
    first = next(several)
    torch._dynamo.graph_break()
    return first + next(several)


class Held:
    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __enter__(self) -> Batch:
        return self.batch

    def __exit__(self, *_: object) -> None:
        pass


def breaks_in_a_block(batch: Batch) -> torch.Tensor:
    with Held(batch) as held:
        torch._dynamo.graph_break()
        return held.x + 1


def whole_network(batch: Batch) -> torch.Tensor:
    return network(batch)


PROGRAMS = (
    straight,
    cut,
    branches,
    calls_what_breaks,
    changes_its_argument,
    looks_at_attributes,
    catches,
    calls_itself,
    generates,
    breaks_in_a_block,
    whole_network,
)


def with_an_exception(module: torch.fx.GraphModule, _: object) -> Any:
    try:
        raise ValueError
    except ValueError as error:
        kept = error  # noqa: F841 - it holds this frame, which holds it
    return module.forward


def held_by(program: Program, backend: Any) -> list[str]:
    """Run a program compiled, and return which of its objects are there when all its functions have
    returned.
    """

    def run() -> dict[str, weakref.ref[Any]]:
        batch = Batch()
        result = torch.compile(program, backend=backend)(batch)
        objects = {
            "batch": batch,
            "x": batch.x,
            "part": batch.parts[0],
            "first": batch.named["first"],
            "result": result,
        }
        return {name: weakref.ref(one) for name, one in objects.items()}

    network.last = None
    return [name for name, one in run().items() if one() is not None]


@pytest.fixture
def looked_through(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether all garbage had to be looked through, for each compile that has ended."""
    found: list[bool] = []
    original = garbage._let_go_of_the_program

    def let_go(generations: tuple[int, ...], kinds: Any) -> bool:
        found.append(not original(generations, kinds))
        return not found[-1]

    monkeypatch.setattr(garbage, "_let_go_of_the_program", let_go)
    return found


@pytest.fixture(autouse=True, scope="module")
def nothing_is_frozen() -> Iterator[None]:
    """What tests/conftest.py has frozen is looked through in this file, and not in those after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "get_freeze_count", count_frozen)
        gc.unfreeze()
        yield
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("program", one_of(4, PROGRAMS), ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "inductor", with_an_exception])
def test_a_compile_holds_nothing_of_the_program(program: Program, backend: Any) -> None:
    with fresh_compiler(), unseen_work():
        assert held_by(program, backend) == []


@pytest.mark.parametrize(
    "program",
    with_others([cut, catches], [straight, branches, calls_what_breaks, changes_its_argument]),
)
def test_garbage_is_not_looked_through_where_graphs_break(
    program: Program, looked_through: list[bool]
) -> None:
    with fresh_compiler(), unseen_work():
        held_by(program, "inductor")
    assert looked_through
    assert not any(looked_through)


@pytest.mark.parametrize(
    ("program", "backend"), [(straight, with_an_exception), (calls_itself, "eager")]
)
def test_garbage_is_looked_through_where_nothing_else_frees_it(
    program: Program, backend: Any, looked_through: list[bool]
) -> None:
    with fresh_compiler(), unseen_work():
        held_by(program, backend)
    assert any(looked_through)


def test_a_program_may_reset_dynamo() -> None:
    usual = gc.get_threshold()
    with fresh_compiler(), unseen_work():
        torch._dynamo.reset()
        assert held_by(cut, with_an_exception) == []
        assert gc.get_threshold() == usual


def test_an_exception_that_reaches_the_program_keeps_its_frames() -> None:
    def fails(module: torch.fx.GraphModule, _: object) -> Any:
        raise ValueError("not this graph")

    with (
        fresh_compiler(),
        unseen_work(),
        pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised,
    ):
        torch.compile(torch.sin, backend=fails)(torch.ones(3))
    frames = [frame for frame, _ in traceback.walk_tb(raised.value.__traceback__)]
    assert "module" in frames[-1].f_locals
    assert any("call_user_compiler" in frame.f_code.co_name and frame.f_locals for frame in frames)


def test_garbage_is_collected_as_before_while_the_program_runs() -> None:
    thresholds: list[tuple[int, int, int]] = []

    def backend(module: torch.fx.GraphModule, _: object) -> Any:
        thresholds.append(gc.get_threshold())
        return module.forward

    usual = gc.get_threshold()
    with fresh_compiler(), unseen_work():
        torch.compile(torch.sin, backend=backend)(torch.ones(3))
        assert gc.get_threshold() == usual
    assert thresholds
    assert thresholds[0] != usual


def test_garbage_of_a_compile_is_collected_when_the_program_asks() -> None:
    made: list[weakref.ref[Cycle]] = []

    def backend(module: torch.fx.GraphModule, _: object) -> Any:
        made.append(weakref.ref(Cycle()))
        return module.forward

    with fresh_compiler(), unseen_work():
        torch.compile(torch.sin, backend=backend)(torch.ones(3))
        assert gc.get_freeze_count() == 0
        assert made[0]() is not None
        gc.collect()
        assert made[0]() is None


class Cycle:
    def __init__(self) -> None:
        self.own = self


def test_garbage_that_may_hold_a_gpus_memory_is_collected_where_that_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[weakref.ref[Cycle]] = []

    def backend(module: torch.fx.GraphModule, _: object) -> Any:
        made.append(weakref.ref(Cycle()))
        return module.forward

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for free, is_there in ((90, True), (10, False)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda free=free: (free, 100))
        with fresh_compiler(), unseen_work():
            torch.compile(torch.cos, backend=backend)(torch.ones(3))
            assert (made[-1]() is not None) == is_there


@pytest.mark.parametrize("program", [straight, cut])
def test_what_the_program_had_left_over_is_collected_and_the_rest_becomes_old(
    program: Program,
) -> None:
    with fresh_compiler(), unseen_work():
        garbage, stays = weakref.ref(Cycle()), [object()]
        torch.compile(program, backend="eager")(Batch())
        assert garbage() is None
        assert any(one is stays for one in gc.get_objects(generation=2)), (
            "it is looked through again soon"
        )


@pytest.mark.parametrize(
    "switch_off", [gc.disable, lambda: gc.set_threshold(0)], ids=["disabled", "threshold 0"]
)
@pytest.mark.parametrize("around", [contextlib.nullcontext, unseen_work], ids=["bare", "recorded"])
def test_a_program_may_switch_collection_off(
    around: Callable[[], contextlib.AbstractContextManager[None]], switch_off: Callable[[], None]
) -> None:
    usual = gc.get_threshold()
    switch_off()
    state = gc.isenabled(), gc.get_threshold()
    try:
        with fresh_compiler(), around():
            garbage = weakref.ref(Cycle())
            torch.compile(cut, backend="eager")(Batch())
            assert garbage() is None, "torch collects the young after a compile all the same"
            assert (gc.isenabled(), gc.get_threshold()) == state
    finally:
        gc.enable()
        gc.set_threshold(*usual)


def test_what_was_young_before_a_compile_is_not_emptied() -> None:
    tracers = [SideEffects.__new__(SideEffects)]
    tracers[0].mine = "kept"
    gc.disable()
    try:
        with fresh_compiler(), unseen_work():
            torch.compile(cut, backend="eager")(Batch())
    finally:
        gc.enable()
    assert vars(tracers[0]) == {"mine": "kept"}


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with fresh_compiler(), unseen_work():
            torch.compile(torch.sin, backend="eager")(torch.ones(3))
            assert gc.get_freeze_count() >= 0.9 * frozen > 0
    finally:
        gc.unfreeze()


def test_a_compile_leaves_old_objects_where_python_itself_has_frozen_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 375)  # as Python 3.12 begins
    with fresh_compiler(), unseen_work():
        young = [object()]
        torch.compile(torch.sin, backend="eager")(torch.ones(3))
        assert any(one is young for one in gc.get_objects(generation=2))
