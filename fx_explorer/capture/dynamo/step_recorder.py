"""This module has the step recorder, which records the stack and the variables of a function made
by Dynamo, before each instruction.

What is new is decided by identity: a tensor in place of another of the same shape is a change, and
so is one written in place.
"""

from __future__ import annotations

import builtins
import dis
import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.dynamo.bytecode_instructions import effect, stack_depths
from fx_explorer.capture.dynamo.bytecode_listing import without_uuid
from fx_explorer.capture.recording.described import described, one_line
from fx_explorer.capture.recording.dynamo_code import RESUME, RecordedBytecode
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.private_names import (
    DisableTorchFunctionSubclass,
    _disable_current_modes,
)
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.model import BytecodeStep

MAX_STEPS = 10_000

MAX_LOCALS = 200
"""Maximum number of locals of one function call that are recorded: generated functions can have
thousands.
"""

BATCH = 500
"""Number of steps that are written together."""

NOT_RECORDED = RecordedBytecode(0, {})


class _Seen(NamedTuple):
    """A value at a step. It is kept alive until the next step, so that no new object can have its
    address.
    """

    value: object
    version: int
    text: str


@dataclass
class _StepFrame:
    """A call of a function with Dynamo's bytecode that has not returned yet."""

    number: int
    parent: int
    code: RecordedBytecode
    depths: Mapping[int, int]
    instructions: Mapping[int, dis.Instruction]
    names: Mapping[int, str]
    """``id`` of a function that Dynamo put among the globals → its name."""
    before: Mapping[str, _Seen] | None = None
    """The values at the step before: locals by name, the stack by position (``[0]``). None at the
    first step.
    """


