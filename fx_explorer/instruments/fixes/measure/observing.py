"""This module observes one call of a program: all its effects that can be seen from outside, as
plain values for another process, and how often the user's code looked up a tensor in a dictionary
or a set.

Both find a number by its value and a tensor by its identity, so a tensor in place of a number is
never found. Where the number was not among the keys anyway, no output shows that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from fx_explorer.instruments.fixes.measure.outside import OutsideEffects
from fx_explorer.instruments.fixes.measure.printed_output import PrintedLines, printed
from fx_explorer.instruments.fixes.measure.process_state import ProcessState
from fx_explorer.instruments.fixes.measure.reachable import ReachableWalk, ReachedValues
from fx_explorer.model.secret_arguments import LEFT_OUT, is_secret_name
from fx_explorer.program.fresh_inputs import PlannedCall
from fx_explorer.program.inputs import Arguments, tensors
from fx_explorer.program.place import UsersCode, is_users_file
from fx_explorer.program.plain_values import digest
from fx_explorer.program.seeds import seed
from fx_explorer.program.target import Target

OF_COMPILERS = (
    "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBDEVICE_PATH",
    "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
)  # fmt: skip
"""Environment variables that Inductor and Triton set when they build code: a new one is no effect
of the program.
"""


@dataclass
class Observation:
    """Everything that one call of a program did, as far as it can be seen from outside.

    ``reached`` is what the call left behind, of these kinds: ``output``, ``gradient``, ``state``,
    ``input``, ``global``, ``environment``, ``setting``.
    """

    call: str
    is_unlike_example: bool = False
    reached: ReachedValues = field(default_factory=ReachedValues)
    written: PrintedLines = field(default_factory=PrintedLines)
    raised: str = ""
    """Type of the exception; empty when the call returned."""
    message: str = ""
    effects: list[str] = field(default_factory=list)
    """Effects outside the process, in order: files opened for writing, processes started, and so
    on.
    """

    def plain(self) -> dict[str, Any]:
        """Return the observations as plain values that another process can read."""
        return {
            "call": self.call,
            "is_unlike_example": self.is_unlike_example,
            **vars(self.reached),
            "printed": self.written.lines,
            "errors": self.written.errors,
            "raised": self.raised,
            "message": self.message,
            "effects": self.effects,
        }


class Observer:
    """Calls one program repeatedly, each time with the parameters and buffers of the beginning,
    unless it is to continue from the call before.
    """

    def __init__(
        self,
        target: Target,
        train: bool,
        grad: bool,
        code: UsersCode,
        watch: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Make an observer that enters ``watch`` around each call."""
        self.target = target
        self._watch = watch
        self._outside = OutsideEffects()
        self._train = train
        self._grad = grad
        self._code = code
        self.networks = _networks(target, code.modules())
        """The networks that may be called, by the prefix of their names."""
        self._environment = dict(os.environ)
        self._process = ProcessState()
        self._calls = 0
        self.state_at_first = {name: tensor.clone() for name, tensor in self.state().items()}
        """Parameters and buffers as they were before the first call."""
        self.names_at_first = sorted(set(names_of(code.modules(), self._module)))
        """Names of all globals, and of the attributes of their classes, before the first call."""

    @property
    def _module(self) -> str:
        """Return the name of the target's module: globals of that module are named without it."""
        return str(self.target.scope.get("__name__", ""))

    def state(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers by name, including those that a state_dict leaves out."""
        state: dict[str, torch.Tensor] = {}
        for prefix, network in self.networks.items():
            for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
                state[f"{prefix}{name}"] = tensor.detach()
        return state

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers to the values of ``state``. Names that ``state`` lacks keep
        their values.
        """
        self.state_at_first = {
            name: state.get(name, tensor) for name, tensor in self.state_at_first.items()
        }

    def first(self, function: Callable[..., Any], call: str, arguments: Arguments) -> Observation:
        """Make the first call and observe it. An exception is raised to the caller."""
        seen = Observation(call)
        self._restore()
        with self._outside.recorded(seen.effects), printed(seen.written, self._code.has):
            output = self._call(function, arguments)
        seen.reached = self._look(arguments, {"the output": output})
        return seen

    def again(self, function: Callable[..., Any], call: PlannedCall) -> Observation:
        """Make a further call and observe it. An exception becomes part of the observation."""
        seen = Observation(call.words, bool(call.unlike_example))
        self._restore(with_state=not call.goes_on)
        output: dict[str, Any] = {}
        try:
            with (
                self._outside.recorded(seen.effects),
                printed(seen.written, self._code.has),
                self._in_mode(call.training),
            ):
                output["the output"] = self._call(
                    function, call.arguments, needs_gradients=bool(call.unlike_example)
                )
        except Exception as error:  # noqa: BLE001
            # the program may raise anything; both have to raise the same
            seen.raised, seen.message = raised(error)
        seen.reached = self._look(call.arguments, output)
        return seen

    def leave_out(self) -> None:
        """Skip a call that is not made in this run, so that later calls get the same seeds as in
        the others.
        """
        self._calls += 1

    def _restore(self, *, with_state: bool = True) -> None:
        """Seed for the next call, and put parameters, buffers and gradients back.

        Each call has a seed of its own: a random number that was drawn once and kept must not look
        right.
        """
        self._calls += 1
        seed(self._calls)
        if not with_state:
            return
        for _, parameter in self._parameters():
            parameter.grad = None
        with torch.no_grad():
            for name, tensor in self.state().items():
                if name in self.state_at_first and tensor.shape == self.state_at_first[name].shape:
                    tensor.copy_(self.state_at_first[name])

    @contextmanager
    def _in_mode(self, training: bool | None) -> Iterator[None]:
        """Put all networks into a mode, as a user does, and each module back into its own. None
        leaves them as they are.
        """
        if training is None:
            yield
            return
        networks = self.networks.values()
        modes = [(module, module.training) for network in networks for module in network.modules()]
        try:
            for network in networks:
                network.train(training)
            yield
        finally:
            for module, mode in modes:
                module.training = mode

    def _call(
        self, function: Callable[..., Any], arguments: Arguments, *, needs_gradients: bool = False
    ) -> object:
        gradient_mode = nullcontext() if self._grad else torch.no_grad()
        with self._watch(), gradient_mode:
            output = function(*arguments.args, **arguments.keywords)
        with torch.enable_grad():  # the call may have left it off
            if self._train or (needs_gradients and self._grad):
                loss = weighted_loss(output)
            else:
                loss = None
            if loss is not None:
                loss.backward()
        return output

    def _look(self, arguments: Arguments, output: Mapping[str, object]) -> ReachedValues:
        """Return all values that are reached from the inputs, the module, its globals, the output,
        the environment and the process's settings.
        """
        at_first = {
            id(tensor): self.state_at_first.get(name)
            for name, tensor in self._parameters_and_buffers()
        }
        walk = ReachableWalk(
            self._code.has, {one: value for one, value in at_first.items() if value is not None}
        )
        for name, value in [*enumerate(arguments.args, 1), *arguments.keywords.items()]:
            walk.add("input", f"input {name}", value)
        for name, value in self._roots():
            walk.add("state", name, value)
        for kind, name, value in globals_of(self._code.modules(), self._module):
            walk.add(kind, name, value)
        for name, value in output.items():
            walk.add("output", name, value)
        for name, value in os.environ.items():
            before = self._environment.get(name)
            if before != value and not (before is None and name in OF_COMPILERS):
                if is_secret_name(name):  # it is compared, and not shown
                    value = f"{LEFT_OUT} {hashlib.sha256(value.encode()).hexdigest()[:8]}"
                walk.add("environment", f"os.environ[{name!r}]", value)
        for name, value in {**settings_of_process(), **self._process.changes()}.items():
            walk.add("setting", name, value)
        return walk.reached()

    def _roots(self) -> Iterator[tuple[str, object]]:
        called = self.target.callable
        if isinstance(called, torch.nn.Module):
            owner = called
        else:
            owner = getattr(called, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            yield "", owner
        elif owner is not None:
            yield "self", owner
        if not isinstance(called, torch.nn.Module):
            yield self.target.name, getattr(called, "__func__", called)

    def _parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        for prefix, network in self.networks.items():
            yield from (
                (f"{prefix}{name}", parameter) for name, parameter in network.named_parameters()
            )

    def _parameters_and_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._parameters()
        for prefix, network in self.networks.items():
            yield from ((f"{prefix}{name}", buffer) for name, buffer in network.named_buffers())


def raised(error: BaseException) -> tuple[str, str]:
    """Return the exception's type and message.

    torch.compile wraps what an operation raises while it is traced: then the type is that of the
    wrapped one, and the message is empty.
    """
    message = _ADDRESS.sub("0x…", str(error)).partition(_ADDED_BY_DYNAMO)[0]
    if type(error).__module__ not in ("torch._dynamo.exc", "torch._inductor.exc"):
        return type(error).__name__, message
    wrapped = _WRAPPED.search(message)
    named = _NAMED_FIRST.match(message)
    if wrapped:
        return wrapped["type"], ""
    kind = named["type"] if named else type(error).__name__
    return f"{kind}{WHILE_COMPILING}", ""


WHILE_COMPILING = " while compiling"

_ADDED_BY_DYNAMO = "\n\nfrom user code:\n"
"""Where Dynamo appends the lines that it was tracing (``augment_exc_message`` in
torch/_dynamo/exc.py).
"""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_WRAPPED = re.compile(r"got (?P<type>\w+)\(")
_NAMED_FIRST = re.compile(r"(\w+: )*(?P<type>\w*(Error|Exception)): ")


def weighted_loss(output: object) -> torch.Tensor | None:
    """Return a scalar to call ``backward()`` on. Each element has its own weight, because the plain
    sum of a softmax has no gradient.

    It is the output's own ``loss`` when there is one, and None when nothing has a gradient.
    """
    if isinstance(output, Mapping):
        own_loss = output.get("loss")
    else:
        own_loss = getattr(output, "loss", None)
    if isinstance(own_loss, torch.Tensor) and own_loss.requires_grad:
        if own_loss.dim() == 0:
            return own_loss
        return own_loss.sum()
    parts = [_weighted(tensor) for tensor in tensors(output) if tensor.requires_grad]
    if parts:
        return sum((part.to(parts[0].device) for part in parts[1:]), parts[0])
    return None


def _weighted(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if real.layout != torch.strided or real.is_nested:
        return real.sum()
    weights = torch.linspace(0.5, 1.5, real.numel(), dtype=torch.float64).to(
        real.device, real.dtype
    )
    return (real * weights.view(real.shape)).sum()


def _networks(target: Target, modules: list[ModuleType]) -> dict[str, torch.nn.Module]:
    """Return the networks that may be called, by the prefix of their names: the target itself, or
    those among the globals that a function may use.
    """
    if target.network is not None:
        return {"": target.network}
    found = ((name, value) for module in modules for name, value in list(vars(module).items()))
    return {f"{name}.": value for name, value in found if isinstance(value, torch.nn.Module)}


def globals_of(modules: list[ModuleType], first: str = "") -> Iterator[tuple[str, str, object]]:
    """Yield (kind, name, value) of each global of these modules. Globals of the module ``first``
    are named without it.
    """
    for module in modules:
        if module.__name__ == first:
            prefix = ""
        else:
            prefix = f"{module.__name__.rpartition('.')[2]}."
        for name, value in list(vars(module).items()):
            is_pythons = name.startswith("__") and name.endswith("__")
            if not is_pythons and not _OF_DYNAMO.match(name):
                kind = "state" if isinstance(value, torch.nn.Module) else "global"
                yield kind, f"global {prefix}{name}", value


def names_of(modules: list[ModuleType], first: str = "") -> Iterator[str]:
    """Yield the names of all globals, as ``globals_of`` gives them, and of the attributes of
    classes that these modules define.
    """
    own = {module.__name__ for module in modules}
    for _, name, value in globals_of(modules, first):
        yield name
        if isinstance(value, type) and value.__module__ in own:
            yield from (f"{name}.{attribute}" for attribute in list(vars(value)))


_OF_DYNAMO = re.compile(r"__(compiled_fn|resume_at|import|builtins_dict|guard)_|.*_c\d+(_\d+)?$")
"""Globals that compiled code has added (torch/_dynamo/output_graph.py, ``install_global``)."""


# What a call can change in the process: torch's modes and defaults, the state of random numbers,
# the working directory.


def settings_of_process() -> dict[str, Any]:
    """Return the current settings of the process, by descriptive names."""
    found: dict[str, Any] = {
        "whether gradients are recorded": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "the default dtype": str(torch.get_default_dtype()),
        "the default device": str(torch.get_default_device()),
        "autocast on the CPU": torch.is_autocast_enabled("cpu"),
        "autocast's dtype on the CPU": str(torch.get_autocast_dtype("cpu")),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the precision of matrix products": torch.get_float32_matmul_precision(),
        "the number of threads": torch.get_num_threads(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "torch's random numbers": digest(torch.get_rng_state().numpy().tobytes()),
        "Python's random numbers": digest(repr(random.getstate())),
    }
    if "numpy" in sys.modules:
        found["NumPy's random numbers"] = digest(
            repr(sys.modules["numpy"].random.get_state()[1].tobytes())
        )
    with contextlib.suppress(FileNotFoundError):
        found["the working directory"] = os.getcwd()
    return found


# Lookups of tensors in dictionaries and sets.


class Lookups:
    """Counts lookups of tensors in a program that runs without torch.compile, which would trace the
    patched functions.
    """

    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Count the lookups inside the block."""
        by_identity = torch.Tensor.__hash__

        def counted(tensor: torch.Tensor) -> int:
            if is_users_file(sys._getframe(1).f_code.co_filename):
                self.count += 1
            return by_identity(tensor)

        torch.Tensor.__hash__ = counted
        try:
            yield
        finally:
            torch.Tensor.__hash__ = by_identity


def describe_lookups(before: int, after: int) -> list[str]:
    """Return a description if the changed program looks up more tensors than the original; else an
    empty list.
    """
    return [_TOLD] if after > before else []


_TOLD = "a tensor is looked up in a dictionary or a set, which compares identity and not value"
