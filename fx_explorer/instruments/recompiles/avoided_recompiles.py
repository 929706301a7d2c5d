"""This module describes how to avoid a recompile, with the name of the input, attribute or global
that changed.

Each sentence about sizes, numbers and dictionary keys was tried:
tests/analysis/test_remedies_hold.py does what it says, and counts compilations. Where it depends on
what the code does with the value, which a session does not tell, the sentence says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fx_explorer.analysis.naming import is_unfinished
from fx_explorer.analysis.words import listed
from fx_explorer.instruments.recompiles.call_sizes import (
    CallSizes,
    OutOfReach,
)
from fx_explorer.instruments.recompiles.guard_changes import KEYWORDS, GuardChange

NO_MORE = "torch made it dynamic with this recompile, so other values do not recompile."

BOTH_STAY = "None, if there are only these two: both compilations stay in use."

NOT_TRIED = "(this was not tried here)"


def remedy(change: GuardChange, reason: str = "", sizes: CallSizes | None = None) -> str:
    """Return one to three sentences on how to avoid a recompile. ``reason`` is torch's own text."""
    sizes = sizes or CallSizes()
    if change.kind in ("size", "range") and change.index is not None:
        return _of_size(change, reason, sizes)
    if change.kind == "number":
        return _of_number(change, reason, sizes)
    found = _REMEDIES.get(change.kind)
    return found(change) if found else ""


def _of_size(change: GuardChange, reason: str, sizes: CallSizes) -> str:
    """Describe how to avoid a recompile for another size of a tensor."""
    where = f"{change.name}, {change.index}"
    if {change.old, change.new} & {"0", "1"}:
        once = "Sizes 0 and 1 are always specialized, which costs one compilation each."
        if sizes.beyond:
            return f"{once} {sizes.beyond.where}: {_NOT_HELD}."
        return (
            f"{once} torch._dynamo.decorators.mark_unbacked({where}) before the first call avoids "
            "it, unless the code branches on that size or broadcasts it. torch assumes that a "
            "marked size is not 1: if it is 1 and is broadcast, torch raises an error."
        )
    if change.kind == "range":
        return f"The code branches on that size, and each branch is compiled. {BOTH_STAY}"
    if _is_parameter(change, reason):
        return (
            f"Keep {change.name} at one size: the sizes of parameters and buffers are "
            "specialized, also with dynamic=True. For a parameter, "
            "torch._dynamo.config.force_parameter_static_shapes = False makes them dynamic from "
            "the second compilation on."
        )
    if sizes.is_specialized:
        return (
            f"The code needs size {change.index} of {change.name} as a number, so each value is "
            "compiled, also with dynamic=True (mark_dynamic raises an error there). Pad to one "
            "size, or remove the code that needs the number."
        )
    return _marks(change, sizes)


def _is_parameter(change: GuardChange, reason: str) -> bool:
    """Return whether the changed attribute is a parameter, or may be one: sessions of earlier
    versions do not record that.
    """
    is_unknown = change.where == "attribute" and not change.source
    return (
        "Guard failed on a parameter" in reason
        or is_unknown
        or any(word in change.source for word in ("_parameters[", "_buffers["))
    )


def _marks(change: GuardChange, sizes: CallSizes) -> str:
    here = (change.name, change.index or 0)
    every = (here, *(dimension for dimension in sizes.varied if dimension != here))
    marks = listed((f"torch._dynamo.mark_dynamic({name}, {index})" for name, index in every), 8)
    once = f"{NO_MORE} " if sizes.became_dynamic else ""
    if sizes.beyond:
        return f"{once}{_without_marks(sizes.beyond, sizes)}"
    if is_unfinished(change.source) or any(is_unfinished(name) for name, _ in every):
        # No line of the program can mark a value that has no name.
        avoids = "also avoids this recompile" if sizes.became_dynamic else "avoids it"
        if sizes.alike:
            return once.strip()
        return f"{once}torch.compile(…, dynamic=True) {avoids}."
    recompile = "this one" if sizes.became_dynamic else "it"
    also = "also " if sizes.became_dynamic else ""
    verb = f"{also}avoids" if len(every) == 1 else f"{also}avoid"
    if sizes.alike:
        others = listed(f"size {index} of {name}" for name, index in sizes.alike)
        return (
            f"{once}{marks} before the first call {verb} {recompile}. torch.compile(…, "
            f"dynamic=True) does not: {others} and size {change.index} of {change.name} were "
            "equal in the compiled call, and torch then uses one size for both."
        )
    return (
        f"{once}{marks} before the first call, or torch.compile(…, dynamic=True), "
        f"{also}avoids {recompile}."
    )


