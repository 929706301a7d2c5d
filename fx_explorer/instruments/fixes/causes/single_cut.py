"""Several breaks in one function, or in what one line calls: a single cut around it may cost less
than all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, replaced

_RISK = "What was compiled of it no longer is. Good only where the breaks cost more than that."


def fixes_by_single_cut(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    lines = [_lines(graph_break) for graph_break in distinct_breaks(reader)] if stack else []
    for site in stack[:1]:
        function = site.code.function(site.statements[0]) if site.statements else None
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
    return sum(
        any(path == site.path and first <= line <= last for path, line in one) for one in lines
    )


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
