"""``try`` … ``except``: torch cannot continue in the middle of one, so a break inside it costs the
whole function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.opaque_calls import REACH
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.edits import in_place_of, unwrapped


def fixes_of_try_blocks(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
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
    """Move the line that breaks before the ``try``, when it is the first line in it."""
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
    if all(texts):
        fix = site.edit(
            "leave the try out" if around.handlers else "do what stands in finally at the end",
            "Without handlers torch can end a graph here and begin the next, and the "
            "function is compiled.",
            [in_place_of(code, around, "".join(texts))],
            "What is raised inside is no longer caught."
            if around.handlers
            else "After an exception it is not done.",
        )
        after_an_exception = (
            "a call in which the try raises: what stands in finally is not done then"
        )
        yield fix if around.handlers else replace(fix, untried=after_an_exception)
