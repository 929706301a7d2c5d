"""Blocks that torch enters tens of thousands of times while it compiles. It makes their contexts of generators, some of a new
function each time. Here they are objects with two methods, and nothing at all where a block has nothing to do.
"""

from __future__ import annotations

import contextlib
import logging
from types import MethodType
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import goes_by


def enter_blocks_quickly(stack: contextlib.ExitStack) -> None:
    """Make such contexts until the stack is closed. A torch release with rules that were not read makes its own."""
    _blocks_of_handlers(stack)
    _blocks_without_guards(stack)
    _blocks_of_nodes(stack)


def _blocks_of_handlers(stack: contextlib.ExitStack) -> None:
    """Those in which Inductor uses a handler: ``V.set_ops_handler`` and the like. torch makes a context for each, and another
    when the handler before comes back.
    """
    from torch._inductor import virtualized

    setting = getattr(virtualized.Virtualized, "_set_handler", None)
    if not goes_by(
        setting,
        ("_get_handler", "_set_handler", "setattr", "threadlocal", "_key", "contextmanager"),
    ):
        return
    threadlocal, setters = virtualized.threadlocal, type(virtualized.V)

    def _set_handler(virtual: Any, value: Any) -> _Handed:
        prior = virtual._get_handler(False)
        setattr(threadlocal, virtual._key, value)
        return _Handed(virtual, prior)

    stack.enter_context(
        patched(virtualized.Virtualized, "_set_handler", lambda original: _set_handler)
    )
    for name, method in list(vars(setters).items()):
        if (
            getattr(method, "__func__", None) is setting
        ):  # ``V.set_…`` are methods that were bound when torch was imported
            stack.enter_context(
                patched(setters, name, lambda method: MethodType(_set_handler, method.__self__))
            )


class _Handed(contextlib.ContextDecorator):
    """Gives a handler back its place at the end of a block."""

    def __init__(self, virtual: Any, prior: Any) -> None:
        self._virtual = virtual
        self._prior = prior

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        self._virtual._set_handler(self._prior)


def _blocks_without_guards(stack: contextlib.ExitStack) -> None:
    """Those in which no guards on sizes are made (``ShapeEnv.suppress_guards``), one for each fake tensor that is looked up.
    That one is entered and left torch writes to a log, and notes where it will replay what happens to sizes.
    """
    from torch.fx.experimental import recording, symbolic_shapes

    shapes: Any = symbolic_shapes.ShapeEnv
    enter: Any = getattr(shapes, "_suppress_guards_enter", None)
    leave: Any = getattr(shapes, "_suppress_guards_exit", None)
    log: Any = getattr(recording, "trace_shape_events_log", None)
    whole = getattr(symbolic_shapes, "_suppress_guards", None)
    if log is None or not goes_by(whole, {"_suppress_guards_enter", "_suppress_guards_exit"}):
        return
    if not hasattr(enter, "__wrapped__") or not hasattr(leave, "__wrapped__"):
        return
    quick_enter, quick_leave = enter.__wrapped__, leave.__wrapped__

    class Unguarded(contextlib.ContextDecorator):
        def __init__(self, shapes: Any) -> None:
            self._shapes = shapes
            self._is_noted = True

        def __enter__(self) -> None:
            shapes = self._shapes
            methods = type(shapes)
            is_torchs = (
                methods._suppress_guards_enter is enter and methods._suppress_guards_exit is leave
            )
            is_recorded = shapes.should_record_events and not shapes.is_recording
            self._is_noted = is_recorded or not is_torchs or log.isEnabledFor(logging.DEBUG)
            if self._is_noted:
                shapes._suppress_guards_enter()
            else:
                quick_enter(shapes)

        def __exit__(self, *raised: object) -> None:
            if self._is_noted:
                self._shapes._suppress_guards_exit()
            else:
                quick_leave(self._shapes)

    stack.enter_context(patched(symbolic_shapes, "_suppress_guards", lambda original: Unguarded))


def _blocks_of_nodes(stack: contextlib.ExitStack) -> None:
    """Those in which a node of the body of one of Inductor's loops is run (``Interpreter._set_current_node``). They only matter
    where new nodes take over what is said of the one that is run. Interpreters of the program's are left alone: Dynamo may look
    at them.
    """
    from torch._inductor import loop_body
    from torch.fx import traceback
    from torch.fx.interpreter import Interpreter

    interpreters: Any = getattr(loop_body, "InterpreterShim", None)
    setting: Any = getattr(traceback, "set_current_meta", None)
    of_the_node = {
        "should_preserve_node_meta",
        "meta",
        "current_meta",
        "copy",
        "NodeSource",
        "NodeSourceAction",
        "CREATE",
    }
    asked = {"fx_traceback", "set_current_meta", "__class__", "__name__"}
    if not hasattr(Interpreter, "_set_current_node") or not goes_by(setting, of_the_node):
        return
    running = Interpreter._set_current_node
    if (
        not goes_by(running, asked)
        or getattr(interpreters, "_set_current_node", None) is not running
    ):
        return
    nothing = contextlib.nullcontext()

    def _set_current_node(interpreter: Any, node: Any) -> Any:
        if (
            traceback.should_preserve_node_meta and node.meta
        ) or traceback.set_current_meta is not setting:
            return running(interpreter, node)  # type: ignore[misc]
        return nothing

    def give_back() -> None:
        if vars(interpreters).get("_set_current_node") is _set_current_node:
            del interpreters._set_current_node

    stack.callback(give_back)
    interpreters._set_current_node = _set_current_node
