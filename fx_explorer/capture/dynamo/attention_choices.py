"""This module records which kernel torch chooses for each ``scaled_dot_product_attention`` of a
Dynamo graph on the CPU, and what keeps it from flash attention.

The operator is composite: while AOTAutograd traces it, C++ asks ``_fused_sdp_choice``
(aten/src/ATen/native/transformers/sdp_utils_cpp.cpp) and calls a fused kernel, or the operations of
``_scaled_dot_product_attention_math``. The same function is asked here, with tensors of the same
sizes, strides, types and ``requires_grad``, whose memory is never touched. Where it chooses the
math, it is asked for its own warnings, and again with one argument changed at a time.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.fx_graphs import node_value, target_name
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.private_names import _fused_sdp_choice
from fx_explorer.model import KernelDecision

ATTENTION = "scaled_dot_product_attention"

MOST_BYTES = 1 << 32
"""Maximum size of a tensor that is made: only its address range, no memory, is taken."""

_CHECK = "_fused_sdp_choice (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp)"

_NAMES = {0: "math", 1: "flash"}
"""Number of a ``SDPBackend`` that exists on the CPU → its name."""

Arguments = Mapping[str, Any]


def _signature(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    *,
    scale: Any = None,
    enable_gqa: Any = False,
) -> None:
    """Have the parameters of ``scaled_dot_product_attention``, which has no signature itself."""


_PARAMETERS = inspect.signature(_signature)


def add_attention_choices(recording: Recording, recorded: RecordedGraph) -> None:
    """Store a row for each attention of a Dynamo graph whose arguments are known tensors of the
    CPU.
    """
    for part in recorded.whole():
        for node, number in part.ids.items():
            if node.op == "call_function" and target_name(node).endswith(ATTENTION):
                arguments = _arguments(node)
                choice = _choice(arguments) if arguments else ""
                if choice:
                    recording.writer.add(_row(number, choice, arguments))


def _row(node: int, choice: str, arguments: Arguments) -> KernelDecision:
    texts = {}
    words = ""
    if choice == "math":
        words = "\n".join(_torchs_words(arguments))
        texts = {"would_be_fused": "\n".join(_changes_to_fused(arguments))}
    return KernelDecision(
        id=0,
        node=node,
        call=0,
        kind="attention",
        outcome=choice,
        check=_CHECK,
        reason=words,
        about=0,
        numbers={},
        texts=texts,
    )


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """Return the arguments of an attention by name; {} where they are not known tensors of the
    CPU.
    """
    try:
        bound = _PARAMETERS.bind(*node.args, **node.kwargs)
    except TypeError:
        return {}
    bound.apply_defaults()
    arguments: dict[str, Any] = {}
    for name, given in bound.arguments.items():
        value = node_value(given) if isinstance(given, torch.fx.Node) else given
        if name in ("query", "key", "value") and not isinstance(value, torch.Tensor):
            return {}
        if isinstance(value, torch.Tensor):
            value = _like(value)
            if value is None:
                return {}
        arguments[name] = value
    return arguments


def _like(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor of the same metadata; None for one that is not a plain one of the CPU."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return None
    sizes = [_number(size) for size in tensor.shape]
    strides = [_number(stride) for stride in tensor.stride()]
    if None in sizes or None in strides:
        return None
    extent = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True) if n and step)
    if extent * tensor.itemsize > MOST_BYTES:
        return None
    with torch.inference_mode(False):
        made = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="cpu")
        return made.requires_grad_(tensor.requires_grad)


def _number(size: int | torch.SymInt) -> int | None:
    hint = size.node.hint if isinstance(size, torch.SymInt) else size
    return None if hint is None else int(hint)


def _choice(arguments: Arguments) -> str:
    """Return what torch chooses: ``math`` or ``flash``; empty where it does not tell."""
    try:
        number = _fused_sdp_choice(**arguments)
    except (RuntimeError, TypeError):
        return ""
    return _NAMES.get(number, "")


def _torchs_words(arguments: Arguments) -> list[str]:
    """Return torch's own warnings of why flash attention takes none of these arguments. It gives
    them where nothing else is allowed.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if not torch.backends.cuda.flash_sdp_enabled():
        return ["flash attention is off (torch.backends.cuda.enable_flash_sdp)"]
    with warnings.catch_warnings(record=True) as given, sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        warnings.simplefilter("always")
        _choice(arguments)
    words = [str(warning.message).partition(" (Triggered internally")[0] for warning in given]
    return [text for text in words if not text.endswith("not used because:")]


def _changes_to_fused(arguments: Arguments) -> Iterator[str]:
    """Yield the changes of one argument with each of which torch chooses flash attention."""
    mask = arguments["attn_mask"]
    has_gradient = isinstance(mask, torch.Tensor) and mask.requires_grad
    if has_gradient and _choice({**arguments, "attn_mask": mask.detach()}) == "flash":
        yield "attn_mask without requires_grad"
        return
    for name, other in _OTHERS.items():
        if arguments[name] is not other and _choice({**arguments, name: other}) == "flash":
            yield f"{name}={other}"


_OTHERS = {"attn_mask": None, "dropout_p": 0.0, "enable_gqa": True}
"""Argument → a value that flash attention takes, or that lets it take the others."""
