"""This module parses torch's report of a failed guard into the value, its old and new content, in
plain words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer.analysis.naming import plain_name as plain_source_name
from fx_explorer.analysis.naming import with_names_of_function
from fx_explorer.model import Compilation
from fx_explorer.torch_texts import bounded

ChangeKind = Literal[
    "size", "range", "rank", "stride", "dtype", "device", "requires_grad", "training",
    "number", "bound", "value", "length", "type", "object", "same", "grad_mode", "global_state",
    "backend", "arguments", "keys", "contains", "has", "iterator", "function", "modes", "hooks",
    "relation", "marked", "gone", "kind", "other",
]  # fmt: skip
"""The kind of a change that made a guard fail.

- ``range``: a dynamic size left the range that the code is for
- ``relation``: several sizes, or what a size is divided by
- ``number``: a Python number that was compiled in; ``bound``: a dynamic one left the range that the
  code is for; ``value``: any other value
- ``object``: a name stands for another object; ``function``: for one with other code;
  ``gone``: the object was freed
- ``arguments``: of ``torch.compile``
- ``same``: whether two inputs are one tensor
- ``keys``: the keys of a dict; ``contains``: one key or member; ``has``: an attribute
- ``modes`` and ``hooks``: what is active around the call
- ``marked``: by mark_dynamic
- ``kind``: a tensor of another layout or class
- ``other``: not known
"""

Where = Literal["", "input", "attribute", "global"]


@dataclass(frozen=True, slots=True)
class GuardChange:
    kind: ChangeKind
    name: str
    """The value as the user's code names it: ``x``, ``self.drop.training``, ``batch['ids']``; empty
    for a global setting of torch's.
    """
    where: Where
    old: str
    """The value before. It is empty when it is not known, and so is ``new``."""
    new: str
    words: str
    """The change as a sentence without its full stop: ``size 0 of x was 8 and now is 12``."""
    index: int | None = None
    """The dimension, for ``size``, ``range``, ``stride`` and ``relation``."""
    source: str = ""
    """torch's name of the value: ``L['self']._parameters['weight']``."""
    other: str = ""
    """The other of two sizes that were assumed to be equal: ``y, 0``."""


def change_of(
    guard: str, source: str = "", old: str = "", new: str = "", of: Compilation | None = None
) -> GuardChange:
    """Return the change that made a guard fail. ``guard`` is torch's report; ``source``, ``old``
    and ``new`` are fields of model.Recompile, empty where only the report is known. ``of`` is the
    compilation whose guard failed.
    """
    change = _change_of(guard, source, old, new)
    name, words, other = (
        with_names_of_function(text, of) for text in (change.name, change.words, change.other)
    )
    return replace(change, name=name, words=words, other=other)


def _change_of(guard: str, source: str, old: str, new: str) -> GuardChange:
    guard = _ATTRIBUTE.sub(r"\1.\2", _FROM_NUMPY.sub(r"\1", bounded(guard)))
    for kind, pattern, words in _KINDS:
        match = re.search(pattern, guard)
        if match:
            return _change(kind, words, match.groupdict(), source, old, new)
    return GuardChange("other", plain_name(source), _where(source), old, new, guard.strip())


_SOURCE = r"(?P<source>(?:[LG]\[['\"]\w+['\"]\]|[A-Za-z_]\w*)[\w.\[\]'\"]*)"
"""Matches the source of a guard: ``L['x']``, ``G['scale']``, ``x``, ``self.power``. torch omits
``L[…]`` in its reports.
"""

_CHANGE = r"expected (?P<old>[^\s,]+), actual (?P<new>[^\s;,]+?)\.?(?:$|[\s;,])"

_BEGINS = r"(?<![\w.\[\]'\"])"
"""Pattern before a source that may stand anywhere: the source is searched from its beginning only,
and not from each of its letters.
"""

_SIZE = rf"{_BEGINS}{_SOURCE}\.size\(\)\[(?P<index>\d+)\]"

_DEVICES = "CPU|CUDA|XPU|MPS|HPU|XLA|Meta|PrivateUse1"
"""Dispatch keys that name a device (``c10/core/DispatchKey.h``)."""

_FROM_NUMPY = re.compile(r"___from_numpy\(([^()]*)\)")
"""Matches a NumPy array, which is guarded as the tensor that torch makes of it."""

