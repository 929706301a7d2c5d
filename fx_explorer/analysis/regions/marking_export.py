"""Regions marked by hand, as the edit of the user's source that marks them there: pure text in, a unified diff out."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer.errors import UsageError
from fx_explorer.model.bounded_matching import unified_diff

IMPORT = "import torch.fx.traceback as fx_traceback"

_Body = list[ast.stmt]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive statements of one block."""

    function: ast.AST
    statements: tuple[ast.stmt, ...]


@dataclass(frozen=True, slots=True)
class StatementBlock:
    """A region and the lines (from 1, both included) whose statements are to be in it."""

    name: str
    first_line: int
    last_line: int
    configs: Mapping[str, object] = field(default_factory=dict)
    """``torch._inductor.config`` entries for the region alone."""

    @property
    def annotation(self) -> str:
        """What ``annotate`` is given, as Python."""
        configs = f', "inductor_configs": {self.configs!r}' if self.configs else ""
        return f'{{"compile_with_inductor": {{"inductor_region": {_quoted(self.name)}{configs}}}}}'


def marking_diff(source: str, path: str, *blocks: StatementBlock) -> str:
    """The diff that puts ``with fx_traceback.annotate(…)`` around the statements of each block.

    Line ends and the indentation of the file are kept. Raises UsageError when the lines of a block cut through a statement, are
    not in one block of one function, or hold text that an indentation would change.
    """
    tree = _parsed(source, path)
    for block in blocks:
        _statements(tree, path, block.first_line, block.last_line)
    _check_nesting(blocks, path)
    marked = source
    above: list[int] = []
    for block in sorted(blocks, key=lambda block: block.last_line - block.first_line):  # an inner region before an outer one
        first = block.first_line + sum(line < block.first_line for line in above)
        last = block.last_line + sum(line <= block.last_line for line in above)
        marked = _marked(marked, _statements(_parsed(marked, path), path, first, last), block.annotation, path)
        above.append(block.first_line)
    return unified_diff(source.splitlines(True), _with_import(marked, path).splitlines(True), path)


def whole_statements(source: str, path: str, first: int, last: int) -> tuple[int, int]:
    """The lines of the statements that these lines touch. Raises UsageError when they are in no function, or in several."""
    where = f"lines {first} to {last} of {path}"
    touched = _innermost(_function(_parsed(source, path), where, first, last).body, first, last)
    return (_begin(touched[0]), _end(touched[-1])) if touched else (first, last)


def _check_nesting(blocks: Sequence[StatementBlock], path: str) -> None:
    """One ``with`` can hold another, but not a part of it."""
    for one in blocks:
        for other in blocks:
            if one.first_line < other.first_line <= one.last_line < other.last_line:
                raise UsageError(
                    f'In {path}, region "{one.name}" ends on line {one.last_line}, in the middle of region "{other.name}": '
                    "mark them so that one holds the other, or that they are apart."
                )


def _parsed(source: str, path: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} cannot be parsed ({error}): fix it first.") from None


# which statements


def _statements(tree: ast.Module, path: str, first: int, last: int) -> _Run:
    where = f"lines {first} to {last} of {path}"
    function = _function(tree, where, first, last)
    touched = _innermost(function.body, first, last)
    if not touched:
        raise UsageError(f"{where} hold no statement: choose lines that compute something.")
    cut = next((one for one in touched if not (first <= _begin(one) and _end(one) <= last)), None)
    if cut:
        raise UsageError(
            f"{where} cut the statement on lines {_begin(cut)} to {_end(cut)}. "
            "Choose all its lines, or whole statements inside it."
        )
    return _Run(function, tuple(touched))


def _function(tree: ast.Module, where: str, first: int, last: int) -> _Function:
    """The innermost function that holds the lines."""
    functions = [
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and _overlaps(n, first, last)
    ]
    holding = [node for node in functions if node.body[0].lineno <= first and last <= _end(node.body[-1])]
    if not holding:
        crossed = ", ".join(node.name for node in functions)
        reason = f"reach over the edge of {crossed}" if functions else "are in no function"
        raise UsageError(f"{where} {reason}: a region is made of whole statements within one function. Choose other lines.")
    return max(holding, key=lambda node: node.lineno)