class StepRecorder:
    """Receives instructions, errors and ends of calls, and writes a BytecodeStep for each of the
    first two.
    """

    def __init__(self, recording: Recording, run: int, limit: int = MAX_STEPS) -> None:
        self.count = 0
        self.is_over = False
        """Whether recording has ended: the limit is reached, or an error of ours occurred."""
        self.as_python: list[str] = []
        """Functions for which Dynamo made bytecode, but which ran with their original bytecode."""
        self._recording = recording
        self._run = run
        self._limit = limit
        self._rows: list[BytecodeStep] = []
        self._calls: dict[types.FrameType, _StepFrame] = {}
        self._calls_begun = 0
        self._read_stack = require(
            "torch._C._dynamo.eval_frame", "_get_frame_value_stack_with_depth"
        )
        self._null = require("torch._C._dynamo.eval_frame", "NULL_STACK_VALUE")

    # what it is called with

    def instruction(self, frame: types.FrameType, offset: int) -> None:
        if not self.is_over:
            self._add("a step of the bytecode", lambda: self._step(frame, offset))
            if self._is_call(frame, offset):
                # Should the call end the process, it is the last that stands in the session.
                self.flush()

    def raised(self, frame: types.FrameType, offset: int, error: BaseException) -> None:
        call = self._calls.get(frame)
        if call is None or self.is_over:
            return
        offset = max(
            (at for at in call.instructions if at <= offset), default=offset
        )  # Python 3.12 says that of a cache
        if not _ends_a_loop(call, offset, error):
            self._add("an error in the bytecode", lambda: self._error(frame, call, offset, error))

    def left(self, frame: types.FrameType) -> None:
        self._calls.pop(frame, None)

    def passed(self, code: types.CodeType) -> None:
        """Record that the original bytecode of a function is called, although Dynamo has made other
        bytecode for it.
        """
        if code in self._recording.dynamo_bytecode.original and code.co_name not in self.as_python:
            self.as_python.append(code.co_name)

    def flush(self) -> None:
        """Write the rows that are buffered."""
        with self._recording.noting("steps of the bytecode", "dynamo"):
            self._recording.writer.add_all(self._rows)
            self._rows = []

    # what it makes of it

    def _add(self, what: str, make: Callable[[], BytecodeStep]) -> None:
        row = None
        with self._recording.noting(what, "dynamo"):
            row = make()
            self._rows.append(row)
            self.count += 1
            if len(self._rows) >= BATCH:
                self.flush()
        self.is_over = row is None or self.is_full

    def _is_call(self, frame: types.FrameType, offset: int) -> bool:
        call = self._calls.get(frame)
        return call is not None and call.instructions[offset].opname.startswith("CALL")

    @property
    def is_full(self) -> bool:
        return self.count >= self._limit

    def _error(
        self, frame: types.FrameType, call: _StepFrame, offset: int, error: BaseException
    ) -> BytecodeStep:
        text = without_uuid(one_line(f"{type(error).__name__}: {error}"))
        return self._row(frame, call, offset, kind="raised", is_stack_known=False, error=text)

    def _step(self, frame: types.FrameType, offset: int) -> BytecodeStep:
        """Return the row of a step: the stack and the variables before the instruction, the changes
        since the step before, and the called function.
        """
        call = self._calls.get(frame) or self._begin(frame)
        depth = call.depths.get(offset)
        stack = self._read_stack(frame, depth) if depth else []
        values = list(frame.f_locals.items())[:MAX_LOCALS]
        now = {name: self._seen(value, call, name) for name, value in values}
        texts = {name: seen.text for name, seen in now.items()}
        stack_texts = []
        for i, value in enumerate(stack):
            seen = self._seen(value, call, f"[{i}]")
            now[f"[{i}]"] = seen
            stack_texts.append(seen.text)
        changed = () if call.before is None else _changed(call.before, now)
        call.before = now
        return self._row(
            frame,
            call,
            offset,
            stack=tuple(stack_texts),
            is_stack_known=depth is not None,
            locals=self._recording.writer.text(json.dumps(texts, ensure_ascii=False)),
            changed=changed,
            calls=_callee(call, offset, stack),
        )

    def _row(
        self, frame: types.FrameType, call: _StepFrame, offset: int, **values: object
    ) -> BytecodeStep:
        line = call.code.line_of.get(offset, 0)
        return BytecodeStep(
            0,
            self._run,
            call.number,
            call.parent,
            frame.f_code.co_name,
            call.code.artifact,
            line,
            offset,
            **values,  # type: ignore[arg-type]
        )

    def _seen(self, value: object, call: _StepFrame, name: str) -> _Seen:
        text = "NULL" if value is self._null else in_short(value, call.names)
        return _Seen(value, version_of(value), text)

    def _begin(self, frame: types.FrameType) -> _StepFrame:
        self._calls_begun += 1
        code = frame.f_code
        parent = self._caller(frame)
        number_of_parent = parent.number if parent else 0
        self._calls[frame] = _StepFrame(
            self._calls_begun,
            number_of_parent,
            self._recording.dynamo_bytecode.modified.get(code, NOT_RECORDED),
            stack_depths(code),
            {instruction.offset: instruction for instruction in dis.get_instructions(code)},
            _made_up_names(frame.f_globals, self._recording.dynamo_bytecode.resume_names),
        )
        return self._calls[frame]

    def _caller(self, frame: types.FrameType) -> _StepFrame | None:
        outer = frame.f_back
        while outer is not None and outer not in self._calls:
            outer = outer.f_back
        if outer is None:
            return None
        return self._calls[outer]


_PLAIN = (bool, int, float, str, bytes)
"""Types whose values are the same when they are written the same."""


def _changed(before: Mapping[str, _Seen], now: Mapping[str, _Seen]) -> tuple[str, ...]:
    """Return the names whose value has changed, then those that no longer exist."""
    changed = []
    for name, seen in now.items():
        if name not in before or _differ(before[name], seen):
            changed.append(name)
    changed += [name for name in before if name not in now]
    return tuple(changed)


def _differ(seen: _Seen, other: _Seen) -> bool:
    if seen.version != other.version or seen.text != other.text:
        return True
    return seen.value is not other.value and type(seen.value) not in _PLAIN


def _callee(call: _StepFrame, offset: int, stack: Sequence[object]) -> str:
    """Return the name of the compiled graph or resume function that the instruction calls. It is
    the lowest of the values that a call takes from the stack.
    """
    instruction = call.instructions.get(offset)
    if instruction is None or not instruction.opname.startswith("CALL"):
        return ""
    lowest = max(0, len(stack) + effect(instruction) - 1)
    names = (_called_name(call, value) for value in stack[lowest : lowest + 2])
    return next(filter(None, names), "")


def _called_name(call: _StepFrame, value: object) -> str:
    if type(value) is types.FunctionType and RESUME.match(value.__code__.co_name):
        return value.__code__.co_name
    name = call.names.get(id(value), "")
    if not name.startswith("__compiled_fn_"):
        return ""
    return name


