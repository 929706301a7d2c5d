"""This module compiles the target with the backend that the request names, calls it, and goes
backward through what it returns. It sets the compiler stances of the request, and calls the target
often enough to show their effect.

torch: torch/_dynamo/eval_frame.py, ``_callback_from_stance``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol

import torch

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.capture.recording.sources import CallSite
from fx_explorer.capture.torch_compat import private_names
from fx_explorer.capture.torch_compat.versions import stances
from fx_explorer.errors import TargetError, UsageError
from fx_explorer.model import ONCE_COMPILED, SECOND_CALL, STANCE, CaptureRequest, OptionInForce
from fx_explorer.program.arguments_of_script import refuse_arguments
from fx_explorer.program.file_functions import function_of_file, with_guard_filter
from fx_explorer.program.inputs import moved, tensors, with_grad
from fx_explorer.program.target import Target
from fx_explorer.program.unused_results import result_never_called


def check_stance(stance: str) -> None:
    """Raise UsageError for a stance that this torch does not have."""
    if stance and stance not in stances():
        raise UsageError(
            f"there is no stance {stance!r}; torch {torch.__version__} has: {', '.join(stances())}"
        )


def set_stance(stance: str) -> None:
    """Set the stance for good: the process ends with this request."""
    torch.compiler.set_stance(stance)


def without_compiling() -> None:
    """Make everything run in Python that the program gives to torch.compile, from now on.

    ``torch.cond`` and similar operators still do what they do in a program that compiles nothing:
    they have Dynamo trace their branches. A stance that forbade it would cost them their gradients.

    Hook: ``torch._higher_order_ops.utils.setup_compilation_env``, which is around that tracing.
    """
    torch.compiler.set_stance("force_eager")
    utils: Any = importlib.import_module("torch._higher_order_ops.utils")
    original = getattr(utils, "setup_compilation_env", None)
    if original is None:
        return  # in this torch these operators do not use torch.compile

    @contextlib.contextmanager
    def in_operator() -> Iterator[object]:
        with torch.compiler.set_stance("default"), original() as backend:
            yield backend

    utils.setup_compilation_env = in_operator


def in_stance(stance: str) -> AbstractContextManager[object]:
    """Set the stance inside the block; an empty one leaves the program's own."""
    if stance:
        return torch.compiler.set_stance(stance)
    return contextlib.nullcontext()


def stances_of_calls(stance: str) -> tuple[str, ...]:
    """Return the stance of each call of a target. A recompile shows only once something is
    compiled, so the call before has no stance.
    """
    if stance in ONCE_COMPILED:
        return ("", stance)
    if stance in SECOND_CALL:
        return (stance, stance)
    return (stance,)


_WHY = {
    "force_eager": "the stance force_eager runs everything in eager mode",
    "eager_on_recompile": (
        "the stance eager_on_recompile runs only code that is already compiled, and there was none"
    ),
    "eager_then_compile": (
        "the stance eager_then_compile runs the first call in eager mode, and there was no second "
        "one"
    ),
}


def why_nothing_compiled(options: Sequence[OptionInForce]) -> str:
    """Return which option in force kept torch from compiling, and where it was set; empty if none
    did.
    """
    for option in options:
        stance = option.value.strip('"') if option.name == STANCE else ""
        if stance in _WHY:
            return f"{_WHY[stance]} ({_set_by(option)})"
        if option.name == "compile.disable" and option.value == "true":
            return (
                f"torch.compile was called with disable=True for {option.function} "
                f"({_set_by(option)})"
            )
        if option.name == "dynamo.disable" and option.value == "true":
            return f"torch._dynamo.config.disable is true ({_set_by(option)})"
    return ""


def given_and_not_called(given: Mapping[str, CallSite]) -> str:
    """Return a sentence on the functions that were passed to torch.compile and not compiled, with
    the lines; empty without any.
    """
    if not given:
        return ""
    calls = [_describe_call(name, place) for name, place in given.items()]
    return (
        f"it gave {', '.join(calls)} to torch.compile, but nothing was compiled when it ran "
        "(torch.compile is lazy: it compiles when the returned object is called)"
    )


def _describe_call(name: str, place: CallSite) -> str:
    if not place.file:
        return name
    where = f"{PurePath(place.file).name}:{place.line}"
    unused = result_never_called(place)
    if unused:
        where += f", {unused}"
    return f"{name} ({where})"


def _set_by(option: OptionInForce) -> str:
    if option.file:
        return f"set at {option.file}:{option.line}"
    if option.variable:
        return f"set by the environment variable {option.variable}"
    if option.set_by == "program":
        return "set by the program"
    return "set with an option of fx-explorer"


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
    already are left as they are. Raises UsageError when the request has arguments of torch.compile
    for such a function.
    """
    if is_compiled(target.callable):
        refuse_arguments(job.request, target.name)
        job.note(
            f"{target.name} itself calls torch.compile, and its arguments are used; --setting "
            "compile.NAME=V replaces one of them"
        )
        return target.callable
    from fx_explorer.capture.recorder import compile_arguments

    use_backend(job.request.backend)
    compiled: Callable[..., Any] = torch.compile(
        target.callable, **with_guard_filter(compile_arguments(job.request))
    )
    return compiled


def go_backward(target: Target, output: object, job: CallingJob) -> None:
    loss = find_loss(output)
    if loss is None:
        text = f"no value that {target.name} returned has a gradient, so there is no backward"
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
        # as torch does, after it has taken the name
        function._tags = ()  # type: ignore[attr-defined]
    except AttributeError:  # a method, or an object with slots
        function = functools.partial(function)
    private_names.register_backend(function, name)
