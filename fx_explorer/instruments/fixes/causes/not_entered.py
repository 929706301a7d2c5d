"""This module proposes fixes for code that Dynamo does not enter, or ends the graph at: ``with``
and ``try``, functions that were kept out by ``torch.compiler.disable``, and ``backward()``.

There are context managers that Dynamo cannot enter or trace, and torch cannot resume inside ``try``
… ``except``, so that a break there costs the whole function. torch ends the graph before
``backward()``, unless an option makes it trace autograd too.

Somebody may have asked for a break: by ``torch._dynamo.graph_break()``, or by keeping a function
out with ``torch.compiler.disable``. And where there are several breaks in one function, or in what
one line calls, a single cut around it may cost less than all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.fixes.causes.opaque_calls import REACH
from fx_explorer.instruments.fixes.fix import Fix, Site, other_files
from fx_explorer.instruments.fixes.splitting import (
    RISK,
    SplitLines,
    body_lines,
    function_to_split,
    given_on,
    split,
    texts,
)
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import new_name, walk
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, in_place_of, removed, replaced, unwrapped


def fixes_of_contexts(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield fixes for the ``with`` and ``try`` statements around a break. The break may be inside
    the context manager itself: then the ``with`` is in an outer frame.
    """
    for site in stack:
        for statement in site.statements:
            if isinstance(statement, cst.With) and site.code.line_of(statement) is not None:
                yield from _skipped(site, statement)
                yield from _left_out(site, statement)


def _skipped(site: Site, statement: cst.With) -> Iterator[Fix]:
    code = site.code
    if any(item.asname for item in statement.items):
        return  # its value is used
    texts = []
    for item in statement.items:
        manager = code.source(item.item)
        either = f"contextlib.nullcontext() if torch.compiler.is_compiling() else {manager}"
        texts.append(replaced(code, item.item, either))
    fix = site.edit(
        f"enter {_names(code, statement)} only in eager mode",
        "torch.compiler.is_compiling() is true while Dynamo traces the code, so the graph does "
        "not enter the context manager.",
        [*imports(code, "contextlib", "torch"), *texts],
        "In compiled code, the context manager does nothing.",
    )
    yield replace(fix, unseen=_unseen(code, statement))


def _left_out(site: Site, statement: cst.With) -> Iterator[Fix]:
    # Empty where the body stands on the line of the ``with``.
    body = unwrapped(site.code, statement, statement.body)
    if body:
        fix = site.edit(
            f"leave {_names(site.code, statement)} out",
            "The code inside is compiled as if the context manager were not there.",
            [in_place_of(site.code, statement, body)],
            "The effects of the context manager are lost.",
        )
        yield replace(fix, unseen=_unseen(site.code, statement))


def _unseen(code: Code, statement: cst.With) -> str:
    entered = ", ".join(first_line(code.source(item.item)) for item in statement.items)
    return f"the effects of {entered}, which the compared calls do not show"


def _names(code: Code, statement: cst.With) -> str:
    return ", ".join(code.source(item.item) for item in statement.items)


# ``try`` … ``except``.


def fixes_of_try_blocks(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:REACH]:
        for statement in site.statements:
            around = (
                statement
                if isinstance(statement, cst.Try)
                else site.code.around(statement, cst.Try)
            )
            if isinstance(around, cst.Try) and site.code.line_of(around) is not None:
                yield from _first_out(site, around)
                yield from _without(site, around)


def _first_out(site: Site, around: cst.Try) -> Iterator[Fix]:
    """Move the line with the break in front of the ``try``, if it is the first line in it."""
    code = site.code
    lines = around.body.body if isinstance(around.body, cst.IndentedBlock) else ()
    # A ``try`` needs a line that stays in it.
    if len(lines) < 2 or not code.lines(lines[0])[0] <= site.line <= code.lines(lines[0])[1]:
        return
    indent, text = code.indent(around), code.text
    start, stop = (
        code.line_start(code.lines(lines[0])[0]),
        code.line_start(code.lines(lines[0])[1] + 1),
    )
    begin = code.line_start(code.lines(around)[0])
    moved = indent + text[start:stop].lstrip()
    after = text[begin:start] + text[stop : code.line_start(code.lines(around)[1] + 1)]
    yield site.edit(
        "move the line with the graph break before the try",
        "Outside of the try, torch can end one graph and begin the next, and the function is "
        "compiled.",
        [in_place_of(code, around, moved + after)],
        "Exceptions that it raises are no longer caught.",
    )