_NOT_HELD = "no line of your program has it before the call, so you cannot mark it"


def _without_marks(beyond: OutOfReach, sizes: CallSizes) -> str:
    avoids = "also avoids this recompile" if sizes.became_dynamic else "avoids it"
    # Sizes that were equal in the compiled call are one size to torch, also with dynamic=True.
    if sizes.alike:
        always = ""
    else:
        always = f" torch.compile(…, dynamic=True) {avoids}; otherwise"
    if always:
        instead = beyond.instead
    else:
        instead = f"{beyond.instead[0].upper()}{beyond.instead[1:]}"
    return f"{beyond.where}: {_NOT_HELD}.{always} {instead}."


def _of_number(change: GuardChange, reason: str, sizes: CallSizes) -> str:
    """Describe how to avoid a recompile for another value of a number."""
    if "param_groups" in change.source and change.name.endswith("['lr']"):
        once = f"{NO_MORE} " if sizes.became_dynamic else ""
        return (
            f"{once}Give the optimizer its learning rate as a tensor, "
            f"lr=torch.tensor({change.old}): values that a scheduler sets are then not compiled "
            "in as numbers."
        )
    if "allow_unspec_int_on_nn_module" in reason:
        config = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
        return (
            f"Make {change.name} a tensor (register_buffer), or do not change it between calls. "
            f"{config} makes it dynamic from the second compilation on."
        )
    if sizes.became_dynamic and sizes.is_decided_otherwise:
        return (
            f"{_no_more_with(sizes)} The code branches on {change.name}, and each branch is "
            f"compiled, also with dynamic=True. {BOTH_STAY} Otherwise remove the branch on "
            f"{change.name}: one compilation then works for all values {NOT_TRIED}."
        )
    if sizes.became_dynamic:
        return (
            f"{_no_more_with(sizes)} torch.compile(…, dynamic=True) makes {change.name} dynamic "
            "at once, and also avoids this recompile."
        )
    if change.where == "global":
        return (
            f"Pass {change.name} as an argument, or make it a tensor, if the code only computes "
            f"with it {NOT_TRIED}."
        )
    if is_unfinished(change.source):
        return (
            f"{change.name} is a constant in the compiled code, so each value is compiled "
            f"separately. {BOTH_STAY} Otherwise keep it a tensor there, without .item(), float() "
            f"or int(), if the code only computes with it {NOT_TRIED}."
        )
    name = "it" if change.where == "input" else change.name
    return (
        f"The code is compiled for every value of {change.name}. {BOTH_STAY} Otherwise make "
        f"{name} a tensor, torch.tensor({change.name}), if the code only computes with it "
        f"{NOT_TRIED}."
    )


def _no_more_with(sizes: CallSizes) -> str:
    """Return that other values do not recompile, with the conditions under which they do not."""
    if not sizes.decided:
        return NO_MORE
    which = listed(sizes.decided, 3)
    return f"torch made it dynamic with this recompile: values with {which} do not recompile."


def look_up_outside(change: GuardChange) -> str:
    """Return how to avoid a recompile for each object whose attribute is a key of something."""
    return (
        f"No change is needed here: each object has its own {change.name}, and the method is "
        f"compiled for each. Look up {change.name} outside of the compiled method, in __init__, "
        "and store the result in the object."
    )


