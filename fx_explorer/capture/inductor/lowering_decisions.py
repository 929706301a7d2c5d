"""This module records why Inductor makes a library call of an operation and writes no kernel.

An operation becomes a library call where an ``ExternKernel`` is made while its node is lowered
(torch/_inductor/ir.py). Which function made it says why: the handler of operators without a
lowering, a lowering that gives up under a condition, or the choice among templates. What was asked
about templates before is kept with their answers (torch/_inductor/utils.py, ``use_triton_template``
and its like).
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.inductor.asked_choices import name_of_candidate
from fx_explorer.capture.inductor.deciding_options import deciding_options, holding_alternatives
from fx_explorer.capture.inductor.decisions import (
    Decision,
    add,
    condition_of,
    inductor_frames,
    node_here,
    place_of,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    V,
    inductor_config,
    inductor_decomposition,
    inductor_graph,
    inductor_ir,
    inductor_lowering,
    inductor_utils,
    select_algorithm,
)

_NO_CALL = (
    "MultiOutput",
    "AssertScalar",
    "DynamicScalar",
    "ConcatKernel",
    "NopKernel",
    "UserDefinedTritonKernel",
    "SetSourceTensorKernel",
)
"""Classes of ExternKernels that call no library."""

_HANDLERS = frozenset(
    ["__init__", "create", "create_out_of_place", "create_inplace", "handler", "wrapped",
     "wrapper", "inner", "output_node", "<lambda>", "<listcomp>", "__call__",
     "autotune_select_algorithm", "tree_map", "realize", "__post_init__"]
)  # fmt: skip
"""Functions that make a library call for a lowering."""

_BY_TARGET = ("call_function", "run_node")
"""Functions of GraphLowering that take a node's lowering, or none."""

_BACKENDS = (
    "_use_autotune_backend",
    "_use_conv_autotune_backend",
    "_use_conv_bwd_weight_autotune_backend",
    "_use_conv_bwd_input_autotune_backend",
)

_ASKED = ("_use_template_for_gpu", "_use_template_for_cpu", "is_big_gpu", *_BACKENDS)
"""Functions of torch._inductor.utils that say whether a template may be used."""

_Make = Callable[[Recording, Callable[..., Any]], Callable[..., Any]]
"""Makes, of a function of Inductor's, one that notes what it does."""

_TRITON = "use_triton_template"
"""The function that asks whether a Triton template may be used."""

_AUTOTUNES = "max_autotune"
"""What a lowering asks before it asks about templates at all."""

MOST_CANDIDATES = 24
"""Maximum number of candidates that are named. max-autotune has some twenty for a product."""

_OF_ATEN = "ATEN"
"""The backend of library calls, which is no template's."""


_RANDOM = "torch._inductor.config.fallback_random"
"""The option that leaves out the decompositions of random operators
(``select_decomp_table``, torch/_inductor/decomposition.py).
"""

_BY_DEFAULT = "torch._inductor.config.fallback_by_default"


class _Answer(NamedTuple):
    """An answer about templates."""

    by: str
    """The function that asked."""
    function: str
    """The function that answered."""
    backend: str
    """The backend it was asked about; empty for none."""
    is_yes: bool

    def __str__(self) -> str:
        about = f"({self.backend})" if self.backend else ""
        return f"{self.by} asked {self.function}{about}: {'yes' if self.is_yes else 'no'}"


