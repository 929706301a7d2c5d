"""These tests check the clock in generated wrappers, on files like those that Inductor writes."""

from __future__ import annotations

import importlib.util
import time
import types
from pathlib import Path

import pytest
from torch._inductor.codecache import PyCodeCache

from fx_explorer.capture.inductor.wrapper_clock import PART, WRAPPER, WRAPPER_END, WrapperClock

CODE = """
calls = []

def kernel(*args):
    calls.append(args)

def empty_strided_cpu(size):
    return list(size)

def assert_size_stride(*args):
    pass

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        a, b = args
        args.clear()
        assert_size_stride(a, 1)
        buf0 = empty_strided_cpu((1, 2))
        kernel(a, buf0)
        del a
        for i in range(2):
            kernel(b, i)
        if b == 'raise':
            kernel.missing(b)
        buf1 = buf0; del buf0  # reuse
        return (buf1, b)

runner = Runner(partitions=[])
call = runner.call
"""


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    file = tmp_path / "generated.py"
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location("generated", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(PyCodeCache, "modules", [module])
    return module


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(CODE.splitlines(), start=1) if text in line)


def test_a_ticking_wrapper_returns_the_same_and_ticks_once_for_each_part(
    generated: types.ModuleType,
) -> None:
    ticks: list[tuple[float, str, int]] = []
    clock = WrapperClock(ticks.append)
    plain = generated.call(["x", "y"])
    generated.calls.clear()
    with clock.on():
        assert generated.call(["x", "y"]) == plain
    assert generated.calls == [("x", [1, 2]), ("y", 0), ("y", 1)]
    kinds = [kind for _, kind, _ in ticks]
    assert kinds[0] == WRAPPER
    assert kinds[-1] == WRAPPER_END
    assert set(kinds[1:-1]) == {PART}
    called = [
        clock.parts[part]
        for _, kind, part in ticks
        if kind == PART and clock.parts[part].kind == "call"
    ]
    assert [part.line for part in called] == [
        line_of("kernel(a, buf0)"),
        *[line_of("kernel(b, i)")] * 2,
    ]
    assert called[0].name == "kernel"
    assert called[0].arguments == 2
    assert [time_s for time_s, _, _ in ticks] == sorted(time_s for time_s, _, _ in ticks)
    assert ticks[0][0] <= time.perf_counter()


def test_the_wrapper_is_the_same_function_with_its_own_code_again(
    generated: types.ModuleType,
) -> None:
    function = generated.Runner.call
    code = function.__code__
    clock = WrapperClock(lambda tick: None)
    with clock.on():
        assert generated.Runner.call is function
        assert function.__code__ is not code
        assert function.__code__.co_filename == code.co_filename
    assert function.__code__ is code


def test_a_wrapper_that_raises_is_put_back_and_its_lines_are_its_own(
    generated: types.ModuleType,
) -> None:
    code = generated.Runner.call.__code__
    clock = WrapperClock(lambda tick: None)
    with pytest.raises(AttributeError) as raised, clock.on():
        generated.call(["x", "raise"])
    assert generated.Runner.call.__code__ is code
    assert raised.traceback[-1].lineno + 1 == line_of("kernel.missing(b)")


def test_whoever_sees_the_calls_makes_them(generated: types.ModuleType) -> None:
    seen: list[tuple[str, tuple[object, ...]]] = []
    clock = WrapperClock(lambda tick: None)

    def make(part: int, function: object, *args: object) -> object:
        seen.append((clock.parts[part].name, args))
        return function(*args)  # type: ignore[operator]

    with clock.seeing(make):
        generated.call(["x", "y"])
    assert seen == [("kernel", ("x", [1, 2])), ("kernel", ("y", 0)), ("kernel", ("y", 1))]


def test_a_file_that_is_no_wrapper_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PyCodeCache, "modules", [types.ModuleType("kernel_alone")])
    assert WrapperClock(lambda tick: None).parts == []
