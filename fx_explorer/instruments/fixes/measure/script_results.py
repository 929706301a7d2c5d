"""This module keeps what a script computes while it runs, to compare it with another run: what the
outermost calls of compiled functions return, the gradients that each ``backward()`` leaves, and
what is given to ``torch.save``. The program gets the same values.

Hooks: ``torch._dynamo.eval_frame.OptimizeContext.__call__``, which makes every function that
``torch.compile`` returns, also when the stance is to run it eagerly;
``torch.autograd._engine_run_backward``, which ``torch.autograd.backward`` goes through (a backward
that is part of a graph does not come there); ``torch.save``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import MissingInTorch, require
from fx_explorer.instruments.fixes.measure.reachable import ReachableWalk
from fx_explorer.program.place import is_users_file
from fx_explorer.program.plain_values import copy_tensor

MOST_CALLS, MOST_CALL_BYTES = 200, 256 * 2**20
"""Limits of what is stored: calls, and bytes of tensors. Later calls are only counted."""


class CompiledCalls:
    """Counts the outermost calls of compiled functions, and keeps what the first ones return and
    who calls them.
    """

    def __init__(self, first_call_takes_s: float = 0.0) -> None:
        """Make the first call of each function take ``first_call_takes_s`` longer, as compiling
        would.
        """
        self.callers = Callers()
        self._first_call_takes_s = first_call_takes_s
        self.returned: dict[str, dict[str, Any]] = {}
        """Function → ``the output of call 1 of f`` → value."""
        self.identities: dict[str, list[dict[str, Any]]] = {}
        """Function → for each call its facts and which values are one object or share memory, as in
        ``ReachedValues``.
        """
        self.counts: Counter[str] = Counter()
        """Function → how often it was called."""
        self.problem = ""
        """Why nothing was stored; empty when calls were watched."""
        self.kept = 0
        """How many calls are stored."""
        self._bytes = 0
        self._inside = threading.local()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every function that is compiled inside the block. It stays watched afterwards."""
        try:
            context, skip = (
                require("torch._dynamo.eval_frame", name)
                for name in ("OptimizeContext", "skip_code")
            )
        except MissingInTorch as missing:
            self.problem = str(missing)
            yield
            return

        def make(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
            def compiled(self_: Any, function: Any) -> Any:
                made = original(self_, function)
                if isinstance(made, torch.nn.Module) or inspect.isclass(made):
                    return made  # what they are called through comes here too
                return self._watched(made, _name(function), skip)

            return compiled

        with patched(context, "__call__", make):
            yield

    def _watched(
        self, function: Callable[..., Any], name: str, skip: Callable[[Any], None]
    ) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "call", False):
                return function(*args, **kwargs)
            self.callers.note()
            if name not in self.counts:
                time.sleep(self._first_call_takes_s)
            self._inside.call = True
            try:
                output = function(*args, **kwargs)
            finally:
                self._inside.call = False
            self._keep(name, (args, kwargs), output)
            return output

        skip(called.__code__)  # compiled code may call it, and Dynamo looks at every frame
        return functools.wraps(function)(called)

    def _keep(self, name: str, arguments: object, output: object) -> None:
        """Store the values of the output, and which of them are inputs or parts of inputs."""
        self.counts[name] += 1
        if sum(self.counts.values()) > MOST_CALLS or self._bytes > MOST_CALL_BYTES:
            return
        self.kept += 1
        call = f"call {self.counts[name]} of {name}"
        walk = ReachableWalk(lambda path: False)
        walk.add("input", f"the arguments of {call}", arguments)
        walk.add("output", f"the output of {call}", output)
        reached = walk.reached()
        values = reached.values.get("output", {})
        self._bytes += sum(
            value.nbytes for value in values.values() if isinstance(value, torch.Tensor)
        )
        self.returned.setdefault(name, {}).update(values)
        self.identities.setdefault(name, []).append(
            {"facts": reached.facts, "same": reached.same, "overlapping": reached.overlapping}
        )


def _name(function: Any) -> str:
    """Return the function's name; for a method of a module, the name of the module's class."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__name__
    return str(getattr(function, "__qualname__", type(function).__name__))


# The functions of the user's that call compiled code: what their variables hold at the end.


class Callers:
    """The functions that were running when compiled code was called, each with its last run.

    A program whose model, optimizer and results are variables of ``main()`` has no global that says
    what it has computed.
    """

    def __init__(self) -> None:
        self._frames: dict[CodeType, FrameType] = {}
        """Frames of those functions. A stored frame keeps its variables after its function has
        returned.
        """

    def note(self) -> None:
        """Record the user's functions that the present call comes from, below the script itself.
        Code of modules is left out: its variables are globals, which the walk over globals reads.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not _is_the_script(frame):
            code = frame.f_code
            if (
                self._frames.get(code) is not frame
                and code.co_name != _OF_MODULE
                and is_users_file(code.co_filename)
            ):
                self._frames[code] = frame
            frame = frame.f_back

    def variables(self) -> Iterator[tuple[str, object]]:
        """Yield (``main()'s model``, value) of each variable, as it is now."""
        for code, frame in self._frames.items():
            for name, value in list(frame.f_locals.items()):
                if name.isidentifier():  # ".0" is the iterator of a comprehension
                    yield _qualified_name(code, name), value

    def names(self) -> Iterator[str]:
        """Yield the names of all variables that these functions may have, set or not."""
        for code in self._frames:
            yield from (
                _qualified_name(code, name)
                for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
            )


def _qualified_name(code: CodeType, name: str) -> str:
    # Python 3.10 knows only the name.
    return f"{getattr(code, 'co_qualname', code.co_name)}()'s {name}"


