"""This module proposes fixes for loops that Dynamo cannot trace: a ``while`` on a tensor's value,
generators that are suspended at a graph break, and iterators that it does not know.

``torch.while_loop`` is an operation of the graph that continues for as long as it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.branches import assignment, condition
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import (
    bound_before,
    bound_in,
    is_pure,
    new_name,
    read_after,
    walk,
)
from fx_explorer.source_edit.code import Code, Splice, parsed, spliced
from fx_explorer.source_edit.edits import imports, indented, replaced, rewritten, unwrapped

_LEAVING: dict[type[cst.CSTNode], str] = {
    cst.Break: "break",
    cst.Continue: "continue",
    cst.Return: "return",
    cst.Yield: "yield",
    cst.Await: "await",
    cst.Global: "global",
    cst.Nonlocal: "nonlocal",
    cst.Del: "del",
    cst.Raise: "raise",
}
"""Statement that the body of torch.while_loop cannot contain → its name in messages."""


def fixes_of_while_loops(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement in site.statements:
            if isinstance(statement, cst.While) and not _obstacle(site.code, statement):
                yield site.edit(
                    "loop with torch.while_loop",
                    "torch.while_loop is one operation of the graph, which contains and runs the "
                    "condition and the body.",
                    [
                        *imports(site.code, "torch"),
                        rewritten(site.code, statement, _text(site.code, statement)),
                    ],
                    "Variables that the loop changes must keep their shape and dtype.",
                )


def why_no_while_loop(stack: list[Site]) -> str:
    """Return why the loop cannot become ``torch.while_loop``; empty when it can, or when there is
    no loop.
    """
    for site in stack[:1]:
        loops = [statement for statement in site.statements if isinstance(statement, cst.While)]
        for loop in loops:
            reason = _obstacle(site.code, loop)
            if reason:
                return f"This while cannot become torch.while_loop: {reason}."
    return ""


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names that the body binds, in the order of their first binding."""

    carried: tuple[str, ...]
    """Names that have a value before the loop and get a new one in each iteration."""
    new: tuple[str, ...]
    """Names that the body binds and that have no value before the loop."""


def _scope(code: Code, loop: cst.While) -> _Scope:
    bound, before = bound_in(loop.body), bound_before(code, loop)
    return _Scope(
        tuple(name for name in bound if name in before),
        tuple(name for name in bound if name not in before),
    )


def _obstacle(code: Code, loop: cst.While) -> str:
    if (
        code.function(loop) is None
        or code.line_of(loop) is None
        or not isinstance(loop.body, cst.IndentedBlock)
    ):
        return "it is not on separate lines in a function"
    if loop.orelse:
        return "it has an else"
    inside = _leaving(loop)
    if inside:
        return f"{inside} inside leaves or changes the enclosing function"
    if not is_pure(loop.test) or (isinstance(loop.test, cst.Name) and loop.test.value == "True"):
        if not is_pure(loop.test):
            return "its condition has side effects"
        return "it has no condition"
    return _acts(code, loop) or _unknown(code, loop)


def _leaving(loop: cst.While) -> str:
    """Return the first statement in the loop that ``torch.while_loop`` does not allow; empty
    without one.
    """
    for node in walk(loop.body):
        for kind, what in _LEAVING.items():
            if isinstance(node, kind):
                return what
    return ""


def _acts(code: Code, loop: cst.While) -> str:
    """Describe the first side effect of the body; empty without one."""
    for node in walk(loop.body):
        if isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign):
            if isinstance(node, cst.Assign):
                targets = [target.target for target in node.targets]
            else:
                targets = [node.target]
            if not all(_is_names(target) for target in targets):
                return (
                    f"{code.source(node)!r} changes something that is not a variable of the "
                    "function"
                )
            if node.value is not None and not is_pure(node.value):
                return f"{code.source(node.value)!r} has side effects"
        if isinstance(node, cst.Expr) and not is_pure(node.value):
            return f"{code.source(node)!r} has side effects"
    return ""


def _is_names(target: cst.BaseExpression) -> bool:
    if isinstance(target, cst.Tuple | cst.List):
        return all(_is_names(element.value) for element in target.elements)
    return isinstance(target, cst.Name)


def _unknown(code: Code, loop: cst.While) -> str:
    scope = _scope(code, loop)
    if not scope.carried:
        return "it changes no variable that existed before the loop"
    later = read_after(code, loop)
    needed = next((name for name in scope.new if name in later), "")
    if needed:
        return (
            f"{needed} is made inside the loop and used after it, but the loop may have no "
            "iteration"
        )
    return ""


