"""Whether a program that calls ``sys.exit`` had come to its end, judged by where the call stands in
each of its own functions.

``sys.exit(main())`` as the last statement of a script is its end; in the middle or in a loop it is
not. A call within a library (click, argparse) counts by the user's lines that lead to it.
"""

from __future__ import annotations

import ast
import linecache
import site
import sysconfig
from collections.abc import Sequence
from types import CodeType, TracebackType

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def left_early(trace: TracebackType | None) -> tuple[str, int]:
    """Return file and line of the first of the user's frames that had more to do; ("", 0) when all
    were at their ends.

    ``trace`` begins with the script's own frame.
    """
    while trace is not None:
        code = trace.tb_frame.f_code
        if _is_users(code.co_filename) and not _is_at_end(code, trace.tb_lineno):
            return code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return "", 0


def _is_users(file: str) -> bool:
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    return not file.startswith((*libraries, *site.getsitepackages(), "<frozen"))


def _is_at_end(code: CodeType, line: int) -> bool:
    """Return whether ``line`` ends the function. True where it cannot be told: no source, a lambda,
    a comprehension.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    if code.co_name == "<module>":
        return is_last(tree.body, line)
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return is_last(node.body, line)
    return True


def is_last(body: Sequence[ast.stmt], line: int) -> bool:
    """Return whether nothing but definitions comes after the statement at ``line`` in the block."""
    at = next(
        (
            i
            for i, statement in enumerate(body)
            if statement.lineno <= line <= (statement.end_lineno or line)
        ),
        None,
    )
    if at is None or any(
        not isinstance(after, (*_FUNCTIONS, ast.ClassDef)) for after in body[at + 1 :]
    ):
        return False
    match body[at]:
        case ast.If(body=then, orelse=otherwise):
            return any(is_last(block, line) for block in (then, otherwise))
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return is_last(inner, line) or line < inner[0].lineno
        case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=final):
            blocks = [otherwise or tried, final, *(handler.body for handler in handlers)]
            return any(is_last(block, line) for block in blocks)
        case ast.While(test=ast.Constant(value=value), body=inner) if value:
            return inner[0].lineno <= line  # an endless loop has no other way out
        case ast.While() | ast.For() | ast.AsyncFor():
            return False
        case ast.Match(cases=cases):
            return any(is_last(case.body, line) for case in cases)
        case _:
            return True
