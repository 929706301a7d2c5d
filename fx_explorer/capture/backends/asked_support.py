"""A backend's support, asked once for each operator: what it answers, and what is no answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import torch

from fx_explorer.capture.backends.declared import Declared
from fx_explorer.capture.recording.rows.error_lines import one_line
from fx_explorer.capture.recording.rows.graphs import CALLS
from fx_explorer.model import Support

PARTITION_LIMIT_S = 10.0
"""Longest time that torch's partitioner may take for us."""


class PartitionTakesTooLong(Exception):
    """torch's partitioner had not proposed anything within ``PARTITION_LIMIT_S``."""


class AskedSupport:
    """An OperatorSupport as torch's partitioner asks it, which remembers every answer.

    An exception or an answer that is neither True nor False is noted, and counts as not supported
    where it is partitioned.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._deadline = float("inf")
        self._odd: Counter[str] = Counter()
        self.support: dict[torch.fx.Node, Support] = {}
        self.reasons: dict[torch.fx.Node, str] = {}

    def limit_time(self) -> None:
        """Give up from now on after ``PARTITION_LIMIT_S``: the partitioner asks again for every
        node.
        """
        self._deadline = time.monotonic() + PARTITION_LIMIT_S

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node
    ) -> bool:
        if time.monotonic() > self._deadline:
            raise PartitionTakesTooLong
        # Inputs and outputs are nobody's to compute, whatever an OperatorSupport says of them.
        return node.op in CALLS and self.ask(submodules, node) == "supported"

    def ask(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> Support:
        if node not in self.support:
            self.support[node] = self._asked(submodules, node)
        return self.support[node]

    def _asked(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> Support:
        if self._declared.ask is None:
            return "unknown"
        try:
            answer = self._declared.ask(submodules, node)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the backend's own code)
            return self._no_answer(node, f"raised {one_line(f'{type(error).__name__}: {error}')}")
        if not isinstance(answer, bool):
            return self._no_answer(
                node, f"answered {one_line(repr(answer))[:80]}, which is neither True nor False"
            )
        if not answer:
            self._note_reason(submodules, node)
        return "supported" if answer else "falls_back"

    def _note_reason(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> None:
        if self._declared.reason is None:
            return
        try:
            self.reasons[node] = one_line(str(self._declared.reason(submodules, node) or ""))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the backend's own code)
            self._odd[f"its reason() raised {one_line(f'{type(error).__name__}: {error}')}"] += 1

    def _no_answer(self, node: torch.fx.Node, what: str) -> Support:
        self._odd[f"it {what}"] += 1
        self.reasons[node] = f"the backend's support {what}"
        return "unknown"

    def oddities(self) -> list[str]:
        """Return sentences on what was asked and not answered."""
        told = [
            f"Asked of {_operators(count)}, {what}."
            for what, count in self._odd.most_common(MOST_ODDITIES)
        ]
        more = len(self._odd) - MOST_ODDITIES
        return [
            *self._declared.oddities,
            *told,
            *([f"{more} other errors are told at the operators."] if more > 0 else []),
        ]


MOST_ODDITIES = 4


def _operators(count: int) -> str:
    return f"{count} operator" if count == 1 else f"{count} operators"
