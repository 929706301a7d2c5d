"""This module switches between the ways of running a program for the virtual GPU, and records the
program's questions about the device that a GPU would answer differently.

The program meets it in one of two modes; the mode changes at most once, from *transplant* to
*fake*. *transplant*: the program really runs on the CPU; each graph that Dynamo captures is moved
to the GPU and lowered there. *fake*: what the program puts on ``cuda`` has a shape and a type and
no content.

There are three ways to hear of a question. ``torch.cuda.is_available()`` is replaced by ours.
Dynamo reports ``is_cuda`` and ``device`` of tensors that it traces. Conditions in the user's own
files are read from their syntax, since code outside Dynamo reports to nobody.
"""

from __future__ import annotations

import ast
import functools
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fx_explorer.model import Gpu

EmulationMode = Literal["transplant", "fake"]

IN_WORDS: dict[EmulationMode, str] = {
    "transplant": "the program runs on the CPU, and its graphs are compiled for the virtual GPU",
    "fake": "tensors on the virtual GPU have shapes but no content",
}


@dataclass(frozen=True, slots=True)
class DeviceQuestion:
    """A question of the user's code about the device that the GPU would answer differently."""

    what: str
    """The question: ``torch.cuda.is_available()``, ``.is_cuda``, ``.device.type``."""
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A line of the program that read a number off a tensor without content."""

    file: str
    line: int
    value: str
    """The placeholder value that the program got, as Python writes it: ``1.0``."""


Choice = dict[str, object]
"""A choice that the autotuner could not make: its candidates, which would have been timed on the
device (on_the_cpu.py).
"""


@dataclass
class Emulation:
    """The virtual GPU of this process, its emulation mode, and the program's questions about it."""

    gpu: Gpu
    mode: EmulationMode = "transplant"
    reason: str = ""
    """Why the mode is ``fake``."""
    puts_everything_there: bool = False
    """Whether tensors for which the program names no device are also made on the GPU."""
    questions: dict[DeviceQuestion, None] = field(default_factory=dict)
    """Questions asked in mode ``transplant``, in order."""
    placeholders: dict[Placeholder, None] = field(default_factory=dict)
    """Numbers that the program read in mode ``fake``, in order."""
    unsaved: dict[tuple[str, int], None] = field(default_factory=dict)
    """File and line of each ``torch.save`` that wrote nothing, because its tensors have no content.
    """
    compilations_open: int = 0
    """Number of Inductor's calls in progress. Tensors that they make on the GPU, such as a constant
    for a branch of ``torch.cond``, are not the program's.
    """
    choices: list[Choice] = field(default_factory=list)
    on_change: Callable[[Emulation], None] = lambda emulation: None
    when_fake: list[Callable[[], None]] = field(default_factory=list)
    """Functions that undo patches for the time in which the program ran on the CPU."""

    def become_fake(self, reason: str) -> None:
        if self.mode != "fake":
            self.mode, self.reason = "fake", reason
            for undo in self.when_fake:
                undo()
            self.on_change(self)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Hold for the block that Inductor is at work, not the program."""
        self.compilations_open += 1
        try:
            yield
        finally:
            self.compilations_open -= 1

    def ask(self, question: DeviceQuestion) -> None:
        if self.mode == "transplant" and question not in self.questions:
            self.questions[question] = None
            self.on_change(self)

    def stand_in(self, placeholder: Placeholder) -> None:
        if placeholder not in self.placeholders:
            self.placeholders[placeholder] = None
            self.on_change(self)

    def leave_unsaved(self, place: tuple[str, int]) -> None:
        if place not in self.unsaved:
            self.unsaved[place] = None
            self.on_change(self)

    def to_json(self) -> dict[str, object]:
        """Return the value for ``meta["virtual_gpu"]``."""
        asked = [
            {"what": question.what, "file": question.file, "line": question.line}
            for question in self.questions
        ]
        stand_ins = [
            {"file": placeholder.file, "line": placeholder.line, "value": placeholder.value}
            for placeholder in self.placeholders
        ]
        return {
            "gpu": self.gpu.name,
            "feeding": self.mode,
            "reason": self.reason,
            "puts_everything_there": self.puts_everything_there,
            "questions": asked,
            "placeholders": stand_ins,
            "unsaved": [{"file": file, "line": line} for file, line in self.unsaved],
        }


# what the program asks


_MACHINERY = ("torch", "triton", "fx_explorer", "functools", "contextlib", "_pytest", "importlib")
"""Packages that must know of the GPU."""

_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
)

_OURS = str(Path(__file__).parents[2])

_KEPT = "device.type"
"""The type of a device in a variable: ``device.type``, ``target_device.type``."""

ASKS = (
    ".is_cuda",
    ".device.type",
    _KEPT,
    ".device",
    "torch.cuda.is_available()",
    "torch.cuda.device_count()",
)
"""Parts of a condition by which it counts as a question about the device."""

_TYPES = ("cuda", "cpu", "gpu")
"""Words, of which a condition on a device contains at least one, unless it only compares two
tensors.
"""


def asked_by_program(emulation: Emulation, what: str) -> bool:
    """Return whether the program asks, which runs on the CPU: it is the caller of our caller. A
    question of the user's own code is recorded.
    """
    if emulation.mode == "fake":
        return False
    frame = sys._getframe(2)
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package in _MACHINERY:
        return False
    if is_users(frame.f_code.co_filename):
        emulation.ask(DeviceQuestion(what, frame.f_code.co_filename, frame.f_lineno))
    return True


def users_place() -> tuple[str, int] | None:
    """Return file and line of the innermost running line of the user's code."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    return frame.f_code.co_filename, frame.f_lineno


