"""NumPy functions that Dynamo does not know, where torch has the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.opaque_calls import OpaqueCall, opaque_calls, tensor_around
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code
from fx_explorer.source_edit.edits import imports, replaced

_EQUIVALENT: dict[str, str] = {
    "nanmean": "torch.nanmean({0})",
    "nansum": "torch.nansum({0})",
    # No nanmedian: torch takes the lower one of two in the middle, NumPy their mean.
    # ``right`` means the opposite in the two libraries.
    "digitize": "torch.bucketize({0}, torch.as_tensor({1}), right=True)",
    # torch has neither of these two.
    "nanmax": "torch.where(torch.isnan({0}), -torch.inf, {0}).max()",
    "nanmin": "torch.where(torch.isnan({0}), torch.inf, {0}).min()",
    "ptp": "({0}.max() - {0}.min())",
    "ediff1d": "torch.diff({0}.flatten())",
    "trapezoid": "torch.trapezoid({0})",
}
"""``numpy.NAME`` → the same in torch, of its arguments as tensors."""

_ARRAYS = ("digitize", "ediff1d")
"""Those whose result is an array: where nothing makes a tensor of it, what follows is given an
array again, or it would work inside compiled code only (``torch.from_numpy`` of a tensor does
there).
"""

_TO_NUMPY = re.compile(r"\.(?:numpy|cpu)\(\)")


def fixes_of_numpy_calls(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack[:1]:
        for opaque in opaque_calls(site):
            text, place = _in_torch(site.code, opaque), tensor_around(site.code, opaque.call)
            if text:
                is_array = place is opaque.call and opaque.name.rpartition(".")[2] in _ARRAYS
                yield site.edit(
                    f"compute {opaque.written}() with torch",
                    "torch has the same, which becomes part of the graph and needs no "
                    "way out to NumPy and back.",
                    [
                        *imports(site.code, "torch"),
                        replaced(site.code, place, f"{text}.numpy()" if is_array else text),
                    ],
                )


def _in_torch(code: Code, opaque: OpaqueCall) -> str:
    """Return the call in torch; empty when there is no equivalent, or it is called in another way
    than the table knows.
    """
    module, _, name = opaque.name.rpartition(".")
    pattern = _EQUIVALENT.get(name, "") if module == "numpy" else ""
    values = [arg.value for arg in opaque.call.args if arg.keyword is None and not arg.star]
    wanted = 1 + max(map(int, re.findall(r"\{(\d)\}", pattern)), default=0)
    # A keyword (``axis``) or a star would be lost.
    if not pattern or len(values) != wanted or len(values) != len(opaque.call.args):
        return ""
    return pattern.format(*(_as_tensor(code, value) for value in values))


def _as_tensor(code: Code, value: cst.BaseExpression) -> str:
    return _TO_NUMPY.sub("", code.source(value))
