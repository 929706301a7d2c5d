"""Operations whose output size depends on a tensor's content: ``nonzero``, ``unique``, boolean
masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, replaced
from fx_explorer.source_edit.names import is_pure


def fixes_of_unknown_sizes(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    """Yield the sum or mean of a mask without a size that depends on it, and the option that lets
    the graph hold such a size.
    """
    for site in stack[:1]:
        for splice in _masked(site):
            yield site.edit(
                "keep the size: put zeros where the mask is false",
                "A tensor of the full size with zeros in it has the same sum, and its "
                "size is known while compiling.",
                [*imports(site.code, "torch"), splice],
                "The mask must have the shape of the tensor.",
            )
    if broken.registry_id in ("GB0036", "GB0037"):
        yield Fix(
            "let the graph hold a size that is not known yet",
            "With dynamo.capture_dynamic_output_shape_ops the size becomes a symbol of the graph.",
            "It holds for everything that is compiled. Python that asks for the size is "
            "still a break.",
            broken.line,
            settings={"dynamo.capture_dynamic_output_shape_ops": True},
        )


def _masked(site: Site) -> Iterator[Splice]:
    """Yield edits of ``x[x > 0].sum()`` and ``.mean()``."""
    for _, call, _ in site.calls():
        if isinstance(call.func, cst.Attribute) and not call.args:
            selected = _selected(site.code, call.func.value)
            if selected and call.func.attr.value in ("sum", "mean"):
                tensor, mask = selected
                total = f"torch.where({mask}, {tensor}, 0).sum()"
                yield replaced(
                    site.code,
                    call,
                    total if call.func.attr.value == "sum" else f"({total} / ({mask}).sum())",
                )


def _selected(code: Code, value: cst.BaseExpression) -> tuple[str, str] | None:
    """Return (tensor, mask) of ``x[mask]`` and ``torch.masked_select(x, mask)``."""
    if (
        isinstance(value, cst.Subscript)
        and len(value.slice) == 1
        and isinstance(value.slice[0].slice, cst.Index)
    ):
        mask = value.slice[0].slice.value
        # ``x[3]`` is an element. A name may be a mask or a number: the trial tells.
        is_number = re.fullmatch(r"-?\s*\d+", code.source(mask))
        if is_pure(value) and not is_number:
            return (code.source(value.value), code.source(mask))
        return None
    if (
        isinstance(value, cst.Call)
        and code.name_of(value.func) == "torch.masked_select"
        and len(value.args) == 2
    ):
        return code.source(value.args[0].value), code.source(value.args[1].value)
    return None
