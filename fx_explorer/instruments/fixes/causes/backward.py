"""This module proposes fixes for ``backward()`` inside compiled code: torch ends the graph before
it, unless an option makes it trace autograd too.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.instruments.fixes.splitting import (
    RISK,
    SplitLines,
    body_lines,
    function_to_split,
    given_on,
    split,
    texts,
)
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import new_name, walk
from fx_explorer.source_edit.code import Code, Splice


def fixes_of_backward(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield two fixes: the call of ``backward()`` outside of the compiled code, and the option that
    puts the backward into the graph.
    """
    for site in stack[:1]:
        splices = _outside(site, stack)
        if splices:
            yield site.edit(
                "call backward() outside of what is compiled",
                "The function becomes two: one that is compiled and gives the loss, and "
                "this one, which goes backward from it.",
                splices,
                RISK,
            )
    if broken.registry_id == "GB0123":
        yield Fix(
            "let the graph hold the backward",
            "With dynamo.trace_autograd_ops torch traces what backward() does to the "
            "gradients as part of the graph.",
            "It holds for everything that is compiled. Of the loss only loss.detach() "
            "can be returned.",
            broken.line,
            settings={"dynamo.trace_autograd_ops": True},
        )


def _outside(site: Site, stack: list[Site]) -> list[Splice]:
    """Return the edit that takes ``backward()`` out of the compiled code; empty when the line does
    more, or nothing is computed before it.
    """
    function = function_to_split(site, stack)
    lines = body_lines(function) if function else []
    code = site.code
    numbers = (number for number, line in enumerate(lines) if _backward(code, line, site.line))
    at = next(numbers, None)
    if function is None or at is None:
        return []
    nodes_above = (node for line in lines[:at] for node in walk(line))
    # A ``return`` above would leave the new function only, and the old one would continue.
    if any(isinstance(node, cst.Return) for node in nodes_above):
        return []
    call = _backward(code, lines[at], site.line)
    assert call is not None
    loss, inner = code.source(call.func.value), texts(code, lines[:at])  # type: ignore[attr-defined]
    outer = texts(code, lines[at:])
    results = given_on(code, lines[:at], lines[at:])
    # The loss has no name yet by which the new function could return it.
    if not isinstance(call.func.value, cst.Name):  # type: ignore[attr-defined]
        name = new_name(code, "loss")
        inner, outer = [*inner, f"{name} = {loss}"], _renamed(outer, loss, name)
        # What only the loss is computed from is not read outside any more.
        results = [*given_on(code, lines[:at], [*call.args, *lines[at + 1 :]]), name]
    if not inner or not results:
        return []
    return split(
        site, function, SplitLines([*inner, f"return {', '.join(results)}"], outer, results)
    )


def _renamed(lines: list[str], loss: str, name: str) -> list[str]:
    return "\n".join(lines).replace(f"{loss}.backward", f"{name}.backward", 1).split("\n")


def _backward(code: Code, line: cst.CSTNode, number: int) -> cst.Call | None:
    """Return the call ``LOSS.backward()`` if it is the whole statement on this line."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        small = line.body[0]
    else:
        small = None
    call = small.value if isinstance(small, cst.Expr) else None
    if (
        not isinstance(call, cst.Call)
        or not isinstance(call.func, cst.Attribute)
        or call.func.attr.value != "backward"
    ):
        return None
    if code.lines(line)[0] <= number <= code.lines(line)[1]:
        return call
    return None