def is_users(file: str) -> bool:
    """Return whether a file is the user's, and not an installed package's, Python's, or ours."""
    return (
        file.endswith(".py")
        and not file.startswith((*_LIBRARIES, _OURS))
        and "site-packages" not in file
    )


# what Dynamo is asked


def listen_to_dynamo(emulation: Emulation) -> None:
    """Record questions about the device in code that Dynamo traces. Hooks:
    ``TensorVariable.method_attr_is_cuda`` and ``method_attr_device``
    (torch/_dynamo/variables/tensor.py); ``ConstantVariable.const_getattr`` (constant.py), for the
    ``type`` of a device in a variable.
    """
    # It imports torch, for which this module is too early in a worker.
    from fx_explorer.capture.torch_compat.versions import require

    variable = require("torch._dynamo.variables.tensor", "TensorVariable")
    for attribute in ("is_cuda", "device"):
        name = f"method_attr_{attribute}"
        setattr(variable, name, _listening(emulation, getattr(variable, name), f".{attribute}"))
    constant = require("torch._dynamo.variables.constant", "ConstantVariable")
    constant.const_getattr = _listening_to_devices(emulation, constant.const_getattr)


def _listening(emulation: Emulation, original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def method_attr(variable: Any, tx: Any) -> Any:
        answer = original(variable, tx)
        _ask_at(emulation, tx, what)
        return answer

    return method_attr


def _listening_to_devices(emulation: Emulation, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def const_getattr(variable: Any, tx: Any, name: str) -> Any:
        if name == "type" and type(variable.value).__name__ == "device":
            _ask_at(emulation, tx, "")
        return original(variable, tx, name)

    return const_getattr


def _ask_at(emulation: Emulation, tx: Any, what: str) -> None:
    """Record a question about the device if a condition on Dynamo's current line depends on it.
    Most lines only pass a device on, and are not recorded.
    """
    if emulation.mode != "transplant":
        return
    frame = tx.frame_summary()
    for question in conditions(frame.filename):
        if question.line == frame.lineno and question.what.startswith(what):
            emulation.ask(question)


# what the user's files say


def read_users_files(emulation: Emulation) -> None:
    """Record every condition on a device in the user's own loaded modules."""
    # A list of its own, since a lazy module may import others when it is asked for something.
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for file in sorted(file for file in loaded if file and is_users(file)):
        for question in conditions(file):
            emulation.ask(question)


@functools.lru_cache(maxsize=256)
def conditions(file: str) -> tuple[DeviceQuestion, ...]:
    """Return the conditions (``if``, ``while``, ``assert``, comparisons) of a file that ask about a
    device; empty for a file that cannot be read or parsed.
    """
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    questions: set[tuple[int, str]] = set()
    for test in _tests(tree):
        questions.update((node.lineno, what) for node, what in _asked(test))
    # ``x.device.type`` contains ``x.device``, which is no second question.
    questions -= {(line, ".device") for line, what in questions if what == ".device.type"}
    return tuple(DeviceQuestion(what, file, line) for line, what in sorted(questions))


def _tests(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that decide something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.Compare):
            yield node
        elif isinstance(node, ast.Match):
            yield node.subject


def _asked(test: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    if not any(word in ast.unparse(test).lower() for word in _TYPES):
        return
    for node in ast.walk(test):
        if not isinstance(node, ast.Attribute | ast.Call):
            continue
        text = ast.unparse(node)
        what = next((ending for ending in ASKS if _ends_with(text, ending)), None)
        if what:
            yield node, what


def _ends_with(text: str, what: str) -> bool:
    if what.startswith(".") or what == _KEPT:
        return text.endswith(what)
    return text in (what, what.removeprefix("torch."))
