"""This module proposes a fix for code that asks whether a selection is empty, as the experts of a
mixture do: ``if rows.numel() == 0: continue``.

The size of a selection depends on a tensor's content, so Dynamo cannot know which way to go. What
follows computes nothing for an empty selection, so the question can be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.branches import small_statements
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import walk
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import in_place_of, removed, unwrapped

_UNKNOWN_SIZE = ("GB0036", "GB0037")
"""torch's ids of operators whose result has a size that depends on a tensor's content."""

_AMOUNT = (
    r"(?:len\([\w.\[\], :]+\)"
    r"|torch\.(?:any|sum|count_nonzero|numel)\([^()]+\)"
    r"|(?:[\w.]+(?:\[[^\]]*\])?|\([^()]+\))"
    r"\.(?:numel\(\)|nelement\(\)|shape\[0\]|size\((?:dim=)?0\)|any\(\)|sum\(\)|count_nonzero\(\)))"
    r"(?:\.item\(\))?"
)
"""Matches how many rows or elements a selection has: ``rows.numel()``, ``mask.any()``."""

_IS_EMPTY = re.compile(rf"{_AMOUNT}\s*(?:==\s*0|<\s*1)|not\s+{_AMOUNT}")

_HAS_ROWS = re.compile(rf"{_AMOUNT}(?:\s*(?:>\s*0|!=\s*0|>=\s*1))?")


def fixes_of_empty_selections(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield a fix that computes empty selections too, for a break at such a question, or at the
    selection before it. All questions of the function go at once: each would break the graph.
    """
    for site in stack[:1]:
        asks_here = any(_asks(site.code, statement) for statement in site.statements)
        if not asks_here and broken.registry_id not in _UNKNOWN_SIZE:
            continue
        splices = list(_without_questions(site))
        if not splices:
            continue
        fix = site.edit(
            "compute empty selections too",
            "Indexing with no row computes nothing, so the code need not ask for it. With "
            "dynamo.capture_dynamic_output_shape_ops the graph holds a selection of any size.",
            splices,
            "The setting applies to everything that is compiled. An operation that refuses an "
            "empty tensor, such as max(), now raises for an empty selection. The parameters of "
            "code that was skipped get a gradient of zeros, where they had none.",
        )
        yield replace(
            fix,
            settings={"dynamo.capture_dynamic_output_shape_ops": True},
            untried="a call in which a selection is empty",
        )


def _without_questions(site: Site) -> Iterator[Splice]:
    """Yield the edits that take the questions out of the function of the site. One inside another
    is left to the next break.
    """
    statements = site.statements
    function = site.code.function(statements[0]) if statements else None
    if function is None:
        return
    inside: set[cst.CSTNode] = set()
    for node in walk(function.body):
        if not isinstance(node, cst.If) or node in inside:
            continue
        splice = _answered(site.code, node)
        if splice is not None:
            inside.update(walk(node))
            yield splice


def _answered(code: Code, statement: cst.If) -> Splice | None:
    """Return the edit without the question; None where the statement does not ask for an empty
    selection, or does more than skip it.
    """
    if not _asks(code, statement) or statement.orelse is not None:
        return None
    if _IS_EMPTY.fullmatch(_question(code, statement)):
        return removed(code, statement) if _skips(statement) else None
    text = unwrapped(code, statement, statement.body)
    return in_place_of(code, statement, text) if text else None


def _asks(code: Code, statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.If):
        return False
    question = _question(code, statement)
    return bool(_IS_EMPTY.fullmatch(question) or _HAS_ROWS.fullmatch(question))


def _question(code: Code, statement: cst.If) -> str:
    text = code.source(statement.test)
    as_truth = re.fullmatch(r"bool\((.*)\)", text)
    return as_truth[1] if as_truth else text


def _skips(statement: cst.If) -> bool:
    """Return whether the body only continues with the next iteration, perhaps after a message."""
    statements = small_statements(statement.body)
    if not statements:
        return False
    *before, last = statements
    return isinstance(last, cst.Continue | cst.Pass) and all(map(_is_message, before))


def _is_message(statement: cst.BaseSmallStatement) -> bool:
    return isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call)
