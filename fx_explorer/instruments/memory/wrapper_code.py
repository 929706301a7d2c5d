"""The wrapper that Inductor writes around its kernels, as a syntax tree. Nothing of it is run.

Written by torch/_inductor/codegen/wrapper.py, ``PythonWrapperCodegen``: a function ``call(args)``,
alone or as a method of ``Runner``, and one function for each partition or subgraph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

ENTRY = "call"


class UnreadableCode(Exception):
    """The wrapper has something that is not known here. The message says what, and in which line."""


@dataclass(frozen=True)
class Wrapper:
    """The functions of one output code, by name."""

    functions: dict[str, ast.FunctionDef]

    @property
    def entry(self) -> ast.FunctionDef:
        return self.functions[ENTRY]


def read_wrapper(text: str, language: str = "python") -> Wrapper:
    """Read an output code. Raises UnreadableCode for one without a wrapper in Python."""
    if language != "python":
        raise UnreadableCode(
            f"the wrapper is written in {language}, and only one in Python can be read"
        )
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableCode(
            f"the output code is no Python that can be read ({type(error).__name__})"
        ) from error
    functions = {found.name: found for found in _functions(tree)}
    if ENTRY not in functions:
        raise UnreadableCode("the output code has no function call(args)")
    return Wrapper(functions)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            yield from (one for one in statement.body if isinstance(one, ast.FunctionDef))


def argument_names(function: ast.FunctionDef) -> list[str]:
    """Return the names that a function unpacks its one list of arguments into, in order; empty when
    it has no arguments.
    """
    given = function.args.args[-1].arg if function.args.args else ""
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id=name)) if (
                name == given
            ):
                return [one.id for one in names if isinstance(one, ast.Name)]
            case ast.Assign(
                targets=[ast.Name(id=only)], value=ast.Subscript(value=ast.Name(id=name))
            ) if name == given:
                return [only]
    return []
