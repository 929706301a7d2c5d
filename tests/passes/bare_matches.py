"""A program that knows nothing of fx-explorer: it compiles the functions of near_misses.py and
prints what torch's matcher answers for each pattern that it tries, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch._inductor import pattern_matcher

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.passes import near_misses


def main() -> None:
    answers: list[tuple[str, str, str]] = []
    function = ""
    applied: list[Any] = []

    def watch(matcher: Any) -> None:
        original = matcher.match

        def match(pattern: Any, node: Any) -> Any:
            result = original(pattern, node)
            if not result and len(applied) == 1:  # not over a pattern that is traced meanwhile
                answers.append((function, node.name, str(result)))
            return result

        matcher.match = match

    apply_pass = pattern_matcher.PatternMatcherPass.apply

    def apply(matcher: Any, graph: Any) -> Any:
        applied.append(matcher)
        try:
            return apply_pass(matcher, graph)
        finally:
            applied.pop()

    pattern_matcher.PatternMatcherPass.apply = apply
    watch(pattern_matcher.PatternExpr)
    watch(pattern_matcher.MultiOutputPattern)
    near_misses.register_own()
    with torch._inductor.config.patch(
        post_grad_custom_pre_pass=near_misses.apply_own, fx_graph_cache=False
    ):
        torch.compile(near_misses.attention)(*near_misses.heads())
        torch._dynamo.reset()
        answers.clear()  # torch traced its patterns meanwhile, and matched in them
        for program, inputs in near_misses.CASES:
            function = program.__name__
            torch.compile(program)(*inputs())
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
