"""This module compiles the target with the backend that the request names, calls it once, and goes
backward through what it returns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fx_explorer.capture.torch_compat import shared_names
from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.file_functions import function_of_file, with_guard_filter
from fx_explorer.program.inputs import moved, tensors, with_grad
from fx_explorer.program.stances import in_stance, stances_of_calls
from fx_explorer.program.target import Target


class CallingJob(Protocol):
    """A CallingJob is the job for which a target is called: it has the request, and receives
    events.
    """

    request: CaptureRequest

    def say(self, activity: str) -> None: ...

    def note(self, text: str) -> None: ...

    def describe(self, target: Target, train: bool) -> None: ...


@dataclass
class SilentJob:
    """A SilentJob ignores all events; it is used to call a target once more."""

    request: CaptureRequest

    def say(self, activity: str) -> None: ...

    def note(self, text: str) -> None: ...

    def describe(self, target: Target, train: bool) -> None: ...


def call_target(
    target: Target,
    job: CallingJob,
    before: Callable[[Target], object] = lambda target: None,
    forward_ended: Callable[[object], object] = lambda loss: None,
) -> None:
    """Compile the target, call it, and go backward. ``before`` is called with the target first;
    ``forward_ended`` is called with the loss (None without a backward) while the outputs are still
    alive.

    Raises whatever the target raises, and TargetError when the request asks for what the target
    cannot do.
    """
    request = job.request
    target, train = prepared(target, request)
    before(target)
    job.describe(target, train)
    compiled = compile_target(target, job)
    announce_call(target, job)
    with grad_mode(request):
        for stance in stances_of_calls(request.stance_wanted):
            if stance:
                job.say(f"calling {target.name} in the stance {stance}")
            with in_stance(stance), advising(target, job):
                output = compiled(*target.arguments.args, **target.arguments.keywords)
                # No name holds the loss while the program goes backward.
                if train:
                    forward_ended(find_loss(output))
                else:
                    forward_ended(None)
    if train:
        go_backward(target, output, job)


def grad_mode(request: CaptureRequest) -> contextlib.AbstractContextManager[object]:
    """Return the grad mode to call the target in: without an option, the program's own."""
    if request.train is False:
        return torch.no_grad()
    return contextlib.nullcontext()


def announce_call(target: Target, job: CallingJob, advice: str = "") -> None:
    arguments = target.arguments
    announced = f"calling {target.name} with {arguments.describe()} from {arguments.origin}"
    if advice:
        announced += f": {advice}"
    job.say(announced)


@contextlib.contextmanager
def advising(target: Target, job: CallingJob) -> Iterator[None]:
    """If the call fails, say what may be wrong with the user's inputs."""
    try:
        yield
    except Exception:
        advice = target.arguments.advice()
        if advice:
            announce_call(target, job, advice)
        raise


def prepared(target: Target, request: CaptureRequest) -> tuple[Target, bool]:
    """Return the target on its device and ready for a backward, and whether a backward is to
    run.
    """
    return prepare_training(on_device(target, request.device), request.train)


def on_device(target: Target, device_name: str) -> Target:
    if not device_name:
        return target
    device = check_device(device_name)
    if isinstance(target.callable, torch.nn.Module):
        target.callable.to(device)
    return target.with_arguments(target.arguments.changed(lambda tensor: moved(tensor, device)))


def check_device(name: str) -> torch.device:
    """Return the device. Raises TargetError when this machine does not have it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError, NotImplementedError) as error:
        raise TargetError(
            f"--device {name} cannot be used here: {_first_line(error)} Leave --device out to use "
            "the device that the target chooses by itself."
        ) from error
    return device


def prepare_training(target: Target, wanted: bool | None) -> tuple[Target, bool]:
    """Return the target and whether to run a backward. If the backward was requested (``--train``),
    the inputs are given gradients where needed.
    """
    can_train = torch.is_grad_enabled() and any(t.requires_grad for t in target.differentiable())
    if wanted and not can_train:
        target = target.with_arguments(target.arguments.changed(with_grad))
        if not any(t.requires_grad for t in target.differentiable()):
            raise TargetError(
                f"--train: neither a parameter nor an input of {target.name} can have a gradient "
                f"(inputs are {target.arguments.describe()}). Use --no-train, or give "
                "inputs with floating-point tensors."
            )
        return target, True
    return target, can_train and wanted is not False


def compile_target(target: Target, job: CallingJob) -> Callable[..., Any]:
    """Apply torch.compile as the request says. Functions that the user's own code has compiled
    already are left as they are.
    """
    if is_compiled(target.callable):
        job.note(
            f"{target.name} was compiled by the target itself; --backend, --mode, "
            "--option and --dynamic do not change it"
        )
        return target.callable
    from fx_explorer.capture.recorder import compile_arguments

    use_backend(job.request.backend)
    compiled: Callable[..., Any] = torch.compile(
        target.callable, **with_guard_filter(compile_arguments(job.request))
    )
    return compiled


def is_compiled(function: object) -> bool:
    """Return whether a function was made by ``torch.compile``, or is a module whose ``compile()``
    was called.
    """
    if isinstance(function, torch.nn.Module):
        return (
            isinstance(function, shared_names.OptimizedModule)
            or function._compiled_call_impl is not None
        )
    # torch.compiler.disable leaves the original in the same place.
    return hasattr(function, "_torchdynamo_orig_callable") and not getattr(
        function, "_torchdynamo_disable", False
    )


def go_backward(target: Target, output: object, job: CallingJob) -> None:
    loss = find_loss(output)
    if loss is None:
        text = f"nothing that {target.name} returned has a gradient, so there is no backward"
        if job.request.train:
            raise TargetError(
                f"--train: {text}. Return a loss or the tensors that lead to it, or use --no-train."
            )
        job.describe(target, False)
        job.note(text)
        return
    job.say(f"running the backward of {target.name}")
    loss.backward()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# A scalar to go backward from.


def find_loss(output: object) -> torch.Tensor | None:
    """Return the output's ``loss`` (attribute or key) if there is one, else the sum of its floating
    tensors that have a gradient.

    Returns None when nothing in the output has a gradient.
    """
    if isinstance(output, Mapping):
        own = output.get("loss")
    else:
        own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return own if own.dim() == 0 else own.sum()
    total: torch.Tensor | None = None
    for tensor in tensors(output):
        if tensor.requires_grad:
            part = _sum(tensor)
            total = part if total is None else total + part.to(total.device)
    return total


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    """Return the sum of all elements, with real and imaginary parts of a complex tensor alike."""
    if tensor.is_complex():
        return torch.view_as_real(tensor).sum()
    return tensor.sum()


def use_backend(name: str, option: str = "--backend") -> None:
    """Make torch find the backend called ``name``: that of ``file.py:function`` is registered under
    this name. Raises TargetError when there is no such backend, which torch would say only within
    the first call, and where its file raises. ``option`` is the option that named it.
    """
    known = torch.compiler.list_backends(exclude_tags=())
    if name in known:
        return
    function = function_of_file(name, "backend")
    if function is None:
        there_are = f"this torch has: {', '.join(known)}"
        raise TargetError(
            f"there is no backend {name!r}; {there_are}. Choose one with {option}, or "
            "FILE.py:FUNCTION of yours."
        )
    try:
        function._tags = ()  # type: ignore[attr-defined]  # as torch does, after it has taken the name
    except AttributeError:  # a method, or an object with slots
        function = functools.partial(function)
    shared_names.register_backend(function, name)
