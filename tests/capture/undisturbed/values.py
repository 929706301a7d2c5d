"""This module has programs whose Python is unusual: sizes and floats that change, strange objects,
generators, threads, tracers, forks.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import gc
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn


def sizes_that_change() -> Any:
    f = torch.compile(lambda x: x.sin().sum(-1) * x.shape[0])
    return [f(torch.ones(size, 3)) for size in (2, 3, 5, 1)]


def dynamic_from_the_start() -> Any:
    f = torch.compile(lambda x: torch.cat([x, x]) + x.shape[0], dynamic=True)
    return [f(torch.ones(size, 4)) for size in (4, 7)]


def marked_dynamic() -> Any:
    x = torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    return torch.compile(lambda x: x.mean(0) / x.size(0))(x)


def dynamic_with_gradient() -> Any:
    made: list[Any] = []
    f = torch.compile(lambda x: (x @ x.t()).relu().sum())
    for size in (3, 4, 6):
        x = torch.randn(size, 5, requires_grad=True)
        f(x).backward()
        made.append(x.grad)
    return made


def float_that_changes() -> Any:
    f = torch.compile(lambda x, k: x * k + k)
    return [f(torch.ones(3), k) for k in (1.5, 2.5, 3.5)]


def item_and_changing_float() -> Any:
    class Scaling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.scale = 1.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.lin(x)
            largest = y.abs().max().item()
            self.scale = self.scale * 0.5 + largest
            return (y * self.scale).relu() / largest

    net = Scaling()
    f = torch.compile(net)
    return [f(torch.randn(3, 4)) for _ in range(4)]


def item_float_in_a_condition() -> Any:
    @torch.compile
    def f(x: torch.Tensor, k: float) -> torch.Tensor:
        s = x.sum().item()
        y = x * s + k
        return y.cos() if s > k else y.sin()

    return [f(torch.full((4,), 0.5 + i), 1.0 + i) for i in range(4)]


def float_attribute_in_a_shape() -> Any:
    @torch.compile
    def f(x: torch.Tensor, k: float) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=k) + k

    return [f(torch.ones(1, 1, 4), k) for k in (1.5, 2.0, 3.0)]


def float_that_is_dropped() -> Any:
    """Its graph has no number left, and torch finds all the same that it must be a constant."""

    @torch.compile
    def f(x: torch.Tensor, k: float) -> torch.Tensor:
        largest = x.max().item()
        return (x + 1).sin() if largest + k > 0 else x * k

    return [f(torch.ones(4), 1.5 + i) for i in range(4)]


def float_to_int() -> Any:
    @torch.compile
    def f(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * int(k * 2) + (k**2)

    return [f(torch.ones(4), k) for k in (1.5, 2.25, 3.75)]


def captured_scalars() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item() + x.max().item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.arange(4.0)), f(torch.arange(5.0))


def captured_nonzero() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero().sum() + x[x > 0].sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return f(torch.tensor([0.0, 1.0, 2.0])), f(torch.tensor([0.0, 0.0, 2.0, 3.0]))


def integer_that_changes() -> Any:
    f = torch.compile(lambda x, n: x.repeat(n) + n)
    return [f(torch.ones(2), n) for n in (2, 3, 5)]


def size_limits() -> Any:
    f = torch.compile(lambda x: torch.nn.functional.pad(x, (0, 3)) if x.shape[0] < 5 else x)
    return [f(torch.ones(size)) for size in (3, 4, 6, 8)]


def recompile_limit() -> Any:
    f = torch.compile(lambda x, name: x + len(name), dynamic=False)
    return [f(torch.ones(2), "a" * n) for n in range(1, 12)]


def dictionaries() -> Any:
    @torch.compile
    def f(d: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        d["sum"] = sum(d.values())  # type: ignore[assignment]
        return {key: value * 2 for key, value in d.items()}

    return f({"a": torch.ones(2), "b": torch.ones(2)}), f({"b": torch.ones(2)})


def default_and_ordered_dicts() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> Any:
        found: Any = collections.defaultdict(list)
        for i in range(3):
            found[i % 2].append(x * i)
        return collections.OrderedDict((k, torch.stack(v)) for k, v in found.items())

    return list(f(torch.ones(2)).values())


@dataclasses.dataclass
class State:
    total: torch.Tensor
    steps: int = 0


def dataclass_state() -> Any:
    @torch.compile
    def f(state: State, x: torch.Tensor) -> State:
        state.total = state.total + x
        state.steps += 1
        return dataclasses.replace(state, steps=state.steps + 10)

    state = State(torch.zeros(2))
    made = [f(state, torch.ones(2)) for _ in range(3)]
    return made[-1].total, made[-1].steps, state.total


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def named_tuples() -> Any:
    f = torch.compile(lambda pair: Pair(pair.second, pair.first + 1))
    return tuple(f(Pair(torch.ones(2), torch.zeros(2))))


def generators() -> Any:
    def pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for i in range(3):
            yield x * i

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.stack(list(pieces(x))).sum(0)

    return f(torch.ones(4))


def compiled_generator() -> Any:
    @torch.compile
    def pieces(x: torch.Tensor) -> Any:
        for i in range(3):
            yield x.sin() * i

    return list(pieces(torch.ones(4)))


def context_managers() -> Any:
    @contextlib.contextmanager
    def scaled(log: list[int]) -> Iterator[int]:
        log.append(1)
        yield 3
        log.append(2)

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        log: list[int] = []
        with scaled(log) as k, torch.no_grad():
            y = x * k
            torch._dynamo.graph_break()
            y = y + 1
        return y * len(log)

    return f(torch.ones(2))


class Odd:
    """Raises, or counts, whatever is asked of it."""

    asked = 0

    def __init__(self) -> None:
        self.k = 2

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        Odd.asked += 1
        return self is other

    def __hash__(self) -> int:
        Odd.asked += 1
        return 1

    def __deepcopy__(self, memo: object) -> Any:
        raise TypeError("no copies")

    def __reduce__(self) -> Any:
        raise TypeError("no pickles")


def odd_objects() -> Any:
    @torch.compile
    def f(x: torch.Tensor, odd: Odd) -> torch.Tensor:
        return x * odd.k

    odd, Odd.asked = Odd(), 0
    made = f(torch.ones(2), odd)
    odd.k = 3
    return made, f(torch.ones(2), odd), Odd.asked


def odd_module() -> Any:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(3, 3)
            self.odd = Odd()

        def __repr__(self) -> str:
            raise RuntimeError("no repr")

        def __getattr__(self, name: str) -> Any:
            if name == "gain":
                return 2.0
            return super().__getattr__(name)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lin(x) * self.gain * self.odd.k

    layer = Layer()
    torch.compile(layer)(torch.randn(2, 3)).sum().backward()
    return layer.lin.weight.grad


def properties_and_slots() -> Any:
    class Slotted:
        __slots__ = ("value",)

        def __init__(self, value: torch.Tensor) -> None:
            self.value = value

        @property
        def doubled(self) -> torch.Tensor:
            return self.value * 2

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return Slotted(x).doubled + 1

    return f(torch.ones(2))


def metaclasses() -> Any:
    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torch.Tensor)

        def __getattr__(cls, name: str) -> Any:
            if name == "gain":
                return 4
            raise AttributeError(name)

    class Kind(metaclass=Meta):
        pass

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * Kind.gain if isinstance(x, Kind) else x

    return f(torch.ones(2))


def deep_copies() -> Any:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = torch.compile(copy.deepcopy(net))
    compiled(torch.ones(1, 3)).sum().backward()
    again = copy.deepcopy(compiled)
    return again(torch.ones(1, 3))


def weak_references() -> Any:
    died: list[int] = []

    def one() -> torch.Tensor:
        x = torch.randn(4, requires_grad=True)
        net = nn.Linear(4, 4)
        weakref.finalize(net, died.append, 1)
        return torch.compile(net)(x).sum().detach()

    one()
    torch._dynamo.reset()
    gc.collect()
    return len(died)


def collector_off() -> Any:
    gc.disable()
    try:
        made = torch.compile(lambda x: x.exp() - 1)(torch.zeros(3))
        return made, gc.isenabled()
    finally:
        gc.enable()


def thresholds_of_the_collector() -> Any:
    f = torch.compile(lambda x: x.exp() - 1)
    gc.set_threshold(500, 5, 5)
    f(torch.zeros(3))
    found = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    return found


def with_settrace() -> Any:
    seen: set[str] = set()

    def trace(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename == __file__:
            seen.add(frame.f_code.co_name)

    f = torch.compile(lambda x: x * 2)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        made = f(torch.ones(2))
    finally:
        sys.settrace(before)
    return made


def with_setprofile() -> Any:
    f = torch.compile(lambda x: x * 2 + 1)
    sys.setprofile(lambda frame, event, argument: None)
    try:
        return f(torch.ones(2))
    finally:
        sys.setprofile(None)


def in_a_thread() -> Any:
    f = torch.compile(lambda x: (x.sin() + 1).sum())
    made: list[Any] = []
    x = torch.randn(5, requires_grad=True)

    def work() -> None:
        f(x).backward()
        made.append(x.grad)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return made


def in_a_forked_child() -> Any:
    f = torch.compile(lambda x: x.sin() + 1, backend="eager")
    made = f(torch.ones(2))
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            f(torch.ones(3, 3))
        os._exit(0)
    return made, os.waitpid(child, 0)[1]


def near_the_recursion_limit() -> Any:
    f = torch.compile(lambda x: x * 2 + 1)

    def deep(n: int, x: torch.Tensor) -> torch.Tensor:
        return f(x) if n == 0 else deep(n - 1, x)

    return deep(300, torch.ones(2))


def globals_and_closures() -> Any:
    count = 0
    scale = torch.full((2,), 3.0)

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return x * scale + count

    return f(torch.ones(2)), f(torch.ones(2)), count


def random_numbers() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    f(torch.ones(8))
    return torch.get_rng_state().sum()


def config_while_compiling() -> Any:
    import torch._inductor.config as inductor

    def make() -> Any:
        return torch.compile(lambda x: (x.sin() + x.cos()).softmax(0).sum())

    with inductor.patch(max_fusion_size=1):
        first = make()(torch.ones(16))
    torch._dynamo.reset()
    with inductor.patch({"cpp.simdlen": 1}):
        return first, make()(torch.ones(16))


def passes_of_the_users() -> Any:
    import torch._inductor.config as inductor

    seen: list[int] = []
    with inductor.patch(post_grad_custom_post_pass=lambda graph: seen.append(len(graph.nodes))):
        made = torch.compile(lambda x: x.sin() * 3)(torch.ones(4))
    return made, seen


def requires_grad_changes_later() -> Any:
    net = nn.Linear(3, 3)
    made = torch.compile(net)(torch.ones(1, 3)).sum()
    made.backward()
    grad = net.weight.grad
    for parameter in net.parameters():
        parameter.requires_grad_(False)
        parameter.data = parameter.data.double()
    return grad


def inputs_that_are_resized_later() -> Any:
    x = torch.randn(4, 4)
    made = torch.compile(lambda x: x * 2 + x.t())(x)
    x.resize_(2, 2)
    x.t_()
    return made


def default_dtype_changes_later() -> Any:
    made = torch.compile(lambda x: x + torch.ones(3) + torch.full((3,), 0.5))(torch.zeros(3))
    torch.set_default_dtype(torch.float64)
    other = torch.compile(lambda x: x * torch.ones(3))(torch.zeros(3))
    torch.set_default_dtype(torch.float32)
    return made, other


def modes_that_change_later() -> Any:
    f = torch.compile(lambda x, w: (x @ w).relu())
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    made = [f(x, w)]
    with torch.no_grad():
        made.append(f(x, w))
    with torch.inference_mode():
        made.append(f(x, w))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made.append(f(x, w))
    torch.use_deterministic_algorithms(True)
    made.append(f(x, w))
    torch.use_deterministic_algorithms(False)
    return [one.detach().float() for one in made]