_ATTRIBUTE = re.compile(r"object\.__getattribute__\(([^()]*), '(\w+)'\)")
"""Matches an attribute of an object whose class overrides the look-up of attributes, as
configurations of transformers do.
"""

_KEYED = (
    rf"(?:len\({_SOURCE}\) != \d+|list\(dict\.keys\({_SOURCE.replace('P<source>', 'P<keyed>')}\)\)"
    rf"|list\({_SOURCE.replace('P<source>', 'P<mapping>')}\.keys\(\)\) == )"
)
"""Matches guards on the keys of a dict: their number, one of them, or all."""

_WAS = "{name} was {old} and now is {new}"

_LEFT_BOUND = f"{_WAS}; the compiled code is for {{relation}}"

_GRAD_MODE = "grad mode was {old} and now is {new} (torch.no_grad)"

_NO_TENSOR = "{name} was a tensor and now is {new}"

_OTHER_TENSOR = "{name} is a tensor of another class now: {new}"

_TENSOR_CLASS = re.compile(r"(?:Tensor|Parameter)$")
"""Matches the name of a class of tensors, where the new value was not recorded."""

_TENSOR_VALUE = re.compile(r"\w+\[[\d, ]*\]$")
"""Matches a tensor as a recorded value: ``f32[4, 8]`` (capture/recording/described.py)."""

