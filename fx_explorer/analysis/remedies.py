"""What avoids a recompile, said of the very input, attribute or global that changed."""

from __future__ import annotations

import re
from collections.abc import Callable

from fx_explorer.analysis.changes import Change

NO_MORE = "torch made it variable in this compilation, so other values need no more."

BOTH_STAY = "Nothing, when there are only these two: both compilations stay in use."


def remedy(change: Change, reason: str = "", *, became_dynamic: bool = False) -> str:
    """One or two sentences. ``reason``: torch's own words. ``became_dynamic``: torch made the size or number a symbol when it
    compiled again."""
    if change.kind in ("size", "range") and change.index is not None:
        return _of_size(change, became_dynamic=became_dynamic)
    if change.kind == "number":
        return _of_number(change, reason, became_dynamic=became_dynamic)
    found = _REMEDIES.get(change.kind)
    return found(change) if found else ""


def _of_size(change: Change, *, became_dynamic: bool) -> str:
    where = f"{change.name}, {change.index}"
    if {change.old, change.new} & {"0", "1"} or change.kind == "range":
        return (
            "Sizes 0 and 1 are compiled apart from all others, which is once each. "
            f"torch._dynamo.decorators.mark_unbacked({where}) before the first call avoids it."
        )
    if change.kind == "size" and change.name.partition(".")[0] == "self":
        return f"Keep {change.name} at one size, or torch.compile(…, dynamic=True)."
    once = f"{NO_MORE} " if became_dynamic else ""
    spared = "spares this one too" if became_dynamic else "avoids it"
    return f"{once}torch._dynamo.mark_dynamic({where}) before the first call, or torch.compile(…, dynamic=True), {spared}."


def _of_number(change: Change, reason: str, *, became_dynamic: bool) -> str:
    if "allow_unspec_int_on_nn_module" in reason:
        config = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
        return f"Make {change.name} a tensor (register_buffer), do not change it between calls, or set {config}."
    if change.where == "global":
        told = f"Pass {change.name} as an argument, as a tensor: torch.tensor({change.name})."
    elif change.where == "attribute":
        told = f"Make {change.name} a tensor, or do not change it between calls."
    else:
        told = f"Pass it as a tensor: torch.tensor({change.name})."
    return f"{NO_MORE} {told}" if became_dynamic else told


def _of_value(change: Change) -> str:
    if change.where == "attribute":
        return f"Set {change.name} before the first call and leave it, or compile one function for each value."
    if change.where == "global":
        return f"Pass {change.name} as an argument, or leave it as it is after the first call."
    is_text = change.old.startswith("'") and change.new.startswith("'")
    return f"{BOTH_STAY} With many values of {change.name}: decide outside the compiled function." if is_text else BOTH_STAY


def _of_dtype(change: Change) -> str:
    return f"{BOTH_STAY} Otherwise convert before the call: {change.name}.to(torch.{change.old})."


def _of_type(change: Change) -> str:
    kind = change.old if re.fullmatch(r"int|float|bool|str|list|tuple|dict", change.old) else ""
    example = f", for example {kind}({change.name})" if kind else ""
    return f"Pass {change.name} always as the same type{example}."


_REMEDIES: dict[str, Callable[[Change], str]] = {
    "rank": lambda change: f"Give {change.name} the same number of dimensions, with unsqueeze or reshape, before the call.",
    "stride": lambda change: f"Call {change.name}.contiguous() before the call.",
    "dtype": _of_dtype,
    "device": lambda change: f"{BOTH_STAY} Otherwise move it before the call: {change.name}.to({change.old!r}).",
    "requires_grad": lambda change: f"{BOTH_STAY} Otherwise pass {change.name}.detach(), which never requires a gradient.",
    "training": lambda _: f"{BOTH_STAY} Otherwise do not switch between train() and eval().",
    "value": _of_value,
    "length": lambda change: f"Keep the length of {change.name} the same; tensors can be one: torch.stack({change.name}).",
    "type": _of_type,
    "object": lambda change: f"Pass the same object as {change.name} each time: a lambda or partial made anew is another one.",
    "same": lambda _: "Always pass the same tensor twice, or never: a clone() is another tensor.",
    "grad_mode": lambda _: f"{BOTH_STAY} Otherwise call it always inside torch.no_grad(), or never.",
    "global_state": lambda _: "Make the setting before the first call, and leave it.",
    "backend": lambda _: "Give torch.compile the same function as backend each time, not one made anew.",
}
