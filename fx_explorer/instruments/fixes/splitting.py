"""This module splits a compiled function in two: the part that becomes one graph, as a new
function, and the function that calls it and does the rest uncompiled.

The function keeps its name and what it takes and gives, so nobody who calls it has to change. Where
it is compiled moves to the new one: a decorator, or ``torch.compile(f)`` elsewhere in the file. A
module's ``forward`` stays with the module and is run in eager mode alone
(``torch.compiler.disable(recursive=False)``), which compiles what it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from fx_explorer.instruments.fixes.fix import Site
from fx_explorer.source_edit.bound_names import (
    bound_in,
    locals_of,
    new_name,
    parameters,
    read,
    walk,
)
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, indented, replaced

RISK = "The code left outside is no longer compiled."

# What means another thing once it stands in another function, or unbinds a name that the rest may
# read.
_NOT_HERE = (cst.Yield, cst.Await, cst.Global, cst.Nonlocal, cst.Del)


@dataclass(frozen=True, slots=True)
class SplitLines:
    """Lines of the two functions, without their indentation."""

    inner: Sequence[str]
    outer: Sequence[str]
    """Lines of the outer function after its call of the new one."""
    results: Sequence[str]
    """Names that the outer function gives to the results of the inner one, which ends with its own
    ``return``.
    """


@dataclass(frozen=True, slots=True)
class _WayOfCompiling:
    """How the function is compiled, and the edits that undo it."""

    decorator: str
    """The decorator for the new function; empty when it is compiled without one."""
    splices: tuple[Splice, ...]


def function_to_split(site: Site, stack: Sequence[Site]) -> cst.FunctionDef | None:
    """Return the function of the break if it is the compiled function itself, and its body is a
    plain sequence of lines.
    """
    statements = site.statements
    function = site.code.function(statements[0]) if statements else None
    # More than one frame: the function was inlined into another, and compiling begins there.
    if (
        function is None
        or len(stack) > 1
        or function.asynchronous
        or not isinstance(function.body, cst.IndentedBlock)
    ):
        return None
    is_whole = isinstance(site.code.parent(function), cst.Module) or _is_method(site.code, function)
    nodes = [node for line in body_lines(function) for node in walk(line)]
    in_the_way = any(
        isinstance(node, _NOT_HERE) or _is_long_text(site.code, node) for node in nodes
    )
    return function if is_whole and not in_the_way else None


def _is_long_text(code: Code, node: cst.CSTNode) -> bool:
    """Return whether the node is a string over several lines, which must not be indented again."""
    return (
        isinstance(node, cst.SimpleString | cst.FormattedString) and len(set(code.lines(node))) > 1
    )


def body_lines(function: cst.FunctionDef) -> list[cst.BaseStatement]:
    """Return the statements without the docstring."""
    # The docstring stays where it is, in the function that keeps the name.
    lines = [line for line in function.body.body if isinstance(line, cst.BaseStatement)]
    if function.get_docstring() is not None:
        return lines[1:]
    return lines


def texts(code: Code, lines: Sequence[cst.BaseStatement]) -> list[str]:
    """Return the statements as they are written, with the comments above and between them, without
    the indentation of the first.
    """
    if not lines:
        return []
    indent = code.indent(lines[0])
    begin, end = (
        code.lines(lines[0])[0] - len(getattr(lines[0], "leading_lines", ())),
        code.lines(lines[-1])[1],
    )
    text = code.text[code.line_start(begin) : code.line_start(end + 1)]
    return [line.removeprefix(indent) for line in text.strip("\n").splitlines()]


def given_on(
    code: Code, inner: Sequence[cst.BaseStatement], outer: Sequence[cst.CSTNode]
) -> list[str]:
    """Return the names that the first lines bind and the others read."""
    wanted = {name for line in outer for name in read(line)}
    bound = [name for line in inner for name in bound_in(line)]
    return list(dict.fromkeys(name for name in bound if name in wanted))


def split(site: Site, function: cst.FunctionDef, parts: SplitLines) -> list[Splice]:
    """Return the edit that splits the function; empty when it is not known where the function is
    compiled.
    """
    code = site.code
    compiled = _compiled(code, function)
    if compiled is None:
        return []
    lines = body_lines(function)
    name = new_name(code, f"{function.name.value.strip('_')}_graph")
    given = _given(function, parts.inner)
    indent, unit = code.indent(function), code.indent(lines[0])
    header = [compiled.decorator] if compiled.decorator else []
    header.append(f"def {name}({', '.join(given)}):")
    helper = [*(indent + line for line in header), *indented(unit, parts.inner)]
    # One empty line between methods, two between functions of a module, as is usual.
    space = "\n" if _is_method(code, function) else "\n\n"
    beginnings = [code.lines(node)[0] for node in (function, *function.decorators)]
    before = code.line_start(min(beginnings))
    call = _call(code, function, name, given, parts.results)
    body = "\n".join(indented(unit, [call, *parts.outer])) + "\n"
    begin, end = (
        code.line_start(code.lines(lines[0])[0]),
        code.line_start(code.lines(lines[-1])[1] + 1),
    )
    return [
        *imports(code, "torch"),
        Splice(before, before, "\n".join(helper) + f"\n{space}"),
        *compiled.splices,
        Splice(begin, end, body),
    ]


def _given(function: cst.FunctionDef, inner: Sequence[str]) -> list[str]:
    """Return the parameters that the new function reads; ``self`` is always included."""
    wanted = set(read(cst.parse_module("\n".join(inner) + "\n")))
    return [name for name in parameters(function) if name in wanted or name == "self"]


def _call(
    code: Code, function: cst.FunctionDef, name: str, given: Sequence[str], results: Sequence[str]
) -> str:
    if _is_method(code, function):
        call = f"self.{name}({', '.join(given[1:])})"
    else:
        call = f"{name}({', '.join(given)})"
    if results:
        return f"{', '.join(results)} = {call}"
    return call


def _compiled(code: Code, function: cst.FunctionDef) -> _WayOfCompiling | None:
    if _is_method(code, function):
        if function.name.value == "forward":
            return _kept_eager(code, function)
        return None
    if function.decorators:
        return _moved_decorator(code, function)
    calls = [call for call in code.all(cst.Call) if _compiles(code, call, function.name.value)]
    texts_of = {_as_decorator(code, call) for call in calls}
    # Compiled in two ways, it cannot have one decorator; and a decorator sees no local variable of
    # whoever called ``torch.compile``.
    if len(texts_of) != 1 or any(_reads_locals(code, call) for call in calls):
        return None
    return _WayOfCompiling(
        texts_of.pop(), tuple(replaced(code, call, function.name.value) for call in calls)
    )


def _kept_eager(code: Code, function: cst.FunctionDef) -> _WayOfCompiling | None:
    start = code.line_start(code.lines(function)[0])
    line = f"{code.indent(function)}@torch.compiler.disable(recursive=False)\n"
    # What another decorator makes of the function is not known.
    if function.decorators:
        return None
    return _WayOfCompiling("", (Splice(start, start, line),))


def _moved_decorator(code: Code, function: cst.FunctionDef) -> _WayOfCompiling | None:
    (decorator, *others) = function.decorators
    node = decorator.decorator
    made = node.func if isinstance(node, cst.Call) else node
    # Another decorator was meant for the whole function, and cannot be given to one half of it.
    if others or code.name_of(made) != "torch.compile":
        return None
    start, stop = (
        code.line_start(line) for line in (code.lines(decorator)[0], code.lines(decorator)[1] + 1)
    )
    return _WayOfCompiling(f"@{code.source(node)}", (Splice(start, stop, ""),))


def _compiles(code: Code, call: cst.Call, name: str) -> bool:
    first = call.args[0] if call.args else None
    is_it = (
        first is not None
        and first.keyword is None
        and isinstance(first.value, cst.Name)
        and first.value.value == name
    )
    return is_it and code.name_of(call.func) == "torch.compile"


def _as_decorator(code: Code, call: cst.Call) -> str:
    options = ", ".join(code.source(arg).rstrip(", ") for arg in call.args[1:])
    arguments = f"({options})" if options else ""
    return f"@{code.source(call.func)}{arguments}"


def _reads_locals(code: Code, call: cst.Call) -> bool:
    """Return whether an option of this ``torch.compile`` call reads a local variable of the
    enclosing function, which only that call can see.
    """
    around = code.function(call)
    if around is None:
        return False
    names = {name for arg in call.args[1:] for name in read(arg.value)}
    return not names.isdisjoint(locals_of(around))


def _is_method(code: Code, function: cst.FunctionDef) -> bool:
    """Return whether the function is a method of a class at the level of the module, called on an
    instance.
    """
    block = code.parent(function)
    if isinstance(block, cst.IndentedBlock):
        owner = code.parent(block)
    else:
        owner = None
    first = parameters(function)[:1]
    return (
        isinstance(owner, cst.ClassDef)
        and isinstance(code.parent(owner), cst.Module)
        and first == ["self"]
    )
