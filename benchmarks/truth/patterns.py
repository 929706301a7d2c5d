"""Small programs that torch.compile breaks, recompiles or skips, each in its own way.

Each function is a whole program: it compiles, calls and differentiates by itself. A name says what
is odd about it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import logging
import os
import random
import re
import tempfile
import time
import warnings
from collections.abc import Iterator

import numpy
import torch
from torch import nn


def _rows(count: int = 4) -> torch.Tensor:
    return torch.arange(count * 8, dtype=torch.float32).reshape(count, 8) / 10


def prints_between_operations() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print("half way")
        return y.cos()

    work(_rows())


def branches_on_a_sum() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    work(_rows())
    work(-_rows())


def reads_an_item() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        scale = x.max().item()
        return x / scale

    work(_rows())


def reads_a_list() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(())
        for value in x[0].tolist():
            total = total + value
        return total * x

    work(_rows())


def selects_by_a_mask() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        chosen = x[x > 1.0]
        return chosen.exp().sum()

    work(_rows())


def loops_while_a_tensor_is_small() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        while x.norm() < 50:
            x = x * 2
        return x.relu()

    work(_rows())


def breaks_in_a_loop() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        for step in range(3):
            x = x + step
            torch._dynamo.graph_break()
        return x.tanh()

    work(_rows())


def breaks_in_an_inlined_function() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("inside")
        return x * 3

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return inner(x.sin()).cos()

    work(_rows())


def breaks_three_calls_deep() -> None:
    def third(x: torch.Tensor) -> torch.Tensor:
        x = x - 1
        torch._dynamo.graph_break()
        return x + 1

    def second(x: torch.Tensor) -> torch.Tensor:
        return third(x * 2) * 3

    def first(x: torch.Tensor) -> torch.Tensor:
        return second(x.sin()).cos()

    torch.compile(first)(_rows())


def breaks_in_a_callee_twice() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        x = x * 2
        torch._dynamo.graph_break()
        return x - 3

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return inner(inner(x)).sum()

    work(_rows())


def calls_a_disabled_function() -> None:
    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return outside(x.sin()).cos()

    work(_rows())


def waits_a_moment() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        time.sleep(0)
        return y * 2

    work(_rows())


def draws_a_python_number() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        if random.random() < 2:
            return x.sin()
        return x.cos()

    work(_rows())


def logs_a_line() -> None:
    logger = logging.getLogger("patterns")

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sigmoid()
        logger.warning("rows: %d", x.shape[0])
        return y * 2

    work(_rows())


def warns_once() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sigmoid()
        warnings.warn("careful", stacklevel=1)
        return y * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work(_rows())


def parses_json() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        settings = json.loads('{"gain": 2}')
        return y * settings["gain"]

    work(_rows())


def matches_a_pattern() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if re.match("a+", "aaa"):
            return y + 1
        return y

    work(_rows())


def writes_a_file() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
        return y + 1

    work(_rows())


def lists_a_folder() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y + (1 if os.path.exists("/") else 2)

    work(_rows())


def goes_to_numpy_and_back() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = numpy.sin(x.numpy())
        return torch.from_numpy(y) + 1

    work(_rows())


def asks_for_an_address() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if y.data_ptr() % 2:
            return y + 1
        return y + 2

    work(_rows())


def copies_deeply() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = copy.deepcopy(x.sin())
        return y + 1

    work(_rows())


def formats_a_tensor() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        label = f"{x.sum():.1f}"
        return x * len(label)

    work(_rows())


def asserts_about_values() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        assert x.sum() > 0, "positive"
        return x.log1p()

    work(_rows())


def breaks_in_try() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        try:
            y = x.sin()
            torch._dynamo.graph_break()
            y = y.cos()
        except ValueError:
            y = x
        return y + 1

    work(_rows())


def breaks_in_no_grad() -> None:
    weight = nn.Parameter(torch.ones(8))

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.sin()
            print("in no_grad")
            y = y.cos()
        return (y * weight).sum()

    work(_rows()).backward()


@contextlib.contextmanager
def _section(name: str) -> Iterator[None]:
    print("begin", name)
    yield
    print("end", name)


def enters_a_context_of_its_own() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        with _section("a"):
            y = x.sin()
        return y.cos()

    work(_rows())


class _Block(nn.Module):
    def __init__(self, is_loud: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.is_loud = is_loud

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if self.is_loud:
            print("loud")
        return y.relu()


def breaks_in_one_module_of_three() -> None:
    model = nn.Sequential(_Block(False), _Block(True), _Block(False))
    torch.compile(model)(_rows()).sum().backward()


def breaks_in_a_hook() -> None:
    layer = nn.Linear(8, 8)
    layer.register_forward_hook(lambda module, inputs, output: print("hooked"))
    model = nn.Sequential(layer, nn.ReLU())
    torch.compile(model)(_rows()).sum().backward()


class _Lazy:
    def __init__(self) -> None:
        self.count = 0

    @property
    def gain(self) -> float:
        self.count += 1
        print("asked")
        return 2.0


def breaks_in_a_property() -> None:
    lazy = _Lazy()

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * lazy.gain

    work(_rows())


@functools.lru_cache
def _table(size: int) -> float:
    return float(size) * 2


def calls_a_cached_function() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * _table(x.shape[1])

    work(_rows())


def consumes_a_generator() -> None:
    def pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for row in x:
            print("row")
            yield row * 2

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.stack(list(pieces(x))).sum()

    work(_rows())


@dataclasses.dataclass
class _Batch:
    rows: torch.Tensor
    name: str

    def __post_init__(self) -> None:
        print("made", self.name)


def makes_a_dataclass() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        batch = _Batch(x.sin(), "a")
        return batch.rows.cos()

    work(_rows())


def sorts_by_a_tensor() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        rows = sorted(x, key=lambda row: row.sum())
        return rows[0] + rows[1]

    work(_rows())


def saves_a_tensor() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        with tempfile.TemporaryFile() as file:
            torch.save(y, file)
        return y + 1

    work(_rows())


def splits_by_values() -> None:
    @torch.compile
    def work(x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        parts = x.split(sizes.tolist())
        return sum(part.sum() for part in parts)

    work(_rows(), torch.tensor([1, 3]))


def recurses() -> None:
    def deeper(x: torch.Tensor, depth: int) -> torch.Tensor:
        if depth == 0:
            torch._dynamo.graph_break()
            return x
        return deeper(x + depth, depth - 1) * 2

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return deeper(x, 3).sum()

    work(_rows())


def breaks_and_trains() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        print("loss is there")
        return loss * 2

    for _ in range(3):
        optimizer.zero_grad()
        step(_rows()).backward()
        optimizer.step()


def keeps_a_large_value_across_a_break() -> None:
    weight = nn.Parameter(torch.ones(8, 64))

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        wide = (x @ weight).relu()
        print("wide")
        return (wide.exp() * wide).sum()

    work(_rows()).backward()


def sizes_that_change() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) * x.shape[0]

    for count in (4, 5, 6):
        work(_rows(count))


def numbers_that_change() -> None:
    @torch.compile
    def work(x: torch.Tensor, power: int, gain: float) -> torch.Tensor:
        return x**power * gain

    work(_rows(), 1, 0.5)
    work(_rows(), 2, 0.5)
    work(_rows(), 3, 0.25)


def flags_that_change() -> None:
    @torch.compile
    def work(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x.sin() if mode == "sin" else x.cos()

    for mode in ("sin", "cos", "sin", "tan"):
        work(_rows(), mode)


def dtypes_and_grad_modes_that_change() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum()

    work(_rows())
    work(_rows().double())
    with torch.no_grad():
        work(_rows())


def a_module_attribute_that_counts() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    model = torch.compile(Counting())
    for _ in range(4):
        model(_rows())


def meets_the_recompile_limit() -> None:
    @torch.compile(dynamic=False)
    def work(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in range(1, 12):
            work(_rows(count))


def functions_of_one_name() -> None:
    def made(gain: float) -> object:
        @torch.compile
        def work(x: torch.Tensor) -> torch.Tensor:
            y = x * gain
            torch._dynamo.graph_break()
            return y.sin()

        return work

    for gain in (1.0, 2.0):
        made(gain)(_rows())  # type: ignore[operator]


def unused_and_in_place() -> None:
    buffer = torch.zeros(4, 8)

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        buffer.add_(x)
        print("written")
        x.mul_(2)
        return buffer + x

    work(_rows())
