"""What a pattern pass of Inductor's put in the place of which nodes, where the new nodes do not
tell.

Hook: ``ReplacementPatternEntry.replace_with_graph`` (torch/_inductor/pattern_matcher.py). In 2.11 a
new node that has a value gets nothing of the meta of those it stands for, such as an ``addmm`` made
of ``mm`` and ``add``; later releases hand it on.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched

_REPLACED = "fx_explorer_replaced"
"""Attribute of a new node, and not part of its meta: torch looks at that."""


@contextlib.contextmanager
def replacement_hook(recording: Recording) -> Iterator[None]:
    from torch._inductor.pattern_matcher import ReplacementPatternEntry

    original = ReplacementPatternEntry.replace_with_graph
    if (
        "pass_name" in inspect.signature(original).parameters
    ):  # this release hands on what is known of a node
        yield
        return
    make = functools.partial(_noting_replaced, recording)
    with patched(ReplacementPatternEntry, "replace_with_graph", make):
        yield


def _noting_replaced(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def replace_with_graph(match: Any, graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> Any:
        old = tuple(match.nodes)
        with _nodes_made_in(graph) as made:
            result = original(match, graph, *args, **kwargs)
        with recording.noting("which nodes a pass replaced", "post_grad"):
            for node in made:
                setattr(node, _REPLACED, old)
        return result

    return replace_with_graph


@contextlib.contextmanager
def _nodes_made_in(graph: torch.fx.Graph) -> Iterator[list[torch.fx.Node]]:
    made: list[torch.fx.Node] = []
    original = graph.create_node

    def create_node(*args: Any, **kwargs: Any) -> torch.fx.Node:
        made.append(original(*args, **kwargs))
        return made[-1]

    graph.create_node = create_node
    try:
        yield made
    finally:
        del graph.create_node


def replaced_by(node: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
    """Return the nodes that ``node`` was put in the place of; empty where nothing is known of it,
    or its meta tells.
    """
    replaced: tuple[torch.fx.Node, ...] = getattr(node, _REPLACED, ())
    return replaced
