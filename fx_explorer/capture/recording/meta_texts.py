"""This module makes a text of what ``node.meta`` holds besides what a node's own row has: the
operator before decomposition, the tags of the partitioner and of checkpointing, quantization, and
whatever a pass or a program puts there.

No text is made by code of the program's: only torch's and Python's own types are written out, of
any other the class is named. A graph's values are written once each, with the positions of their
nodes, since most nodes share them.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fx_explorer.capture.recording.described import class_name
from fx_explorer.capture.recording.fx_graphs import describe_value, qualified_name
from fx_explorer.capture.torch_compat.private_names import HigherOrderOperator, OpOverload
from fx_explorer.model import GRADIENT, NO_GRADIENT

OF_THE_ROW = frozenset(
    {
        "val",
        "example_value",
        "tensor_meta",
        "stack_trace",
        "nn_module_stack",
        "fwd_nn_module_stack",
        "seq_nr",
        "custom",
    }
)
"""Keys whose value a node's row has: they are stored without a text, except for whether a tensor
requires a gradient, of Dynamo's ``example_value``.
"""

MOST_CHARACTERS = 160
"""Maximum number of characters of a value's text."""

MOST_ITEMS = 6
"""Maximum number of items of a list or dict that are written."""

DEEPEST = 4
"""Maximum depth of lists, dicts and torch's own records that are written."""

_AS_THEY_ARE = (
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    OpOverload,
    HigherOrderOperator,
)
"""Types whose text torch writes."""

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


class MetaTexts:
    """Makes the texts of values of ``node.meta``. The nodes of several graphs share most of them,
    so a text is made once for an object.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}
        """Id of an object → the object, which keeps the id valid, and its text."""

    def forget(self) -> None:
        """Drop the objects of earlier graphs."""
        self._known.clear()

    def of(self, value: object) -> str:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        text = meta_text(value)
        if len(text) > MOST_CHARACTERS:
            text = f"{text[: MOST_CHARACTERS - 1]}…"
        self._known[id(value)] = value, text
        return text


def meta_text(value: object, depth: int = 0) -> str:
    """Return the text of a value; of an object that is neither Python's nor torch's, its class."""
    kind = type(value)
    if value is None or kind in (bool, int, float):
        return repr(value)
    if kind is str and isinstance(value, str):
        return value if depth == 0 else repr(value[:MOST_CHARACTERS])
    if issubclass(kind, _AS_THEY_ARE) and _is_torchs(kind):
        return str(value)
    if issubclass(kind, enum.Enum):
        return f"{class_name(kind)}.{vars(value).get('_name_', '')}"
    if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
        return describe_value(value)
    if issubclass(kind, torch.Tensor) and _is_torchs(kind):
        return describe_value(value)
    if kind in _FUNCTIONS:
        return qualified_name(value)
    if kind is type and isinstance(value, type):
        return class_name(value)
    if depth >= DEEPEST:
        return "…"
    return _text_of_parts(value, depth)


def _text_of_parts(value: Any, depth: int) -> str:
    """Return the text of a list, a dict or a record of torch's, of its first items."""
    kind = type(value)
    if issubclass(kind, list | tuple | set | frozenset) and _is_known(kind):
        items = _some(meta_text(item, depth + 1) for item in value)
        return f"({items})" if issubclass(kind, tuple) else f"[{items}]"
    if issubclass(kind, dict) and _is_known(kind):
        pairs = []
        for key, item in itertools.islice(value.items(), MOST_ITEMS + 1):
            pairs.append(f"{meta_text(key, depth + 1)}: {meta_text(item, depth + 1)}")
        return f"{{{_some(pairs)}}}"
    if kind.__name__ == "NodeSource" and _is_torchs(kind):
        return f"{value.name} · {value.pass_name}"
    if dataclasses.is_dataclass(kind) and _is_torchs(kind):
        fields = []
        for part in dataclasses.fields(kind):
            # Not vars(): some of torch's records have __slots__, and no __dict__.
            text = meta_text(getattr(value, part.name, None), depth + 1)
            fields.append(f"{part.name}={text}")
        return f"{kind.__name__}({_some(fields)})"
    return class_name(kind)


def _is_torchs(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] == "torch"


def _is_known(kind: type) -> bool:
    """Return whether a container is Python's own or torch's, whose iterators run no code of the
    program's.
    """
    return kind.__module__ == "builtins" or _is_torchs(kind)


def _some(items: Iterable[str]) -> str:
    shown: list[str] = []
    for item in items:
        if len(shown) == MOST_ITEMS:
            shown.append("…")
            break
        shown.append(item)
    return ", ".join(shown)


def graph_meta(nodes: Sequence[torch.fx.Node], texts: MetaTexts) -> str:
    """Return what the nodes' meta holds, as JSON: ``{key: {text: positions}}``; empty where there
    is nothing.
    """
    held: dict[str, dict[str, list[int]]] = {}
    for position, node in enumerate(nodes):
        for key, value in node.meta.items():
            name = key if type(key) is str else type(key).__name__
            text = _text_beside_row(name, value) if name in OF_THE_ROW else texts.of(value)
            held.setdefault(name, {}).setdefault(text, []).append(position)
    if not held:
        return ""
    written: dict[str, dict[str, str]] = {}
    for key, by_text in held.items():
        written[key] = {text: as_ranges(positions) for text, positions in by_text.items()}
    return json.dumps(written, ensure_ascii=False, separators=(",", ":"))


def _text_beside_row(key: str, value: object) -> str:
    if key != "example_value" or not isinstance(value, torch.Tensor):
        return ""
    return GRADIENT if value.requires_grad else NO_GRADIENT


def as_ranges(positions: Sequence[int]) -> str:
    """Return ``0-4,7`` for 0, 1, 2, 3, 4 and 7."""
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and ranges[-1][1] == position - 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    parts = []
    for first, last in ranges:
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)
