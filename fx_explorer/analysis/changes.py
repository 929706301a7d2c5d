"""What changed before a recompile: torch's guard, taken apart into the value, what it was and what it is, and told plainly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal[
    "size", "range", "rank", "stride", "dtype", "device", "requires_grad", "training",
    "number", "value", "length", "type", "object", "same", "grad_mode", "global_state", "backend", "other",
]  # fmt: skip
"""``range``: a dynamic size left the range the code is for. ``number``: a Python number that was compiled in; ``value``: any
other. ``object``: a name stands for another object. ``same``: whether two inputs are the same tensor. ``other``: not known."""

Where = Literal["", "input", "attribute", "global"]


@dataclass(frozen=True, slots=True)
class Change:
    kind: ChangeKind
    name: str
    """As the user's code has it: ``x``, ``self.drop.training``, ``batch['ids']``; empty for a global setting of torch's."""
    where: Where
    old: str
    """Empty when it is not known, as ``new``."""
    new: str
    words: str
    """The change as a sentence without an end: ``size 0 of x was 8 and now is 12``."""
    index: int | None = None
    """The dimension, for ``size``, ``range`` and ``stride``."""


def change_of(guard: str, source: str = "", old: str = "", new: str = "") -> Change:
    """``guard`` as torch reports it; the rest as the session has it (model.Recompile), empty in sessions of old."""
    for kind, pattern, words in _KINDS:
        found = re.search(pattern, guard)
        if found:
            return _change(kind, words, found.groupdict(), source, old, new)
    return Change("other", _name(source), _where(source), old, new, guard.strip())


_SOURCE = r"(?P<source>(?:[LG]\[['\"]\w+['\"]\]|[A-Za-z_]\w*)[\w.\[\]'\"]*)"
"""What a guard looks at: ``L['x']``, ``G['scale']``, ``x``, ``self.power``; torch leaves ``L[…]`` out of its reports."""

_CHANGE = r"expected (?P<old>[^\s,]+), actual (?P<new>[^\s;,]+?)\.?(?:$|[\s;,])"

_SIZE = rf"{_SOURCE}\.size\(\)\[(?P<index>\d+)\]"

_DEVICES = "CPU|CUDA|XPU|MPS|HPU|XLA|Meta|PrivateUse1"
"""Dispatch keys that stand for a device (``c10/core/DispatchKey.h``)."""

_WAS = "{name} was {old} and now is {new}"

_GRAD_MODE = "grad mode was {old} and now is {new} (torch.no_grad)"

_KINDS: tuple[tuple[ChangeKind, str, str], ...] = (
    ("size", rf"tensor '{_SOURCE}' size mismatch at index (?P<index>\d+)\. {_CHANGE}", f"size {{index}} of {_WAS}"),
    (
        "stride",
        rf"tensor '{_SOURCE}' stride mismatch at index (?P<index>\d+)\. {_CHANGE}",
        "the memory layout of {name} changed (stride {index} was {old} and now is {new})",
    ),
    ("dtype", rf"tensor '{_SOURCE}' dtype mismatch\. {_CHANGE}", f"the dtype of {_WAS}"),
    ("rank", rf"tensor '{_SOURCE}' rank mismatch\. {_CHANGE}", f"the number of dimensions of {_WAS}"),
    (
        "requires_grad",
        rf"tensor '{_SOURCE}' requires_grad mismatch\. expected requires_grad=(?P<old>\d)",
        "requires_grad of {name} was {old} and now is {new}",
    ),
    (
        "device",
        rf"tensor '{_SOURCE}' Tensor device index mismatch\. Expected device index to be (?P<old>-?\d+), actual (?P<new>-?\d+)",
        "the device number of {name} was {old} and now is {new}",
    ),
    (
        "device",
        rf"tensor '{_SOURCE}' dispatch key set mismatch\. expected DispatchKeySet\((?P<old>{_DEVICES})\b.*?\), "
        rf"actual DispatchKeySet\((?!(?P=old)\b)(?P<new>{_DEVICES})\b",
        "{name} was on {old} and now is on {new}",
    ),
    (
        "other",
        rf"tensor '{_SOURCE}' dispatch key set mismatch\. expected (?P<old>DispatchKeySet\(.*?\)), actual (?P<new>.*\))",
        "{name} is another kind of tensor ({new}, not {old})",
    ),
    (
        "type",
        rf"expected type of '{_SOURCE}' to be a tensor type, ' but found <class '(?P<new>torch\.Tensor|.*Parameter)'>",
        "{name} is a tensor of another class now: {new}",
    ),
    ("type", rf"expected type of '{_SOURCE}' to be a tensor type", "{name} was a tensor and now is {new}"),
    (
        "type",
        rf"___check_type_id\({_SOURCE}, \d+\), type=<class '(?P<old>[^']+)'>",
        "{name} was of type {old} and now is {new}",
    ),
    ("object", rf"___check_obj_id\({_SOURCE}, \d+\)", "{name} stands for another object now: {new}"),
    ("grad_mode", r"GLOBAL_STATE changed:.*\bgrad_mode\b", _GRAD_MODE),
    ("global_state", r"GLOBAL_STATE changed: (?P<setting>.*\S)", "a global setting of torch's changed: {setting}"),
    ("backend", r"BACKEND_MATCH failure", "another backend was given to torch.compile"),
    ("other", rf"^KeyError on {_SOURCE}", "{name} is no longer there"),
    ("same", r"Duplicate tensors found: \[(?P<names>.*?)\]", "the same tensor was given twice: {names}"),
    (
        "same",
        rf"^{_SOURCE} is (?!None|True|False){_SOURCE.replace('P<source>', 'P<other>')}\s*$",
        "{name} and {other} were one tensor and now are two",
    ),
    ("training", rf"^{_SOURCE}\.training == (?P<old>True|False)", f"{_WAS} (train() or eval() was called)"),
    ("length", rf"^len\({_SOURCE}\) == (?P<old>\d+)", "the length of {name} was {old} and now is {new}"),
    ("value", rf"^not {_SOURCE}\s*$", "{name} was empty or false and now is {new}"),
    ("range", rf"^(?P<bound>\d+) <= {_SIZE}", f"size {{index}} of {_WAS}; the compiled code is for {{bound}} and more"),
    ("range", rf"^{_SIZE} <= (?P<bound>\d+)", f"size {{index}} of {_WAS}; the compiled code is for {{bound}} and less"),
    ("size", rf"^{_SIZE} == (?P<old>\d+)", f"size {{index}} of {_WAS}"),
    ("number", rf"^{_SOURCE} == (?P<old>-?\d[\w.+-]*)(?:$|\s)", _WAS),
    ("value", rf"^{_SOURCE} (?:==|is) (?P<old>(?:'[^']*'|\"[^\"]*\"|[^\s#])+)", _WAS),
)
"""torch's sentences (``torch/csrc/dynamo/guards.cpp``, TensorCheck::check_verbose) and code parts (``torch/_dynamo/guards.py``)
→ plain ones."""

_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
"""C++ names of dtypes (``c10/core/ScalarType.h``) → Python's."""

