"""Run one program without fx-explorer and write what torch itself says of it, as JSON.

    python -m benchmarks.truth.bare NAME FILE [--build] [--setting NAME=VALUE …]

The sources are torch's own and none of the recorder's: the messages of
``TORCH_LOGS=graph_breaks,recompiles``, the guard managers that torch has finished, the graph
modules that reach ``compile_fx``, the code that ``GraphLowering.save_output_code`` hears of, and,
with ``--build``, the tensors that ``torch.autograd.graph.saved_tensors_hooks`` sees in the first
call of each compiled graph. The guards are not those of ``TORCH_LOGS=guards``: with that, torch
2.13 and 2.15 keep a guard that they else drop (``LazyConstantVariable.realize``). Without
``--build`` nothing is compiled by a C++ compiler and a backward is lowered together with its
forward.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import functools
import io
import json
import logging
import re
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx
import torch._logging
from torch._dynamo.guards import CheckFunctionManager
from torch._inductor.graph import GraphLowering

from tests.capture.undisturbed.run import nothing_built, without_comments

SUBJECT = Path(__file__).with_name("subject.py")
_BREAK = re.compile(
    r"Graph [Bb]reak(?: \(user stack suppressed[^)]*\))? in user code at (.+):(\d+)\n"
    r"Graph Break Reason: ([^\n]*)"
)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)
_TORCH = str(Path(torch.__file__).parent)
_RECOMPILED = re.compile(r"^Recompiling function (\S+) in (.+):(\d+)$", re.MULTILINE)
_FAILED_GUARD = re.compile(r"^\s*- (\d+/\d+): ([^\n]*)$", re.MULTILINE)


class Messages(logging.Handler):
    """Keeps what torch logs of breaks and recompiles."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks: list[tuple[str, int, str]] = []
        """File, line and first line of the reason, once for each time that Dynamo broke there. The
        line is the innermost that is not torch's own: of a break in a polyfill (torch 2.11, in
        ``polyfills/__init__.py``) the one that calls it.
        """
        self.recompiles: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if broken := _BREAK.search(text):
            file, line = _innermost_outside_torch(text) or (broken[1], int(broken[2]))
            self.breaks.append((file, line, broken[3].strip()))
        elif recompiled := _RECOMPILED.search(text):
            failed = [(of, _plain_guard(guard)) for of, guard in _FAILED_GUARD.findall(text)]
            self.recompiles.append({"function": recompiled[1], "failed": failed})


def _innermost_outside_torch(text: str) -> tuple[str, int] | None:
    """Return file and line of a message's last frame that is not in torch; None without one."""
    frames = _FRAME.findall(text.partition("User code traceback:")[2])
    outside = [(file, int(line)) for file, line in frames if not file.startswith(_TORCH)]
    if not outside:
        return None
    return outside[-1]


def _plain_guard(text: str) -> str:
    """Return a guard's code without the comment that torch puts behind it."""
    return text.split("  #")[0].strip()


@contextlib.contextmanager
def heard_messages() -> Any:
    """Collect torch's own log messages; nothing is printed."""
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    messages = Messages()
    quiet: list[tuple[logging.Logger, list[logging.Handler]]] = []
    for name in list(logging.root.manager.loggerDict):
        if name == "torch" or name.startswith("torch."):
            logger = logging.getLogger(name)
            quiet.append((logger, logger.handlers[:]))
            logger.handlers[:] = []
    torch_logger = logging.getLogger("torch")
    torch_logger.addHandler(messages)
    for name in ("symbolic_convert", "convert_frame", "guards"):
        for artifact in ("graph_breaks", "recompiles"):
            logging.getLogger(f"torch._dynamo.{name}.__{artifact}").addHandler(messages)
    try:
        yield messages
    finally:
        for logger, handlers in quiet:
            logger.handlers[:] = handlers


@contextlib.contextmanager
def finished_guard_trees() -> Iterator[list[str]]:
    """Collect each tree of guards as torch prints it, once torch has finished it."""
    trees: list[str] = []
    original = CheckFunctionManager.__init__

    @functools.wraps(original)
    def finish(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trees.append(str(self.guard_manager))

    CheckFunctionManager.__init__ = finish  # type: ignore[method-assign]
    try:
        yield trees
    finally:
        CheckFunctionManager.__init__ = original  # type: ignore[method-assign]


def operator_counts(module: torch.fx.GraphModule) -> dict[str, int]:
    """Return how often each operator stands in a Dynamo graph, by the name of its target."""
    names: collections.Counter[str] = collections.Counter()
    for node in module.graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            target = node.target
            name = target if isinstance(target, str) else target.__name__
            names[name.rpartition(".")[2]] += 1
    return dict(sorted(names.items()))


def observe(name: str, *, is_built: bool) -> dict[str, Any]:
    """Run the program and return the facts. What it raises is one of them."""
    graphs: list[dict[str, int]] = []
    codes: list[str] = []
    saved: list[tuple[tuple[int, ...], str]] = []
    first_calls: dict[type, FrameType] = {}
    raised = ""
    real_compile_fx = torch._inductor.compile_fx.compile_fx
    real_save = GraphLowering.save_output_code
    is_inside = False

    def heard_compile_fx(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        nonlocal is_inside
        if is_inside:
            return real_compile_fx(module, *args, **kwargs)
        graphs.append(operator_counts(module))
        is_inside = True
        try:
            return real_compile_fx(module, *args, **kwargs)
        finally:
            is_inside = False

    def saw_saved(tensor: torch.Tensor) -> torch.Tensor:
        call = sys._getframe(1)
        function = call.f_locals.get("cls")  # of ``Function.apply``
        # What an operator in eager mode saves, and what a later call does, is in no session.
        is_compiled = getattr(function, "__name__", "") == "CompiledFunction"
        if is_compiled and first_calls.setdefault(function, call) is call:
            saved.append((tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")))
        return tensor

    watched = torch.autograd.graph.saved_tensors_hooks(saw_saved, lambda tensor: tensor)
    with contextlib.ExitStack() as stack:
        messages = stack.enter_context(heard_messages())
        guard_trees = stack.enter_context(finished_guard_trees())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        if is_built:
            stack.enter_context(watched)
        else:
            stack.enter_context(nothing_built())
            real_compile_fx = torch._inductor.compile_fx.compile_fx
        GraphLowering.save_output_code = staticmethod(codes.append)  # type: ignore[method-assign]
        torch._inductor.compile_fx.compile_fx = heard_compile_fx
        sys.argv = [str(SUBJECT), name]
        try:
            runpy.run_path(str(SUBJECT), run_name="__main__")
        except Exception as error:  # noqa: BLE001 - part of what is compared
            raised = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        finally:
            torch._inductor.compile_fx.compile_fx = real_compile_fx
            GraphLowering.save_output_code = real_save  # type: ignore[method-assign]
    assert not any(module.partition(".")[0] == "fx_explorer" for module in sys.modules)
    return {
        "graphs": graphs,
        "codes": sorted(map(without_comments, codes)),
        "breaks": messages.breaks,
        "recompiles": messages.recompiles,
        "guard_trees": guard_trees,
        "saved_tensors": sorted(saved) if is_built else None,
        "raised": raised,
    }


def apply_setting(setting: str) -> None:
    """Set ``dynamo.nested_graph_breaks=True`` in the module of that name below torch."""
    name, _, value = setting.partition("=")
    section, _, option = name.partition(".")
    setattr(getattr(torch, f"_{section}").config, option, ast.literal_eval(value))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    for setting in arguments.setting:
        apply_setting(setting)
    facts = observe(arguments.name, is_built=arguments.build)
    arguments.file.write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
