"""Inductor holds some forty patterns of attention against each matrix product, most of which fail where the product's own
arguments come from. It finds that out by matching: with a context, flattened arguments and a match to be given up.

Here it is looked at first. What may match is matched as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import goes_by

_ASKED = {
    *(
        "_match_fns",
        "len",
        "args",
        "FailedMatch",
        "_match_users",
        "kwargs",
        "torch.fx.operator_schemas",
    ),
    *(
        "normalize_function",
        "callable",
        "target",
        "flatten",
        "flat_args_kwargs",
        "Match",
        "zip",
        "isinstance",
    ),
    *(
        "PatternExpr",
        "match",
        "is_match",
        "extend",
        "torch",
        "fx",
        "Node",
        "nodes",
        "append",
        "targets",
        "AssertionError",
    ),
}
"""What ``_TargetArgsExpr._match`` goes by, in the releases whose rules are known."""


def match_only_what_may_match(stack: contextlib.ExitStack) -> None:
    """Refuse a pattern at once whose calls are not those of the node, until the stack is closed."""
    from torch._inductor import pattern_matcher

    names = (
        "FailedMatch",
        "PatternExpr",
        "CallFunction",
        "CallFunctionVarArgs",
        "MultiOutputPattern",
        "_TargetArgsExpr",
    )
    if not all(hasattr(pattern_matcher, name) for name in names):
        return
    own_match = vars(pattern_matcher._TargetArgsExpr).get("_match")
    if not goes_by(own_match, _ASKED) or "_match" in vars(pattern_matcher.CallFunction):
        return
    call, any_call = pattern_matcher.CallFunction, pattern_matcher.CallFunctionVarArgs
    several = pattern_matcher.MultiOutputPattern
    refused = pattern_matcher.FailedMatch("calls differ")

    def differs(pattern: Any, node: Any) -> bool:
        """Return whether the calls of the pattern are certainly not those of the node."""
        kind = type(pattern)
        if kind is not call:
            return kind is any_call and not pattern._match_fns(node)
        if not pattern._match_fns(node) or len(node.args) != len(pattern.args):
            return True
        if len(node.kwargs) < len(pattern.kwargs):
            return False  # torch then counts the arguments anew
        return any(
            differs(part, argument) for part, argument in zip(pattern.args, node.args, strict=True)
        )

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def match(pattern: Any, node: Any) -> Any:
            first = pattern.outputs[0] if type(pattern) is several else pattern
            return refused if differs(first, node) else original(pattern, node)

        return match

    for owner in (pattern_matcher.PatternExpr, several):
        if "match" in vars(owner):
            stack.enter_context(patched(owner, "match", make))