def _made_up_names(
    globals_: Mapping[str, object], resume_names: Mapping[str, str]
) -> dict[int, str]:
    """Return ``id`` of an object → the name it is shown under, for compiled graphs and resume
    functions. A resume function with closure variables is represented by the function that
    makes it.
    """
    graphs = {}
    for name, value in list(globals_.items()):
        if name.startswith("__compiled_fn_"):
            graphs[id(value)] = without_uuid(name)
    resumes = {id(globals_[name]): text for name, text in resume_names.items() if name in globals_}
    return {**resumes, **graphs}


def _ends_a_loop(call: _StepFrame, offset: int, error: BaseException) -> bool:
    """Return whether an error only ends an iteration, so that the program raised nothing."""
    instruction = call.instructions.get(offset)
    if not isinstance(error, StopIteration) or instruction is None:
        return False
    return instruction.opname in ("FOR_ITER", "SEND")


# Values of the running program in words. No code of the program's runs for it, and nothing of it is
# kept alive.

MAX_SHOWN = 100
"""Maximum number of characters of one value."""

FEW_VALUES = 6
"""Maximum number of elements of a tensor whose values are shown; a larger tensor is shown as dtype,
shape and device.
"""

FEW_MEMBERS = 4

Names = Mapping[int, str]
"""``id`` of an object → its name, for functions made by Dynamo."""


def in_short(value: object, names: Names, *, depth: int = 2) -> str:
    """Return ``f32[4, 8] cpu``, ``f32[] cpu 0.5``, ``[f32[4] cpu, 2]``, ``__compiled_fn_1`` or
    ``object of class Net``.
    """
    text = names.get(id(value)) or _text(value, names, depth)
    if len(text) <= MAX_SHOWN:
        return text
    return text[: MAX_SHOWN - 1] + "…"


def _text(value: Any, names: Names, depth: int) -> str:
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return _tensor(value)
    if kind is torch.Size:
        return repr(value)
    if kind is slice:
        parts = [in_short(part, names, depth=0) for part in (value.start, value.stop, value.step)]
        return f"slice({', '.join(parts)})"
    if kind is CodeType:
        return f"code of {value.co_name}"
    if issubclass(kind, ModuleType):
        return f"module {ModuleType.__getattribute__(value, '__dict__').get('__name__', '')}"
    if value is vars(builtins):
        return "Python's builtins"
    if depth and kind in (list, tuple, dict):
        return _container(value, names, depth - 1)
    return described(value)


def _container(value: Any, names: Names, depth: int) -> str:
    if type(value) is dict:
        pairs = []
        for key, held in list(value.items())[:FEW_MEMBERS]:
            written = in_short(key, names, depth=0)
            pairs.append(f"{written}: {in_short(held, names, depth=depth)}")
        return f"{{{_members(pairs, len(value))}}}"
    members = [in_short(member, names, depth=depth) for member in value[:FEW_MEMBERS]]
    inside = _members(members, len(value))
    if type(value) is list:
        return f"[{inside}]"
    if len(value) == 1:
        return f"({inside},)"
    return f"({inside})"


def _members(shown: list[str], count: int) -> str:
    if count > len(shown):
        return ", ".join([*shown, "…"])
    return ", ".join(shown)


def _tensor(value: Any) -> str:
    """Describe a tensor. A tensor of the program's own class may run code even for its shape; if
    that fails, only its type is named.
    """
    is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
    try:
        with DisableTorchFunctionSubclass(), _disable_current_modes():
            if is_plain:
                return f"{described(value)} {value.device}{_few(value)}"
            return f"{type(value).__name__} {described(value)} {value.device}"
    # An exception in the program's class here is not the program's fault.
    except Exception:  # noqa: BLE001
        return f"object of class {type(value).__name__}"


def _few(value: torch.Tensor) -> str:
    """Return the values of a small tensor, if they can be read without waiting for a device."""
    is_readable = (
        value.device.type == "cpu"
        and value.layout == torch.strided
        and not value.is_quantized
        and 0 < value.numel() <= FEW_VALUES
    )
    if is_readable:
        return f" {_numbers(value.tolist())}"
    return ""


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def version_of(value: object) -> int:
    """Return how often a tensor was written in place; 0 for other values, and where torch does not
    count.
    """
    if not issubclass(type(value), torch.Tensor):
        return 0
    try:
        with DisableTorchFunctionSubclass():
            return int(value._version)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - inference tensors, and classes that do not count
        return 0