@dataclass
class _Asked:
    """What was asked about templates while a node is lowered."""

    answers: list[_Answer] = field(default_factory=list)
    dtype: str = ""
    """Type of the result that Triton templates were asked about."""
    allowed: str = ""
    """Types that they take."""
    unsupported: str = ""
    """Type of a tensor that Inductor writes no code for."""
    implicit: str = ""
    """Operator for which a handler was made because it has no lowering."""
    lacks: list[str] = field(default_factory=list)
    """What Inductor's code generation for the device cannot do (``BackendFeature``)."""
    choices: int = 0
    """Number of candidates that the selector was given."""
    candidates: str = ""
    """Their names, a line each, up to MOST_CANDIDATES."""
    device: str = ""

    def is_refused(self, *functions: str, by: str) -> bool:
        """Return whether one of these functions said no each time that ``by`` asked it about a
        template.
        """
        answers = [
            answer.is_yes
            for answer in self.answers
            if answer.function in functions and answer.by == by and answer.backend != _OF_ATEN
        ]
        return bool(answers) and not any(answers)

    @property
    def is_about_templates(self) -> bool:
        """Return whether it was asked about a template for the device at all: those of C++ are the
        only ones for a CPU.
        """
        return self.device != "cpu" or any("cpp" in answer.by for answer in self.answers)


class _State(threading.local):
    def __init__(self) -> None:
        self.asked = _Asked()
        self.node: weakref.ref[torch.fx.Node] | None = None

    def here(self) -> _Asked:
        """Return what was asked while the present node is lowered."""
        node = V.current_node
        is_same = self.node is not None and self.node() is node
        if not is_same:
            self.asked = _Asked()
            self.node = weakref.ref(node) if isinstance(node, torch.fx.Node) else None
        return self.asked


_state = _State()


@contextlib.contextmanager
def library_call_hook(recording: Recording) -> Iterator[None]:
    """Note why operations become library calls, for as long as the block lasts."""

    def with_recording(make: _Make) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return functools.partial(make, recording)

    with contextlib.ExitStack() as stack:
        for name in _ASKED:
            if hasattr(inductor_utils, name):
                stack.enter_context(patched(inductor_utils, name, with_recording(_check)))
        for owner, name, make in (
            (select_algorithm.AlgorithmSelectorCache, "__call__", _selector),
            (inductor_lowering, "unsupported_output_tensor", _type_check),
            (inductor_lowering, "unsupported_input_tensor", _type_check),
            (inductor_graph, "make_fallback", _fallback),
            (inductor_graph.GraphLowering, "has_feature", _feature),
            (inductor_ir.ExternKernel, "__init__", _extern_kernel),
        ):
            stack.enter_context(patched(owner, name, with_recording(make)))
        yield


