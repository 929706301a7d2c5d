"""``print``, logging and warnings: what they write is for people, so it may come later, or not at
all while compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice, Statement
from fx_explorer.source_edit.edits import after_imports, imports, removed, replaced, wrapped

_LEVELS = frozenset(
    ["debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once"]
)
_FUNCTIONS = frozenset(
    ["print", "warnings.warn", "pprint.pprint", "sys.stdout.write", "sys.stderr.write"]
)

WHERE_A_LINE_BEHIND_RAISES = "a call in which a line behind the {} raises: nothing is written then"

_PLAIN = re.compile(r"\.(shape|dtype|device|size\(\))$")
"""What a tensor tells of itself, and no tensor."""


def fixes_of_prints(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement, call, name in site.calls():
            what = _what(call, name)
            if what and isinstance(statement, cst.Expr) and statement.value is call:
                yield from _kept(site, call, name, what)
                yield from _out(site, statement, what)


def _what(call: cst.Call, name: str) -> str:
    """Say what the call writes; empty for a call that writes nothing."""
    if name in _FUNCTIONS:
        return {"print": "print", "warnings.warn": "warning"}.get(name, "output")
    # ``log`` is a method of loggers, and a function of torch's that computes.
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in _LEVELS
    return "log message" if is_method and "torch" not in name.split(".") else ""


def _kept(site: Site, call: cst.Call, name: str, what: str) -> Iterator[Fix]:
    """Yield an edit that has torch make the call after the graph (torch/_dynamo/config.py,
    ``reorderable_logging_functions``). That is offered for plain functions only.
    """
    if name in ("print", "warnings.warn") or name.startswith("logging."):
        written = site.code.source(call.func)
        line = f"torch._dynamo.config.reorderable_logging_functions.add({written})"
        fix = site.edit(
            f"let torch do the {what} after the graph",
            f"torch then keeps {written} out of the graph and calls it once the graph has run.",
            [
                *imports(site.code, "torch._dynamo"),
                after_imports(site.code, line),
                *_as_text(site.code, call),
            ],
            "What is written comes later than before, after the graph it stands in: not "
            "at all where the graph raises.",
        )
        yield replace(fix, untried=WHERE_A_LINE_BEHIND_RAISES.format(what))


def _as_text(code: Code, call: cst.Call) -> list[Splice]:
    """Turn arguments such as a shape into text: they may be tensors, constants and formatted text
    only.
    """
    values = [arg.value for arg in call.args if not arg.star and arg.keyword is None]
    return [
        replaced(code, value, f"str({code.source(value)})")
        for value in values
        if _PLAIN.search(code.source(value))
    ]


def _out(site: Site, statement: Statement, what: str) -> Iterator[Fix]:
    """Yield the line under a condition, so that it runs only when not compiled, and the code
    without it.
    """
    line = site.code.line_of(statement)
    if line is not None:
        fix = site.edit(
            f"do the {what} only when not compiled",
            "torch.compiler.is_compiling() is true while torch.compile reads the code, "
            "so the line is left out of the graph.",
            [
                *imports(site.code, "torch"),
                *wrapped(site.code, "if not torch.compiler.is_compiling():", line),
            ],
            "Compiled, nothing is written.",
        )
        yield replace(fix, unseen=_unseen(what))
    fix = site.edit(
        f"take the {what} out of the compiled code",
        "Writing is a side effect that a graph cannot hold.",
        [removed(site.code, statement)],
        "Nothing is written any more.",
    )
    yield replace(fix, unseen=_unseen(what))


def _unseen(what: str) -> str:
    return f"the {what}, which no call has written: a level, a filter or the inputs leave it out"
