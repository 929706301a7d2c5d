"""This module proposes fixes for code that needs the content of a tensor in Python: as a number
(``.item()``, ``.tolist()``, ``int()``, ``float()`` and ``bool()`` of a tensor), or as the size of a
result (``nonzero``, ``unique``, boolean masks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.arithmetic import NumberUses
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import is_pure, walk
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, replaced

_SCALAR = ("GB0124", "GB0109", "GB0033")

_FRESH = frozenset(
    [
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "amin",
        "norm",
        "std",
        "var",
        "prod",
        "any",
        "all",
        "argmax",
        "argmin",
        "median",
        "item",
        "numel",
        "dot",
        "dist",
        "count_nonzero",
        "logsumexp",
        "nansum",
        "nanmean",
    ]
)
"""Methods whose result is a new tensor that shares no memory with others."""

_TRUTHS = frozenset(
    ["any", "all", "isnan", "isinf", "isfinite", "eq", "ne", "gt", "ge", "lt", "le"]
)
"""Calls that return booleans."""

_BITWISE = cst.BitAnd | cst.BitOr | cst.BitXor

# ``int`` and ``long`` both cut off what is behind the point.
_CONVERSIONS = {"int": ".detach().long()", "float": ".detach()", "bool": ".detach().bool()"}


def fixes_of_scalars(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield fixes for a number that is taken from a tensor, and that decides no branch."""
    yield from _fixes_of_scalars(broken, stack, deciding=False)


