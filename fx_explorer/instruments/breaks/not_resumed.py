"""This module says why torch cannot resume after a graph break: the break, or the call that leads
to it, is inside a loop, a ``try`` block, a ``with`` block or a comprehension.

torch names the loop in its report (``raise_loop_graph_break``, torch/_dynamo/symbolic_convert.py).
Of the others it says nothing: they are found in the source, by the conditions of its
``should_compile_partial_graph``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path, text_of
from fx_explorer.analysis.words import listed
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts.reports import BACKEND_FAILED

_IN_LOOP = "torch.compile detected a graph break in a for/while loop"
_IN_GENERATOR = "Skipping frame due to graph break in a generator"
"""Of torch's reports, in 2.13."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITHS = (ast.With, ast.AsyncWith)

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_GENERATOR = "<genexpr>"
"""Python's names of functions that stand in a line of another."""

_RESTORED = "torch."
"""Begins the context managers that torch enters again in a resume function, such as
``torch.no_grad()``.
"""


MOST_PLACES = 4

_BEGIN = "the break is "


def together(sentences: Sequence[str]) -> str:
    """Return several sentences of ``why_not_resumed`` as one."""
    places = [sentence.removeprefix(_BEGIN) for sentence in sentences]
    return f"{_BEGIN}{listed(places, MOST_PLACES)}"


def why_not_resumed(reader: SessionReader, hit: model.GraphBreak) -> str:
    """Return ``the break is inside the for loop at model.py:605``; empty where neither torch nor
    the source says it.
    """
    if hit.registry_id == BACKEND_FAILED:
        return ""
    frame = _compiled_frame(reader, hit)
    report = reader.text(hit.text) if hit.text else ""
    blocks = _blocks(_text_of(reader, frame.file), frame.line)
    if _IN_LOOP in report:
        loop = _inside(blocks, _LOOPS, frame.file)
        return loop or f"{_BEGIN}inside a for or while loop"
    if _IN_GENERATOR in report or frame.function == _GENERATOR:
        return f"{_BEGIN}inside a generator"
    if frame.function in _COMPREHENSIONS:
        return f"{_BEGIN}inside the comprehension at {in_file(frame.file, frame.line)}"
    in_try = _inside(blocks, (ast.Try,), frame.file)
    return in_try or _inside(blocks, _WITHS, frame.file)


def _compiled_frame(reader: SessionReader, hit: model.GraphBreak) -> model.Frame:
    """Return where in the compiled function the break is, or the call that leads to it."""
    stacks = reader.by_ids(model.Stack, [hit.chain]) if hit.chain else []
    if stacks and stacks[0].frames:
        return stacks[0].frames[0]
    return model.Frame(hit.file, hit.line, "", hit.code)


def _text_of(reader: SessionReader, file: str) -> str:
    place = place_of_path(reader, file, 1)
    return text_of(reader, place.document) if place else ""


def _inside(blocks: tuple[ast.stmt, ...], kinds: tuple[type[ast.stmt], ...], file: str) -> str:
    """Return a sentence on the innermost block of one of these kinds; empty without one."""
    of_kind = [block for block in blocks if isinstance(block, kinds)]
    if not of_kind:
        return ""
    innermost = of_kind[-1]
    return f"{_BEGIN}inside the {_name(innermost)} at {in_file(file, innermost.lineno)}"


def _name(block: ast.stmt) -> str:
    if isinstance(block, ast.While):
        return "while loop"
    if isinstance(block, _LOOPS):
        return "for loop"
    if isinstance(block, ast.Try):
        return "try block"
    return "with block"


@functools.lru_cache(maxsize=64)
def _blocks(text: str, line: int) -> tuple[ast.stmt, ...]:
    """Return the loops, ``try`` and ``with`` blocks around a line in its own function, outermost
    first.
    """
    blocks: list[ast.stmt] = []
    for node in _with_blocks(text):
        if isinstance(node, _FUNCTIONS) and _has(node, line):
            blocks = []
        elif isinstance(node, (*_LOOPS, *_WITHS, ast.Try)) and _is_around(node, line):
            blocks.append(node)
    return tuple(blocks)


@functools.lru_cache(maxsize=8)
def _with_blocks(text: str) -> tuple[ast.AST, ...]:
    """Return the functions and statements with blocks of a text, in the order of their lines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    kinds = (*_FUNCTIONS, *_LOOPS, *_WITHS, ast.Try)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return tuple(sorted(nodes, key=lambda node: (node.lineno, node.col_offset)))


def _has(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_around(block: ast.stmt, line: int) -> bool:
    """Return whether a line is in the part of a block in which torch does not resume."""
    if isinstance(block, ast.Try):
        ends = block.finalbody[0].lineno if block.finalbody else (block.end_lineno or 0) + 1
        return block.lineno < line < ends
    if isinstance(block, ast.While) and _has(block.test, line):
        return True
    if isinstance(block, _WITHS) and _is_restored(block):
        return False
    body = getattr(block, "body", ())
    return any(_has(statement, line) for statement in body)


def _is_restored(block: ast.With | ast.AsyncWith) -> bool:
    """Return whether every context manager of a ``with`` is torch's own."""
    return all(ast.unparse(item.context_expr).startswith(_RESTORED) for item in block.items)