# The first pattern that matches counts, so the more exact stands above the more general.
_KINDS: tuple[tuple[ChangeKind, str, str], ...] = (
    (
        "size",
        rf"tensor '{_SOURCE}' size mismatch at index (?P<index>\d+)\. {_CHANGE}",
        f"size {{index}} of {_WAS}",
    ),
    (
        "stride",
        rf"tensor '{_SOURCE}' stride mismatch at index (?P<index>\d+)\. {_CHANGE}",
        "the memory layout of {name} changed (stride {index} was {old} and now is {new})",
    ),
    ("dtype", rf"tensor '{_SOURCE}' dtype mismatch\. {_CHANGE}", f"the dtype of {_WAS}"),
    (
        "rank",
        rf"tensor '{_SOURCE}' rank mismatch\. {_CHANGE}",
        f"the number of dimensions of {_WAS}",
    ),
    (
        "requires_grad",
        rf"tensor '{_SOURCE}' requires_grad mismatch\. expected requires_grad=(?P<old>\d)",
        "requires_grad of {name} was {old} and now is {new}",
    ),
    (
        "device",
        rf"tensor '{_SOURCE}' Tensor device index mismatch\. Expected device index to be "
        rf"(?P<old>-?\d+), actual (?P<new>-?\d+)",
        "the device number of {name} was {old} and now is {new}",
    ),
    (
        "device",
        rf"tensor '{_SOURCE}' dispatch key set mismatch\. expected "
        rf"DispatchKeySet\((?P<old>{_DEVICES})\b.*?\), "
        rf"actual DispatchKeySet\((?!(?P=old)\b)(?P<new>{_DEVICES})\b",
        "{name} was on {old} and now is on {new}",
    ),
    (
        # Below the devices: whatever else differs in the keys.
        "kind",
        rf"tensor '{_SOURCE}' dispatch key set mismatch\. expected "
        rf"(?P<old>DispatchKeySet\(.*?\)), actual (?P<new>.*\))",
        "{name} is another kind of tensor ({new}, not {old})",
    ),
    (
        "type",
        rf"expected type of '{_SOURCE}' to be a tensor type(?:, ' but found <class "
        rf"'(?P<found>[^']+)'>)?",
        _NO_TENSOR,
    ),
    (
        "type",
        rf"___check_type_id\({_SOURCE}, \d+\), type=<class '(?P<old>[^']+)'>",
        "{name} was of type {old} and now is {new}",
    ),
    (
        "function",
        rf"___check_obj_id\({_SOURCE}\.__code__, \d+\)",
        "{name} is another function now: {new}",
    ),
    # Below the check of ``__code__``, which is one of an id, too.
    (
        "object",
        rf"___check_obj_id\({_SOURCE}, \d+\)",
        "{name} refers to another object now: {new}",
    ),
    (
        "gone",
        rf"Cache line invalidated because {_SOURCE} got deallocated",
        "{name} was freed, together with the code compiled for it",
    ),
    ("grad_mode", r"GLOBAL_STATE changed:.*\bgrad_mode\b", _GRAD_MODE),
    (
        "global_state",
        r"GLOBAL_STATE changed: (?P<setting>.*\S)",
        "a global setting of torch's changed: {setting}",
    ),
    ("backend", r"BACKEND_MATCH failure", "another backend was given to torch.compile"),
    (
        "modes",
        r"^___check_torch_function_mode_stack\(\)",
        "other __torch_function__ modes are active (torch.device as a context is one)",
    ),
    (
        "global_state",
        r"CURRENT_DEVICE == (?P<old>\S+)",
        "torch.set_default_device was {old} and has changed",
    ),
    (
        "global_state",
        r"forward_ad\._current_level == (?P<old>-?\d+)",
        "the level of forward-mode differentiation changed",
    ),
    (
        "modes",
        r"compare_functorch_state\(",
        "another transform of torch.func (vmap, grad …) is around the call",
    ),
    (
        "hooks",
        r"top_saved_tensors_hooks ids == ",
        "other hooks for saved tensors are active (torch.autograd.graph.saved_tensors_hooks)",
    ),
    (
        "marked",
        r"_has_dynamo_dim_marking|_dynamo_(?:weak_)?(?:dynamic|unbacked|strict_unbacked"
        r"|static)_indices",
        (
            "a tensor has other marks (mark_dynamic, mark_static …) than the tensor of the first "
            "compile"
        ),
    ),
    (
        "has",
        rf"^not hasattr\({_SOURCE}, '(?P<key>\w+)'\)",
        "{name} lacked the attribute {key}, and now has it",
    ),
    (
        "has",
        rf"^hasattr\({_SOURCE}, '(?P<key>\w+)'\)",
        "{name} had the attribute {key}, and now lacks it",
    ),
    (
        "has",
        rf"^(?:getattr|GetAttr\w*|get_attr)\b.* failed on source {_SOURCE}",
        "an attribute of {name} that the code reads is no longer there",
    ),
    (
        "has",
        rf"^not ___dict_contains\('(?P<key>\w+)', {_SOURCE}\.__dict__\)",
        "{name} now has its own attribute {key}",
    ),
    (
        "contains",
        rf"^not (?:___dict_contains|set\.__contains__)\((?P<key>'[^']*'|[^\s,]+), {_SOURCE}\)",
        "{key} is now in {name}, and was not before",
    ),
    (
        "contains",
        rf"^___dict_contains\((?P<key>'[^']*'|[^\s,]+), {_SOURCE}\)",
        "{key} is no longer in {name}",
    ),
    (
        "contains",
        rf"^not set\.__contains__\({_SOURCE}, (?P<key>'[^']*'|[^)]+)\)",
        "{key} is now in {name}, and was not before",
    ),
    (
        "contains",
        rf"^set\.__contains__\({_SOURCE}, (?P<key>'[^']*'|[^)]+)\)",
        "{key} is no longer in {name}",
    ),
    # nan does not equal itself, so torch's guard cannot compare by ``==``.
    (
        "number",
        rf"^\(type\({_SOURCE}\) is float and __math_isnan",
        "{name} was nan and now is {new}",
    ),
    (
        "number",
        rf"^\(type\({_SOURCE}\) is complex and __math_isnan",
        "{name} was nan and now is {new}",
    ),
    (
        "iterator",
        rf"^___tuple_iterator_len\({_SOURCE}\) == (?P<old>\d+)",
        "the iterator {name} had {old} items left, and now has {new}",
    ),
    (
        "iterator",
        rf"^___normalize_range_iter\({_SOURCE}\) == (?P<old>\(.*?\))",
        "the range that {name} iterates over was {old} (start, stop, step) and has changed",
    ),
    (
        "iterator",
        rf"^___\w*count_iter\w*\({_SOURCE}\) == (?P<old>\(.*?\))",
        "the counter {name} was at {old} and has changed",
    ),
    ("keys", rf"^{_KEYED}", ""),
    ("contains", rf"^KeyError on {_SOURCE}", "{name} is no longer there"),
    (
        "same",
        r"Duplicate tensors found: \[(?P<names>.*?)\]",
        "the same tensor was given twice: {names}",
    ),
    (
        "same",
        rf"^{_SOURCE} is (?!None|True|False){_SOURCE.replace('P<source>', 'P<other>')}\s*$",
        "{name} and {other} were one tensor and now are two",
    ),
    # Above ``value``, which would match this, too.
    (
        "training",
        rf"^{_SOURCE}\.training == (?P<old>True|False)",
        f"{_WAS} (train() or eval() was called)",
    ),
    (
        "length",
        rf"^len\({_SOURCE}\) == (?P<old>\d+)",
        "the length of {name} was {old} and now is {new}",
    ),
    ("value", rf"^not {_SOURCE}\s*$", "{name} was empty or false and now is {new}"),
    (
        "range",
        rf"^(?P<bound>\d+) <= {_SIZE} <= (?P<most>\d+)",
        f"size {{index}} of {_WAS}; the compiled code is for {{bound}} to {{most}}",
    ),
    (
        "range",
        rf"^(?P<bound>\d+) <= {_SIZE}",
        f"size {{index}} of {_WAS}; the compiled code is for {{bound}} and more",
    ),
    (
        "range",
        rf"^{_SIZE} <= (?P<bound>\d+)",
        f"size {{index}} of {_WAS}; the compiled code is for {{bound}} and less",
    ),
    ("size", rf"^{_SIZE} == (?P<old>\d+)", f"size {{index}} of {_WAS}"),
    (
        "relation",
        rf"^{_SIZE} == "
        rf"{_SIZE.replace('P<source>', 'P<other>').replace('P<index>', 'P<other_index>')}.*duck "
        rf"sizing",
        (
            "size {index} of {name} and size {other_index} of {other} were equal, and the "
            "compiled code uses one size for both"
        ),
    ),
    (
        "relation",
        r"^(?P<relation>[^#]*\.size\(\)\[\d+\][^#]*)",
        "the sizes no longer fulfil a condition of the compiled code: {relation}",
    ),
    (
        "bound",
        rf"^(?P<relation>{_SOURCE} [<>]=? -?\d[\w.+-]*)(?:$|\s)",
        _LEFT_BOUND,
    ),
    (
        "bound",
        rf"^(?P<relation>-?\d[\w.+-]* [<>]=? {_SOURCE}(?: [<>]=? -?\d[\w.+-]*)?)(?:$|\s)",
        _LEFT_BOUND,
    ),
    ("number", rf"^{_SOURCE} == (?P<old>-?\d[\w.+-]*)(?:$|\s)", _WAS),
    ("value", rf"^{_SOURCE} (?:==|is) (?P<old>(?:'[^']*'|\"[^\"]*\"|[^\s#])+)", _WAS),
)
"""Sentences of torch (``torch/csrc/dynamo/guards.cpp``, TensorCheck::check_verbose) and code parts
(``torch/_dynamo/guards.py``) → plain words.
"""

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
    _WAS: "{name} is no longer {old}, for which the compiled code was made",
    _GRAD_MODE: "grad mode changed (torch.no_grad)",
    _LEFT_BOUND: "{name} is no longer in {relation}, for which the compiled code was made",
}
"""Plain words for sessions that lack the new value."""


