"""This module proposes fixes for breaks inside a ``with`` or a ``try``: for context managers that
Dynamo cannot enter or trace, and for ``try`` … ``except``, inside which torch cannot resume, so
that a break costs the whole function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.opaque_calls import REACH
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code
from fx_explorer.source_edit.edits import imports, in_place_of, replaced, unwrapped


def fixes_of_contexts(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield fixes for the ``with`` and ``try`` statements around a break. The break may be inside
    the context manager itself: then the ``with`` is in an outer frame.
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
    texts = []
    for item in statement.items:
        manager = code.source(item.item)
        either = f"contextlib.nullcontext() if torch.compiler.is_compiling() else {manager}"
        texts.append(replaced(code, item.item, either))
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


# ``try`` … ``except``.


def fixes_of_try_blocks(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:REACH]:
        for statement in site.statements:
            around = (
                statement
                if isinstance(statement, cst.Try)
                else site.code.around(statement, cst.Try)
            )
            if isinstance(around, cst.Try) and site.code.line_of(around) is not None:
                yield from _first_out(site, around)
                yield from _without(site, around)


def _first_out(site: Site, around: cst.Try) -> Iterator[Fix]:
    """Move the line with the break in front of the ``try``, if it is the first line in it."""
    code = site.code
    lines = around.body.body if isinstance(around.body, cst.IndentedBlock) else ()
    # A ``try`` needs a line that stays in it.
    if len(lines) < 2 or not code.lines(lines[0])[0] <= site.line <= code.lines(lines[0])[1]:
        return
    indent, text = code.indent(around), code.text
    start, stop = (
        code.line_start(code.lines(lines[0])[0]),
        code.line_start(code.lines(lines[0])[1] + 1),
    )
    begin = code.line_start(code.lines(around)[0])
    moved = indent + text[start:stop].lstrip()
    after = text[begin:start] + text[stop : code.line_start(code.lines(around)[1] + 1)]
    yield site.edit(
        "move the line that breaks in front of the try",
        "Outside of it torch can end one graph and begin the next, and the function is compiled.",
        [in_place_of(code, around, moved + after)],
        "What it raises is no longer caught.",
    )


def _without(site: Site, around: cst.Try) -> Iterator[Fix]:
    code = site.code
    parts = [
        around.body,
        around.orelse and around.orelse.body,
        around.finalbody and around.finalbody.body,
    ]
    texts = [unwrapped(code, around, part) for part in parts if part]
    if not all(texts):
        return
    why = (
        "Without handlers torch can end a graph here and begin the next, and the "
        "function is compiled."
    )
    edit = in_place_of(code, around, "".join(texts))
    if around.handlers:
        risk = "What is raised inside is no longer caught."
        yield site.edit("leave the try out", why, [edit], risk)
        return
    risk = "After an exception it is not done."
    fix = site.edit("do what stands in finally at the end", why, [edit], risk)
    after_an_exception = "a call in which the try raises: what stands in finally is not done then"
    yield replace(fix, untried=after_an_exception)
