"""Why torch did not ask a cache at all, in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable

from fx_explorer.torch_texts import bounded

_REASONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (
            r"Unsupported call_(?:function|method) (?:target|method) (?P<what>\S+?)[.:,]?(?: |$)",
            lambda found: (
                f"the graph calls {found['what']}, which torch does not know to be safe to keep"
            ),
        ),
        (
            r"Unsupported node op (?P<what>\w+)",
            lambda found: f"the graph has a node that torch cannot keep ({found['what']})",
        ),
        (
            r".*freezing",
            lambda _: (
                "weights are frozen into the code (torch._inductor.config.freezing), and "
                "would be kept with it"
            ),
        ),
        (
            r"FX graph cache is not enabled",
            lambda _: "Inductor's cache of graphs is off, on which AOTAutograd's builds",
        ),
        (r".*compiled autograd", lambda _: "the graph is one of compiled autograd"),
        (
            r".*fakify_first_call",
            lambda _: "the first call is made with fake tensors (fakify_first_call)",
        ),
        (
            r"SAC context_fn",
            lambda _: (
                "a context_fn of selective checkpointing is a function torch cannot "
                "compare: give it a cache_hash"
            ),
        ),
        (
            r"(?:Can't|Cannot) cache HigherOrderOperator:? ?(?P<what>\S+)",
            lambda found: (
                f"the graph has the operator {found['what']}, which holds graphs of its own"
            ),
        ),
        (
            r"Cannot produce stable cache key for unpicklable type (?P<what>\S+)",
            lambda found: (
                f"the key would need an object that cannot be written down ({found['what']})"
            ),
        ),
        (
            r"Failed to pickle cache key",
            lambda _: "the key would need an object that cannot be written down",
        ),
        (
            r".*(?:custom pass|Unsupported .*pass)",
            lambda _: "a pass of your own has no uuid(), so torch cannot tell it from another one",
        ),
        (
            r".*uuid\(\)",
            lambda _: (
                "a function of your own has no uuid(), so torch cannot tell it from another one"
            ),
        ),
        (
            r"Can't cache (?:a )?graph.* with .*const",
            lambda _: "the graph holds constants that torch cannot write down",
        ),
        (
            r"Cannot cache a torchbind|.*ScriptObject|.*torchbind",
            lambda _: "the graph holds an object of TorchScript",
        ),
        (r".*mkldnn", lambda _: "an input is a tensor of MKLDNN"),
        (r"AOTAutogradCache requires triton", lambda _: "Triton is older than 3.2"),
    )
)


def bypass_in_words(reason: str) -> str:
    """Return torch's reason in plain words; what is not known here as torch says it."""
    for pattern, words in _REASONS:
        found = pattern.match(bounded(reason))
        if found:
            return words(found)
    return reason or "torch gives no reason"