def _change(
    kind: ChangeKind, words: str, found: dict[str, str | None], source: str, old: str, new: str
) -> GuardChange:
    """Describe a change in words, from torch's guard and from the recorded values."""
    reported = {key: text or "" for key, text in found.items()}
    reported["source"] = (
        reported.get("source") or reported.get("keyed") or reported.get("mapping") or ""
    )
    is_length_of_dict = kind == "length" and source and not source.startswith("len(")
    if kind == "keys" or is_length_of_dict:
        return _keys_change(reported["source"], source, old, new)
    if kind == "has" and source and _is_part_of(reported["source"], source):
        # torch 2.11 names the attribute that is gone, but not its object.
        reported["source"] = source
    named = plain_name(reported["source"])
    if kind == "training":
        named += ".training"
    if words == _NO_TENSOR and _is_tensor(reported.get("found", ""), new):
        # Both are tensors: what differs is the class, which the recorded value does not show.
        words, new = _OTHER_TENSOR, reported.get("found") or new
    was, is_now = _values(kind, reported, old, new)
    where = _where(source or reported.get("source", ""))
    if words in _WITHOUT_VALUES and not is_now:
        words = _WITHOUT_VALUES[words]
    if kind == "type" and is_now.startswith("object of class "):
        is_now = is_now.replace("object of class", "of type")
    name = f"the global {named}" if where == "global" else named
    names = [plain_name(text.strip("\"' ")) for text in reported.get("names", "").split('", "')]
    in_words = words.format(
        name=name,
        old=was or "another one",
        new=is_now or "something else",
        other=plain_name(reported.get("other", "")),
        names=", ".join(names),
        setting=reported.get("setting", ""),
        index=reported.get("index", ""),
        bound=reported.get("bound", ""),
        most=reported.get("most", ""),
        key=reported.get("key", ""),
        other_index=reported.get("other_index", ""),
        relation=_relation(reported.get("relation", "")),
    )
    index = int(reported["index"]) if reported.get("index") else None
    if reported.get("other_index"):
        other = f"{plain_name(reported['other'])}, {reported['other_index']}"
    else:
        other = ""
    return GuardChange(
        kind, named, where, was, is_now, in_words, index, source or reported["source"], other
    )


