"""Operators that compute nothing, by their names: views, sizes, and memory without content."""

from __future__ import annotations

import re

VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "_conj", "_neg_view", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "chunk", "detach", "diagonal", "expand",
        "imag", "lift_fresh", "lift_fresh_copy", "movedim", "narrow", "permute", "real", "reshape", "select", "slice", "split",
        "split_with_sizes", "squeeze", "t", "tensor_split", "transpose", "unbind", "unfold", "unsafe_chunk", "unsafe_split",
        "unsqueeze", "view", "view_as_complex", "view_as_real",
    )
)  # fmt: skip

_NOT_COMPUTING = re.compile(
    r"^(aten\.(sym_|_assert|_local_scalar)|prims\.(inductor_force|_make_token|_sink_tokens|broadcast_in_dim)|math\.|torch\.sym_"
    r"|aten\.(new_)?empty(_like|_strided|_permuted)?\.|operator\.getitem$)"
)


def computes_nothing(op: str, target: str) -> bool:
    """Return whether no kernel can be expected for a node."""
    if not op.startswith("call_"):
        return True
    return target.rpartition(".")[0] in VIEWS or bool(_NOT_COMPUTING.match(target))