def fixes_of_deciding_scalars(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield the same fixes for a number that decides a branch. They are offered after those of the
    branch, which breaks the graph in their stead where it stays a branch.
    """
    yield from _fixes_of_scalars(broken, stack, deciding=True)


def _fixes_of_scalars(broken: DistinctBreak, stack: list[Site], *, deciding: bool) -> Iterator[Fix]:
    taken = [(site, call, value) for site in stack[:1] for call, value in _converted_in(site)]
    if broken.registry_id in _SCALAR:
        uses = [NumberUses(site.code, call) for site, call, _ in taken]
        if any(use.decides_a_branch() for use in uses) != deciding:
            return
        if any(_is_warned_of(call) for _, call, _ in taken):
            unwarned = f" {_UNWARNED}"
        else:
            unwarned = ""
        # The first is the outermost: with it, those inside need no change.
        if uses and not uses[0].is_rounded():
            site, call, value = taken[0]
            fix = _stay(site, [replaced(site.code, call, value)])
            untried = "; ".join(uses[0].untried_in_a_tensor())
            yield replace(fix, risk=f"{fix.risk}{unwarned}", untried=untried)
        untried_in_a_graph = (words for use in uses for words in use.untried_in_a_graph())
        yield Fix(
            "put the number into the graph",
            "With dynamo.capture_scalar_outputs the value becomes a symbol of the graph, "
            "read while it runs.",
            "The setting applies to everything that is compiled. A branch on the number may "
            f"still break the graph.{unwarned}",
            broken.line,
            settings={"dynamo.capture_scalar_outputs": True},
            untried="; ".join(dict.fromkeys(untried_in_a_graph)),
        )


_UNWARNED = "If the tensor has a gradient, torch no longer gives its warning about the number."


def _is_warned_of(call: cst.Call) -> bool:
    """Return whether torch warns if the tensor has a gradient. It does for ``float(t)``, but not
    for ``int(t)``, ``bool(t)`` or ``t.item()``.
    """
    return isinstance(call.func, cst.Name) and call.func.value == "float"


def _stay(site: Site, splices: list[Splice]) -> Fix:
    return site.edit(
        "keep the value in a tensor",
        "A one-element tensor computes like the number, and the graph need not end to read it.",
        splices,
        "The former Python number is a tensor from here on.",
    )


def _converted_in(site: Site) -> Iterator[tuple[cst.Call, str]]:
    """Yield (call that returns a number, the tensor that replaces it). Of nested calls the outer
    one comes first.
    """
    for _, call, name in site.calls():
        value = _converted(site.code, call, name)
        if value:
            yield call, value


def _converted(code: Code, call: cst.Call, name: str) -> str:
    """Return the tensor that replaces a number. It is detached, because the number had no gradient
    either.
    """
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "item" and not call.args:
        tensor, conversion = call.func.value, ".detach()"
        is_truth = _is_truth(code, tensor)
    # ``float("inf")`` is given no tensor.
    elif (
        name in _CONVERSIONS
        and len(call.args) == 1
        and not isinstance(call.args[0].value, cst.BaseNumber | cst.BaseString)
    ):
        tensor, conversion = _without_item(call.args[0].value), _CONVERSIONS[name]
        is_truth = name == "bool"
    else:
        return ""
    if name in _CONVERSIONS:
        text = f"({code.source(tensor)})"
    else:
        text = code.source(tensor)
    if is_truth and _is_counted(code, call):
        return f"{text}{conversion}.long()"
    clone = "" if _is_fresh(tensor) else ".clone()"
    return f"{text}{conversion}{clone}"


def _without_item(value: cst.BaseExpression) -> cst.BaseExpression:
    is_item = (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value == "item"
    )
    return value.func.value if is_item else value  # type: ignore[attr-defined]


def _is_fresh(tensor: cst.BaseExpression) -> bool:
    """Return whether no later in-place operation can change the tensor. A number would not change
    either.
    """
    is_call = (
        isinstance(tensor, cst.Call)
        and isinstance(tensor.func, cst.Attribute)
        and tensor.func.attr.value in _FRESH
    )
    return is_call or isinstance(tensor, cst.BinaryOperation | cst.UnaryOperation | cst.Comparison)


def _is_truth(code: Code, tensor: cst.BaseExpression) -> bool:
    if isinstance(tensor, cst.Name):
        return any(_is_truth(code, value) for value in _given_to(code, tensor))
    if isinstance(tensor, cst.BinaryOperation) and isinstance(tensor.operator, _BITWISE):
        return _is_truth(code, tensor.left) and _is_truth(code, tensor.right)
    if isinstance(tensor, cst.UnaryOperation) and isinstance(tensor.operator, cst.BitInvert):
        return _is_truth(code, tensor.expression)
    is_call = (
        isinstance(tensor, cst.Call)
        and isinstance(tensor.func, cst.Attribute)
        and tensor.func.attr.value in _TRUTHS
    )
    return is_call or isinstance(tensor, cst.Comparison)


def _given_to(code: Code, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """Yield the values that the function assigns to the name, except other names, which may be
    assigned from this one.
    """
    function = code.function(name)
    if function is None:
        return
    for node in walk(function.body):
        if not isinstance(node, cst.Assign) or isinstance(node.value, cst.Name):
            continue
        for target in node.targets:
            if code.source(target.target) == name.value:
                yield node.value


def _is_counted(code: Code, call: cst.Call) -> bool:
    """Return whether the value is an operand of arithmetic: True + True is 2 in Python, and True
    for two boolean tensors.
    """
    parent = code.parent(call)
    while isinstance(parent, cst.BooleanOperation):
        parent = code.parent(parent)
    if isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name):
        name, function = parent.targets[0].target.value, code.function(call)
        if function is None:
            return False
        names = (node for node in walk(function.body) if isinstance(node, cst.Name))
        return any(_is_operand(code.parent(node)) for node in names if node.value == name)
    return _is_operand(parent)


def _is_operand(parent: cst.CSTNode | None) -> bool:
    if isinstance(parent, cst.UnaryOperation):
        return not isinstance(parent.operator, cst.Not)
    return isinstance(parent, cst.AugAssign) or (
        isinstance(parent, cst.BinaryOperation) and not isinstance(parent.operator, _BITWISE)
    )


# Sizes that depend on a tensor's content.


def fixes_of_unknown_sizes(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield fixes for a result whose size depends on a tensor's content: a sum or mean of a mask
    that keeps the full size, and the option that allows such sizes in the graph.
    """
    for site in stack[:1]:
        for splice in _masked(site):
            yield site.edit(
                "keep the size: put zeros where the mask is false",
                "A tensor of the full size with zeros in it has the same sum, and its size is "
                "known at compile time.",
                [*imports(site.code, "torch"), splice],
                "The mask must have the shape of the tensor.",
            )
    if broken.registry_id in ("GB0036", "GB0037"):
        yield Fix(
            "put a size that is not known yet into the graph",
            "With dynamo.capture_dynamic_output_shape_ops the size becomes a symbol of the graph.",
            "The setting applies to everything that is compiled. Python code that needs the "
            "size's value still breaks the graph.",
            broken.line,
            settings={"dynamo.capture_dynamic_output_shape_ops": True},
        )


def _masked(site: Site) -> Iterator[Splice]:
    """Yield edits of ``x[x > 0].sum()`` and ``.mean()`` that keep the full size."""
    for _, call, _ in site.calls():
        if isinstance(call.func, cst.Attribute) and not call.args:
            selected = _selected(site.code, call.func.value)
            if selected and call.func.attr.value in ("sum", "mean"):
                tensor, mask = selected
                text = f"torch.where({mask}, {tensor}, 0).sum()"
                if call.func.attr.value == "mean":
                    text = f"({text} / ({mask}).sum())"
                yield replaced(site.code, call, text)


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
