"""This module proposes fixes that remove ``torch.compiler.disable``, or add it.

Somebody may have asked for a break: by ``torch._dynamo.graph_break()``, or by keeping a function
out with ``torch.compiler.disable``. And where there are several breaks in one function, or in what
one line calls, a single cut around it may cost less than all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix, Site, other_files
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, removed, replaced

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
    """Yield a fix that removes ``torch.compiler.disable`` from the called function, in whichever of
    the user's files it is defined.
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
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return ""


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
    if isinstance(decorator, cst.Call):
        function = decorator.func
    else:
        function = decorator
    return code.name_of(function) in _DISABLES


_RISK = "What was compiled of it no longer is. Good only where the breaks cost more than that."


# One cut around several breaks.


def fixes_by_single_cut(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    if stack:
        lines = [_lines(graph_break) for graph_break in distinct_breaks(reader)]
    else:
        lines = []
    for site in stack[:1]:
        if site.statements:
            function = site.code.function(site.statements[0])
        else:
            function = None
        # With one frame the function is the one given to torch.compile: kept out, nothing would be
        # compiled.
        if len(stack) > 1 and function is not None and _breaks_in(site, function, lines) > 1:
            yield replace(_kept_out(site, function), compiles_less=True)
        if (
            site.path != broken.file
            and sum((site.path, site.line) in stack_lines for stack_lines in lines) > 1
        ):
            # It breaks in a library, of which only the call is the user's.
            yield from (replace(fix, compiles_less=True) for fix in _call_kept_out(site))


def _lines(broken: DistinctBreak) -> set[tuple[str, int]]:
    return {(broken.file, broken.line), *((frame.file, frame.line) for frame in broken.chain)}


def _breaks_in(site: Site, function: cst.FunctionDef, lines: list[set[tuple[str, int]]]) -> int:
    first, last = site.code.lines(function)

    def is_inside(place: tuple[str, int]) -> bool:
        path, line = place
        return path == site.path and first <= line <= last

    return sum(any(map(is_inside, places)) for places in lines)


def _kept_out(site: Site, function: cst.FunctionDef) -> Fix:
    code = site.code
    first = min(
        [code.lines(function)[0], *(code.lines(decorator)[0] for decorator in function.decorators)]
    )
    start = code.line_start(first)
    return site.edit(
        f"keep {function.name.value}() out of compilation as a whole",
        "It has several graph breaks; kept out, it is one instead.",
        [
            *imports(code, "torch"),
            Splice(start, start, f"{code.indent(function)}@torch.compiler.disable\n"),
        ],
        _RISK,
    )


def _call_kept_out(site: Site) -> Iterator[Fix]:
    for _, call, name in site.calls():
        root = name.partition(".")[0]
        if name and root != "torch" and not _is_method(site.code, call):
            yield site.edit(
                f"keep what {site.code.source(call.func)}() does out of compilation as a whole",
                "What it calls has several graph breaks; kept out, it is one instead.",
                [
                    *imports(site.code, "torch"),
                    replaced(
                        site.code,
                        call.func,
                        f"torch.compiler.disable({site.code.source(call.func)})",
                    ),
                ],
                _RISK,
            )
            return


def _is_method(code: Code, call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and code.source(call.func).partition(".")[
        0
    ] not in (*code.imported, "self")