def _innermost(body: _Body, first: int, last: int) -> _Body:
    """The statements that the lines touch, in the innermost block that has them all."""
    touched = [one for one in body if _overlaps(one, first, last)]
    if len(touched) == 1 and not (first <= _begin(touched[0]) and _end(touched[0]) <= last):
        inner = [block for block in _bodies(touched[0]) if _begin(block[0]) <= last and first <= _end(block[-1])]
        if len(inner) == 1 and _begin(inner[0][0]) <= first:
            return _innermost(inner[0], first, last)
    return touched


def _bodies(statement: ast.stmt) -> list[_Body]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    blocks = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def _overlaps(node: ast.stmt, first: int, last: int) -> bool:
    return _begin(node) <= last and first <= _end(node)


def _begin(node: ast.stmt) -> int:
    """Decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


# the edit


def _marked(source: str, run: _Run, annotation: str, path: str) -> str:
    lines = source.splitlines(keepends=True)
    if len(lines) != len(_python_lines(source)):
        raise UsageError(f"{path} has line ends other than \\n and \\r\\n: put annotate() there by hand.")
    first, last = _begin(run.statements[0]), _end(run.statements[-1])
    indent = re.match(r"[ \t]*", lines[first - 1]).group()  # type: ignore[union-attr]  # it matches the empty text too
    _check_whole_lines(run, lines, path)
    newline = "\r\n" if lines[first - 1].endswith("\r\n") else "\n"
    fixed = _lines_in_strings(run)
    unit = "\t" if indent.endswith("\t") else "    "
    body = [
        line if not line.strip() or number in fixed else unit + line
        for number, line in enumerate(lines[first - 1 : last], first)
    ]
    lines[first - 1 : last] = [f"{indent}with fx_traceback.annotate({annotation}):{newline}", *body]
    return "".join(lines)


def _with_import(source: str, path: str) -> str:
    tree, lines = _parsed(source, path), source.splitlines(keepends=True)
    if not _is_imported(tree):
        lines.insert(_import_line(tree), IMPORT + ("\r\n" if lines[0].endswith("\r\n") else "\n"))
    return "".join(lines)


def _python_lines(source: str) -> list[str]:
    """Lines as Python counts them: form feeds and Unicode's separators end none."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", source)


def _check_whole_lines(run: _Run, lines: list[str], path: str) -> None:
    first, last = run.statements[0], run.statements[-1]
    before = lines[_begin(first) - 1].encode()[: first.col_offset] if _begin(first) == first.lineno else b""
    after = lines[_end(last) - 1].encode()[last.end_col_offset or 0 :].decode().strip()
    if before.strip() or (after and not after.startswith("#")):
        raise UsageError(
            f"lines {_begin(first)} to {_end(last)} of {path} share a line with another statement: put it on one of its own."
        )


def _lines_in_strings(run: _Run) -> set[int]:
    """Lines that begin inside a string: an indentation would become part of it."""
    strings = [n for one in run.statements for n in ast.walk(one) if isinstance(n, ast.JoinedStr) or _is_text(n)]
    return {line for node in strings for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)}  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _quoted(name: str) -> str:
    text = repr(name)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text


def _is_imported(tree: ast.Module) -> bool:
    names = [alias for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    direct = any(alias.name == "torch.fx.traceback" and alias.asname == "fx_traceback" for alias in names)
    return direct or any(
        isinstance(node, ast.ImportFrom)
        and node.module == "torch.fx"
        and any((alias.asname or alias.name) == "fx_traceback" and alias.name == "traceback" for alias in node.names)
        for node in tree.body
    )


def _import_line(tree: ast.Module) -> int:
    """Lines before the new import: the docstring and all imports at the head of the file."""
    line = 0
    for position, node in enumerate(tree.body):
        is_docstring = position == 0 and isinstance(node, ast.Expr) and _is_text(node.value)
        if not is_docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        line = _end(node)
    return line
