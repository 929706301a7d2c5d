"""This module proposes fixes for calls that Dynamo may not be able to trace: of modules other than
torch, of builtins, of functions in the same file. ``opaque_calls`` lists those of a break.

A NumPy function becomes torch's, where there is the same. Any other call that computes on tensors
becomes an operation of the graph by ``torch.library``, or as it stands by ``allow_in_graph``. Calls
that do not depend on tensors are in ``constants.py``, those that compute nothing in
``side_effects.py``.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import annotation_of, locals_of, new_name, read, walk
from fx_explorer.source_edit.code import Code, Splice, Statement
from fx_explorer.source_edit.edits import after_imports, at_module_level, imports, replaced

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
"""``numpy.NAME`` → the torch expression with the same result, with the arguments as tensors."""

_ARRAYS = ("digitize", "ediff1d")
"""NumPy functions whose result is an array. Unless the program makes a tensor of it, the fix
converts the result back to an array: otherwise the code after it would work only when compiled,
where ``torch.from_numpy`` takes a tensor.
"""

_TO_NUMPY = re.compile(r"\.(?:numpy|cpu)\(\)")


def fixes_of_numpy_calls(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for opaque in opaque_calls(site):
            text, place = _in_torch(site.code, opaque), tensor_around(site.code, opaque.call)
            if not text:
                continue
            if place is opaque.call and opaque.name.rpartition(".")[2] in _ARRAYS:
                text = f"{text}.numpy()"
            yield site.edit(
                f"compute {opaque.written}() with torch",
                "torch has the same function, which becomes part of the graph and avoids "
                "converting to NumPy and back.",
                [*imports(site.code, "torch"), replaced(site.code, place, text)],
            )


def _in_torch(code: Code, opaque: OpaqueCall) -> str:
    """Return the call in torch; empty when there is no equivalent, or when its arguments do not fit
    the table.
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


# A call that computes on tensors as an operation of the graph.


def fixes_by_custom_op(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:REACH]:
        for opaque in opaque_calls(site):
            # A call as a statement, or in a ``with``, is made for what it does; an operation of the
            # graph gives tensors.
            if not (opaque.is_pythons or isinstance(opaque.statement, cst.Expr | cst.With)):
                yield from _custom_op(site, opaque, tensor_around(site.code, opaque.call))
                yield from _in_graph(site, opaque)


def _custom_op(site: Site, opaque: OpaqueCall, whole: cst.Call) -> Iterator[Fix]:
    """Yield the fix that makes the call a custom operator. Its result is assumed to have the shape
    of the first tensor.
    """
    code, parts = site.code, isolated(site.code, whole)
    if opaque.name.startswith("numpy.") and whole is opaque.call:
        return  # an operation of the graph gives tensors
    if parts:
        types = [annotation_of(code, whole, name) or "torch.Tensor" for name in parts.parameters]
    else:
        types = []
    if parts is None or "torch.Tensor" not in types:
        return
    like = parts.parameters[types.index("torch.Tensor")]
    # NumPy computes much in float64, whatever it is given. Which of the two it is here, the trial
    # tells.
    if opaque.name.startswith("numpy."):
        dtypes = ["", "torch.float64"]
    else:
        dtypes = [""]
    for dtype in dtypes:
        name = new_name(code, f"{opaque.short_name.strip('_')}_op")
        gives = f" that gives {dtype}" if dtype else ""
        yield site.edit(
            f"make {opaque.written}() an operation of the graph{gives}",
            "The graph calls a custom operator unchanged; the compiler needs only the shape of "
            "its result.",
            [
                *imports(code, "torch"),
                at_module_level(code, whole, _operator(code.unit, name, parts, types, like, dtype)),
                replaced(code, whole, f"{name}({', '.join(parts.arguments)})"),
            ],
            f"The fix assumes that the result has the shape of {like}; it has no gradient unless "
            "you register one.",
        )


def _operator(
    unit: str, name: str, parts: IsolatedExpression, types: list[str], like: str, dtype: str
) -> str:
    """Return the source of the custom operator. It copies its result into a tensor of the declared
    shape and dtype, so that the declaration is always true.
    """
    signature = ", ".join(
        f"{parameter}: {kind}" for parameter, kind in zip(parts.parameters, types, strict=True)
    )
    arguments = f"{like}, dtype={dtype}" if dtype else like
    empty = f"torch.empty_like({arguments})"
    return "\n".join(
        [
            f'@torch.library.custom_op("fixed::{name}", mutates_args=())',
            f"def {name}({signature}) -> torch.Tensor:",
            f"{unit}return {empty}.copy_({parts.text})",
            "",
            "",
            f"@{name}.register_fake",
            f"def _({signature}) -> torch.Tensor:",
            f"{unit}return {empty}",
        ]
    )


def _in_graph(site: Site, opaque: OpaqueCall) -> Iterator[Fix]:
    splice = _allowed(site.code, opaque)
    if splice:
        yield site.edit(
            f"put the call of {opaque.written}() into the graph unchanged",
            "With torch.compiler.allow_in_graph, Dynamo does not trace into the function; "
            "autograd and the backend do.",
            [*imports(site.code, "torch"), splice],
            "It must compute with torch only; its other effects are lost.",
        )


