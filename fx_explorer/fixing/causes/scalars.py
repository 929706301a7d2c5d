"""A tensor's value taken into Python: ``.item()``, ``.tolist()``, ``int()``, ``float()``, ``bool()`` of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.fixing.code import Code, Splice
from fx_explorer.fixing.edits import replaced
from fx_explorer.fixing.fix import Fix
from fx_explorer.fixing.sites import Site
from fx_explorer.session import SessionReader

_SCALAR = ("GB0124", "GB0109", "GB0033")

_CONVERSIONS = {"int": ".detach().long()", "float": ".detach()", "bool": ".detach().bool()"}


def fixes(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    splices = [splice for site in stack[:1] for splice in _as_tensors(site)]
    if broken.registry_id in _SCALAR:
        if splices:
            yield _stay(stack[0], splices)
        yield Fix(
            "let the graph hold the number",
            "With dynamo.capture_scalar_outputs the value becomes a symbol of the graph, read while it runs.",
            "It holds for everything that is compiled. A branch on the number is still a break.",
            broken.line,
            settings={"dynamo.capture_scalar_outputs": True},
        )


def _stay(site: Site, splices: list[Splice]) -> Fix:
    return site.edit(
        "keep the value in a tensor",
        "A tensor of one element computes as the number does, and the graph need not end to read it.",
        splices,
        "What was a Python number is a tensor from here on.",
    )


def _as_tensors(site: Site) -> Iterator[Splice]:
    for _, call, name in site.calls():
        value = _converted(site.code, call, name)
        if value:
            yield replaced(site.code, call, value)
            return  # what stands inside it has been written anew


def _converted(code: Code, call: cst.Call, name: str) -> str:
    """The tensor that stands for the number; it has no gradient, as the number had none."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "item" and not call.args:
        return f"{code.source(call.func.value)}.detach()"
    if name in _CONVERSIONS and len(call.args) == 1 and not isinstance(call.args[0].value, cst.BaseNumber | cst.BaseString):
        return f"({_without_item(code, call.args[0].value)}){_CONVERSIONS[name]}"
    return ""


def _without_item(code: Code, value: cst.BaseExpression) -> str:
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "item":
        return code.source(value.func.value)
    return code.source(value)
