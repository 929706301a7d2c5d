"""How the package is cut and how dense its code is, in figures: files and folders, imports, line
lengths, conditional expressions and comprehensions, names that mean two things, private names of
torch's.

    python -m benchmarks.house [FOLDER]

They show a direction, measured before and after a change; none is a target for its own sake. A code
line is one that is neither empty, a comment nor part of a docstring.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common import ROOT

LONG = 100
"""Columns of a line."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Figures:
    """Sums over all files."""

    lines: int = 0
    long_lines: int = 0
    code_lines: int = 0
    code_characters: int = 0
    """Without indentation."""
    import_lines: int = 0
    statements: int = 0
    conditional_expressions: int = 0
    comprehensions: int = 0
    nested_comprehensions: int = 0
    importers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Module → the modules that import it."""
    class_names: Counter[str] = field(default_factory=Counter)
    """Of public classes at the top of a module."""
    files_with_private_names: int = 0
    """Of torch's; see ``private_names_in``."""

    def add(self, module: str, text: str, modules: set[str]) -> None:
        """Add a file. ``modules`` are the names of all modules of the package."""
        tree = ast.parse(text)
        docstring_lines: set[int] = set()
        imported_lines: set[int] = set()
        for node in ast.walk(tree):
            self._add_node(node)
            if _is_text(node):
                docstring_lines |= _lines_of(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported_lines |= _lines_of(node)
            if isinstance(node, ast.ImportFrom) and node.module:
                self._add_import(module, node, modules)
        self.files_with_private_names += bool(private_names_in(tree))
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                self.class_names[statement.name] += 1
        for number, line in enumerate(text.splitlines(), 1):
            self.lines += 1
            self.long_lines += len(line) > LONG
            code = line.strip()
            if not code or code.startswith("#") or number in docstring_lines:
                continue
            self.code_lines += 1
            self.code_characters += len(code)
            self.import_lines += number in imported_lines

    def _add_node(self, node: ast.AST) -> None:
        self.statements += isinstance(node, ast.stmt)
        self.conditional_expressions += isinstance(node, ast.IfExp)
        if isinstance(node, COMPREHENSIONS):
            self.comprehensions += 1
            parts = (part for part in ast.walk(node) if part is not node)
            self.nested_comprehensions += any(isinstance(part, COMPREHENSIONS) for part in parts)

    def _add_import(self, module: str, node: ast.ImportFrom, modules: set[str]) -> None:
        for name in node.names:
            whole = f"{node.module}.{name.name}"
            imported = whole if whole in modules else node.module
            if imported in modules and imported != module:
                self.importers[str(imported)].add(module)


def private_names_in(tree: ast.Module) -> set[str]:
    """Return the private names of torch's that a file imports or reads: ``torch._guards.tracing``.
    Operators, as ``torch.ops.aten._unsafe_view``, are public whatever they are called.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            names.add(ast.unparse(node))
    return {name for name in names if _PRIVATE_NAME.fullmatch(name)}


_PRIVATE_NAME = re.compile(r"torch\.(?!ops\.)(\w+\.)*_(?!_)\w+(\.\w+)*")


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)  # type: ignore[attr-defined]


def _lines_of(node: ast.AST) -> set[int]:
    return set(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]


def module_name(file: Path) -> str:
    """Return ``fx_explorer.session.reader`` for fx_explorer/session/reader.py."""
    parts = list(file.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def measured(folder: Path) -> list[tuple[str, str]]:
    """Return what is measured and its value, of all Python files of a folder below the root."""
    files = {module_name(file.relative_to(ROOT)): file for file in sorted(folder.rglob("*.py"))}
    figures = Figures()
    for module, file in files.items():
        figures.add(module, file.read_text(), set(files))
    single = sum(len(importers) == 1 for importers in figures.importers.values())
    file_names = Counter(file.name for file in files.values() if file.name != "__init__.py")
    repeated_files = sum(count > 1 for count in file_names.values())
    repeated_classes = sum(count > 1 for count in figures.class_names.values())
    folders = len({file.parent for file in files.values()})
    hundreds = figures.statements / 100
    return [
        ("files, folders", f"{len(files):,}, {folders}"),
        ("lines, of them code", f"{figures.lines:,}, {figures.code_lines:,}"),
        ("modules imported by exactly one other", f"{single / len(files):.1%}"),
        ("import statements, share of code", f"{figures.import_lines / figures.code_lines:.1%}"),
        ("characters a code line", f"{figures.code_characters / figures.code_lines:.1f}"),
        (f"lines over {LONG} columns", f"{figures.long_lines / figures.lines:.2%}"),
        (
            "conditional expressions per 100 statements",
            f"{figures.conditional_expressions / hundreds:.2f}",
        ),
        ("comprehensions per 100 statements", f"{figures.comprehensions / hundreds:.2f}"),
        ("nested ones per 100 statements", f"{figures.nested_comprehensions / hundreds:.2f}"),
        ("class names that mean two things", f"{repeated_classes}"),
        ("file names that mean two things", f"{repeated_files}"),
        ("files that have a private name of torch's", f"{figures.files_with_private_names}"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default="fx_explorer", metavar="FOLDER")
    rows = measured(ROOT / parser.parse_args().folder)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