def _allowed(code: Code, opaque: OpaqueCall) -> Splice | None:
    """Return ``torch.compiler.allow_in_graph(f)`` as a line below the function, or below the
    imports; None for a builtin or NumPy.
    """
    written = code.source(opaque.call.func)
    line = f"torch.compiler.allow_in_graph({written})"
    for function in code.functions_named(written):
        if isinstance(code.parent(function), cst.Module):
            offset = code.line_start(code.lines(function)[1] + 1)
            return Splice(offset, offset, f"\n\n{line}\n")
    is_imported = written.partition(".")[0] in code.imported and not opaque.name.startswith(
        "numpy."
    )
    return after_imports(code, line) if is_imported else None


# Calls that Dynamo may not be able to look into.


_EXPLAINED = (
    "GB0124",
    "GB0109",
    "GB0170",
    "GB0036",
    "GB0025",
    "GB0098",
    "GB0099",
    "GB0123",
    "GB0039",
)
"""Ids of breaks whose cause is not an opaque call."""

REACH = 3
"""Number of frames outwards from the break in which a whole call may be hidden from Dynamo."""

_MAKES_TENSOR = ("torch.from_numpy", "torch.as_tensor", "torch.tensor", "torch.asarray")

_WRITING = ("print", "open", "warnings.", "logging.", "input")


@dataclass(frozen=True, slots=True)
class OpaqueCall:
    statement: Statement
    call: cst.Call
    name: str
    """Dotted name as other files import it: ``zlib.crc32``."""
    written: str
    """The name of the function as it is written in the file."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_pythons(self) -> bool:
        """Return whether a call calls a builtin or the standard library, which do not compute on
        tensors.
        """
        return self.name.partition(".")[0] in sys.stdlib_module_names or hasattr(
            builtins, self.name
        )


def is_explained(site: Site) -> bool:
    """Return whether torch names a cause other than an opaque call."""
    return site.broken.registry_id in _EXPLAINED


def opaque_calls(site: Site) -> Iterator[OpaqueCall]:
    """Yield the calls that torch's explanation names; if it names none, the outermost ones.

    Methods of values are not among them: nothing tells what they are called on.
    """
    # Only at the break itself: further out, a call may still be kept out of Dynamo's sight as a
    # whole, whatever breaks inside it.
    if site.depth == 0 and is_explained(site):
        return
    calls = list(_named_calls(site))
    explanation = site.broken.explanation
    named = [call for call in calls if re.search(rf"\b{re.escape(call.short_name)}\b", explanation)]
    if named:
        yield from named
        return
    inner = {id(node) for call in calls for node in walk(call.call) if node is not call.call}
    yield from (call for call in calls if id(call.call) not in inner)


def _named_calls(site: Site) -> Iterator[OpaqueCall]:
    for statement, call, name in site.calls():
        root = name.partition(".")[0]
        function = site.code.function(call)
        is_local = function is not None and root in locals_of(function)
        # A name of the function's own may stand for anything, torch's functions are looked into,
        # and what writes is for ``side_effects.py``.
        if (
            name
            and not is_local
            and root not in ("torch", "self", "super")
            and not name.startswith(_WRITING)
        ):
            yield OpaqueCall(statement, call, name, site.code.source(call.func))


def tensor_around(code: Code, call: cst.Call) -> cst.Call:
    """Return the call that makes a tensor of this call's result; without one, the call itself."""
    around = (node for node in code.ancestors(call) if isinstance(node, cst.Call))
    return next((node for node in around if code.name_of(node.func) in _MAKES_TENSOR), call)


@dataclass(frozen=True, slots=True)
class IsolatedExpression:
    """An expression rewritten for a function of its own, with its parameters."""

    text: str
    """The expression, with the parameters' names."""
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    """The arguments for these parameters, as written in the original expression."""


def isolated(code: Code, expression: cst.BaseExpression) -> IsolatedExpression | None:
    """Return the expression with parameters for the local values it reads: ``np.f(x.detach(),
    self.scale)`` → ``np.f(x, scale)`` of ``x.detach()`` and ``self.scale``. Detaching is done
    outside. None when it calls methods of ``self``.
    """
    function = code.function(expression)
    known = locals_of(function) if function else set()
    text, arguments = (
        code.source(expression),
        {name: name for name in read(expression) if name in known and name != "self"},
    )
    for name in arguments:
        # Detached outside only where nothing else reads the name: another use may need its
        # gradient.
        attached = re.sub(rf"(?<![\w.]){name}\.detach\(\)", "", text)
        if attached != text and not re.search(rf"(?<![\w.]){name}\b(?!=)", attached):
            text, arguments[name] = (
                re.sub(rf"(?<![\w.]){name}\.detach\(\)", name, text),
                f"{name}.detach()",
            )
    for chain in _chains_of_self(expression):
        written = code.source(chain)
        if isinstance(chain, cst.Name):
            return None
        parameter = written.rpartition(".")[2]
        # ``self.a.scale`` and ``self.b.scale``, or a local ``scale``, cannot both be called
        # ``scale``.
        if parameter in arguments and arguments[parameter] != written:
            return None
        arguments[parameter] = written
        text = text.replace(written, parameter)
    return IsolatedExpression(text, tuple(arguments), tuple(arguments.values()))


def _chains_of_self(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield each ``self.a.b`` in the expression; ``self`` itself where one of its methods is
    called.
    """
    if (isinstance(node, cst.Attribute) and _root(node) == "self") or (
        isinstance(node, cst.Name) and node.value == "self"
    ):
        yield node
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        yield from _chains_of_self(node.func.value)
        for argument in node.args:
            yield from _chains_of_self(argument.value)
    else:
        for child in node.children:
            yield from _chains_of_self(child)


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""