def _check(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note what is answered about templates."""

    @functools.wraps(original)
    def check(*args: Any, **kwargs: Any) -> Any:
        answer = original(*args, **kwargs)
        with recording.noting("whether a template is used", "schedule"):
            asked = _state.here()
            name = original.__name__
            by = next(inductor_frames()).f_code.co_name
            backend = next((text for text in args if isinstance(text, str)), "")
            asked.answers.append(_Answer(by, name, backend, bool(answer)))
            if name == "_use_template_for_gpu" and by == _TRITON:
                layout, allowed = args
                asked.dtype = str(layout.dtype).removeprefix("torch.")
                asked.allowed = ", ".join(str(d).removeprefix("torch.") for d in allowed)
        return answer

    return check


def _selector(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note the number of candidates."""

    @functools.wraps(original)
    def select(selector: Any, name: str, choices: Any, *args: Any, **kwargs: Any) -> Any:
        candidates = list(choices)
        with recording.noting("the candidates of an operation", "schedule"):
            asked = _state.here()
            asked.choices = len(candidates)
            asked.candidates = _names_of(candidates)
        answer = original(selector, name, choices, *args, **kwargs)
        with recording.noting("the candidates of an operation", "schedule"):
            _add_template(answer, _state.here(), is_timed=not recording.request.gpu)
        return answer

    return select


def _type_check(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note a type that Inductor writes no code for."""

    @functools.wraps(original)
    def is_unsupported(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(tensor, *args, **kwargs)
        if answer:
            with recording.noting("a type without generated code", "schedule"):
                _state.here().unsupported = _type_of(tensor)
        return answer

    return is_unsupported


def _fallback(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note that an operator has no lowering at all."""

    @functools.wraps(original)
    def make_fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
        with recording.noting("an operator without a lowering", "schedule"):
            _state.here().implicit = str(operator)
        return original(operator, *args, **kwargs)

    return make_fallback


def _feature(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note what the code generation for a device cannot do."""

    @functools.wraps(original)
    def has_feature(lowering: Any, device: Any, feature: Any) -> Any:
        answer = original(lowering, device, feature)
        if not answer:
            with recording.noting(
                "which features the code generation of a device lacks", "schedule"
            ):
                _state.here().lacks.append(feature.name)
        return answer

    return has_feature


def _extern_kernel(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note why a library call is made."""

    @functools.wraps(original)
    def make_extern_kernel(kernel: Any, *args: Any, **kwargs: Any) -> None:
        original(kernel, *args, **kwargs)
        if type(kernel).__name__ not in _NO_CALL:
            with recording.noting("why an operation is a library call", "schedule"):
                _add(kernel)

    return make_extern_kernel


def _type_of(tensor: torch.Tensor) -> str:
    if tensor.is_sparse:
        return "sparse"
    if tensor.is_meta:
        return "meta"
    return str(tensor.dtype).removeprefix("torch.")


def _add(kernel: Any) -> None:
    node = node_here()
    if not node:
        return
    asked = _state.here()
    texts = {"kernel": type(kernel).__name__}
    if V.current_node.name != node:  # one of a graph that is lowered in the node's place
        texts["operator"] = str(V.current_node.target)
    decision = Decision("library call", "", node=node, texts=texts)
    frames = list(inductor_frames())
    by_selector = any(frame.f_code.co_name == "autotune_select_algorithm" for frame in frames)
    asker = next((frame for frame in frames if frame.f_code.co_name not in _HANDLERS), None)
    if by_selector or asked.answers:
        device = kernel.get_device()
        add(_of_templates(decision, asked, asker, device.type if device else ""))
    elif asker is None or asker.f_code.co_name in _BY_TARGET:
        add(_of_target(decision, asked, frames))
    else:
        add(_of_lowering(decision, asked, asker, frames))


def _of_templates(
    decision: Decision, asked: _Asked, asker: types.FrameType | None, device: str
) -> Decision:
    """Return why no template was used in place of the call."""
    texts = {
        **decision.texts,
        "max_autotune": str(inductor_config.max_autotune),
        "max_autotune_gemm": str(inductor_config.max_autotune_gemm),
        "backends": str(inductor_config.max_autotune_gemm_backends),
        "dtype": asked.dtype,
        "allowed": asked.allowed,
        "answers": ", ".join(dict.fromkeys(str(answer) for answer in asked.answers)),
    }
    if asked.choices > 1:
        texts["candidates"] = asked.candidates
    asked.device = device
    texts["device"] = device
    condition = condition_of(asker) if asker else ""
    outcome = _why_no_template(asked, condition)
    check = place_of(asker) if asker else ""
    return replace(
        decision,
        outcome=outcome,
        check=check,
        reason=condition,
        texts=texts,
        numbers={"choices": asked.choices},
    )


def _names_of(candidates: list[Any]) -> str:
    """Return the names of candidates, a line each: the libraries first, as they are few."""
    names = dict.fromkeys(name_of_candidate(candidate) for candidate in candidates)
    shortest_first = sorted(names, key=lambda name: " " in name)
    return "\n".join(shortest_first[:MOST_CANDIDATES])


def _add_template(answer: Any, asked: _Asked, *, is_timed: bool) -> None:
    """Add that the selector took a template, or leaves it to what is fused into it."""
    value = answer[0] if isinstance(answer, tuple) else answer
    while isinstance(value, (inductor_ir.TensorBox, inductor_ir.StorageBox)):
        value = value.data
    node = node_here()
    if not node or asked.choices < 2 or not isinstance(value, inductor_ir.TemplateBuffer):
        return
    texts = {"candidates": asked.candidates, "timed": str(is_timed)}
    numbers = {"choices": asked.choices}
    buffers = frozenset([value.get_name()])
    add(Decision("candidates", "chosen", node, buffers, numbers=numbers, texts=texts))


def _why_no_template(asked: _Asked, condition: str) -> str:
    """Return which of Inductor's checks let no template be used, by their answers. ``condition``:
    what holds where the candidates are given to the selector.
    """
    is_on = inductor_config.max_autotune or inductor_config.max_autotune_gemm
    if asked.choices > 1:
        return "chosen"
    if not is_on and _AUTOTUNES in condition:
        return "autotuning off"
    if not asked.is_about_templates:
        return "no template"
    if asked.is_refused("is_big_gpu", by="_use_template_for_gpu"):
        return "small GPU"
    if asked.is_refused("_use_template_for_gpu", by=_TRITON):
        return "dtype"
    if not is_on:
        return "autotuning off"
    for by in (_TRITON, "use_cpp_gemm_template", "convolution"):
        if asked.is_refused(*_BACKENDS, by=by):
            return "backend off"
    return "no template"


def _of_target(decision: Decision, asked: _Asked, frames: list[types.FrameType]) -> Decision:
    """Return why the operator of a node is not lowered but called."""
    at = next((frame for frame in frames if frame.f_code.co_name in _BY_TARGET), None)
    is_of_node = at is not None and at.f_code.co_name == "run_node"
    if asked.unsupported and is_of_node:
        texts = {**decision.texts, "dtype": asked.unsupported}
        return replace(decision, outcome="unsupported type", texts=texts)
    check = place_of(at) if at else ""
    if is_of_node and inductor_config.fallback_by_default:
        texts = {**decision.texts, "options": f"{_BY_DEFAULT} = True"}
        return replace(decision, outcome="asked for", check=check, texts=texts)
    if is_of_node or _was_told(at):
        return replace(decision, outcome="asked for", check=check)
    texts = dict(decision.texts)
    node = V.current_node
    is_random = node is not None and node.target in inductor_decomposition.extra_random_decomps
    if is_random and inductor_config.fallback_random:
        texts["options"] = f"{_RANDOM} = True"
    return replace(decision, outcome="no lowering", reason=asked.implicit, check=check, texts=texts)


def _was_told(frame: types.FrameType | None) -> bool:
    """Return whether the node is marked to be left to eager mode."""
    node = frame.f_locals.get("n") if frame else None
    meta = getattr(node, "meta", {})
    return "should_fallback" in meta or "fallback_to_eager" in meta.get("custom", {})


def _from(asker: types.FrameType, frames: list[types.FrameType]) -> Iterator[types.FrameType]:
    """Yield the frame that asks for a library call, then those of the lowerings that called it."""
    for frame in frames[frames.index(asker) :]:
        if frame.f_code.co_name in _BY_TARGET:
            return
        yield frame


def _of_lowering(
    decision: Decision, asked: _Asked, asker: types.FrameType, frames: list[types.FrameType]
) -> Decision:
    """Return why the lowering of an operator makes a library call."""
    is_fallback = any(frame.f_code.co_name == "handler" for frame in frames)
    outcome = "lowering gives up" if is_fallback else "library only"
    condition, options = condition_of(asker), {}
    for frame in _from(asker, frames):
        options = deciding_options(condition_of(frame), frame)
        if options:
            condition = condition_of(frame)
            break
    texts = {**decision.texts, "lacks": ", ".join(dict.fromkeys(asked.lacks))}
    if options:
        texts["options"] = ", ".join(f"{name} = {value}" for name, value in options.items())
    elif not is_fallback:
        alternatives = holding_alternatives(condition, asker)
        texts = {**alternatives.values, **texts}
        texts["holds"] = "\n".join(alternatives.holding)
        if not alternatives.holding:
            condition = ""
    return replace(decision, outcome=outcome, check=place_of(asker), reason=condition, texts=texts)
