"""Breaks that somebody asked for: ``torch._dynamo.graph_break()``, and functions kept out with
``torch.compiler.disable``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site, other_files
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import removed, replaced

_DISABLES = ("torch.compiler.disable", "torch._dynamo.disable", "torch._disable_dynamo")


def fixes_of_wanted_breaks(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement, _, name in site.calls():
            if name == "torch._dynamo.graph_break" and isinstance(statement, cst.Expr):
                why = "The line asks for a graph break and does nothing else."
                yield site.edit(
                    "remove the line that asks for the break", why, [removed(site.code, statement)]
                )
        # The ids change between releases; the word is in the reason of all of them.
        if broken.registry_id in ("GB0098", "GB0099") or "disable" in broken.reason:
            yield from _enabled(reader, site)


def _enabled(reader: SessionReader, site: Site) -> Iterator[Fix]:
    """Yield a fix that takes away what keeps the called function out, wherever in the user's files
    the function is defined.
    """
    called = {name.rpartition(".")[2] or _method(call) for _, call, name in site.calls()}
    for place in (site, *other_files(reader, site)):
        for name in sorted(called):
            for splice in _without_disable(place.code, name):
                yield place.edit(
                    f"let {name}() be compiled",
                    "It is kept out with torch.compiler.disable; without that it becomes "
                    "part of the graph.",
                    [splice],
                    "It may have been kept out for a reason.",
                )


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _without_disable(code: Code, name: str) -> Iterator[Splice]:
    for function in code.functions_named(name):
        for decorator in function.decorators:
            if _is_disable(code, decorator.decorator):
                start, stop = (
                    code.line_start(line)
                    for line in (code.lines(decorator)[0], code.lines(decorator)[1] + 1)
                )
                yield Splice(start, stop, "")
    for called in code.all(cst.Call):
        made = called.func  # disable(f)(x)
        if isinstance(made, cst.Call) and _disabled(code, made).rpartition(".")[2] == name:
            yield replaced(code, made, code.source(made.args[0].value))
    for statement in code.all(cst.Assign):
        value = statement.value
        is_it = any(code.name_of(target.target) == name for target in statement.targets)
        if is_it and isinstance(value, cst.Call) and _disabled(code, value):
            yield replaced(code, value, code.source(value.args[0].value))


def _disabled(code: Code, call: cst.Call) -> str:
    """Return ``f`` for ``torch.compiler.disable(f)``; empty for any other call."""
    if call.args and code.name_of(call.func) in _DISABLES:
        return code.name_of(call.args[0].value)
    return ""


def _is_disable(code: Code, decorator: cst.BaseExpression) -> bool:
    function = decorator.func if isinstance(decorator, cst.Call) else decorator
    return code.name_of(function) in _DISABLES
