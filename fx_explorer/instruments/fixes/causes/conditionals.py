"""An ``if`` on a tensor's value whose branches compute more than ``torch.where`` should:
``torch.cond`` runs just one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.branches import (
    assignment,
    branches_of,
    condition,
    is_of_tensors,
    small_statements,
)
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code
from fx_explorer.source_edit.edits import imports, rewritten
from fx_explorer.source_edit.names import bound_before, is_pure, new_name


def fixes_by_cond(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement in site.statements:
            text = _text(site.code, statement) if isinstance(statement, cst.If) else ""
            if text and site.code.line_of(statement) is not None:
                fix = site.edit(
                    "choose with torch.cond",
                    "torch.cond is an operation of the graph that holds both branches "
                    "and runs one of them.",
                    [*imports(site.code, "torch"), rewritten(site.code, statement, text)],
                    "Both branches must give tensors of the same shapes and dtypes.",
                )
                yield replace(
                    fix,
                    untried="a second derivative (create_graph=True), which torch.cond does not "
                    "have",
                )


def _text(code: Code, statement: cst.If) -> str:
    """Return the text that replaces the ``if``; empty when a branch does anything but compute and
    assign, or there is an ``elif``.
    """
    branches = branches_of(statement)
    if len(branches) != 2 or not is_pure(statement.test) or not is_of_tensors(code, statement.test):
        return ""
    bodies = [small_statements(body) for _, body in branches]
    if any(body is None for body in bodies):
        return ""
    pairs = [
        [
            assignment(code, statement)
            for statement in body or ()
            if not isinstance(statement, cst.Pass)
        ]
        for body in bodies
    ]
    # A branch of torch.cond may not change what is outside of it, as an assignment to an attribute
    # does.
    if any(pair is None or "." in pair[0] for branch in pairs for pair in branch):
        return ""
    made = [[pair for pair in branch if pair] for branch in pairs]
    targets = list(dict.fromkeys(target for branch in made for target, _ in branch))
    known = [target for target in targets if target in bound_before(code, statement)]
    # What one branch does not assign it must return as it was, which needs a value from before.
    if not targets or any(
        target not in known
        for branch in made
        for target in set(targets) - {name for name, _ in branch}
    ):
        return ""
    names = new_name(code, "if_true"), new_name(code, "if_false")
    functions = [
        _function(code, name, branch, targets, known)
        for name, branch in zip(names, made, strict=True)
    ]
    operands = f"({', '.join(known)}{',' if len(known) == 1 else ''})"
    call = (
        f"{', '.join(targets)} = torch.cond({condition(code, statement.test)}, "
        f"{', '.join(names)}, {operands})"
    )
    return "\n\n".join([*functions, call])


def _function(
    code: Code, name: str, branch: list[tuple[str, str]], targets: list[str], known: list[str]
) -> str:
    """Return a branch as a function. It must not return what it was given, so that is copied."""
    unit = code.unit
    lines = [f"{unit}{target} = {value}" for target, value in branch]
    copied = {target for target, value in branch if value.isidentifier()} | (
        set(targets) - {target for target, _ in branch}
    )
    results = ", ".join(f"{target}.clone()" if target in copied else target for target in targets)
    return "\n".join([f"def {name}({', '.join(known)}):", *lines, f"{unit}return {results}"])