def _without(site: Site, around: cst.Try) -> Iterator[Fix]:
    code = site.code
    parts = [
        around.body,
        around.orelse and around.orelse.body,
        around.finalbody and around.finalbody.body,
    ]
    texts = [unwrapped(code, around, part) for part in parts if part]
    if not all(texts):
        return
    why = (
        "Without handlers, torch can end a graph here and begin the next one, and the function is "
        "compiled."
    )
    edit = in_place_of(code, around, "".join(texts))
    if around.handlers:
        risk = "Exceptions raised inside are no longer caught."
        yield site.edit("leave the try out", why, [edit], risk)
        return
    risk = "After an exception, it does not run."
    fix = site.edit("run the finally block at the end", why, [edit], risk)
    after_an_exception = "a call in which the try raises: its finally block then does not run"
    yield replace(fix, untried=after_an_exception)


_DISABLES = ("torch.compiler.disable", "torch._dynamo.disable", "torch._disable_dynamo")


def fixes_of_wanted_breaks(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement, _, name in site.calls():
            if name == "torch._dynamo.graph_break" and isinstance(statement, cst.Expr):
                why = "The line asks for a graph break and has no other effect."
                yield site.edit(
                    "remove the line that asks for the break", why, [removed(site.code, statement)]
                )
        # The ids change between releases; the word is in the reason of all of them.
        if broken.registry_id in ("GB0098", "GB0099") or "disable" in broken.reason:
            yield from _enabled(reader, site)


def _enabled(reader: SessionReader, site: Site) -> Iterator[Fix]:
    """Yield a fix that removes ``torch.compiler.disable`` from the called function, in whichever of
    the user's files it is defined.
    """
    called = {name.rpartition(".")[2] or _method(call) for _, call, name in site.calls()}
    for place in (site, *other_files(reader, site)):
        for name in sorted(called):
            for splice in _without_disable(place.code, name):
                yield place.edit(
                    f"let {name}() be compiled",
                    "It is excluded with torch.compiler.disable; without that it becomes part of "
                    "the graph.",
                    [splice],
                    "It may have been excluded for a reason.",
                )


def _method(call: cst.Call) -> str:
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return ""


def _without_disable(code: Code, name: str) -> Iterator[Splice]:
    for function in code.functions_named(name):
        for decorator in function.decorators:
            if _is_disable(code, decorator.decorator):
                start, stop = (
                    code.line_start(line)
                    for line in (code.lines(decorator)[0], code.lines(decorator)[1] + 1)
                )
                yield Splice(start, stop, "")
    for called in code.all(cst.Call):
        made = called.func  # disable(f)(x)
        if isinstance(made, cst.Call) and _disabled(code, made).rpartition(".")[2] == name:
            yield replaced(code, made, code.source(made.args[0].value))
    for statement in code.all(cst.Assign):
        value = statement.value
        is_it = any(code.name_of(target.target) == name for target in statement.targets)
        if is_it and isinstance(value, cst.Call) and _disabled(code, value):
            yield replaced(code, value, code.source(value.args[0].value))


def _disabled(code: Code, call: cst.Call) -> str:
    """Return ``f`` for ``torch.compiler.disable(f)``; empty for any other call."""
    if call.args and code.name_of(call.func) in _DISABLES:
        return code.name_of(call.args[0].value)
    return ""


def _is_disable(code: Code, decorator: cst.BaseExpression) -> bool:
    if isinstance(decorator, cst.Call):
        function = decorator.func
    else:
        function = decorator
    return code.name_of(function) in _DISABLES


_RISK = "Its compiled parts run in eager mode, too: this pays only if the breaks cost more."


# One cut around several breaks.


def fixes_by_single_cut(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    if stack:
        lines = [_lines(graph_break) for graph_break in distinct_breaks(reader)]
    else:
        lines = []
    for site in stack[:1]:
        if site.statements:
            function = site.code.function(site.statements[0])
        else:
            function = None
        # With one frame the function is the one given to torch.compile: kept out, nothing would be
        # compiled.
        if len(stack) > 1 and function is not None and _breaks_in(site, function, lines) > 1:
            yield replace(_kept_out(site, function), compiles_less=True)
        if (
            site.path != broken.file
            and sum((site.path, site.line) in stack_lines for stack_lines in lines) > 1
        ):
            # It breaks in a library, of which only the call is the user's.
            yield from (replace(fix, compiles_less=True) for fix in _call_kept_out(site))


def _lines(broken: DistinctBreak) -> set[tuple[str, int]]:
    return {(broken.file, broken.line), *((frame.file, frame.line) for frame in broken.chain)}


def _breaks_in(site: Site, function: cst.FunctionDef, lines: list[set[tuple[str, int]]]) -> int:
    first, last = site.code.lines(function)

    def is_inside(place: tuple[str, int]) -> bool:
        path, line = place
        return path == site.path and first <= line <= last

    return sum(any(map(is_inside, places)) for places in lines)


def _kept_out(site: Site, function: cst.FunctionDef) -> Fix:
    code = site.code
    first = min(
        [code.lines(function)[0], *(code.lines(decorator)[0] for decorator in function.decorators)]
    )
    start = code.line_start(first)
    return site.edit(
        f"keep the whole {function.name.value}() out of compilation",
        "It has several graph breaks; as one eager call it has only one.",
        [
            *imports(code, "torch"),
            Splice(start, start, f"{code.indent(function)}@torch.compiler.disable\n"),
        ],
        _RISK,
    )


def _call_kept_out(site: Site) -> Iterator[Fix]:
    for _, call, name in site.calls():
        root = name.partition(".")[0]
        if name and root != "torch" and not _is_method(site.code, call):
            yield site.edit(
                f"keep the code of {site.code.source(call.func)}() out of compilation",
                "The functions it calls have several graph breaks; as one eager call they have "
                "only one.",
                [
                    *imports(site.code, "torch"),
                    replaced(
                        site.code,
                        call.func,
                        f"torch.compiler.disable({site.code.source(call.func)})",
                    ),
                ],
                _RISK,
            )
            return


def _is_method(code: Code, call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and code.source(call.func).partition(".")[
        0
    ] not in (*code.imported, "self")


def fixes_of_backward(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield two fixes: the call of ``backward()`` outside of the compiled code, and the option that
    puts the backward into the graph.
    """
    for site in stack[:1]:
        splices = _outside(site, stack)
        if splices:
            yield site.edit(
                "call backward() outside of the compiled function",
                "The function is split in two: a compiled one returns the loss, and the other one "
                "calls backward() on it.",
                splices,
                RISK,
            )
    if broken.registry_id == "GB0123":
        yield Fix(
            "trace backward() into the graph",
            "With dynamo.trace_autograd_ops, torch traces the gradients of backward() as part of "
            "the graph.",
            "The setting applies to everything that is compiled. Only loss.detach() can be "
            "returned, not the loss.",
            broken.line,
            settings={"dynamo.trace_autograd_ops": True},
        )


def _outside(site: Site, stack: list[Site]) -> list[Splice]:
    """Return the edit that takes ``backward()`` out of the compiled code; empty when the line does
    more, or nothing is computed before it.
    """
    function = function_to_split(site, stack)
    lines = body_lines(function) if function else []
    code = site.code
    numbers = (number for number, line in enumerate(lines) if _backward(code, line, site.line))
    at = next(numbers, None)
    if function is None or at is None:
        return []
    nodes_above = (node for line in lines[:at] for node in walk(line))
    # A ``return`` above would leave the new function only, and the old one would continue.
    if any(isinstance(node, cst.Return) for node in nodes_above):
        return []
    call = _backward(code, lines[at], site.line)
    assert call is not None
    loss = code.source(call.func.value)  # type: ignore[attr-defined]
    inner = texts(code, lines[:at])
    outer = texts(code, lines[at:])
    results = given_on(code, lines[:at], lines[at:])
    # The loss has no name yet by which the new function could return it.
    if not isinstance(call.func.value, cst.Name):  # type: ignore[attr-defined]
        name = new_name(code, "loss")
        inner, outer = [*inner, f"{name} = {loss}"], _renamed(outer, loss, name)
        # What only the loss is computed from is not read outside any more.
        results = [*given_on(code, lines[:at], [*call.args, *lines[at + 1 :]]), name]
    if not inner or not results:
        return []
    return split(
        site, function, SplitLines([*inner, f"return {', '.join(results)}"], outer, results)
    )


def _renamed(lines: list[str], loss: str, name: str) -> list[str]:
    return "\n".join(lines).replace(f"{loss}.backward", f"{name}.backward", 1).split("\n")


def _backward(code: Code, line: cst.CSTNode, number: int) -> cst.Call | None:
    """Return the call ``LOSS.backward()`` if it is the whole statement on this line."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        small = line.body[0]
    else:
        small = None
    call = small.value if isinstance(small, cst.Expr) else None
    if (
        not isinstance(call, cst.Call)
        or not isinstance(call.func, cst.Attribute)
        or call.func.attr.value != "backward"
    ):
        return None
    if code.lines(line)[0] <= number <= code.lines(line)[1]:
        return call
    return None
