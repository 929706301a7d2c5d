"""This module keeps what Inductor decides while it lowers a graph and writes its kernels, with the
graph (``GraphLowering``, torch/_inductor/graph.py) until its rows are written.

Who decides is in lowering_decisions.py, layout_decisions.py, gpu_loop_decisions.py and
cpp_loop_decisions.py.
"""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import V
from fx_explorer.capture.torch_compat.versions import size_hint_of
from fx_explorer.model.rows.decisions import DecisionKind

_KEY = "fx_explorer_decisions"
"""Attribute of a GraphLowering with its decisions."""

_INDUCTOR = str(Path(torch.__file__).parent / "_inductor")

_DEPTH = 60
"""Maximum number of frames that are looked through for who asked."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision; see KernelDecision for the fields."""

    kind: DecisionKind
    outcome: str
    node: str = ""
    """Name of the post-grad node that was being lowered."""
    buffers: frozenset[str] = frozenset()
    """Names of buffers of the call that it is about; empty: the calls that compute ``node``."""
    check: str = ""
    reason: str = ""
    about: str = ""
    """Name of the post-grad node whose value it is about."""
    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def add(decision: Decision) -> None:
    """Keep a decision with the graph that is being lowered."""
    decisions: list[Decision] = V.graph.__dict__.setdefault(_KEY, [])
    decisions.append(decision)


def decisions_of(lowering: Any) -> tuple[Decision, ...]:
    return tuple(getattr(lowering, _KEY, ()))


def node_here() -> str:
    """Return the name of the post-grad node that is being lowered; empty outside of one."""
    node = V.current_node
    if not isinstance(node, torch.fx.Node):
        return ""
    whole = getattr(getattr(V.graph, "module", None), "graph", None)
    if node.graph is whole:
        return node.name
    # A graph of a node, such as control_deps, is lowered in its place (process_subgraph_nodes).
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        outer = frame.f_locals.get("n") if frame.f_code.co_name == "run_node" else None
        if isinstance(outer, torch.fx.Node) and outer.graph is whole:
            return outer.name
        frame = frame.f_back
    return node.name


def hint(size: Any) -> int:
    """Return the number that Inductor assumes for a size; -1 where only the data determines it."""
    value = size_hint_of(V.graph.sizevars, size)
    return -1 if value is None else value


def hints(sizes: Iterable[Any]) -> str:
    """Return sizes or strides as Inductor assumes them: ``8, 128, 28, 28``."""
    return ", ".join(str(hint(size)) for size in sizes)


# Who asked: the functions of Inductor that are running.


def inductor_frames() -> Iterator[types.FrameType]:
    """Yield the frames of Inductor's own functions that are running, innermost first, up to the one
    that lowers a node.
    """
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return
        if frame.f_code.co_filename.startswith(_INDUCTOR):
            yield frame
            if frame.f_code.co_name == "run_node":
                return
        frame = frame.f_back


def place_of(frame: types.FrameType) -> str:
    """Return a function with its place: ``sort_stable (torch/_inductor/lowering.py:7719)``."""
    file = frame.f_code.co_filename.removeprefix(_INDUCTOR)
    return f"{frame.f_code.co_name} (torch/_inductor{file}:{frame.f_lineno})"


def condition_of(frame: types.FrameType) -> str:
    """Return the condition of the innermost ``if`` around the current line of a function, from
    torch's source; empty without one.
    """
    code = frame.f_code
    return _condition(code.co_filename, code.co_firstlineno, frame.f_lineno)


@lru_cache(maxsize=256)
def _condition(file: str, first: int, line: int) -> str:
    import ast
    import inspect
    import textwrap

    lines = inspect.getblock(linecache.getlines(file)[first - 1 :])
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:
        return ""
    at = line - first + 1
    condition = ""
    # Outer statements come before those inside them.
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.If):
            continue
        if _has_line(statement.body, at):
            condition = ast.unparse(statement.test)
        elif _has_line(statement.orelse, at):
            condition = f"not ({ast.unparse(statement.test)})"
    return condition


def _has_line(body: list[Any], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or 0)
