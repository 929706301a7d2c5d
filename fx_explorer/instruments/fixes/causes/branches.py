"""This module proposes fixes for branches that depend on a tensor's value: ``if``, the conditional
expression, ``assert``.

``torch.where`` computes both sides. Where the branches of an ``if`` compute more than it should,
``torch.cond`` runs just one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.arithmetic import NumberUses
from fx_explorer.instruments.fixes.fix import Fix, Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import bound_before, is_pure, new_name, read, walk
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import imports, replaced, rewritten

BOTH_SIDES = (
    "Both branches are computed now. A branch that fails or gives NaN in the other branch's case "
    "can spoil gradients."
)

NOT_TAKEN = (
    "a call in which the branch that is not taken raises, or has an infinite gradient: both "
    "branches are computed now"
)

_WHERE = "choose with torch.where"

_ASKS = frozenset(
    [
        "any",
        "all",
        "isnan",
        "isinf",
        "isfinite",
        "logical_and",
        "logical_or",
        "logical_not",
        "eq",
        "gt",
        "lt",
    ]
)
"""Calls that return a tensor of booleans."""

Values = dict[str, str]
"""The assignments of a branch: target → expression, as written."""


def fixes_of_branches(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    """Yield the fixes of an ``if``, an ``assert`` with a message, and conditional expressions on
    the broken line.
    """
    for site in stack[:1]:
        for statement in site.statements:
            if isinstance(statement, cst.If):
                yield from _chosen(site, statement)
            if isinstance(statement, cst.Assert) and statement.msg:
                yield _silent(site, statement, statement.msg)
            for choice in site.code.find(statement, cst.IfExp):
                sides = [site.code.source(side) for side in (choice.body, choice.orelse)]
                if (
                    is_pure(choice)
                    and is_of_tensors(site.code, choice.test)
                    and all(_fits_a_tensor(site.code, side) for side in sides)
                ):
                    splice = replaced(site.code, choice, _where_text(site.code, choice))
                    yield _where(site, splice, NumberUses(site.code, choice), sides)


@dataclass(frozen=True)
class _WhereChoice:
    """The replacement for an ``if`` and the statements after it up to ``last``."""

    text: str
    sides: Sequence[str]
    """Expressions of the branches, which are computed whichever branch is taken."""
    last: cst.CSTNode


def _chosen(site: Site, statement: cst.If) -> Iterator[Fix]:
    choice = _assigned(site.code, statement) or _returned(site.code, statement)
    if not choice or site.code.line_of(statement) is None or not is_pure(statement.test):
        return
    branches = branches_of(statement)
    if not all(is_of_tensors(site.code, test) for test, _ in branches if test):
        return
    start = site.code.line_start(site.code.lines(statement)[0])
    stop = site.code.line_start(site.code.lines(choice.last)[1] + 1)
    indent = site.code.indent(statement)
    text = "".join(f"{indent}{line}\n" for line in choice.text.split("\n"))
    targets: set[str] = set()
    for _, body in branches:
        targets.update(_values(site.code, body) or ())
    uses = NumberUses(site.code, statement, targets)
    yield _where(site, Splice(start, stop, text), uses, choice.sides)


def _where(site: Site, splice: Splice, uses: NumberUses, sides: Sequence[str]) -> Fix:
    """Return the fix with torch.where. ``uses`` are the uses of the chosen value, which becomes a
    tensor; ``sides`` are the expressions that are now always computed.
    """
    why = "torch.where computes both branches and selects by the condition, so one graph is enough."
    fix = site.edit(_WHERE, why, [*imports(site.code, "torch"), splice], BOTH_SIDES)
    untried = [*uses.untried_in_a_tensor()]
    if any(map(_may_fail, sides)):
        untried.insert(0, NOT_TAKEN)
    return replace(fix, untried="; ".join(untried))


def _may_fail(side: str) -> bool:
    """Return whether the expression calls, divides or indexes, and so may fail where its branch was
    not taken.
    """
    for node in walk(cst.parse_expression(side)):
        if isinstance(node, cst.Subscript | cst.Call):
            return True
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _FAILING):
            return True
    return False


_FAILING = (cst.MatrixMultiply, cst.Divide, cst.Power)
"""Operators that may fail for values that the branch excluded."""


def _where_text(code: Code, choice: cst.IfExp) -> str:
    return (
        f"torch.where({condition(code, choice.test)}, {code.source(choice.body)}, "
        f"{code.source(choice.orelse)})"
    )


def _silent(site: Site, statement: cst.Assert, message: cst.BaseExpression) -> Fix:
    return site.edit(
        "assert without the text",
        "The text is made from the tensor's value. Without it torch puts the check into the graph.",
        [replaced(site.code, statement, f"assert {site.code.source(statement.test)}")],
        f"A failed check no longer says {site.code.source(message)}.",
    )


# what the branches give


def _assigned(code: Code, statement: cst.If) -> _WhereChoice | None:
    """Return the statement as assignments; None when a branch does more than assign."""
    branches = branches_of(statement)
    values = [_values(code, body) for _, body in branches]
    if any(value is None for value in values):
        return None
    given = [value or {} for value in values]
    targets = list(dict.fromkeys(target for value in given for target in value))
    sides = [text for value in given for text in value.values()]
    if not targets or _depends(targets, given):
        return None
    if not all(_fits_a_tensor(code, text) for text in sides):
        return None
    tests = [test for test, _ in branches if test is not None]
    name = new_name(code, "condition") if len(targets) > 1 else ""
    # Several targets: the condition is computed once, before the first of them changes what it
    # reads.
    if name and len(tests) == 1:
        lines = [f"{name} = {condition(code, tests[0])}"]
    else:
        lines = []
    if name and len(tests) > 1:
        return None  # each condition would have to be kept before the first assignment
    conditions = [name] if name else [condition(code, test) for test in tests]
    for target in targets:
        choices = [value.get(target, target) for value in given]
        lines.append(f"{target} = {_nested(conditions, choices)}")
    return _WhereChoice("\n".join(lines), sides, statement)


def _nested(conditions: list[str], choices: list[str]) -> str:
    """Write the choices as ``torch.where(a, 1, torch.where(b, 2, 3))``."""
    if not conditions:
        return choices[0]
    return f"torch.where({conditions[0]}, {choices[0]}, {_nested(conditions[1:], choices[1:])})"


def _depends(targets: list[str], given: list[Values]) -> bool:
    """Return whether an expression reads a target that an assignment before it changes."""
    for value in given:
        for target, expression in value.items():
            earlier = targets[: targets.index(target)]
            if earlier and not set(earlier).isdisjoint(read(cst.parse_expression(expression))):
                return True
    return False


def _returned(code: Code, statement: cst.If) -> _WhereChoice | None:
    """Turn an ``if`` whose branches all return into one ``return``. The last ``return`` may follow
    the ``if``.
    """
    branches = branches_of(statement)
    last: cst.CSTNode = statement
    bodies = [body for _, body in branches]
    if branches[-1][1] is None:
        siblings = list(code.siblings(statement))
        if statement in siblings:
            behind = siblings[siblings.index(statement) + 1 :][:1]
        else:
            behind = []
        if not behind or not isinstance(behind[0], cst.SimpleStatementLine):
            return None
        bodies[-1] = last = behind[0]
    values = [_return_value(code, body) for body in bodies]
    if not all(values) or not all(_fits_a_tensor(code, text) for text in values):
        return None
    tests = [condition(code, test) for test, _ in branches if test is not None]
    return _WhereChoice(f"return {_nested(tests, values)}", values, last)


def _fits_a_tensor(code: Code, text: str) -> bool:
    """Return whether the value of the expression may fit in a tensor. Strings, containers and
    functions of libraries do not.
    """
    value = cst.parse_expression(text)
    name = text.partition(".")[0]
    # A name that is not imported may hold a tensor.
    is_function = (
        isinstance(value, cst.Name | cst.Attribute)
        and code.imported.get(name, "torch") not in _WITH_NUMBERS
    )
    return not isinstance(value, _NO_NUMBERS) and text != "None" and not is_function


_NO_NUMBERS = (cst.BaseString, cst.Lambda, cst.BaseList, cst.BaseDict, cst.BaseSet, cst.Tuple)

_WITH_NUMBERS = frozenset(["torch", "math", "numpy"])
"""Modules whose names may be numbers: ``math.pi``."""


def is_of_tensors(code: Code, test: cst.BaseExpression) -> bool:
    """Return whether the condition may be computed by operators of a graph. ``torch.equal``, ``is
    None`` and ``self.training`` give Python values.
    """
    # torch.where takes no truth value of Python's.
    return not any(_is_pythons(code, node) for node in walk(test))


def _is_pythons(code: Code, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call):
        return code.name_of(node.func) in _PYTHONS
    if isinstance(node, cst.Comparison):
        return any(
            isinstance(comparison.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn)
            for comparison in node.comparisons
        )
    return isinstance(node, cst.Attribute) and node.attr.value == "training"


_PYTHONS = frozenset(
    [
        "torch.equal",
        "torch.allclose",
        "torch.is_tensor",
        "torch.is_floating_point",
        "isinstance",
        "hasattr",
        "callable",
    ]
)


def branches_of(statement: cst.If) -> list[tuple[cst.BaseExpression | None, cst.CSTNode | None]]:
    """Return (condition, body) of ``if``, every ``elif`` and ``else``; a missing ``else`` is (None,
    None).
    """
    branches: list[tuple[cst.BaseExpression | None, cst.CSTNode | None]] = [
        (statement.test, statement.body)
    ]
    following = statement.orelse
    while isinstance(following, cst.If):
        branches.append((following.test, following.body))
        following = following.orelse
    last = following.body if following else None
    return [*branches, (None, last)]


def small_statements(body: cst.CSTNode | None) -> list[cst.BaseSmallStatement] | None:
    """Return the simple statements of a branch; empty for a missing branch; None when it contains a
    compound statement.
    """
    if body is None:
        return []
    if isinstance(body, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        return list(body.body)
    statements: list[cst.BaseSmallStatement] = []
    lines = body.body if isinstance(body, cst.IndentedBlock) else ()
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        statements += line.body
    return statements


def _values(code: Code, body: cst.CSTNode | None) -> Values | None:
    """Return the assignments of a branch; None when it does anything else."""
    statements = small_statements(body)
    if statements is None:
        return None
    values: Values = {}
    for statement in statements:
        if isinstance(statement, cst.Pass):
            continue
        pair = assignment(code, statement)
        # Assigned a second time, the target is read in between, or the first value is lost.
        if pair is None or pair[0] in values:
            return None
        values[pair[0]] = pair[1]
    return values


def assignment(code: Code, statement: cst.BaseSmallStatement) -> tuple[str, str] | None:
    """Return (target, expression) of ``a = b`` and ``a += b``; None for any other statement, and
    for one with side effects.
    """
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0].target, code.source(statement.value)
    elif isinstance(statement, cst.AugAssign):
        target = statement.target
        operator = code.source(statement.operator).rstrip("=")
        # Without the parentheses ``a -= b - c`` would become another sum.
        value = f"{code.source(target)} {operator} ({code.source(statement.value)})"
    else:
        return None
    simple = isinstance(target, cst.Name | cst.Attribute) and is_pure(statement.value)
    return (code.source(target), value) if simple else None


def _return_value(code: Code, body: cst.CSTNode | None) -> str:
    statements = small_statements(body) or []
    if (
        len(statements) != 1
        or not isinstance(statements[0], cst.Return)
        or statements[0].value is None
    ):
        return ""
    value = statements[0].value
    # torch.where chooses one tensor, and no tuple of them.
    if is_pure(value) and not isinstance(value, cst.Tuple):
        return code.source(value)
    return ""


def condition(code: Code, test: cst.BaseExpression) -> str:
    """Return the condition as a tensor of truth values."""
    if isinstance(test, cst.BooleanOperation):
        if isinstance(test.operator, cst.And):
            name = "logical_and"
        else:
            name = "logical_or"
        return f"torch.{name}({condition(code, test.left)}, {condition(code, test.right)})"
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return f"torch.logical_not({condition(code, test.expression)})"
    if isinstance(test, cst.Call) and code.name_of(test.func) == "bool" and test.args:
        return condition(code, test.args[0].value)
    text = re.sub(r"\.item\(\)", "", code.source(test))
    asks = (
        isinstance(test, cst.Call)
        and isinstance(test.func, cst.Attribute)
        and test.func.attr.value in _ASKS
    )
    if asks or isinstance(test, cst.Comparison) or text != code.source(test):
        return text
    return f"({text}).bool()"


# Branches that compute more than ``torch.where`` should.


def fixes_by_cond(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack[:1]:
        for statement in site.statements:
            if isinstance(statement, cst.If):
                text = _text(site.code, statement)
            else:
                text = ""
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
    """Return the text that replaces the ``if``; empty when a branch does more than compute and
    assign, or there is an ``elif``.
    """
    branches = branches_of(statement)
    if len(branches) != 2 or not is_pure(statement.test) or not is_of_tensors(code, statement.test):
        return ""
    assigned = []
    for _, body in branches:
        pairs = _assignments(code, body)
        if pairs is None:
            return ""
        assigned.append(pairs)
    targets = list(dict.fromkeys(target for pairs in assigned for target, _ in pairs))
    known = [target for target in targets if target in bound_before(code, statement)]
    if not targets or not all(_can_return(targets, known, pairs) for pairs in assigned):
        return ""
    names = new_name(code, "if_true"), new_name(code, "if_false")
    functions = [
        _function(code, name, pairs, targets, known)
        for name, pairs in zip(names, assigned, strict=True)
    ]
    single = "," if len(known) == 1 else ""
    operands = f"({', '.join(known)}{single})"
    call = (
        f"{', '.join(targets)} = torch.cond({condition(code, statement.test)}, {', '.join(names)}, "
        f"{operands})"
    )
    return "\n\n".join([*functions, call])


def _assignments(code: Code, body: cst.CSTNode | None) -> list[tuple[str, str]] | None:
    """Return (target, value) for each assignment of a branch; None when it does anything else."""
    statements = small_statements(body)
    if statements is None:
        return None
    pairs = []
    for statement in statements:
        if isinstance(statement, cst.Pass):
            continue
        pair = assignment(code, statement)
        # A branch of torch.cond may not change what is outside of it, as an assignment to an
        # attribute does.
        if pair is None or "." in pair[0]:
            return None
        pairs.append(pair)
    return pairs


def _can_return(
    targets: Sequence[str], known: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> bool:
    """Return whether a branch can return a value for every target: a target that it does not assign
    needs a value from before the branch.
    """
    assigned = {target for target, _ in pairs}
    return all(target in assigned or target in known for target in targets)


def _function(
    code: Code, name: str, branch: list[tuple[str, str]], targets: list[str], known: list[str]
) -> str:
    """Return the source of a branch as a function. torch.cond does not allow a branch to return its
    input, so an input is copied.
    """
    unit = code.unit
    lines = [f"{unit}{target} = {value}" for target, value in branch]
    assigned = {target for target, _ in branch}
    renamed = {target for target, value in branch if value.isidentifier()}
    results = []
    for target in targets:
        if target in renamed or target not in assigned:
            results.append(f"{target}.clone()")
        else:
            results.append(target)
    head = f"def {name}({', '.join(known)}):"
    return "\n".join([head, *lines, f"{unit}return {', '.join(results)}"])
