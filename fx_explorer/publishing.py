"""This module lets a backend show its own stages: ``fx_explorer.publish``, for whoever records it.

Nothing but the standard library is imported, and nothing is done while nobody looks. Who looks is a
listener (a recording, capture/backends/listening.py). It guards itself: whatever a backend gives
it, the backend continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import torch.fx

    Content: TypeAlias = torch.fx.GraphModule | torch.fx.Graph | str
    Nodes: TypeAlias = torch.fx.Node | str | Iterable[torch.fx.Node | str]
    Links: TypeAlias = Mapping[int, Nodes]


class Listener(Protocol):
    """Receives publications. It raises only exceptions that end the program anyway."""

    def stage(self, name: Any, content: Any, language: Any, links: Any, direction: Any) -> None: ...

    def run(self, entry: Any, instructions: Any, call: Any) -> None: ...


_listeners: list[Listener] = []


def publish(
    stage: str,
    content: Content | Callable[[], Content],
    *,
    language: str = "text",
    links: Links | Callable[[], Links] | None = None,
    direction: str = "",
) -> None:
    """Publish a stage of a backend: a graph or a text, shown beside torch's own stages.

    ``stage`` is the name it is shown under (``"segments"``, ``"program"``); stages are listed in
    the order in which they are published. ``content`` is an FX graph or a text; or a function that
    makes one, which is called only when somebody looks. ``language`` colours a text: ``python``,
    ``cpp``, ``triton``, ``ir``, ``json``, …; any other is shown plain. ``links`` maps lines of the
    text, from 1, to the nodes that they compute, or to names of nodes in the graph that the backend
    was given. ``direction`` is ``forward``, ``backward`` or ``inference``; within a compiler of
    AOTAutograd it is known.

    When nobody looks this does nothing. Otherwise it returns None whatever it is given: what cannot
    be shown is noted in the session, and never raised.

    >>> publish("program", "0: add arg0 arg1", links={1: "add"})
    """
    if _listeners:
        for listener in tuple(_listeners):
            listener.stage(stage, content, language, links, direction)


def publish_run(
    entry: str, instructions: Iterable[Mapping[str, object]], *, call: int | None = None
) -> None:
    """Publish one run of a compiled function, instruction by instruction.

    ``entry`` is the backend's name for what was called (``"forward"``). Each instruction is a
    dictionary: ``name``; ``shapes``, as text or as tuples; ``seconds``; ``fell_back``, whether
    PyTorch computed it; and where they are known ``line``, the line of the text of stage
    ``"program"``, and ``node``. ``call`` is the number of the call, from 1; without it runs are
    counted. Like ``publish`` it does nothing when nobody looks, and raises nothing.

    >>> publish_run("forward", [{"name": "add", "shapes": "4x4", "seconds": 1e-6, "fell_back":
    False}])
    """
    if _listeners:
        for listener in tuple(_listeners):
            listener.run(entry, instructions, call)


def is_looked_at() -> bool:
    """Return whether publications are recorded now, for content that is expensive to make.

    >>> is_looked_at()
    False
    """
    return bool(_listeners)


@contextmanager
def with_listener(listener: Listener) -> Iterator[None]:
    """Pass publications inside the block to ``listener``."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
