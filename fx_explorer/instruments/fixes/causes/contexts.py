"""Context managers that Dynamo cannot enter, or that do what it cannot trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code
from fx_explorer.source_edit.edits import imports, in_place_of, replaced, unwrapped


def fixes_of_contexts(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    """Yield the fixes. The break may be on the line of the ``with``, or inside what it enters: then
    the ``with`` is further out.
    """
    for site in stack:
        for statement in site.statements:
            if isinstance(statement, cst.With) and site.code.line_of(statement) is not None:
                yield from _skipped(site, statement)
                yield from _left_out(site, statement)


def _skipped(site: Site, statement: cst.With) -> Iterator[Fix]:
    code = site.code
    if any(item.asname for item in statement.items):
        return  # its value is used
    texts = [
        replaced(
            code,
            item.item,
            "contextlib.nullcontext() if torch.compiler.is_compiling() else "
            f"{code.source(item.item)}",
        )
        for item in statement.items
    ]
    fix = site.edit(
        f"enter {_names(code, statement)} only when not compiled",
        "torch.compiler.is_compiling() is true while torch.compile reads the code, so "
        "nothing is entered in the graph.",
        [*imports(code, "contextlib", "torch"), *texts],
        "Compiled, the context manager does nothing.",
    )
    yield replace(fix, unseen=_unseen(code, statement))


def _left_out(site: Site, statement: cst.With) -> Iterator[Fix]:
    # Empty where the body stands on the line of the ``with``.
    body = unwrapped(site.code, statement, statement.body)
    if body:
        fix = site.edit(
            f"leave {_names(site.code, statement)} out",
            "What stands inside is compiled as if the context manager were not there.",
            [in_place_of(site.code, statement, body)],
            "What the context manager does no longer happens.",
        )
        yield replace(fix, unseen=_unseen(site.code, statement))


def _unseen(code: Code, statement: cst.With) -> str:
    entered = ", ".join(first_line(code.source(item.item)) for item in statement.items)
    return f"what {entered} does, of which no call shows anything"


def _names(code: Code, statement: cst.With) -> str:
    return ", ".join(code.source(item.item) for item in statement.items)
