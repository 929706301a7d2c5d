"""A call that Dynamo cannot look into, but whose result does not depend on tensors: it can be
computed once.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.fixing.constancy import Constancy
from fx_explorer.fixing.fix import Fix
from fx_explorer.fixing.opaque_calls import REACH, OpaqueCall, isolated, opaque_calls
from fx_explorer.fixing.sites import Site, other_files
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.edits import at_module_level, imports, replaced
from fx_explorer.source_edit.names import is_declared_plain, locals_read, new_name

_ONCE = "It is taken to give the same every time."


def fixes(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack[:REACH]:
        for opaque in opaque_calls(site):
            if (
                isinstance(opaque.statement, cst.Expr | cst.With)
                or hasattr(builtins, opaque.name)
                or _VARIES.match(opaque.name)
                or _is_on_tensors(site, opaque)
            ):
                continue  # called for what it does, or no constant
            given = locals_read(site.code, opaque.call)
            if given and (
                site.depth == 0
                or all(is_declared_plain(site.code, opaque.call, name) for name in given)
            ):
                yield from _assumed(reader, site, opaque)
            elif not given:
                yield _unless_refuted(reader, site, opaque.call, _hoisted(site, opaque))


_VARIES = re.compile(
    r"(time|random|secrets|uuid|datetime|numpy\.random)\.|os\.(getpid|getppid|times|urandom|getrandom)$"
)
"""What gives something else at each call: the time, chance, the process."""


def _is_on_tensors(site: Site, opaque: OpaqueCall) -> bool:
    # Nobody does these with anything but a tensor.
    return (
        re.search(r"\.(?:detach|numpy|cpu|item|tolist)\(\)", site.code.source(opaque.call))
        is not None
    )


def _unless_refuted(
    reader: SessionReader,
    site: Site,
    call: cst.BaseExpression,
    fix: Fix,
    given: Sequence[str] = (),
) -> Fix:
    """Return the fix; with the reason, where the code shows that the call may give something else."""
    files = [other.code for other in other_files(reader, site)]
    reason = Constancy(files).why_not(site.code, call, given)
    if not reason:
        return fix
    return replace(fix, refuted=reason, risk=f"{fix.risk} But {reason}.")


def _hoisted(site: Site, opaque: OpaqueCall) -> Fix:
    name = new_name(site.code, opaque.short_name.upper().strip("_") or "CONSTANT")
    line = f"{name} = {_kept(opaque, site.code.source(opaque.call))}"
    return site.edit(
        f"call {opaque.written}() once, when the file is imported",
        "Nothing it is given comes from the function, so it can be called outside and its result used as a constant.",
        [at_module_level(site.code, opaque.call, line), replaced(site.code, opaque.call, name)],
        _ONCE,
    )


def _assumed(reader: SessionReader, site: Site, opaque: OpaqueCall) -> Iterator[Fix]:
    """Yield the call as a function of its own whose result torch takes for a constant."""
    parts = isolated(site.code, opaque.call)
    if parts is None:
        return
    name = new_name(site.code, f"constant_{opaque.short_name.strip('_')}")
    lines = [
        "@torch.compiler.assume_constant_result",
        f"def {name}({', '.join(parts.parameters)}):",
        f"{site.code.unit}return {_kept(opaque, parts.text)}",
    ]
    fix = site.edit(
        f"call {opaque.written}() while compiling, and keep its result",
        "torch.compiler.assume_constant_result calls it once for each compilation and puts the result into the graph.",
        [
            *imports(site.code, "torch"),
            at_module_level(site.code, opaque.call, "\n".join(lines)),
            replaced(site.code, opaque.call, f"{name}({', '.join(parts.arguments)})"),
        ],
        f"{_ONCE} It must not be given tensors.",
    )
    yield _unless_refuted(reader, site, cst.parse_expression(parts.text), fix, parts.parameters)


def _kept(opaque: OpaqueCall, text: str) -> str:
    """Return what the function gives. What a loop goes through is made a list: an iterator would be
    used up after the first call.
    """
    loop = opaque.statement
    return f"list({text})" if isinstance(loop, cst.For) and loop.iter is opaque.call else text
