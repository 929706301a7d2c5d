"""A Jupyter notebook as a target: its code cells become a script of fx-explorer's, which is the
target. Lines for IPython (``%magic``, ``!command``) are left as comments; the code that ``%time``
and its like time is run.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fx_explorer.errors import TargetError, UsageError
from fx_explorer.folders import state_folder
from fx_explorer.outside_file import read_outside
from fx_explorer.session.untrusted.given_program import split_target
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

MOST_OF_A_NOTEBOOK = 256 << 20
"""Maximum number of bytes: a notebook has its pictures in it."""

FOR_IPYTHON = ("%", "!", "?")
"""Beginnings of lines that IPython alone understands."""

_RUNS_CODE = re.compile(r"%(?:time|timeit|prun|memit|mprun)\b(?P<rest>.*)")
"""Matches a magic whose argument is a statement."""

_RUN_CELLS = ("%%time", "%%timeit", "%%prun", "%%capture", "%%memit")
"""Magics below which there is Python that runs in the notebook."""

_OPTION = re.compile(r"\s*-(?:[nrTDls]\s*\S+|[a-zA-Z]+)(?=\s|$)")
"""Matches an option before the statement: ``-n 10``, ``-n10``, ``-o``."""

_DISPLAY = """\
try:
    from IPython.display import display
except ImportError:
    display = print"""
"""What Jupyter gives to the cells without an import."""


def notebook_of(target: str) -> tuple[Path, str] | None:
    """Return the notebook of a target, and the object in it (``nb.ipynb:model``); None for any
    other target.
    """
    file, name = split_target(target)
    if file is None or not file.is_file() or kind_of_file(file).kind != "notebook":
        return None
    return file, name


def script_of(notebook: Path) -> Path:
    """Write the code cells as a script. Raises UsageError for a notebook without code or with code
    that is no Python, and TargetError where nothing can be written.
    """
    cells = list(_code_cells(notebook))
    if not cells:
        raise UsageError(f"{notebook} has no code")
    text = _script(notebook, cells)
    digest = hashlib.sha256(str(notebook.absolute()).encode()).hexdigest()[:8]
    path = state_folder() / "notebooks" / digest / f"{notebook.stem}.py"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
    except OSError as error:
        raise TargetError(
            f"{notebook}: the script for it cannot be written ({path}: {error.strerror})"
        ) from error
    return path


def _code_cells(notebook: Path) -> Iterator[tuple[int, str]]:
    """Yield (number of the cell, code) of each cell of Python code."""
    try:
        content = json.loads(read_outside(notebook, MOST_OF_A_NOTEBOOK))
        cells = content["cells"] if "cells" in content else _cells_of_version_3(content)
        for number, cell in enumerate(cells, start=1):
            if cell["cell_type"] == "code":
                source = cell["source"] if "source" in cell else cell["input"]
                yield number, source if isinstance(source, str) else "".join(source)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{notebook} is not a readable Jupyter notebook: {error}") from error


def _cells_of_version_3(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of a notebook of IPython before Jupyter."""
    return [cell for worksheet in content["worksheets"] for cell in worksheet["cells"]]


def _script(notebook: Path, cells: list[tuple[int, str]]) -> str:
    folder = str(notebook.absolute().parent)
    future: list[str] = []
    parts = []
    for number, code in cells:
        python = _python_of(code)
        try:
            tree = ast.parse(python)
            compile(tree, f"cell {number}", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise UsageError(_not_python(notebook, number, code, error)) from error
        parts += [f"# %% cell {number}", _without_future(python, tree, future).rstrip()]
    head = [f'"""The code cells of {notebook.name.translate(_IN_DOCSTRING)}, by fx-explorer."""']
    if future:
        head.append(f"from __future__ import {', '.join(dict.fromkeys(future))}")
    head.append(f"import sys; sys.path.insert(0, {folder!r})")
    if any("display(" in code for _, code in cells):
        head.append(_DISPLAY)
    return "\n".join([*head, *parts]) + "\n"


def _not_python(notebook: Path, number: int, code: str, error: Exception) -> str:
    line = getattr(error, "lineno", None) or 1
    advice = ""
    if re.search(r"\b(?:await|async)\b", code):
        advice = ". Cells with await run in Jupyter only"
    elif re.search(r"=\s*[!%]", code):
        advice = ". What IPython assigns (x = !command, x = %magic) runs in Jupyter only"
    return (
        f"{notebook}: cell {number} is not valid Python, in its line {line} "
        f"({error.args[0]}){advice}"
    )


def _without_future(python: str, tree: ast.Module, future: list[str]) -> str:
    """Return the code without its imports from ``__future__``, which stand at the top of the
    script; their names are added to ``future``.
    """
    lines = python.split("\n")
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            future += [name.name for name in statement.names]
            for at in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                lines[at] = f"# {lines[at]}"
    return "\n".join(lines)


_IN_DOCSTRING = str.maketrans(dict.fromkeys('"\\\n\r', "_"))


def _python_of(code: str) -> str:
    """Return the code of a cell with what is for IPython as comments. A cell that begins with
    ``%%`` is for IPython as a whole, unless its magic runs the code below.
    """
    lines = code.split("\n")
    if code.lstrip().startswith("%%"):
        at = next(at for at, line in enumerate(lines) if line.strip())
        if lines[at].split()[0] not in _RUN_CELLS:
            return "\n".join(f"# {line}" for line in lines)
        lines[at] = f"# {lines[at]}"
    python: list[str] = []
    begun = 0
    """Number of lines up to the end of the last statement that is known to be whole."""
    for line in lines:
        if _is_for_ipython(line) and not _is_unfinished(python[begun:]):
            python.append(_without_magic(line))
            begun = len(python)
        else:
            python.append(line)
    return "\n".join(python)


def _is_for_ipython(line: str) -> bool:
    stripped = line.strip()
    return stripped.startswith(FOR_IPYTHON) or (stripped.endswith("?") and "#" not in stripped)


def _is_unfinished(lines: Sequence[str]) -> bool:
    """Return whether the next line still belongs to a string, a bracket or a line with ``\\``."""
    text = "\n".join(lines)
    if text.endswith("\\"):
        return True
    try:
        list(tokenize.generate_tokens(io.StringIO(text).readline))
    except tokenize.TokenError:
        return True
    except (SyntaxError, ValueError):
        return False  # an indentation that a magic ended, say: the parser names what is wrong
    return False


def _without_magic(line: str) -> str:
    """Return the statement that a magic times, or ``pass``, with the line as a comment."""
    stripped = line.strip()
    matched = _RUNS_CODE.fullmatch(stripped)
    rest = matched["rest"] if matched else ""
    while option := _OPTION.match(rest):
        rest = rest[option.end() :]
    return f"{_indent(line)}{rest.strip() or 'pass'}  # {stripped}"


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
