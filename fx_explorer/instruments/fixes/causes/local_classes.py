"""This module proposes a fix for a class that is defined inside the compiled code: it is moved to
the top level of the module, if it needs nothing of the function around it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import locals_of, read
from fx_explorer.source_edit.code import Code
from fx_explorer.source_edit.edits import at_module_level, removed


def fixes_of_local_classes(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield the move of each class that begins on a line of the stack."""
    for site in stack[:1]:
        for statement in site.statements:
            if isinstance(statement, cst.ClassDef) and _can_be_moved(site.code, statement):
                yield site.edit(
                    f"define {statement.name.value} at the top level of the module",
                    "It uses nothing of the enclosing function. A class defined in the function "
                    "is a new class in each call.",
                    [
                        at_module_level(site.code, statement, _dedented(site.code, statement)),
                        removed(site.code, statement),
                    ],
                )


def _can_be_moved(code: Code, defined: cst.ClassDef) -> bool:
    """Return whether the class reads no name of the function around it, and its own name is free at
    the top level.
    """
    function = code.function(defined)
    top = {
        statement.name.value
        for statement in code.module.body
        if isinstance(statement, cst.FunctionDef | cst.ClassDef)
    }
    if function is None or defined.name.value in top:
        return False
    own = {defined.name.value}
    for method in matchers.findall(defined, matchers.FunctionDef()):
        own |= {cst.ensure_type(method, cst.FunctionDef).name.value}
        own |= locals_of(cst.ensure_type(method, cst.FunctionDef))
    around = locals_of(function) - own
    return not any(name in around for name in read(defined))


def _dedented(code: Code, defined: cst.ClassDef) -> str:
    start = code.line_start(code.first_line(defined))
    stop = code.line_start(code.lines(defined)[1] + 1)
    return textwrap.dedent(code.text[start:stop]).rstrip("\n")
