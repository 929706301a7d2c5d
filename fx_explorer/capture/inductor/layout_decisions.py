"""This module records where Inductor copies a value, or lays it out in another order, because an
operation asks for it.

Operations ask through ``ExternKernel.require_strides`` and its like (torch/_inductor/ir.py). A
value that is not in memory yet is computed in the order that is asked for, and one whose layout is
open (``FlexibleLayout``) gets that order; any other is copied (``copy_input``).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fx_explorer.capture.inductor.decisions import (
    Decision,
    add,
    condition_of,
    decisions_of,
    hint,
    hints,
    inductor_frames,
    node_here,
    place_of,
)
from fx_explorer.capture.inductor.lines_by_node import node_of_buffer
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import V, inductor_ir

_REQUIRES = frozenset(
    ["require_strides", "require_exact_strides", "require_stride_order", "require_channels_last",
     "require_channels_last_3d", "require_contiguous", "require_contiguous_strides",
     "require_stride1", "realize_input", "copy_input", "as_storage_and_layout", "apply_constraint",
     "copy_required", "freeze_as_required", "freeze_layout_with_stride_order",
     "freeze_layout_with_exact_strides", "<genexpr>", "<listcomp>", "<lambda>", "tree_map",
     "tree_map_only", "apply"]
)  # fmt: skip
"""Functions that give a value the layout that an operation needs."""


class _Requiring(threading.local):
    """The layouts that are being seen to in this thread."""

    def __init__(self) -> None:
        self.copies: list[tuple[_Value, Any, _Asker]] = []
        """(the value, its copy, who asked) of copies whose strides are not settled."""
        self.depth = 0


_requiring = _Requiring()


@contextlib.contextmanager
def layout_hook(recording: Recording) -> Iterator[None]:
    """Note copies and layouts that operations ask for, for as long as the block lasts."""
    kernel, buffer = inductor_ir.ExternKernel, inductor_ir.Buffer
    freeze = functools.partial(_freeze, recording)
    with (
        patched(kernel, "require_strides", functools.partial(_require, recording)),
        patched(kernel, "copy_input", functools.partial(_copy, recording)),
        patched(kernel, "realize_input", functools.partial(_realize, recording)),
        patched(buffer, "freeze_layout_with_stride_order", freeze),
        patched(buffer, "freeze_layout_with_exact_strides", freeze),
    ):
        yield


def _require(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def require_strides(value: Any, *args: Any, **kwargs: Any) -> Any:
        _requiring.depth += 1
        try:
            return original(value, *args, **kwargs)
        finally:
            _requiring.depth -= 1
            if _requiring.copies and not _requiring.depth:
                copies, _requiring.copies = _requiring.copies, []
                with recording.noting("why a value is copied", "schedule"):
                    for copied, copy, asker in copies:
                        _add_copy(copied, copy, asker)
            elif not _requiring.depth:
                with recording.noting("which other nodes ask for a copy", "schedule"):
                    _note_also_asking(value, *args, **kwargs)

    return require_strides


def _realize(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def realize_input(value: Any) -> Any:
        with recording.noting("which other nodes ask for a copy", "schedule"):
            _note_also_reading(value)
        return original(value)

    return realize_input


def _copy(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def copy_input(value: Any, *args: Any, **kwargs: Any) -> Any:
        copied = None
        with recording.noting("a value that is copied", "schedule"):
            copied = _Value.of(value)
        copy = original(value, *args, **kwargs)
        if copied is not None:
            with recording.noting("why a value is copied", "schedule"):
                asker = _asker()
                if _requiring.depth:
                    # Its strides are settled later.
                    _requiring.copies.append((copied, copy, asker))
                else:
                    _add_copy(copied, copy, asker)
        return copy

    return copy_input


def _freeze(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def freeze_layout(buffer: Any, *args: Any, **kwargs: Any) -> Any:
        before = None
        with recording.noting("a layout that is fixed", "schedule"):
            before = list(buffer.layout.stride)
        result = original(buffer, *args, **kwargs)
        if before is not None:
            with recording.noting("why a layout is fixed", "schedule"):
                _add_frozen(buffer, before)
        return result

    return freeze_layout


@dataclass(frozen=True, slots=True)
class _Value:
    """What is known of a value before it is copied."""

    name: str
    """The post-grad node whose value it is; empty where that is not known."""
    sizes: str
    strides: str
    """Empty for a value that is not in memory, or that strides cannot describe."""
    is_in_memory: bool
    view: str
    """Class of the view that it is; empty for none."""

    @classmethod
    def of(cls, value: Any) -> _Value:
        inner = value.data if isinstance(value, inductor_ir.TensorBox) else value
        is_view = isinstance(inner, inductor_ir.BaseView)
        base = inner.unwrap_view() if is_view else inner
        is_in_memory = inductor_ir.is_storage_and_layout(base)
        strides = ""
        if inductor_ir.is_storage_and_layout(value):
            strides = hints(value.get_stride())
        view = type(inner).__name__ if is_view else ""
        name = _node_of(base)
        if is_view:
            name = _viewed_node(name)
        return cls(name, hints(value.get_size()), strides, is_in_memory, view)


def _node_of(value: Any) -> str:
    """Return the post-grad node whose value this is, an input's included; empty if not known."""
    inner = value
    while isinstance(inner, (inductor_ir.TensorBox, inductor_ir.StorageBox)):
        inner = inner.data
    if isinstance(inner, inductor_ir.InputBuffer):
        return _placeholder(inner.get_name())
    if isinstance(inner, inductor_ir.Buffer):
        return node_of_buffer(inner) or ""
    name = getattr(getattr(inner, "inner_fn", None), "fx_explorer_node", "")
    if name:
        return str(name)
    origin = inner.get_origin_node()
    return origin.name if origin is not None else ""


