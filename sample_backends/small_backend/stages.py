"""What the backend shows of itself, in fx-explorer, while somebody looks; without fx-explorer it is as if nobody did.

Texts are given as functions, which are called only when there is somebody to read them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from sample_backends.small_backend.cache import Made
from sample_backends.small_backend.segment import Segment
from sample_backends.small_backend.support import SmallSupport
from sample_backends.small_backend.texts import (
    Line,
    artefact_lines,
    links_of,
    program_lines,
    support_lines,
    text_of,
)

fx_explorer: Any
try:
    import fx_explorer
except ImportError:
    fx_explorer = None


class Stages:
    """The stages of one graph, in the order in which they are passed."""

    def __init__(self, graph_module: GraphModule, direction: str) -> None:
        self._graph_module, self._direction = graph_module, direction
        self._calls = 0

    def support(self, support: SmallSupport) -> None:
        self._publish_text("support", lambda: support_lines(self._graph_module, support))

    def segments(self, cut: GraphModule) -> None:
        self._publish("segments", cut)

    def programs(self, made: dict[str, Made], origins: dict[str, str]) -> None:
        """Publish the programs of all segments as one text, so that a line has one number, and their artefacts as another."""
        self._publish_text(
            "program", lambda: program_lines({name: each.program for name, each in made.items()})
        )
        self._publish_text(
            "artefact",
            lambda: [
                line for name, each in made.items() for line in _listing(each, name, origins[name])
            ],
        )

    def run(self, cut: GraphModule, inputs: Sequence[Any]) -> Any:
        """Run the graph; node by node, with the time of each, while somebody looks."""
        if not _is_looked_at():
            return cut.forward(*inputs)
        self._calls += 1
        timed = _Timed(cut)
        outputs = timed.run(*inputs)
        fx_explorer.publish_run(self._direction, timed.instructions, call=self._calls)
        return outputs

    def _publish_text(self, stage: str, lines: Callable[[], list[Line]]) -> None:
        self._publish(stage, lambda: text_of(lines()), links=lambda: links_of(lines()))

    def _publish(self, stage: str, content: Any, links: Any = None) -> None:
        if _is_looked_at():
            fx_explorer.publish(stage, content, links=links, direction=self._direction)


def _is_looked_at() -> bool:
    """Whether there is somebody to show anything to. Where fx-explorer cannot tell, nobody is."""
    looked_at = getattr(fx_explorer, "is_looked_at", None)
    return bool(looked_at and looked_at())


def _listing(made: Made, name: str, origin: str) -> list[Line]:
    return artefact_lines(f"{name}, {made.path.name}", made.path.read_bytes(), origin)


class _Timed(Interpreter):
    """Runs the graph as it stands and notes each instruction of ours and each operator of PyTorch's."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.instructions: list[dict[str, object]] = []
        self._line = 0

    def run_node(self, n: Node) -> Any:
        segment = self.module.get_submodule(n.target) if n.op == "call_module" else None
        if isinstance(segment, Segment):
            return self._run_segment(segment, self.fetch_args_kwargs_from_env(n)[0])
        begin = time.perf_counter()
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload):
            seconds = time.perf_counter() - begin
            shapes = [tuple(each.shape) for each in _tensors(result)]
            self.instructions.append(
                {
                    "name": str(n.target),
                    "shapes": shapes,
                    "seconds": seconds,
                    "fell_back": True,
                    "node": n.name,
                }
            )
        return result

    def _run_segment(self, segment: Segment, inputs: tuple[torch.Tensor, ...]) -> Any:
        instructions = segment.made.program.instructions
        seconds = (ctypes.c_double * len(instructions))()
        results = segment(*inputs, seconds=seconds)
        self._line += 1  # the heading of the segment in the text of stage "program"
        for each, taken in zip(instructions, seconds, strict=True):
            self._line += 1
            self.instructions.append(
                {
                    "name": each.kernel,
                    "shapes": each.sizes,
                    "seconds": taken,
                    "fell_back": False,
                    "line": self._line,
                    "node": each.node,
                }
            )
        return results


def _tensors(result: object) -> list[torch.Tensor]:
    return [
        each
        for each in (result if isinstance(result, (tuple, list)) else [result])
        if isinstance(each, torch.Tensor)
    ]
