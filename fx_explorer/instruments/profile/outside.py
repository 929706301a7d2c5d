"""What ran outside of compiled graphs: which kind of code launched it, read off the events around
the launch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fx_explorer.instruments.profile.marks import BACKWARD, FORWARD, compilation_of, is_region
from fx_explorer.model import OutsideKind
from fx_explorer.readers.torch_trace.places import is_torch

OPTIMIZER = "Optimizer.step#"
ENGINE = "autograd::engine::evaluate_function"
COMPILING = frozenset(
    (
        "dynamo",
        "entire_frame_compile",
        "_compile.compile_inner (dynamo_timed)",
        "backend_compile",
        "inductor_compile",
    )
)

KIND_WORDS: dict[OutsideKind, str] = {
    "unjoined": "in compiled graphs, joined to nothing",
    "wrapper": "around compiled graphs (AOTAutograd)",
    "optimizer": "the optimizer",
    "autograd": "backward that was not compiled",
    "compiling": "while torch compiled",
    "break": "between graphs, in Python",
    "eager": "other code that was not compiled",
    "not known": "launched by something the profile does not say",
}

_STACK_LINE = re.compile(r'File "([^"]+)", line (\d{1,9})')


def kind_of(names: Sequence[str]) -> OutsideKind:
    """Return the kind of code that launched something. ``names``: the events around the launch, the
    innermost first.
    """
    if any(name.startswith(OPTIMIZER) for name in names):
        return "optimizer"
    if any(name in COMPILING for name in names):
        return "compiling"
    if FORWARD in names:
        return "wrapper"
    if any(name.startswith(ENGINE) for name in names):
        return "wrapper" if any(BACKWARD in name for name in names) else "autograd"
    return "break" if any(map(is_region, names)) else "eager"


def region_of(names: Sequence[str]) -> str:
    """Return the name of the compiled function around; empty for none."""
    return next((compilation_of(name) for name in names if is_region(name)), "")


def operator_of(names: Sequence[str]) -> str:
    """Return the operator that the program called: the outermost that is one of torch's libraries."""
    operators = [
        name
        for name in names
        if "::" in name and not name.startswith(("autograd::", "torch::autograd::"))
    ]
    return operators[-1] if operators else (names[0] if names else "")


def line_of(stacks: Sequence[str]) -> tuple[str, int]:
    """Return the innermost line outside of torch that all of these stacks, which torch wrote, have;
    ('', 0) for none, and where they differ.
    """
    found = {line for line in map(_innermost, stacks) if line[1]}
    return found.pop() if len(found) == 1 else ("", 0)


def _innermost(stack: str) -> tuple[str, int]:
    lines = [(file, int(number)) for file, number in _STACK_LINE.findall(stack)]
    own = [line for line in lines if not is_torch(line[0])]
    return next(reversed(own or lines), ("", 0))
