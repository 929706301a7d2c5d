"""These tests check that Dynamo's bytecode is recorded step by step. Second sources: a trace
function of the test's own, and the effect of each instruction according to ``dis``.
"""

from __future__ import annotations

import ast
import collections
import dis
import json
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from fx_explorer.capture.dynamo.bytecode_instructions import stack_depths
from fx_explorer.capture.dynamo.bytecode_steps import (
    NOTHING_CALLED,
    NOTHING_COMPILED,
    NOTHING_RAN,
    record_steps,
)
from fx_explorer.capture.dynamo.step_recorder import MAX_SHOWN, in_short
from fx_explorer.capture.recorder import compile_arguments, recording
from fx_explorer.capture.recording.state import Recording
from fx_explorer.errors import UsageError
from fx_explorer.model import Artifact, BytecodeRun, BytecodeStep, CaptureRequest
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import failures
from tests.exhaustive import one_of

torchs_debugger = pytest.importorskip(
    "torch._dynamo.bytecode_debugger", reason="this release has none"
)


def breaks_twice(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x + 1
    print("first")
    for _ in range(n):
        y = y * 2
    print("second")
    return y.sin()


FAILS = [False]


@torch._dynamo.disable
def may_fail() -> None:
    if FAILS[0]:
        raise KeyError("absent")


def in_a_context(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x.cos()
        may_fail()
        z = y + 1
    return z * y


def writes_in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(3)
    z = torch.zeros(3)
    print("before")
    z = z + x
    print("between")
    y.add_(x)
    print("after")
    return y + z


@dataclass
class Again:
    """Again calls the compiled function once more; its result is in ``results``."""

    compiled: Callable[..., Any]
    args: tuple[object, ...]
    inputs: str = "(…)"
    results: list[object] = field(default_factory=list)

    def __call__(self, watching: AbstractContextManager[object]) -> list[str]:
        with watching:
            self.results.append(self.compiled(*self.args))
        return []


Seen = list[tuple[str, int, dict[str, str]]]
"""For each instruction: function, offset, and the variables in short."""


@dataclass
class Recorded:
    state: Recording
    again: Again
    first: object
    path: Path
    traced: Seen = field(default_factory=list)
    """What Python's own tracing shows."""

    def steps(self) -> list[BytecodeStep]:
        with SessionReader(self.path) as reader:
            return reader.rows(BytecodeStep, run=self.run().id)

    def run(self) -> BytecodeRun:
        with SessionReader(self.path) as reader:
            return reader.rows(BytecodeRun)[-1]

    def locals(self, step: BytecodeStep) -> dict[str, str]:
        with SessionReader(self.path) as reader:
            return dict(json.loads(reader.text(step.locals)))

    def code(self, step: BytecodeStep) -> types.CodeType:
        return next(
            code
            for code, known in self.state.dynamo_bytecode.modified.items()
            if known.artifact == step.artifact
        )

    def instruction(self, step: BytecodeStep) -> dis.Instruction:
        return next(
            one for one in dis.get_instructions(self.code(step)) if one.offset == step.offset
        )


@contextmanager
def captured(path: Path, function: Callable[..., object], *args: object) -> Iterator[Recorded]:
    """Called once under the recorder; inside the block it can be called again."""
    torch._dynamo.reset()
    request = CaptureRequest("test", str(path), backend="eager")
    with (
        warnings.catch_warnings(),
        SessionWriter(path) as writer,
        recording(writer, request, lambda notice: None) as state,
    ):
        warnings.simplefilter("ignore")
        compiled = torch.compile(function, **compile_arguments(request))
        first = compiled(*args)
        state.call_again = Again(compiled, args)
        yield Recorded(state, state.call_again, first, path)
    torch._dynamo.reset()


def loops_on_a_value(x: torch.Tensor) -> torch.Tensor:
    """torch 2.13 makes code for it that has a dictionary among its constants."""

    def scaled(v: torch.Tensor) -> torch.Tensor:
        return v * 2

    return scaled(Halving.halve(x))


class Halving:
    @classmethod
    def halve(cls, x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 0.5:
            x = x * 0.5
        return x


PROGRAMS = [
    pytest.param(breaks_twice, (torch.ones(3), 2), id="breaks"),
    pytest.param(in_a_context, (torch.ones(3),), id="context"),
    pytest.param(writes_in_place, (torch.ones(3),), id="in place"),
    pytest.param(loops_on_a_value, (torch.ones(3),), id="code without a hash"),
]


Stepped = Callable[..., Recorded]


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Stepped:
    """``stepped(function, *args)`` → its steps, recorded the first time, after the same call under
    Python's own tracing.
    """
    folder = tmp_path_factory.mktemp("steps")
    runs: dict[object, Recorded] = {}

    def record_once(function: Callable[..., object], *args: object) -> Recorded:
        if function not in runs:
            with captured(folder / f"{len(runs)}.fxs", function, *args) as found:
                found.traced = trace_opcodes(found)
                record_steps(found.state)
            runs[function] = found
        return runs[function]

    return record_once


def trace_opcodes(found: Recorded) -> Seen:
    """Call the compiled function again under a trace function of Python's."""
    seen: Seen = []

    def trace(frame: types.FrameType, event: str, _: object) -> Any:
        if frame.f_code not in found.state.dynamo_bytecode.modified:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            variables = {name: in_short(value, {}) for name, value in frame.f_locals.items()}
            seen.append((frame.f_code.co_name, frame.f_lasti, variables))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found.again.compiled(*found.again.args)
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize(("function", "args"), one_of(2, PROGRAMS))
def test_results_are_those_of_an_unrecorded_run(
    stepped: Stepped, function: Callable[..., object], args: Any
) -> None:
    found = stepped(function, *args)
    assert torch.equal(found.again.results[-1], found.first)  # type: ignore[arg-type]
    assert torch.equal(found.again.results[-1], function(*args))  # type: ignore[arg-type]
    assert found.run().ended == "returned"
    assert sys.gettrace() is None or "fx_explorer" not in str(sys.gettrace())


@pytest.mark.parametrize(("function", "args"), one_of(2, PROGRAMS))
def test_steps_and_variables_are_those_that_python_s_own_tracing_shows(
    stepped: Stepped, function: Callable[..., object], args: Any
) -> None:
    found = stepped(function, *args)
    steps = [step for step in found.steps() if step.kind == "instruction"]
    assert [(step.function, step.offset) for step in steps] == [
        (name, offset) for name, offset, _ in found.traced
    ]
    for step, (_, _, seen) in zip(steps, found.traced, strict=True):
        shown = found.locals(step)
        assert shown.keys() == seen.keys()
        assert all(shown[name] == text for name, text in seen.items() if "resume" not in text)


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_the_stack_holds_what_dis_says_the_instruction_before_left_there(
    stepped: Stepped, function: Callable[..., object], args: Any
) -> None:
    found = stepped(function, *args)
    checked = collections.Counter[str]()
    last: dict[int, BytecodeStep] = {}
    for step in found.steps():
        before = last.get(step.call)
        last[step.call] = step
        if before is None or "raised" in (before.kind, step.kind):
            continue
        one = found.instruction(before)
        if one.opname == "LOAD_FAST":
            assert step.stack[-1] == found.locals(before)[one.argval]
        elif one.opname == "LOAD_CONST" and isinstance(one.argval, int | str | type(None)):
            assert step.stack[-1] == repr(one.argval)
        elif one.opname == "STORE_FAST":
            assert found.locals(step)[one.argval] == before.stack[-1]
            assert step.stack == before.stack[:-1]
        else:
            continue
        checked[one.opname] += 1
    assert checked.keys() == {"LOAD_FAST", "LOAD_CONST", "STORE_FAST"}
    assert all(step.is_stack_known for step in found.steps() if step.kind == "instruction")


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Recorded]:
    with captured(tmp_path / "s.fxs", in_a_context, torch.ones(3)) as found:
        FAILS[0] = True
        try:
            yield found
        finally:
            FAILS[0] = False


def test_an_error_within_is_recorded_where_it_was_raised(failing: Recorded) -> None:
    said = record_steps(failing.state)
    assert failing.run().ended == "raised"
    assert failing.run().said == "It raised KeyError: 'absent'."
    assert failing.run().said in said
    raised = [step for step in failing.steps() if step.kind == "raised"]
    assert {step.error for step in raised} == {"KeyError: 'absent'"}
    assert failing.instruction(raised[0]).opname.startswith("CALL")


def test_the_error_that_a_handler_gets_is_on_its_stack(failing: Recorded) -> None:
    record_steps(failing.state)
    steps = failing.steps()
    handlers = [step for step in steps if failing.instruction(step).opname == "PUSH_EXC_INFO"]
    assert handlers
    for handler in handlers:
        assert handler.stack[-1] == "object of class KeyError"
        assert steps[steps.index(handler) - 1].kind == "raised"


def test_compiled_graphs_and_resume_functions_that_are_called_are_named(stepped: Stepped) -> None:
    line = breaks_twice.__code__.co_firstlineno
    resumed = [
        f"torch_dynamo_resume_in_breaks_twice_at_{line + 2}",
        f"torch_dynamo_resume_in_breaks_twice_at_{line + 5}",
    ]
    steps = stepped(breaks_twice, torch.ones(3), 2).steps()
    calls = [
        step.calls for step in steps if step.calls and not step.calls.startswith("__compiled_fn_")
    ]
    graphs = [step.calls for step in steps if step.calls.startswith("__compiled_fn_")]
    assert calls == resumed
    assert len(graphs) == len(set(graphs)) == 3
    entered = {step.call: (step.function, step.parent) for step in steps}
    assert list(entered.values()) == [("breaks_twice", 0), (resumed[0], 1), (resumed[1], 2)]


def test_a_tensor_in_place_of_another_of_its_shape_is_a_change_and_so_is_one_written_in_place(
    tmp_path: Path,
) -> None:
    with captured(tmp_path / "s.fxs", breaks_twice, torch.ones(9), 2) as found:
        record_steps(found.state)
        last: dict[int, BytecodeStep] = {}
        stored = 0
        for step in found.steps():
            before = last.get(step.call)
            last[step.call] = step
            if before and found.instruction(before).opname == "STORE_FAST":
                stored += 1
                assert found.instruction(before).argval in step.changed
            if before and found.instruction(before).opname in ("NOP", "PRECALL", "RESUME"):
                assert step.changed == ()
        assert stored


def test_at_the_limit_the_program_goes_on_unrecorded(tmp_path: Path) -> None:
    with captured(tmp_path / "s.fxs", breaks_twice, torch.ones(3), 2) as found:
        said = record_steps(found.state, limit=20)
        assert len(found.steps()) == 20 == found.run().steps
        assert found.run().ended == "limit"
        assert "the limit was reached" in said
        assert torch.equal(found.again.results[-1], found.first)  # type: ignore[arg-type]


def test_nothing_is_compiled_meanwhile_and_what_ran_as_python_is_named(tmp_path: Path) -> None:
    with captured(tmp_path / "s.fxs", breaks_twice, torch.ones(3), 2) as found:
        found.again.args = (torch.ones(3, dtype=torch.float64), 2)
        before = counters["frames"]["total"]
        said = record_steps(found.state)
        assert counters["frames"]["total"] == before
        assert found.steps() == []
        assert NOTHING_RAN in said
        assert NOTHING_COMPILED not in said
        assert sys.version_info >= (3, 12) or "breaks_twice ran in eager mode" in said
        assert torch.equal(found.again.results[-1], breaks_twice(*found.again.args))  # type: ignore[arg-type]


def test_where_nothing_was_compiled_it_says_why_none_ran(tmp_path: Path) -> None:
    def left_to_python(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            torch._dynamo.graph_break()  # within a loop: the frame is left to Python
        return x * 2

    with captured(tmp_path / "s.fxs", left_to_python, torch.ones(3)) as found:
        assert f"{NOTHING_RAN} {NOTHING_COMPILED}" in record_steps(found.state)


def test_code_that_has_no_hash_is_recorded(stepped: Stepped) -> None:
    found = stepped(loops_on_a_value, torch.ones(3))
    unhashable = [
        code
        for code in found.state.dynamo_bytecode.modified
        if any(type(constant) is dict for constant in code.co_consts)
    ]
    if not unhashable:
        pytest.skip("this torch makes no such code")
    assert {code.co_name for code in unhashable} <= {step.function for step in found.steps()}
    with SessionReader(found.path) as reader:
        assert failures(reader) == []


def test_every_step_stands_on_its_instruction_of_the_listing(stepped: Stepped) -> None:
    found = stepped(breaks_twice, torch.ones(3), 2)
    steps = found.steps()
    with SessionReader(found.path) as reader:
        texts = {
            row.id: reader.text(row.text).splitlines()
            for row in reader.rows(Artifact, kind="bytecode_modified")
        }
    assert {step.artifact for step in steps} == texts.keys()
    for step in steps:
        row = texts[step.artifact][step.line - 1].split()
        assert row[0] == str(step.offset)
        assert found.instruction(step).opname in row


def test_a_release_without_the_debugger_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with captured(tmp_path / "s.fxs", breaks_twice, torch.ones(3), 2) as found:
        monkeypatch.delattr(torchs_debugger, "_DebugContext")
        monkeypatch.delitem(
            sys.modules, "fx_explorer.capture.dynamo.bytecode_debugger", raising=False
        )
        with pytest.raises(
            UsageError,
            match=rf"torch {torch.__version__.split('+')[0]}.* has no .*bytecode_debugger",
        ):
            record_steps(found.state)
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert reader.rows(BytecodeRun) == []


def test_without_a_call_there_is_nothing_to_record(tmp_path: Path) -> None:
    with captured(tmp_path / "s.fxs", breaks_twice, torch.ones(3), 2) as found:
        found.state.call_again = None
        with pytest.raises(UsageError, match=NOTHING_CALLED):
            record_steps(found.state)


# depths


@pytest.mark.parametrize("module", [ast, dis, collections, json.decoder])
def test_no_stack_is_deeper_than_python_made_room_for(module: types.ModuleType) -> None:
    assert module.__file__
    waiting = [compile(Path(module.__file__).read_text(), module.__file__, "exec")]
    exact = 0
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        depths = stack_depths(code)
        if depths:  # none for generators, which begin with what is sent to them
            assert 0 <= min(depths.values()) <= max(depths.values()) <= code.co_stacksize
            exact += max(depths.values()) == code.co_stacksize
    assert exact


# values in short


class Rude:
    def __repr__(self) -> str:
        raise AssertionError("its code was run")

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise AssertionError("its code was run")


class OddTensor(torch.Tensor):
    @property
    def shape(self) -> Any:
        raise AssertionError("no shape")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(4, 8), "f32[4, 8] cpu"),
        (torch.tensor(0.5), "f32[] cpu 0.5"),
        (torch.tensor([1, 2]), "i64[2] cpu [1, 2]"),
        (torch.zeros(7), "f32[7] cpu"),
        (torch.nn.Parameter(torch.zeros(2, 9)), "f32[2, 9] cpu"),
        (torch.zeros(2, device="meta"), "f32[2] meta"),
        (torch.eye(2).to_sparse(), "f32[2, 2] cpu"),
        (torch.Size([4, 8]), "torch.Size([4, 8])"),
        ((torch.zeros(9), [1, "a"]), "(f32[9] cpu, [1, 'a'])"),
        ((1,), "(1,)"),
        ({"a": torch.zeros(9)}, "{'a': f32[9] cpu}"),
        (list(range(9)), "[0, 1, 2, 3, …]"),
        (slice(0, None), "slice(0, None, None)"),
        (torch, "module torch"),
        (torch.float32, "torch.float32"),
        (
            vars(__builtins__) if isinstance(__builtins__, types.ModuleType) else __builtins__,
            "Python's builtins",
        ),
    ],
)
def test_values_are_shown_in_short(value: object, text: str) -> None:
    assert in_short(value, {}) == text


def test_no_code_of_the_program_s_is_run_to_show_its_objects() -> None:
    assert in_short([OddTensor()], {}) == "[object of class OddTensor]"
    nested: list[object] = []
    nested.append(nested)
    assert in_short(nested, {}) == "[[list of 1]]"
    assert len(in_short("x" * 1000, {})) <= MAX_SHOWN