def remedy_of_objects(change: GuardChange) -> str:
    """Return how to avoid a recompile for each object of a class, whose attributes differ. torch
    keeps the versions of a method with its code, which all objects share.
    """
    if change.kind == "size":
        return (
            f"No change is needed here: each object has its own size of {change.name}, which the "
            "code needs as a number, and the method is compiled for each. If you compile the "
            "function that calls them all, they become one graph."
        )
    each = (
        f"No change is needed here: each object has its own {change.name}, and the method is "
        "compiled for each."
    )
    if change.old.startswith(("'", '"')):
        return look_up_outside(change)
    return (
        f"{each} If the code only computes with it, make it a tensor (register_buffer) or pass it "
        "to the method as an argument."
    )


def _of_bound(change: GuardChange) -> str:
    return (
        f"The code branches on {change.name}, and each branch is compiled, also with "
        f"dynamic=True. {BOTH_STAY} Otherwise remove the branch on {change.name}, or branch "
        f"outside of the compiled function {NOT_TRIED}."
    )


_CONTAINER = re.compile(r"(?:list|dict|set|deque|OrderedDict|defaultdict|tuple) of \d+$")
"""Matches how a container is described (capture/recording/described.py)."""


def _of_length(change: GuardChange) -> str:
    """Describe how to avoid a recompile for another length, also where it was empty before."""
    text = f"Keep the length of {change.name} the same: each length is compiled separately."
    if change.where == "input":
        return f"{text} Tensors of one shape can be stacked into one: torch.stack({change.name})."
    return (
        f"{text} If the compiled function fills {change.name}, return the values instead, and "
        "store them in the caller."
    )


def _of_value(change: GuardChange) -> str:
    if _CONTAINER.match(change.new):
        return _of_length(change)
    if change.where == "attribute":
        return (
            f"Set {change.name} before the first call and do not change it, or compile one "
            "function for each value."
        )
    if change.where == "global":
        return f"Do not change {change.name} after the first call: each of its values is compiled."
    is_text = change.old.startswith("'") and change.new.startswith("'")
    if is_text:
        return (
            f"{BOTH_STAY} With many values of {change.name}: branch outside of the compiled "
            "function."
        )
    return BOTH_STAY


def _of_dtype(change: GuardChange) -> str:
    return f"{BOTH_STAY} Otherwise convert before the call: {change.name}.to(torch.{change.old})."


_A_NUMBER = re.compile(r"(?:of type (?:int|float)|-?\d[\w.+-]*)$")


def _of_type(change: GuardChange) -> str:
    was_tensor = change.old.endswith("Tensor") or "was a tensor" in change.words
    if was_tensor and _A_NUMBER.match(change.new):
        return (
            f"Write into the tensor in place ({change.name}.fill_(value)). If it is a number "
            "instead, each value is compiled separately."
        )
    if change.where == "attribute" and change.new.endswith(".DTensor"):
        return (
            "Shard the model (parallelize_module, fully_shard) before the first compiled call: it "
            "recompiles when DTensors replace its parameters."
        )
    if change.where in ("attribute", "global"):
        return (
            f"Set {change.name} before the first call and do not change it: each class is "
            "compiled separately."
        )
    if re.fullmatch(r"int|float|bool|str|list|tuple|dict", change.old):
        kind = change.old
    else:
        kind = ""
    example = f", for example {kind}({change.name})" if kind else ""
    return f"Pass {change.name} always as the same type{example}."


def _of_object(change: GuardChange) -> str:
    if change.where in ("attribute", "global"):
        return (
            f"Set {change.name} before the first call and do not change it: each object is "
            "compiled separately."
        )
    return f"{BOTH_STAY} Otherwise pass the same object as {change.name} each time."


def _of_requires_grad(change: GuardChange) -> str:
    if change.where == "attribute":
        return (
            f"{BOTH_STAY} Otherwise call {change.name}.requires_grad_() only before the first call."
        )
    # Not detach(): that would cut the gradient.
    return (
        f"{BOTH_STAY} If all calls need its gradient, or none does, give {change.name} the same "
        "requires_grad in each."
    )