_RESHAPES = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")


def _viewed_node(base: str) -> str:
    """Return the node whose value a view of ``base`` is, at the node that is being lowered: the
    latest that is more than a reshape of another. An input keeps its own name.
    """
    here = V.current_node
    if not base or not isinstance(here, torch.fx.Node):
        return base
    for start in (here, *here.all_input_nodes):
        node, latest = start, ""
        while node.name != base and node.all_input_nodes:
            if not latest and str(node.target) not in _RESHAPES:
                latest = node.name
            node = node.all_input_nodes[0]
        if node.name == base and latest != here.name:
            return base if node.op == "placeholder" else latest or base
    return base


def _placeholder(name: str) -> str:
    """Return the node of an input; Inductor renames those of nested graphs."""
    names = (node.name for node in V.graph.module.graph.nodes if node.op == "placeholder")
    return next((known for known in names if known == name), name)


def _for_what(names: Mapping[str, Any]) -> str:
    """Return what a node's layout is fixed for, by the names in ``GraphLowering.run_node``."""
    if not names.get("is_output"):
        return "as_strided"
    if names.get("is_user_visible"):
        return "output"
    return "gradient" if V.graph.is_backward else "saved"


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who asks for a layout."""

    check: str = ""
    """The function of Inductor, with its place."""
    node: str = ""
    """The post-grad node that asks; empty: the one that is being lowered."""
    reason: str = ""
    """What it is asked for, where not for an operation: a result of the program (``output``), a
    ``gradient``, a value ``saved`` for the backward, ``as_strided``.
    """


def _asker() -> _Asker:
    for frame in inductor_frames():
        if frame.f_code.co_name in _REQUIRES:
            continue
        check = place_of(frame)
        if frame.f_code.co_name != "run_node":
            return _Asker(check)
        # The node is done: its users, or whoever gets it, ask.
        if "user.target" in condition_of(frame):
            return _Asker(check, node=getattr(frame.f_locals.get("user"), "name", ""))
        return _Asker(check, reason=_for_what(frame.f_locals))
    return _Asker()


def _add_copy(copied: _Value, copy: Any, asker: _Asker) -> None:
    strides = list(copy.get_stride())
    usual = inductor_ir.FlexibleLayout.contiguous_strides(copy.get_size())
    if not copied.is_in_memory and strides == list(usual):
        return
    texts = {"sizes": copied.sizes, "from": copied.strides, "to": hints(strides)}
    if copied.view:
        texts["view"] = copied.view
    outcome = "copied" if copied.is_in_memory else "computed so"
    elements = hint(copy.get_numel())
    numbers = {}
    if elements >= 0:
        numbers["bytes"] = elements * copy.get_dtype().itemsize
    _add(outcome, copy, copied.name, asker, texts, numbers)


def _copies_of(value: Any) -> Iterator[Decision]:
    """Yield the copy that a value is, if it was copied for its layout at an earlier node."""
    if not inductor_ir.is_storage_and_layout(value):
        return
    name = value.get_name()
    for decision in decisions_of(V.graph):
        if decision.outcome == "copied" and name in decision.buffers:
            yield decision


def _note_also_asking(value: Any, order: Any = None, exact_strides: Any = None, **_: Any) -> None:
    """Note an operation that asks for the layout which a copy got already, and which the copied
    value did not have.
    """
    for decision in _copies_of(value):
        before = _strides(decision.texts["from"])
        if order is not None:
            is_met = bool(before) and inductor_ir.get_stride_order(before) == list(order)
        else:
            is_met = _strides(hints(exact_strides or ())) == before
        if not is_met:
            _note_asker(decision)


def _note_also_reading(value: Any) -> None:
    """Note an operation that reads a copy from memory, where strides cannot describe the view."""
    for decision in _copies_of(value):
        if decision.texts.get("view") and not decision.texts["from"]:
            _note_asker(decision)


def _note_asker(decision: Decision) -> None:
    here = V.current_node
    asker = _asker()
    if not isinstance(here, torch.fx.Node) or here.op == "output" or asker.reason or asker.node:
        return
    if here.name == decision.node and not decision.reason:
        return
    operator = str(here.target).removesuffix(".default")
    known = [name for name in decision.texts.get("also", "").split(", ") if name]
    if operator not in known:
        decision.texts["also"] = ", ".join([*known, operator])


def _strides(text: str) -> list[int]:
    return [int(part) for part in text.split(", ") if part]


def _add_frozen(buffer: Any, before: list[Any]) -> None:
    """Add that an open layout was fixed, if to another order than it had."""
    if list(buffer.layout.stride) == before:
        return
    if any(copy.get_name() == buffer.get_name() for _, copy, _ in _requiring.copies):
        return
    texts = {
        "sizes": hints(buffer.get_size()),
        "from": hints(before),
        "to": hints(buffer.layout.stride),
    }
    _add("laid out so", buffer, _node_of(buffer), _asker(), texts, {})


def _add(
    outcome: str,
    buffer: Any,
    about: str,
    asker: _Asker,
    texts: dict[str, str],
    numbers: dict[str, int],
) -> None:
    node = node_here()
    is_of_node_itself = bool(asker.reason or asker.node)
    add(
        Decision(
            "layout",
            outcome,
            node=asker.node or node,
            buffers=frozenset([buffer.get_name()]),
            check=asker.check,
            reason=asker.reason,
            about=about or (node if is_of_node_itself else ""),
            numbers=numbers,
            texts={**texts, "channels_last": str(V.graph.layout_opt)},
        )
    )
