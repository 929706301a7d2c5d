"""Which graphs are recorded and replayed as CUDA graphs, and why one is recorded once more. There
is no structured record of it.

Hooks: ``CUDAGraphTreeManager.record_function`` and ``execute_node``, one of which runs each graph
that is warm, ``_update_non_cudagraph_managed_mutation``, which skips one that writes into its
inputs, and ``CUDAGraphNode.check_invariants``, which says why a recording does not fit a call
(torch/_inductor/cudagraph_trees.py; read in 2.13). A recording fits one path of graphs: behind
another graph than before, the same one is recorded again.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched

OTHER_PATH = "it ran behind another graph than before"

_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "backward", "INFERENCE": "inference"}

_PLACE = re.compile(r'File "([^"\n]+)", line (\d+)')


@dataclass
class CudaGraphRuns:
    """What was heard so far. A graph is reported as the session does: ``[0/0] forward``."""

    recorded: Counter[str] = field(default_factory=Counter)
    replayed: Counter[str] = field(default_factory=Counter)
    why_again: dict[str, list[str]] = field(default_factory=dict)
    """Graph → why it was recorded once more, each time."""
    running: str = ""
    """The graph whose inputs torch looks at; empty where it looks at none."""
    _misfits: list[Callable[[], str]] = field(default_factory=list)
    """What says why recordings did not fit the call that is being made."""

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Hear of every run inside the block. A torch without CUDA graph trees is left alone."""
        from torch._inductor import cudagraph_trees as trees

        manager, node = trees.CUDAGraphTreeManager, trees.CUDAGraphNode
        with contextlib.ExitStack() as stack:
            for owner, name, make in (
                (manager, "record_function", self._hearing_records),
                (manager, "execute_node", self._hearing_replays),
                (node, "check_invariants", self._hearing_misfits),
                (manager, "_update_non_cudagraph_managed_mutation", self._hearing_mutations),
            ):
                if hasattr(owner, name):
                    stack.enter_context(patched(owner, name, make))
            yield

    def _hearing_records(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def record_function(manager: Any, *args: Any, **kwargs: Any) -> Any:
            self._recorded(_graph(manager))
            return original(manager, *args, **kwargs)

        return record_function

    def _hearing_replays(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def execute_node(manager: Any, *args: Any, **kwargs: Any) -> Any:
            self.replayed[_graph(manager)] += 1
            self._misfits.clear()
            return original(manager, *args, **kwargs)

        return execute_node

    def _hearing_mutations(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def look_at_mutations(manager: Any, *args: Any, **kwargs: Any) -> Any:
            self.running = _graph(manager)
            try:
                return original(manager, *args, **kwargs)
            finally:
                self.running = ""

        return look_at_mutations

    def _hearing_misfits(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def check_invariants(node: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(node, *args, **kwargs)
            status, why = answer
            if status.name != "SUCCESS":
                self._misfits.append(why)
            return answer

        return check_invariants

    def _recorded(self, graph: str) -> None:
        if self.recorded[graph]:
            why = in_short(self._misfits[-1]()) if self._misfits else OTHER_PATH
            self.why_again.setdefault(graph, []).append(why)
        self.recorded[graph] += 1
        self._misfits.clear()


def _graph(manager: Any) -> str:
    compilation, mode = getattr(manager, "compile_id", None), getattr(manager, "mode", None)
    direction = _DIRECTIONS.get(getattr(mode, "name", ""), "")
    if compilation is not None:
        return f"[{compilation}] {direction}".strip()
    return direction or "a graph"


def in_short(reason: str) -> str:
    """Return torch's reason in one line: what changed, and the last line of the program that it
    names.
    """
    what = next((line.strip() for line in reason.splitlines() if line.strip()), "").rstrip(".")
    places = _PLACE.findall(reason)
    return f"{what} ({places[-1][0]}:{places[-1][1]})" if places else what


def runs_in_words(build: CudaGraphRuns, call: CudaGraphRuns, outside: set[str]) -> list[str]:
    """Say which graphs of a call are replayed, which are not, and what was recorded more than once.
    ``build`` is what was heard until the program was warm, ``call`` what was in one call,
    ``outside`` the graphs whose generated code runs in a call.
    """
    if not build.recorded and not call.replayed and not call.recorded:
        return []
    told = []
    if call.replayed:
        graphs = ", ".join(call.replayed)
        told.append(
            f"Replayed as CUDA graphs: {graphs}; of each only the whole is known, and "
            "what the GPU computes"
        )
    if call.recorded:
        told.append(
            "Recorded as CUDA graphs in every call, which takes far longer than to "
            f"replay them: {', '.join(call.recorded)}"
        )
    in_parts = outside & {*call.replayed, *call.recorded}
    if in_parts:
        told.append(
            "Outside of CUDA graphs, in the generated code around the parts that are in "
            f"them: {', '.join(sorted(in_parts))}"
        )
    if outside - in_parts:
        told.append(f"Outside of CUDA graphs: {', '.join(sorted(outside - in_parts))}")
    for graph, reasons in build.why_again.items():
        times = f"{build.recorded[graph]} times"
        told.append(
            f"{graph} was recorded {times} as a CUDA graph until the program was warm: "
            f"{'; '.join(dict.fromkeys(reasons))}"
        )
    return told
