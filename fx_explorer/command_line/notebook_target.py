"""A Jupyter notebook as a target: its code cells become a script of fx-explorer's, which is the
target. Lines for IPython (``%magic``, ``!command``) are left as comments.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from fx_explorer.errors import TargetError, UsageError
from fx_explorer.folders import state_folder
from fx_explorer.outside_file import read_outside
from fx_explorer.session.untrusted.given_program import split_target
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

MOST_OF_A_NOTEBOOK = 256 << 20
"""Maximum number of bytes: a notebook has its pictures in it."""

FOR_IPYTHON = ("%", "!", "?")
"""Beginnings of lines that IPython alone understands."""


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
        raise UsageError(f"{notebook} is a notebook without code")
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
        cells = content["cells"]
        for number, cell in enumerate(cells, start=1):
            if cell["cell_type"] == "code":
                source = cell["source"]
                yield number, source if isinstance(source, str) else "".join(source)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{notebook} is no notebook of Jupyter that can be read: {error}"
        ) from error


def _script(notebook: Path, cells: list[tuple[int, str]]) -> str:
    folder = str(notebook.absolute().parent)
    parts = [
        f'"""The code cells of {notebook.name.translate(_IN_DOCSTRING)}, by fx-explorer."""',
        f"import sys; sys.path.insert(0, {folder!r})",
    ]
    for number, code in cells:
        python = _python_of(code)
        try:
            ast.parse(python)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise UsageError(
                f"{notebook}: cell {number} is no Python, in its line {line} ({error.args[0]}). "
                "Cells with await run in Jupyter only"
            ) from error
        parts += [f"# %% cell {number}", python.rstrip()]
    return "\n".join(parts) + "\n"


_IN_DOCSTRING = str.maketrans(dict.fromkeys('"\\\n\r', "_"))


def _python_of(code: str) -> str:
    """Return the code of a cell with what is for IPython as comments. A cell that begins with
    ``%%`` is for IPython as a whole.
    """
    lines = code.split("\n")
    if code.lstrip().startswith("%%"):
        return "\n".join(f"# {line}" for line in lines)
    python = []
    for line in lines:
        if _is_for_ipython(line):
            python.append(f"{_indent(line)}pass  # {line.strip()}")
        else:
            python.append(line)
    return "\n".join(python)


def _is_for_ipython(line: str) -> bool:
    stripped = line.strip()
    return stripped.startswith(FOR_IPYTHON) or stripped.endswith("?")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
