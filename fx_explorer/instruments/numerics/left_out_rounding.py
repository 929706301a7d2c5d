"""This module finds the results of 16 bits that eager mode rounds and that a kernel of Inductor's
does not: one that a later operation of the same kernel reads stays in float32 there
(``emulate_precision_casts``, torch/_inductor/config.py). So results differ without any fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import narrow_values_within_kernels
from fx_explorer.session.reader import answered_once

OPTION = "inductor.emulate_precision_casts"

_NAMES = {"bf16": "bfloat16", "f16": "float16"}

_EXACT = frozenset(
    ["abs", "neg", "relu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "amax", "amin",
     "where", "sign", "index", "embedding", "gather", "select", "slice", "cat", "full", "clone",
     "copy", "constant_pad_nd", "constant_pad", "scalar_tensor", "round", "floor", "ceil",
     "trunc"]
)  # fmt: skip
"""Operators whose result is one of their inputs or a whole number: there is nothing to round."""


@dataclass(frozen=True, slots=True)
class LeftOutRounding:
    """The results that kernels keep in float32."""

    nodes: tuple[model.Node, ...]
    first_line: str
    """``model.py:29`` of the first of them; empty where it is not known."""

    @property
    def description(self) -> str:
        dtypes = dict.fromkeys(_NAMES[node.dtype] for node in self.nodes)
        first = self.nodes[0].name
        if self.first_line:
            first += f" of {self.first_line}"
        return (
            f"Kernels keep {counted(len(self.nodes), 'result')} of {' and '.join(dtypes)} in "
            f"float32, which eager mode rounds ({first} is the first): compiled results can "
            "differ by rounding, and are usually more exact."
        )


REMEDY = (
    "torch._inductor.config.emulate_precision_casts = True rounds as eager mode does. "
    "fx-explorer numerics compares both with float64."
)


@answered_once
def left_out_rounding(reader: SessionReader) -> LeftOutRounding | None:
    """Return what kernels do not round; None where there is nothing, or torch was told to round."""
    if reader.rows(model.OptionInForce, name=OPTION, value="true"):
        return None
    used = in_use(reader)
    nodes = []
    for kernel, node in narrow_values_within_kernels(reader, tuple(_NAMES)):
        if (used is None or kernel in used.kernels) and _operator(node.target) not in _EXACT:
            nodes.append(node)
    if not nodes:
        return None
    first = nodes[0]
    paths = source_paths(reader)
    line = in_file(paths[first.file], first.line) if first.file in paths else ""
    return LeftOutRounding(tuple(nodes), line)


def _operator(target: str) -> str:
    """Return ``add`` for ``aten.add.Tensor``."""
    parts = target.removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 else target