def _is_tensor(class_name: str, value: str) -> bool:
    return bool(_TENSOR_VALUE.match(value) or _TENSOR_CLASS.search(class_name))


def _is_part_of(source: str, whole: str) -> bool:
    return plain_name(source).startswith(f"{plain_name(whole)}.")


KEYWORDS = "kwargs"
"""Name that functions commonly give to ``**kwargs``."""


def _keys_change(reported: str, source: str, old: str, new: str) -> GuardChange:
    """Describe a change of keys. ``old`` and ``new`` are the keys that only one side has, or all
    where their order differs (capture/dynamo/failed_guards.py).
    """
    name, where = plain_name(source or reported), _where(source or reported)
    text = f"the global {name}" if where == "global" else name
    if source.startswith("len("):  # a length and no dict
        name = plain_name(source.removeprefix("len(").removesuffix(")"))
        return GuardChange(
            "length",
            name,
            where,
            old,
            new,
            f"the length of {name} is different now: {new or 'not known'}",
        )
    if old and new and sorted(old.split(", ")) == sorted(new.split(", ")):
        return GuardChange(
            "keys",
            name,
            where,
            old,
            new,
            f"the keys of {text} are in another order: {old} before, {new} now",
        )
    if name == KEYWORDS:
        text = "the call"
    gone = f"{old} {_is_gone(old)}" if old else ""
    added = ""
    if new:
        are_several = ", " in new or " and " in new
        added = f"{new} are new" if are_several else f"{new} is new"
    what = " and ".join(part for part in (gone, added) if part) or "which ones is not known"
    which = "other keyword arguments" if name == KEYWORDS else "other keys"
    return GuardChange("keys", name, where, old, new, f"{text} has {which}: {what}")


def _is_gone(keys: str) -> str:
    if ", " in keys or " and " in keys:
        return "are gone"
    return "is gone"


def _relation(code: str) -> str:
    """Return ``(size 0 of x % 8) == 0`` for ``(L['x'].size()[0] % 8) == 0``."""
    return re.sub(
        _SIZE,
        lambda m: f"size {m['index']} of {plain_name(m['source'])}",
        code,
    ).strip()


def _values(kind: ChangeKind, reported: dict[str, str], old: str, new: str) -> tuple[str, str]:
    """Return (old, new). Values in the guard's text take precedence over evaluated ones, which for
    a tensor are the whole tensor.
    """
    was, is_now = (
        _DTYPES.get(text, text) for text in (reported.get("old", ""), reported.get("new", ""))
    )
    if kind == "requires_grad":
        # torch's sentence has the old value only, and there is just one other.
        return str(was != "0"), str(was == "0")
    if kind == "device" and not is_now.isdecimal():
        return was.lower(), new or is_now.lower()
    return was or old, is_now or new


def plain_name(source: str) -> str:
    """Return ``self.drop.training`` for ``L['self']._modules['drop'].training``."""
    return plain_source_name(source).removesuffix("._modules")


def _where(source: str) -> Where:
    source = re.sub(r"^(?:\w[\w.]*\()+(?:'[^']*', )?", "", source)
    if source.startswith("G["):
        return "global"
    name = plain_name(source)
    if not name:
        return ""
    if re.match(r"^\w+\.(?!size\(|stride\()", name):
        return "attribute"
    return "input"
