"""This module has ``CompiledFunction``, the result of a precompile, and its ``Guards``, the
conditions on inputs and globals under which the code is right. A CompiledFunction keeps what is
needed to compile it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import torch

from fx_explorer.capture.dynamo import ahead_of_time
from fx_explorer.capture.recording.boundary import LoweringRequest
from fx_explorer.capture.recording.state import aside
from fx_explorer.capture.torch_compat.private_names import (
    CompileContext,
    TracingContext,
    _get_frame,
    compile_context,
    get_traced_fn,
    tracing,
)
from fx_explorer.capture.torch_compat.versions import every_guard_checked, runtime_env
from fx_explorer.precompile.errors import GuardError, PrecompileError
from fx_explorer.precompile.phases import Compiler, captured_or_broken, measured, name_of
from fx_explorer.precompile.states import Mismatch, States, Trace


class Guards:
    """Guards are torch's own guards of a capture. ``print(guards)`` shows one per line;
    ``guards.tree`` is torch's guard tree as text.

    >>> import torch
    >>> from fx_explorer.precompile import Precompile
    >>> _, _, guards, _ = Precompile.dynamo(lambda x: x * 2, torch.ones(3))
    >>> guards.check(torch.zeros(3)), guards.check(torch.zeros(4))
    (True, False)
    >>> print(guards.why_not(torch.zeros(4)))
    tensor 'L['x']' size mismatch at index 0. expected 3, actual 4
    """

    def __init__(
        self, model: Callable[..., object], manager: Any, states: States, trace: Trace
    ) -> None:
        self._model = model
        self._manager = manager
        self._states = states
        self._trace = trace

    @property
    def parts(self) -> tuple[str, ...]:
        """The conditions as Python expressions, in the order in which torch checks them."""
        return tuple(str(part) for part in self._manager.code_parts)

    @property
    def tree(self) -> str:
        return str(self._manager).strip("\n")

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        return "\n".join(self.parts)

    @property
    def counted(self) -> str:
        """Return ``3 conditions``."""
        return f"{len(self)} condition{'s' * (len(self) != 1)}"

    def __repr__(self) -> str:
        return f"<Guards: {self.counted}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the conditions and torch's guard tree for a notebook."""
        shown = {"conditions": str(self), "guard tree": self.tree}
        return notebook_bundle(repr(self), f"Guards: {self.counted}", shown)

    def is_of(self, model: Callable[..., object]) -> bool:
        return self._model is model

    def check(self, *args: object, **kwargs: object) -> bool:
        """Return whether the compiled code may be used for these inputs, in the present state of
        the model and torch.

        In a state of torch that is not the one of the capture, such as ``torch.no_grad()``, the
        model is traced once to see whether it does the same there. Raises PrecompileError when the
        model cannot be called like that.
        """
        return self.mismatch(args, kwargs) is None

    def why_not(self, *args: object, **kwargs: object) -> str:
        """The first guard that fails for these inputs, and why; empty when all hold. torch stops at
        the first.
        """
        mismatch = self.mismatch(args, kwargs)
        return mismatch.what if mismatch else ""

    def mismatch(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Mismatch | None:
        """Return the first guard that fails, with advice; None when all guards hold."""
        return self._states.mismatch(self._manager, self._locals(args, kwargs), self._trace)

    def _locals(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        try:
            variables: dict[str, object] = _get_frame(self._model, args, kwargs).locals
        except TypeError as error:
            raise PrecompileError(
                f"the model cannot be called with these inputs: {error}"
            ) from None
        return variables


@dataclass(frozen=True)
class Captured:
    """Captured is one capture by Dynamo; it is in ``gm.meta["precompile"]`` of the graph."""

    model: Callable[..., Any]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    output: Any
    """torch's ``CaptureOutput``."""
    is_grad_enabled: bool
    """Whether gradients were on in the captured block; tracing by AOTAutograd must agree."""
    dynamic: bool | None = None

    @property
    def inputs(self) -> list[object]:
        """Return fake tensors, one per placeholder of the graph."""
        return list(self.output.backend_input.example_inputs)

    @property
    def code(self) -> Any:
        return get_traced_fn(self.model)[0].__code__

    @property
    def owner(self) -> object | None:
        """Return the module or object whose method was captured; None for a plain function."""
        return get_traced_fn(self.model)[1]

    def guards(self) -> Guards:
        """Return the guards as of now: AOTAutograd and Inductor add conditions on sizes to those of
        Dynamo.
        """
        # An earlier call may have made torch's guard accept another state.
        self.states.restore()
        with every_guard_checked():
            manager = self.output.graph_capture_output.build_guards(self.code).guard_manager
        return Guards(self.model, manager, self.states, self.traced_again)

    @cached_property
    def states(self) -> States:
        """Return the states in which the code may be used. All guards of a capture share torch's
        object that holds its state.
        """
        return States(self.output.graph_capture_output.output_graph.global_state_guard, self.output)

    def traced_again(self) -> Any:
        """Trace the model again in torch's present state and return Dynamo's result."""
        with aside():
            return captured_or_broken(self.model, self.args, self.kwargs, self.dynamic)

    @contextlib.contextmanager
    def compiling(
        self, phase: str, backend: str = "", lowering: LoweringRequest | None = None
    ) -> Iterator[None]:
        """Put the state in force that torch's phases after Dynamo need, inside the block.
        ``backend`` names the compiler; it is empty if there is none.
        """
        source = self.output.backend_input
        context = TracingContext(source.fake_mode)
        context.tensor_to_context = source.tensor_to_context
        compile_id = source.graph_module.meta.get("dynamo_compile_id")
        part = ahead_of_time.phase(backend, lowering)
        with compile_context(CompileContext(compile_id)), tracing(context), part, measured(phase):
            # To leave inference mode turns gradients on, also where the capture had none.
            with torch.inference_mode(False), torch.set_grad_enabled(self.is_grad_enabled):
                yield

    def bound(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``compiled`` called by Dynamo's bytecode, so that it has the inputs and outputs of
        the model.
        """
        traced = self.output.graph_capture_output
        backend_id = self.output.backend_input.backend_id
        return bound(runtime_env(traced), backend_id, compiled, extra_globals=traced.f_globals)


def bound(
    env: Any, backend_id: str, compiled: Callable[..., Any], extra_globals: Any
) -> Callable[..., Any]:
    """Return ``compiled``, called by the bytecode of ``env`` (torch's ``GraphRuntimeEnv``). Without
    gradients nothing is saved.
    """
    forward_only = torch.compiler.disable(
        forward_only_without_gradients(compiled), reason="precompiled"
    )
    run = env.forward_callable(backend_id, forward_only, extra_globals=extra_globals)
    return torch.compiler.disable(run, reason="precompiled")


def forward_only_without_gradients(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``compiled`` wrapped so that it saves nothing when gradients are off.

    AOTAutograd's code for training turns gradients on when it runs. It is therefore given inputs
    that do not require them.
    """

    def run(*inputs: Any) -> Any:
        if torch.is_grad_enabled():
            return compiled(*inputs)
        return compiled(*(_detached(each) for each in inputs))

    return run


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return value.detach()
    return value


class CompiledFunction:
    """``compiled_fn(example_inputs)`` gives what ``model(*example_inputs)`` gives; gradients reach
    the model's parameters.

    Keyword inputs are given by name, ``compiled_fn(example_inputs, mask=mask)``; one that is left
    out has the value it was captured with. The guards are checked at each call, and GuardError says
    which fails: nothing is ever recompiled.
    """

    def __init__(
        self,
        captured: Captured,
        graph: torch.fx.GraphModule,
        compiler: Compiler | None,
        run: Callable[..., Any],
        guards: Guards,
        recorded: ahead_of_time.Recorded = (),
    ) -> None:
        self.captured = captured
        self.graph = graph
        """A copy of the compiled graph; its placeholders are parameters, buffers and inputs."""
        self.compiler = compiler
        self.guards = guards
        self.recorded = recorded
        """The compilation's id in each active recording; empty when nothing was recorded."""
        self._run = run

    def __repr__(self) -> str:
        return f"<CompiledFunction of {name_of(self.captured.model)} by {name_of(self.compiler)}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the graph and the conditions under which it may be called, for a notebook."""
        title = f"{name_of(self.captured.model)} compiled by {name_of(self.compiler)}"
        shown = {
            "graph": self.graph.code.strip(),
            f"{self.guards.counted}, checked at each call": str(self.guards),
        }
        return notebook_bundle(repr(self), title, shown)

    def __call__(
        self, example_inputs: Sequence[object] | torch.Tensor = (), /, **kwargs: object
    ) -> Any:
        args = as_arguments(example_inputs)
        given = {**self.captured.kwargs, **kwargs}
        mismatch = self.guards.mismatch(args, given)
        if mismatch:
            raise GuardError(str(mismatch))
        owner = self.captured.owner
        if owner is not None:
            args = (owner, *args)
        return self._run(*args, **given)


def as_arguments(example_inputs: Sequence[object] | torch.Tensor) -> tuple[object, ...]:
    """Return the example inputs as arguments. A lone tensor is one input, not a sequence of its
    rows.
    """
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,)
    return tuple(example_inputs)


def notebook_bundle(text: str, title: str, shown: Mapping[str, str]) -> dict[str, str]:
    """Return ``text``, and as HTML a title with texts that open below it, by MIME type."""
    parts = [f"<p><strong>{escape(title)}</strong></p>"]
    for heading, content in shown.items():
        parts.append(
            f"<details><summary>{escape(heading)}</summary><pre>{escape(content)}</pre></details>"
        )
    return {"text/plain": text, "text/html": "\n".join(parts)}