_OF_MODULE = "<module>"
"""Name of the code object that runs when a module is imported."""


def _is_the_script(frame: FrameType) -> bool:
    return frame.f_code.co_name == _OF_MODULE and frame.f_globals.get("__name__") == "__main__"


# Gradients that ``backward()`` leaves.


MOST_BACKWARDS, MOST_BACKWARD_BYTES = 200, 256 * 2**20
"""Limits of what is stored: calls, and bytes of gradients. Later calls are only counted."""

MOST_ELEMENTS = 4096
"""Maximum number of elements of a gradient that are stored. Those of a larger gradient are evenly
spaced.
"""


class BackwardCalls:
    """Counts the outermost calls of ``backward()``, and stores the gradients of the first ones. A
    training script has discarded them by its end, and with a small learning rate rounding hides the
    effect of a wrong gradient.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kept = 0
        """How many calls are stored."""
        self._gradients: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        """(number of the call, leaf, elements of its gradient)."""
        self._bytes = 0
        self._inside = threading.local()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every call inside the block."""
        with patched(torch.autograd, "_engine_run_backward", self._watching):
            yield

    def of_leaves(self, names: Mapping[int, str]) -> dict[str, torch.Tensor]:
        """Return ``the gradient of model.weight at call 2 of backward()`` → its elements. ``names``
        maps ids of tensors to their names.

        A tensor without a name, because its model was deleted or replaced, is named by its shape;
        several of one shape are told apart by the size of their gradients.
        """
        by_name: dict[str, torch.Tensor] = {}
        nameless: dict[str, list[torch.Tensor]] = defaultdict(list)
        for call, leaf, gradient in self._gradients:
            at = f"at call {call} of backward()"
            if name := names.get(id(leaf)):
                by_name[f"the gradient of {name} {at}"] = gradient
            else:
                nameless[f"the gradient of a tensor {list(leaf.shape)} {at}"].append(gradient)
        for text, gradients in nameless.items():
            if len(gradients) == 1:
                by_name[text] = gradients[0]
                continue
            for rank, gradient in enumerate(sorted(gradients, key=_size), 1):
                by_name[f"{text}, {rank} of {len(gradients)}"] = gradient
        return by_name

    def _watching(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(t_outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if not kwargs.get("accumulate_grad") or getattr(self._inside, "call", False):
                return original(t_outputs, *args, **kwargs)
            leaves = list(_leaves(t_outputs))  # before the graph is freed
            self._inside.call = True
            try:
                result = original(t_outputs, *args, **kwargs)
            finally:
                self._inside.call = False
            self._keep(leaves)
            return result

        return run_backward

    def _keep(self, leaves: Sequence[torch.Tensor]) -> None:
        self.count += 1
        if self.count > MOST_BACKWARDS or self._bytes > MOST_BACKWARD_BYTES:
            return
        self.kept = self.count
        for leaf in leaves:
            gradient = leaf.grad
            if gradient is not None and gradient.layout == torch.strided and not gradient.is_nested:
                elements = _some_of(copy_tensor(gradient))
                self._bytes += elements.nbytes
                self._gradients.append((self.count, leaf, elements))


def _leaves(outputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that a backward from these outputs (tensors, or ``GradientEdge``) leaves
    gradients in, each once.
    """
    yield from (output for output in outputs if isinstance(output, torch.Tensor) and output.is_leaf)
    waiting = []
    for output in outputs:
        if isinstance(output, torch.Tensor):
            waiting.append(output.grad_fn)
        else:
            waiting.append(output.node)
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable
        waiting += [inner for inner, _ in node.next_functions]


def _size(gradient: torch.Tensor) -> float:
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return float(gradient.to(wide).norm())


def _some_of(gradient: torch.Tensor) -> torch.Tensor:
    flat = gradient.reshape(-1)
    if flat.numel() > MOST_ELEMENTS:
        return flat[:: -(-flat.numel() // MOST_ELEMENTS)].clone()
    return flat


# What is given to ``torch.save``.


MOST_SAVES, MOST_SAVE_BYTES = 50, 256 * 2**20
"""Limits of what is stored: calls, and bytes of tensors. Later calls are only counted."""


class SavedObjects:
    """Counts the calls of ``torch.save``, and stores the values that the first ones write. They
    cannot be read elsewhere: torch opens the file in C++, and the script may discard what it has
    saved. The program's file is written as usual.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kept = 0
        """How many calls are stored."""
        self.values: dict[str, dict[str, Any]] = {}
        """Kind → ``what call 1 of torch.save() writes['step']`` → value."""
        self.facts: dict[str, dict[str, Any]] = {}
        self._bytes = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every call inside the block."""
        with patched(torch, "save", self._watching):
            yield

    def _watching(self, original: Callable[..., None]) -> Callable[..., None]:
        def save(obj: object, *args: Any, **kwargs: Any) -> None:
            self._keep(obj)
            original(obj, *args, **kwargs)

        return save

    def _keep(self, obj: object) -> None:
        self.count += 1
        if self.count > MOST_SAVES or self._bytes > MOST_SAVE_BYTES:
            return
        self.kept = self.count
        walk = ReachableWalk(lambda path: False)
        walk.add("saved", f"the content that call {self.count} of torch.save() writes", obj)
        reached = walk.reached()
        for kind, values in reached.values.items():
            self.values.setdefault(kind, {}).update(values)
            self._bytes += sum(
                value.nbytes for value in values.values() if isinstance(value, torch.Tensor)
            )
        self.facts.update(reached.facts)
