"""A call that is taken out of what is compiled, in the text of the user's file."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EditedCall:
    code: str
    """The call as it is written now: ``torch.compiler.disable(self.log)(…)``."""
    text: str
    """The whole text of the file."""


def without_call(text: str, tree: ast.Module, line: int) -> EditedCall | None:
    """Return the file with the outermost call on a line given to ``torch.compiler.disable``; None
    where the line has none, or only the call of a tensor's method.
    """
    call = _outermost_call(tree, line)
    if call is None or call.func.end_lineno != call.func.lineno:
        return None
    rows = text.splitlines(keepends=True)
    row = rows[call.func.lineno - 1].encode()
    begin, end = call.func.col_offset, call.func.end_col_offset or 0
    function = row[begin:end].decode()
    if function.startswith("torch."):
        return None
    replaced = f"__import__('torch').compiler.disable({function})"
    rows[call.func.lineno - 1] = (row[:begin] + replaced.encode() + row[end:]).decode()
    return EditedCall(f"torch.compiler.disable({function})(…)", "".join(rows))


def _outermost_call(tree: ast.Module, line: int) -> ast.Call | None:
    """Return the outermost call that begins on a line and whose function is a name, with dots or
    without.
    """
    for node in ast.walk(tree):  # outer ones come first
        if isinstance(node, ast.Call) and node.lineno == line and _is_dotted(node.func):
            return node
    return None


def _is_dotted(function: ast.expr) -> bool:
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name)