_WITHOUT_VALUES = {
    _WAS: "{name} is no longer {old}, which the compiled code was made for",
    _GRAD_MODE: "grad mode changed (torch.no_grad)",
}
"""For sessions that lack the new value."""


def _change(kind: ChangeKind, words: str, found: dict[str, str | None], source: str, old: str, new: str) -> Change:
    reported = {key: text or "" for key, text in found.items()}
    named = _name(reported.get("source", "")) + (".training" if kind == "training" else "")
    was, is_now = _values(kind, reported, old, new)
    where = _where(source or reported.get("source", ""))
    if words in _WITHOUT_VALUES and not is_now:
        words = _WITHOUT_VALUES[words]
    told = words.format(
        name=f"the global {named}" if where == "global" else named,
        old=was or "another one",
        new=is_now or "something else",
        other=_name(reported.get("other", "")),
        names=", ".join(_name(text.strip("\"' ")) for text in reported.get("names", "").split('", "')),
        setting=reported.get("setting", ""),
        index=reported.get("index", ""),
        bound=reported.get("bound", ""),
    )
    return Change(kind, named, where, was, is_now, told, int(reported["index"]) if reported.get("index") else None)


def _values(kind: ChangeKind, reported: dict[str, str], old: str, new: str) -> tuple[str, str]:
    """What it was and is. What the guard says goes before what was evaluated: for a tensor that is the tensor as a whole."""
    was, is_now = (_DTYPES.get(text, text) for text in (reported.get("old", ""), reported.get("new", "")))
    if kind == "requires_grad":
        return str(was != "0"), str(was == "0")
    if kind == "device" and not is_now.isdecimal():
        return was.lower(), new or is_now.lower()
    return was or old, is_now or new


_BEHIND = re.compile(r"(?:\._modules|\._parameters|\._buffers|\.__dict__)\[['\"](\w+)['\"]\]")
_FIRST = re.compile(r"^[LG]\[['\"](\w+)['\"]\]")


def _name(source: str) -> str:
    """``L['self']._modules['drop'].training`` → ``self.drop.training``."""
    return _BEHIND.sub(r".\1", _FIRST.sub(r"\1", source))


def _where(source: str) -> Where:
    source = source.removeprefix("len(")
    if source.startswith("G["):
        return "global"
    name = _name(source)
    if not name:
        return ""
    return "attribute" if re.match(r"^\w+\.(?!size\(|stride\()", name) else "input"
