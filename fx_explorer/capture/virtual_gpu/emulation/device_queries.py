"""What the program asks about the device and would be answered otherwise on the GPU.

There are three ways to hear of it. ``torch.cuda.is_available()`` is replaced by ours. Dynamo
reports ``is_cuda`` and ``device`` of tensors that it traces. Conditions in the user's own files are
read from their syntax, since code outside Dynamo reports to nobody.
"""

from __future__ import annotations

import ast
import functools
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.emulation.emulation_mode import DeviceQuestion, Emulation

_MACHINERY = ("torch", "triton", "fx_explorer", "functools", "contextlib", "_pytest", "importlib")
"""Packages that must be told of the GPU."""

_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
)

_OURS = str(Path(__file__).parents[3])

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
"""What a condition may ask about."""

_TYPES = ("cuda", "cpu", "gpu")
"""Words of which a condition on a device has one, unless it only compares two tensors."""


def asked_by_program(emulation: Emulation, what: str) -> bool:
    """Return whether the caller of our caller is the program, which runs on the CPU. A question of
    the user's own code is kept.
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
    """Return file and line of the innermost line of the user's own code that is running."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def is_users(file: str) -> bool:
    """Return whether a file is the user's: neither of an installed package, nor Python's, nor
    ours.
    """
    return (
        file.endswith(".py")
        and not file.startswith((*_LIBRARIES, _OURS))
        and "site-packages" not in file
    )


# what Dynamo is asked


def listen_to_dynamo(emulation: Emulation) -> None:
    """Hooks: ``TensorVariable.method_attr_is_cuda`` and ``method_attr_device``
    (torch/_dynamo/variables/tensor.py); ``ConstantVariable.const_getattr`` (constant.py), which is
    asked for the ``type`` of a device that was kept.
    """
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
    """Keep the question that Dynamo's current line decides on, if it decides anything: most code
    only passes a device on.
    """
    if emulation.mode != "transplant":
        return
    frame = tx.frame_summary()
    for question in conditions(frame.filename):
        if question.line == frame.lineno and question.what.startswith(what):
            emulation.ask(question)


# what the user's files say


def read_users_files(emulation: Emulation) -> None:
    """Keep every condition on a device in the user's own modules that were loaded."""
    # A list of its own, since a lazy module may import others when it is asked for something.
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for file in sorted(file for file in loaded if file and is_users(file)):
        for question in conditions(file):
            emulation.ask(question)


@functools.lru_cache(maxsize=256)
def conditions(file: str) -> tuple[DeviceQuestion, ...]:
    """Return the conditions on a device in a file; empty for one that cannot be read or parsed."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    found = {(node.lineno, what) for test in _tests(tree) for node, what in _asked(test)}
    # ``x.device.type`` contains ``x.device``, which is no second question.
    found -= {(line, ".device") for line, what in found if what == ".device.type"}
    return tuple(DeviceQuestion(what, file, line) for line, what in sorted(found))


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
        if isinstance(node, ast.Attribute | ast.Call):
            text = ast.unparse(node)
            if what := next((one for one in ASKS if _ends_with(text, one)), None):
                yield node, what


def _ends_with(text: str, what: str) -> bool:
    if what.startswith(".") or what == _KEPT:
        return text.endswith(what)
    return text in (what, what.removeprefix("torch."))
