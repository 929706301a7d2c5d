"""Edits of the user's file that trials make: a module is compiled in place, or its forward is, or a
setting is made after the import of torch.
"""

from __future__ import annotations

import ast
import re

from fx_explorer.findings.left_out_calls import EditedCall
from fx_explorer.findings.source_lines import NOT_PARSED

COPY_BEFORE = (
    "A copy.deepcopy of a module whose forward was replaced computes with the original's weights: "
    "copy the module before you replace its forward."
)
"""Follows advice to write ``module.forward = torch.compile(module.forward)``: the copy has the same
compiled function, which is bound to the original.
"""


def compiling_its_forward(text: str, line: int) -> str | None:
    """Return the file's text with ``m.compile(…)`` on a line as ``m.forward =
    torch.compile(m.forward, …)``; None where the line is nothing of the kind.
    """
    statement = _statement(text, line)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "compile":
        return None
    module = ast.unparse(call.func.value)
    arguments = ", ".join([f"{module}.forward", *_arguments(call, 0)])
    return _replaced(text, statement, f"{module}.forward = torch.compile({arguments})")


def compiling_in_place(text: str, line: int, *, by_forward: bool = False) -> str | None:
    """Return the file's text with ``m = torch.compile(m, …)`` on a line as ``m.compile(…)``, or
    ``by_forward`` as ``m.forward = torch.compile(m.forward, …)``; None where the line is nothing of
    the kind.
    """
    statement = _statement(text, line)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if len(statement.targets) != 1 or not call.args:
        return None
    if ast.unparse(call.func).rpartition(".")[2] != "compile":
        return None
    target, module = ast.unparse(statement.targets[0]), ast.unparse(call.args[0])
    arguments = _arguments(call, 1)
    in_place = f"{target}.compile({', '.join(arguments)})"
    if by_forward:
        given = ", ".join([f"{target}.forward", *arguments])
        in_place = f"{target}.forward = {ast.unparse(call.func)}({given})"
    if target != module:
        in_place = f"{target} = {module}; {in_place}"
    return _replaced(text, statement, in_place)


def without_asking(text: str, tree: ast.Module) -> tuple[int, str] | None:
    """Return the first line that calls is_compiling(), and the text with False in place of each
    such call.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    asking = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "is_compiling"]
    if not asking:
        return None
    codes = {ast.get_source_segment(text, call) or "" for call in asking}
    for code in sorted(
        codes - {""}, key=len, reverse=True
    ):  # a short one may be part of a long one
        text = text.replace(code, "False")
    return min(call.lineno for call in asking), text


def after_import_of_torch(text: str, code: str) -> str | None:
    """Return the file's text with code on the line of ``import torch``, after it; None where there
    is no such line.
    """
    lines = text.split("\n")
    if "import torch" not in lines:
        return None
    lines[lines.index("import torch")] = f"import torch; {code}"
    return "\n".join(lines)


_MODEL_CLASS = re.compile(r"(?:For[A-Z]\w+|Model|\.from_pretrained|\.from_config)$")
"""Matches the end of what makes a model of transformers."""


def setting_on_model(text: str, tree: ast.Module, setting: str) -> EditedCall | None:
    """Return the file's text with ``name.SETTING`` after the first statement that binds a model of
    transformers to a name; None where there is none.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name) and _makes_model(node.value):
            code = f"{target.id}.{setting}"
            lines = text.split("\n")
            last = (node.end_lineno or node.lineno) - 1
            end = node.end_col_offset or 0
            row = lines[last].encode()
            lines[last] = (row[:end] + f"; {code}".encode() + row[end:]).decode()
            return EditedCall(code, "\n".join(lines))
    return None


def _makes_model(call: ast.Call) -> bool:
    """Return whether a call makes a model, also where methods are called on it: ``….train()``."""
    function = call.func
    while isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        if _MODEL_CLASS.search(ast.unparse(function)):
            return True
        function = function.value.func
    return bool(_MODEL_CLASS.search(ast.unparse(function)))


def _statement(text: str, line: int) -> ast.stmt | None:
    """Return the innermost statement that begins on a line."""
    try:
        tree = ast.parse(text)
    except NOT_PARSED:
        return None
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            found = node
    return found


def _arguments(call: ast.Call, first: int) -> list[str]:
    given = [ast.unparse(argument) for argument in call.args[first:]]
    return given + [ast.unparse(keyword) for keyword in call.keywords]


def _replaced(text: str, statement: ast.stmt, code: str) -> str:
    """Return the text with a statement replaced; the other lines keep their numbers."""
    lines = text.split("\n")
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    # Offsets count bytes of UTF-8.
    before = lines[first].encode()[: statement.col_offset].decode()
    after = lines[last].encode()[statement.end_col_offset :].decode()
    lines[first : last + 1] = [before + code + after, *[""] * (last - first)]
    return "\n".join(lines)
