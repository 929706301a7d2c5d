"""This module proposes fixes for side effects in compiled code: changes of globals and other
objects, calls whose result is not used, and output for people (``print``, logging and warnings),
which may come later, or not at all while compiled.

A call that prints is put under a condition, left to torch to make after the graph, or moved behind
what is compiled: then what a ``print`` is given is computed where it stood, and is written later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.opaque_calls import is_explained
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.instruments.fixes.splitting import (
    SplitLines,
    body_lines,
    function_to_split,
    split,
    texts,
)
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import locals_of, locals_read, new_name, walk
from fx_explorer.source_edit.code import Code, Splice, Statement, spliced
from fx_explorer.source_edit.edits import (
    after_imports,
    imports,
    indented,
    removed,
    replaced,
    rewritten,
    wrapped,
)


def fixes_of_side_effects(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement in site.statements:
            yield from _as_global(site, statement)
            if _is_effect(site, statement):
                yield from _skipped(site, statement)


def _is_effect(site: Site, statement: Statement) -> bool:
    """Return whether the statement has a side effect: a call whose result is not used, or an
    assignment to a global or to an attribute of one.
    """
    if isinstance(statement, cst.Expr):
        return isinstance(statement.value, cst.Call) and not is_explained(site)
    if isinstance(statement, cst.Assign):
        return all(_is_elsewhere(site.code, target.target) for target in statement.targets)
    return isinstance(statement, cst.AugAssign) and _is_elsewhere(site.code, statement.target)


def _is_elsewhere(code: Code, target: cst.BaseExpression) -> bool:
    """Return whether the target is outside of the function: ``os.environ["A"]``, ``module.flag``,
    ``globals()["X"]``. A name, or a part of a local object, is not.
    """
    node: cst.CSTNode = target
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    function = code.function(target)
    if node is target or function is None:
        return False
    return isinstance(node, cst.Call) or (
        isinstance(node, cst.Name) and node.value not in locals_of(function)
    )


def _skipped(site: Site, statement: Statement) -> Iterator[Fix]:
    """Yield fixes that run the line only in eager mode, or remove it."""
    line = site.code.line_of(statement)
    if line is not None:
        fix = site.edit(
            "run this only in eager mode",
            "torch.compiler.is_compiling() is true while Dynamo traces the code, so the line is "
            "left out of the graph.",
            [
                *imports(site.code, "torch"),
                *wrapped(site.code, "if not torch.compiler.is_compiling():", line),
            ],
            "Compiled, the line does nothing.",
        )
        yield replace(fix, unseen=_unseen_effect(site, statement))
    fix = site.edit(
        "move the line out of the compiled code",
        "None of its results are used later. Run it before or after calling the compiled code.",
        [removed(site.code, statement)],
        "The line's effect is lost.",
    )
    yield replace(fix, unseen=_unseen_effect(site, statement))


def _unseen_effect(site: Site, statement: Statement) -> str:
    return (
        f"the effects of {first_line(site.code.source(statement))}, which the compared calls do "
        "not show"
    )


def _as_global(site: Site, statement: Statement) -> Iterator[Fix]:
    """Turn ``globals()["X"] = value`` into ``global X`` and an assignment, which Dynamo can
    trace.
    """
    name = _set_by_name(site.code, statement)
    line = site.code.line_of(statement)
    if name and line is not None and isinstance(statement, cst.Assign):
        yield site.edit(
            f"assign the global {name} by its name",
            "torch traces an assignment to a global, and performs it after the graph has run.",
            [
                rewritten(
                    site.code, line, f"global {name}\n{name} = {site.code.source(statement.value)}"
                )
            ],
        )


def _set_by_name(code: Code, statement: Statement) -> str:
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
    else:
        target = None
    if (
        not isinstance(target, cst.Subscript)
        or not isinstance(target.value, cst.Call)
        or len(target.slice) != 1
    ):
        return ""
    index = target.slice[0].slice
    text = index.value if isinstance(index, cst.Index) else None
    if not isinstance(text, cst.SimpleString) or code.name_of(target.value.func) != "globals":
        return ""
    name = str(text.evaluated_value)
    function = code.function(statement)
    if name.isidentifier() and function and name not in locals_of(function):
        return name
    return ""


_LEVELS = frozenset(
    ["debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once"]
)
_FUNCTIONS = frozenset(
    ["print", "warnings.warn", "pprint.pprint", "sys.stdout.write", "sys.stderr.write"]
)

WHERE_A_LINE_BEHIND_RAISES = "a call in which a line after the {} raises: nothing is written then"

_PLAIN = re.compile(r"\.(shape|dtype|device|size\(\))$")
"""Matches an attribute or method of a tensor that returns a plain value, such as its shape."""


def fixes_of_prints(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement, call, name in site.calls():
            what = _what(call, name)
            if what and isinstance(statement, cst.Expr) and statement.value is call:
                yield from _kept(site, call, name, what)
                yield from _out(site, statement, what)


def _what(call: cst.Call, name: str) -> str:
    """Return what the call writes, such as "log message"; empty for a call that writes nothing."""
    if name in _FUNCTIONS:
        return {"print": "print", "warnings.warn": "warning"}.get(name, "output")
    # ``log`` is a method of loggers, and a function of torch's that computes.
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in _LEVELS
    if is_method and "torch" not in name.split("."):
        return "log message"
    return ""


def _kept(site: Site, call: cst.Call, name: str, what: str) -> Iterator[Fix]:
    """Yield an edit that makes torch run the call after the graph (torch/_dynamo/config.py,
    ``reorderable_logging_functions``). It is proposed for plain functions only.
    """
    if name in ("print", "warnings.warn") or name.startswith("logging."):
        written = site.code.source(call.func)
        line = f"torch._dynamo.config.reorderable_logging_functions.add({written})"
        fix = site.edit(
            f"let torch do the {what} after the graph",
            f"torch then keeps {written} out of the graph and calls it once the graph has run.",
            [
                *imports(site.code, "torch._dynamo"),
                after_imports(site.code, line),
                *_as_text(site.code, call),
            ],
            "The output comes later than before, after its graph, and not at all if the graph "
            "raises.",
        )
        yield replace(fix, untried=WHERE_A_LINE_BEHIND_RAISES.format(what))


def _as_text(code: Code, call: cst.Call) -> list[Splice]:
    """Wrap arguments such as a shape in ``str``: torch accepts only tensors, constants and
    formatted text.
    """
    values = [arg.value for arg in call.args if not arg.star and arg.keyword is None]
    splices = []
    for value in values:
        text = code.source(value)
        if _PLAIN.search(text):
            splices.append(replaced(code, value, f"str({text})"))
    return splices


def _out(site: Site, statement: Statement, what: str) -> Iterator[Fix]:
    """Yield fixes that run the line only in eager mode, or remove it."""
    line = site.code.line_of(statement)
    if line is not None:
        fix = site.edit(
            f"do the {what} only in eager mode",
            "torch.compiler.is_compiling() is true while Dynamo traces the code, so the line is "
            "left out of the graph.",
            [
                *imports(site.code, "torch"),
                *wrapped(site.code, "if not torch.compiler.is_compiling():", line),
            ],
            "Compiled, nothing is written.",
        )
        yield replace(fix, unseen=_unseen_output(what))
    fix = site.edit(
        f"move the {what} out of the compiled code",
        "Writing is a side effect that a graph cannot contain.",
        [removed(site.code, statement)],
        "Nothing is written any more.",
    )
    yield replace(fix, unseen=_unseen_output(what))


def _unseen_output(what: str) -> str:
    return (
        f"the {what}, because no call in the captured run wrote it (suppressed by the level, a "
        "filter or the inputs)"
    )


_RISK = "If a line after the print raises, nothing is written."

_WHY = (
    "The text is computed at the old place and written later, so the code before and after the "
    "print is one graph."
)


def fixes_by_printing_later(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        moved = _moved(site)
        if moved is None:
            continue
        whole = function_to_split(site, stack)
        if whole is moved.function:
            splices = split(site, moved.function, _split(moved))
        else:
            splices = []
        if splices:
            yield _edit(site, "print where the compiled code is called", splices, moved)
        # A print that is last stands at the end already.
        if not moved.is_last:
            yield _edit(
                site, "print at the end of the function", _at_the_end(site.code, moved), moved
            )


def _edit(site: Site, title: str, splices: list[Splice], moved: _MovedPrint) -> Fix:
    if moved.is_last:
        return replace(site.edit(title, _WHY, splices), keeps_prints=True)
    untried = WHERE_A_LINE_BEHIND_RAISES.format("print")
    return replace(site.edit(title, _WHY, splices, _RISK), keeps_prints=True, untried=untried)


class _MovedPrint:
    """Computes the edit that moves a print out of the top level of a function, with names for the
    values that it prints.
    """

    def __init__(
        self,
        code: Code,
        function: cst.FunctionDef,
        lines: list[cst.BaseStatement],
        at: int,
        call: cst.Call,
    ) -> None:
        self.code = code
        self.function = function
        self.values = _values(code, call)
        names = _names(code, len(self.values))
        self.names = names
        given = dict(zip((id(value) for value in self.values), names, strict=True))
        self.writing = _with_names(code, call, given)
        computed = [
            f"{name} = {_without_item(code, value)}"
            for name, value in zip(names, self.values, strict=True)
        ]
        last = lines[-1]
        if isinstance(last, cst.SimpleStatementLine):
            leaving = last.body[-1]
        else:
            leaving = None
        self.result = leaving.value if isinstance(leaving, cst.Return) else None
        if isinstance(leaving, cst.Return):
            behind = lines[at + 1 : -1]
        else:
            behind = lines[at + 1 :]
        # Then nothing is computed behind the print that could raise and keep it from being written.
        self.is_last = not behind and (self.result is None or isinstance(self.result, cst.Name))
        self.body = [*texts(code, lines[:at]), *computed, *texts(code, behind)]


def _moved(site: Site) -> _MovedPrint | None:
    """Return the move of the print. None when the print is not a line of the function itself, or
    when the function can end early: an exception would lose the output.
    """
    code = site.code
    for statement, call, name in site.calls():
        line, function = code.line_of(statement), code.function(statement)
        is_print = name == "print" and isinstance(statement, cst.Expr) and statement.value is call
        if function and isinstance(function.body, cst.IndentedBlock):
            lines = body_lines(function)
        else:
            lines = []
        if is_print and function is not None and line in lines and _has_one_end(lines):
            at = lines.index(line)  # type: ignore[arg-type]
            if _raises(lines[at + 1 :]):
                return None
            return _MovedPrint(code, function, lines, at, call)
    return None


def _has_one_end(lines: list[cst.BaseStatement]) -> bool:
    nodes = [node for line in lines for node in walk(line)]
    returns = [node for node in nodes if isinstance(node, cst.Return)]
    if isinstance(lines[-1], cst.SimpleStatementLine):
        last = lines[-1].body
    else:
        last = ()
    # Text moved to the end would not be written on the way out in the middle.
    return not any(isinstance(node, cst.Yield) for node in nodes) and all(
        list(last) == [statement] for statement in returns
    )


def _raises(lines: list[cst.BaseStatement]) -> bool:
    return any(isinstance(node, cst.Raise | cst.Assert) for line in lines for node in walk(line))


def _values(code: Code, call: cst.Call) -> list[cst.BaseExpression]:
    """Return the expressions that the print reads: whole arguments, and the fields of formatted
    text.
    """
    expressions: list[cst.BaseExpression] = []
    for argument in call.args:
        fields = [
            node for node in walk(argument.value) if isinstance(node, cst.FormattedStringExpression)
        ]
        if isinstance(argument.value, cst.FormattedString):
            given = [field.expression for field in fields]
        else:
            given = [argument.value]
        expressions += [value for value in given if locals_read(code, value)]
    return expressions


def _names(code: Code, count: int) -> list[str]:
    name = new_name(code, "printed")
    if count == 1:
        return [name]
    return [f"{name}_{number}" for number in range(1, count + 1)]


def _with_names(code: Code, call: cst.Call, names: dict[int, str]) -> str:
    """Return the print with names in place of the values. For ``x.item()``, the name holds the
    tensor and the number is read when it is printed.
    """
    begin, end = code.span(call)
    splices = []
    for node in walk(call):
        if id(node) in names:
            start, stop = code.span(node)
            item = ".item()" if _is_item(node) else ""
            splices.append(Splice(start - begin, stop - begin, f"{names[id(node)]}{item}"))
    return spliced(code.text[begin:end], splices)


def _is_item(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "item"
    )


def _without_item(code: Code, value: cst.BaseExpression) -> str:
    if _is_item(value):
        return code.source(value.func.value)  # type: ignore[attr-defined]
    return code.source(value)


def _split(moved: _MovedPrint) -> SplitLines:
    name = new_name(moved.code, "result")
    inner, outer = [*moved.body], [moved.writing]
    given, results = [*moved.names], [*moved.names]
    if moved.result:
        given.insert(0, f"({moved.code.source(moved.result)})")
        results.insert(0, name)
        outer.append(f"return {name}")
    if given:
        inner.append(f"return {', '.join(given)}")
    return SplitLines(inner, outer, results)


def _at_the_end(code: Code, moved: _MovedPrint) -> list[Splice]:
    lines = [*moved.body]
    if moved.result:
        name = new_name(code, "result")
        lines += [f"{name} = {code.source(moved.result)}", moved.writing, f"return {name}"]
    else:
        lines.append(moved.writing)
    statements = body_lines(moved.function)
    first, last = statements[0], statements[-1]
    begin = code.line_start(code.lines(first)[0])
    end = code.line_start(code.lines(last)[1] + 1)
    text = "".join(f"{line}\n" for line in indented(code.indent(first), lines))
    return [Splice(begin, end, text)]
