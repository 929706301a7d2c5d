"""A call that Dynamo cannot look into and that computes on tensors: as an operation of the graph,
by ``torch.library``, or as it stands, by ``allow_in_graph``. NumPy and third-party libraries are
the usual ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.opaque_calls import (
    REACH,
    IsolatedExpression,
    OpaqueCall,
    isolated,
    opaque_calls,
    tensor_around,
)
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import after_imports, at_module_level, imports, replaced
from fx_explorer.source_edit.names import annotation_of, new_name


def fixes_by_custom_op(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack[:REACH]:
        for opaque in opaque_calls(site):
            # A call as a statement, or in a ``with``, is made for what it does; an operation of the
            # graph gives tensors.
            if not (opaque.is_pythons or isinstance(opaque.statement, cst.Expr | cst.With)):
                yield from _custom_op(site, opaque, tensor_around(site.code, opaque.call))
                yield from _in_graph(site, opaque)


def _custom_op(site: Site, opaque: OpaqueCall, whole: cst.Call) -> Iterator[Fix]:
    """Yield the call as a custom operator, whose result is taken to have the shape of the first
    tensor.
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
    dtypes = ["", "torch.float64"] if opaque.name.startswith("numpy.") else [""]
    for dtype in dtypes:
        name = new_name(code, f"{opaque.short_name.strip('_')}_op")
        yield site.edit(
            f"make {opaque.written}() an operation of the graph"
            + (f" that gives {dtype}" if dtype else ""),
            "A custom operator is called by the graph as it is; the compiler needs to "
            "know just the shape of its result.",
            [
                *imports(code, "torch"),
                at_module_level(code, whole, _operator(code.unit, name, parts, types, like, dtype)),
                replaced(code, whole, f"{name}({', '.join(parts.arguments)})"),
            ],
            f"The result is taken to have the shape of {like}; it has no gradient unless "
            "you register one.",
        )


def _operator(
    unit: str, name: str, parts: IsolatedExpression, types: list[str], like: str, dtype: str
) -> str:
    """Write the custom operator. What it computes is copied into a tensor of the promised shape and
    dtype, so the promise is kept.
    """
    signature = ", ".join(
        f"{parameter}: {kind}" for parameter, kind in zip(parts.parameters, types, strict=True)
    )
    empty = f"torch.empty_like({like}{f', dtype={dtype}' if dtype else ''})"
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
            f"put the call of {opaque.written}() into the graph as it stands",
            "With torch.compiler.allow_in_graph Dynamo does not look into the function; "
            "autograd and the backend do.",
            [*imports(site.code, "torch"), splice],
            "It must compute with torch only, and what it does beside that is lost.",
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