def _text(code: Code, loop: cst.While) -> str:
    """Return the text that replaces the loop: two functions and the call of ``torch.while_loop``.
    Both functions take the carried values as arguments, and close over all other names.
    """
    carried = _scope(code, loop).carried
    keep_on, one_round = new_name(code, "keep_on"), new_name(code, "one_round")
    listed, unit = ", ".join(carried), code.unit
    body = "\n".join(indented(unit, _body(code, loop).splitlines()))
    last = f"{unit}return {', '.join(_returned(code, loop, name) for name in carried)}"
    single = "," if len(carried) == 1 else ""
    return "\n\n".join(
        [
            f"def {keep_on}({listed}):\n{unit}return {condition(code, loop.test)}",
            f"def {one_round}({listed}):\n{body}\n{last}{single}",
            f"{listed}{single} = torch.while_loop({keep_on}, {one_round}, ({listed}{single}))",
        ]
    )


def _body(code: Code, loop: cst.While) -> str:
    """Return the body of the loop with ``a += b`` as ``a = a + (b)``, since changing ``a`` in place
    would change an input of the loop.
    """
    splices = []
    for node in walk(loop.body):
        if isinstance(node, cst.AugAssign):
            pair = assignment(code, node)
            if pair:
                splices.append(replaced(code, node, f"{pair[0]} = {pair[1]}"))
    other = parsed(spliced(code.text, splices))
    statements = other.statements_at(code.lines(loop)[0])
    (again,) = (statement for statement in statements if isinstance(statement, cst.While))
    indent = other.indent(again)
    body = unwrapped(other, again, again.body)
    return "\n".join(line.removeprefix(indent) for line in body.splitlines())


def _returned(code: Code, loop: cst.While, name: str) -> str:
    """Return the expression for a carried value that an iteration returns. If it is another name's
    value, it is copied, because torch.while_loop must not return an input.
    """
    for node in walk(loop.body):
        if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Name):
            continue
        if any(code.source(target.target) == name for target in node.targets):
            return f"{name}.clone()"
    return name


# Generators and iterators.


def fixes_of_generators(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack:
        for statement in site.statements:
            function = site.code.function(statement)
            if function is not None:
                yield from _as_list(site, function)


def _as_list(site: Site, function: cst.FunctionDef) -> Iterator[Fix]:
    splices = _collecting(site.code, function)
    if splices:
        yield site.edit(
            f"let {function.name.value}() return a list",
            "torch can end a graph in a function that returns, but not in a generator that is "
            "suspended.",
            splices,
            "All values are made before the first is used; next() and send() no longer "
            "work on the result.",
        )


def _collecting(code: Code, function: cst.FunctionDef) -> list[Splice]:
    """Turn ``yield value`` into ``values.append(value)``; empty for a function that is not a
    generator, or receives values.
    """
    yields = [node for node in _own_nodes(function.body) if isinstance(node, cst.Yield)]
    if isinstance(function.body, cst.IndentedBlock):
        body = function.body.body
    else:
        body = ()
    returns = [node for node in _own_nodes(function.body) if isinstance(node, cst.Return)]
    is_plain = (
        all(isinstance(code.parent(node), cst.Expr) for node in yields) and not function.decorators
    )
    # A ``return`` would have to give the list, too; and a decorator such as ``contextmanager``
    # needs a generator.
    if returns or not (yields and body and is_plain):
        return []
    name = new_name(code, "values")
    first, last = code.lines(body[0])[0], code.lines(body[-1])[1]
    indent = code.indent(body[0])
    begin, end = code.line_start(first), code.line_start(last + 1)
    # The last line of a file may have no end.
    newline = "" if code.text[end - 1 : end] == "\n" else "\n"
    return [
        Splice(begin, begin, f"{indent}{name} = []\n"),
        *(replaced(code, node, _collected(code, node, name)) for node in yields),
        Splice(end, end, f"{newline}{indent}return {name}\n"),
    ]


def _collected(code: Code, node: cst.Yield, name: str) -> str:
    if isinstance(node.value, cst.From):
        return f"{name}.extend({code.source(node.value.item)})"
    value = code.source(node.value) if node.value else "None"
    return f"{name}.append({value})"


def _own_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes in it, but not those of functions and classes defined inside."""
    yield node
    for child in node.children:
        if not isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            yield from _own_nodes(child)
