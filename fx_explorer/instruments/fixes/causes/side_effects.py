"""This module proposes fixes for side effects in compiled code: changes of globals and other
objects, and calls whose result is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.opaque_calls import is_explained
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import locals_of
from fx_explorer.source_edit.code import Code, Statement
from fx_explorer.source_edit.edits import imports, removed, rewritten, wrapped


def fixes_of_side_effects(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement in site.statements:
            yield from _as_global(site, statement)
            if _is_effect(site, statement):
                yield from _skipped(site, statement)


def _is_effect(site: Site, statement: Statement) -> bool:
    """Return whether the statement has a side effect: a call whose result is not used, or an
    assignment to a global or to an attribute of one.
    """
    if isinstance(statement, cst.Expr):
        return isinstance(statement.value, cst.Call) and not is_explained(site)
    if isinstance(statement, cst.Assign):
        return all(_is_elsewhere(site.code, target.target) for target in statement.targets)
    return isinstance(statement, cst.AugAssign) and _is_elsewhere(site.code, statement.target)


def _is_elsewhere(code: Code, target: cst.BaseExpression) -> bool:
    """Return whether the target is outside of the function: ``os.environ["A"]``, ``module.flag``,
    ``globals()["X"]``. A name, or a part of a local object, is not.
    """
    node: cst.CSTNode = target
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    function = code.function(target)
    if node is target or function is None:
        return False
    return isinstance(node, cst.Call) or (
        isinstance(node, cst.Name) and node.value not in locals_of(function)
    )


def _skipped(site: Site, statement: Statement) -> Iterator[Fix]:
    """Yield fixes that run the line only in eager mode, or remove it."""
    line = site.code.line_of(statement)
    if line is not None:
        fix = site.edit(
            "do this only when not compiled",
            "torch.compiler.is_compiling() is true while torch.compile reads the code, "
            "so the line is left out of the graph.",
            [
                *imports(site.code, "torch"),
                *wrapped(site.code, "if not torch.compiler.is_compiling():", line),
            ],
            "Compiled, the line does nothing.",
        )
        yield replace(fix, unseen=_unseen(site, statement))
    fix = site.edit(
        "take the line out of the compiled code",
        "It computes nothing that is used later. Do it before or after calling the compiled code.",
        [removed(site.code, statement)],
        "What the line does no longer happens.",
    )
    yield replace(fix, unseen=_unseen(site, statement))


def _unseen(site: Site, statement: Statement) -> str:
    return f"what {first_line(site.code.source(statement))} does, of which no call shows anything"


def _as_global(site: Site, statement: Statement) -> Iterator[Fix]:
    """Turn ``globals()["X"] = value`` into ``global X`` and an assignment, which Dynamo can
    trace.
    """
    name = _set_by_name(site.code, statement)
    line = site.code.line_of(statement)
    if name and line is not None and isinstance(statement, cst.Assign):
        yield site.edit(
            f"assign the global {name} by its name",
            "torch follows an assignment to a global and makes it after the graph has run.",
            [
                rewritten(
                    site.code, line, f"global {name}\n{name} = {site.code.source(statement.value)}"
                )
            ],
        )


def _set_by_name(code: Code, statement: Statement) -> str:
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
    else:
        target = None
    if (
        not isinstance(target, cst.Subscript)
        or not isinstance(target.value, cst.Call)
        or len(target.slice) != 1
    ):
        return ""
    index = target.slice[0].slice
    text = index.value if isinstance(index, cst.Index) else None
    if not isinstance(text, cst.SimpleString) or code.name_of(target.value.func) != "globals":
        return ""
    name = str(text.evaluated_value)
    function = code.function(statement)
    if name.isidentifier() and function and name not in locals_of(function):
        return name
    return ""
