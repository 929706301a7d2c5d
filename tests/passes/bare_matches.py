"""A program that knows nothing of fx-explorer: it compiles the functions of near_misses.py and
prints what torch's matcher answers for each pattern that it tries, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor.config
from torch._inductor import pattern_matcher

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.passes import near_misses

Answer = tuple[str, str, str]
"""A function, the node at which a pattern was tried, and what torch's matcher answered."""


class Answers:
    """What torch's matcher answers, for each pattern that did not match."""

    def __init__(self) -> None:
        self.function = ""
        self.found: list[Answer] = []
        self._applied: list[Any] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Collect the answers inside the block."""
        with contextlib.ExitStack() as stack:
            for matcher in (pattern_matcher.PatternExpr, pattern_matcher.MultiOutputPattern):
                match = self._watched_match(matcher.match)
                stack.enter_context(mock.patch.object(matcher, "match", match))
            apply = self._watched_apply(pattern_matcher.PatternMatcherPass.apply)
            stack.enter_context(
                mock.patch.object(pattern_matcher.PatternMatcherPass, "apply", apply)
            )
            yield

    def _watched_match(self, original: Any) -> Any:
        def match(pattern: Any, node: Any) -> Any:
            result = original(pattern, node)
            # Not over a pattern that is traced meanwhile.
            if not result and len(self._applied) == 1:
                self.found.append((self.function, node.name, str(result)))
            return result

        return match

    def _watched_apply(self, original: Any) -> Any:
        def apply(matcher: Any, graph: Any) -> Any:
            self._applied.append(matcher)
            try:
                return original(matcher, graph)
            finally:
                self._applied.pop()

        return apply


def main() -> None:
    answers = Answers()
    near_misses.register_own()
    with (
        answers.watched(),
        torch._inductor.config.patch(
            post_grad_custom_pre_pass=near_misses.apply_own, fx_graph_cache=False
        ),
    ):
        torch.compile(near_misses.attention)(*near_misses.heads())
        torch._dynamo.reset()
        answers.found.clear()  # torch traced its patterns meanwhile, and matched in them
        for program, inputs in near_misses.CASES:
            answers.function = program.__name__
            torch.compile(program)(*inputs())
    print(json.dumps(answers.found))


if __name__ == "__main__":
    main()