def _of_keys(change: GuardChange) -> str:
    if change.name == KEYWORDS:
        return (
            "Pass the same keyword arguments in each call, in the same order: their names are "
            "constants in the compiled code."
        )
    if change.where == "attribute":
        return (
            f"Use the same keys of {change.name} in each call: they are constants in the compiled "
            "code, with their order."
        )
    return (
        f"The keys of {change.name}, with their order, are constants in the compiled code: use "
        "the same ones in each call. If the code does not need the keys, pass the values as a "
        "list, of which only the length is a constant."
    )


def _of_gone(change: GuardChange) -> str:
    if "___stack" in change.source:
        return (
            "The code before a graph break passes this value to the rest of the function, as a "
            "new object in each call. Avoid the break: without it, this guard does not exist."
        )
    return (
        "Keep the passed object alive between the calls: a function or object that is created for "
        "each call is a new one each time."
    )


_REMEDIES: dict[str, Callable[[GuardChange], str]] = {
    "rank": lambda change: (
        f"Give {change.name} the same number of dimensions, with unsqueeze or reshape, "
        "before the call."
    ),
    "stride": lambda change: f"Call {change.name}.contiguous() before the call.",
    "dtype": _of_dtype,
    "device": lambda change: (
        f"{BOTH_STAY} Otherwise move it before the call: {change.name}.to({change.old!r})."
    ),
    "requires_grad": _of_requires_grad,
    "training": lambda _: f"{BOTH_STAY} Otherwise do not switch between train() and eval().",
    "value": _of_value,
    "length": _of_length,
    "bound": _of_bound,
    "type": _of_type,
    "object": _of_object,
    "function": lambda change: (
        f"{BOTH_STAY} Each function is compiled; if there are many, let one function branch "
        "instead."
    ),
    "gone": _of_gone,
    "same": lambda _: "Always pass the same tensor twice, or never: a clone() is another tensor.",
    "keys": _of_keys,
    "contains": lambda change: (
        f"{BOTH_STAY} Otherwise let {change.name} have the same keys or members in each call."
    ),
    "has": lambda change: (
        f"Give every {change.name} the same attributes before the first call, with None for "
        "missing values."
    ),
    "iterator": lambda change: (
        f"Pass a list or tuple as {change.name}, always of the same length, or an iterator at the "
        "same position."
    ),
    "relation": lambda change: _of_relation(change),
    "marked": lambda _: (
        "Mark the tensor of the first call (mark_dynamic and others), not that of a later call."
    ),
    "modes": lambda _: (
        f"{BOTH_STAY} Otherwise enter the mode before the first call, and for every later one."
    ),
    "hooks": lambda _: (
        f"{BOTH_STAY} Otherwise install the hooks before the first call, and keep the same ones."
    ),
    "kind": lambda change: (
        f"{BOTH_STAY} Otherwise make {change.name} the same kind of tensor before each call."
    ),
    "grad_mode": lambda _: (
        f"{BOTH_STAY} Otherwise call it always inside torch.no_grad(), or never."
    ),
    "global_state": lambda _: "Change the setting before the first call, and not afterwards.",
    "arguments": lambda _: (
        f"{BOTH_STAY} Otherwise call torch.compile once, or each time with the same arguments."
    ),
    "backend": lambda _: (
        "Give torch.compile the same backend each time: if it is your own function, one object, "
        "not a new one for each call."
    ),
}


def _of_relation(change: GuardChange) -> str:
    if change.index is None or not change.other:
        return f"The code branches on these sizes, and each branch is compiled. {BOTH_STAY}"
    marks = (
        f"torch._dynamo.mark_dynamic({change.name}, {change.index}) and "
        f"torch._dynamo.mark_dynamic({change.other})"
    )
    return (
        f"To make them two separate sizes and avoid this recompile: {marks} before the first "
        "call, or make the first call with different sizes. This does not help if the code needs "
        "them equal."
    )


NO_REMEDY = "None that we know."
"""The text where no remedy applies: the change is not known, or has no general remedy."""
