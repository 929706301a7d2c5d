"""This module proposes fixes for a call that Dynamo cannot trace, but whose result does not depend
on tensors: it can be computed once.

A fix that computes a value once assumes that no call gives another. That nobody changes a thing
cannot be proved from the user's code; that somebody can is often plain to see: a dict, an
attribute, a file.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.causes.opaque_calls import (
    REACH,
    OpaqueCall,
    isolated,
    opaque_calls,
)
from fx_explorer.instruments.fixes.fix import Fix, Site, other_files
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.bound_names import (
    bound_by,
    is_declared_plain,
    locals_of,
    locals_read,
    new_name,
    walk,
)
from fx_explorer.source_edit.code import Code
from fx_explorer.source_edit.edits import at_module_level, imports, replaced

_ONCE = "The fix assumes that it returns the same value every time."


def fixes_of_constants(
    reader: SessionReader, broken: DistinctBreak, stack: list[Site]
) -> Iterator[Fix]:
    for site in stack[:REACH]:
        for opaque in opaque_calls(site):
            if (
                isinstance(opaque.statement, cst.Expr | cst.With)
                or hasattr(builtins, opaque.name)
                or _VARIES.match(opaque.name)
                or _is_on_tensors(site, opaque)
            ):
                continue  # called for what it does, or no constant
            given = locals_read(site.code, opaque.call)
            if given and (
                site.depth == 0
                or all(is_declared_plain(site.code, opaque.call, name) for name in given)
            ):
                yield from _assumed(reader, site, opaque)
            elif not given:
                yield _unless_refuted(reader, site, opaque.call, _hoisted(site, opaque))


_VARIES = re.compile(
    r"(time|random|secrets|uuid|datetime|numpy\.random)\.|os\.(getpid|getppid|times|urandom"
    r"|getrandom)$"
)
"""Matches calls whose result varies from call to call: the time, random numbers, the process."""


def _is_on_tensors(site: Site, opaque: OpaqueCall) -> bool:
    # Nobody does these with anything but a tensor.
    return (
        re.search(r"\.(?:detach|numpy|cpu|item|tolist)\(\)", site.code.source(opaque.call))
        is not None
    )


def _unless_refuted(
    reader: SessionReader,
    site: Site,
    call: cst.BaseExpression,
    fix: Fix,
    given: Sequence[str] = (),
) -> Fix:
    """Return the fix, refuted with a reason where the code shows that the result of the call may
    vary.
    """
    files = [other.code for other in other_files(reader, site)]
    reason = Constancy(files).why_not(site.code, call, given)
    if not reason:
        return fix
    return replace(fix, refuted=reason, risk=f"{fix.risk} But {reason}.")


def _hoisted(site: Site, opaque: OpaqueCall) -> Fix:
    name = new_name(site.code, opaque.short_name.upper().strip("_") or "CONSTANT")
    line = f"{name} = {_kept(opaque, site.code.source(opaque.call))}"
    return site.edit(
        f"call {opaque.written}() once, when the file is imported",
        "None of its arguments come from the function, so it can be called outside and its result "
        "used as a constant.",
        [at_module_level(site.code, opaque.call, line), replaced(site.code, opaque.call, name)],
        _ONCE,
    )


def _assumed(reader: SessionReader, site: Site, opaque: OpaqueCall) -> Iterator[Fix]:
    """Yield the fix that makes the call a function of its own, whose result torch takes as a
    constant.
    """
    parts = isolated(site.code, opaque.call)
    if parts is None:
        return
    name = new_name(site.code, f"constant_{opaque.short_name.strip('_')}")
    lines = [
        "@torch.compiler.assume_constant_result",
        f"def {name}({', '.join(parts.parameters)}):",
        f"{site.code.unit}return {_kept(opaque, parts.text)}",
    ]
    fix = site.edit(
        f"call {opaque.written}() while compiling, and keep its result",
        "torch.compiler.assume_constant_result calls it once for each compilation and "
        "puts the result into the graph.",
        [
            *imports(site.code, "torch"),
            at_module_level(site.code, opaque.call, "\n".join(lines)),
            replaced(site.code, opaque.call, f"{name}({', '.join(parts.arguments)})"),
        ],
        f"{_ONCE} It must not receive tensors.",
    )
    yield _unless_refuted(reader, site, cst.parse_expression(parts.text), fix, parts.parameters)


def _kept(opaque: OpaqueCall, text: str) -> str:
    """Return the expression that the new function returns. An iterable of a loop becomes a list: an
    iterator would be used up after the first call.
    """
    loop = opaque.statement
    if isinstance(loop, cst.For) and loop.iter is opaque.call:
        return f"list({text})"
    return text


# Whether an expression can give something else at another call.

_GIVES_ANOTHER = re.compile(
    r"(time|random|secrets|uuid|datetime|socket|subprocess|gc|threading|getpass|tempfile|glob"
    r"|shutil|"
    r"urllib|http|sqlite3|select|platform|resource|locale|numpy\.random|torch\.rand\w*)(\.|$)|"
    r"(os|sys)\.(?!path\.(join|basename|dirname|splitext|normpath)$)|"
    r"(open|input|id|globals|locals|vars|next|eval|exec|getattr|hash)$"
)
"""Matches functions and modules whose results depend on time, on chance, or on anything outside the
program's own values.
"""

_READS = re.compile(
    r"(read\w*|load|load_\w+|\w*from_?file|loadtxt|genfromtxt|imread|fetch\w*|recv\w*|now|today"
    r"|exists|is_file|"
    r"is_dir|stat|getenv|glob|iterdir|pop|popitem|send|seed)$"
)
"""Matches last parts of function names for reading a file or other source, and for methods that
change their object.
"""

_IMMUTABLE = (cst.FunctionDef, cst.ClassDef, cst.BaseNumber, cst.BaseString, cst.Lambda)
_MUTABLE = {
    cst.Dict: "a dict",
    cst.DictComp: "a dict",
    cst.List: "a list",
    cst.ListComp: "a list",
    cst.Set: "a set",
    cst.SetComp: "a set",
}
_MAKES_IMMUTABLE = frozenset(
    [
        "int",
        "float",
        "bool",
        "str",
        "bytes",
        "complex",
        "frozenset",
        "tuple",
        "len",
        "range",
        "abs",
        "min",
        "max",
        "round",
        "sum",
        "math",
    ]
)
_LIBRARIES = frozenset([*sys.stdlib_module_names, "torch", "numpy"])


@dataclass
class Constancy:
    """Looks for reasons why an expression may vary from call to call, in the expression itself and
    in the user's functions that it calls.
    """

    files: Sequence[Code]
    """The user's other files."""
    _seen: set[cst.CSTNode] = field(default_factory=set)

    def why_not(self, code: Code, expression: cst.CSTNode, given: Iterable[str] = ()) -> str:
        """Return why the result of the expression may vary; empty where nothing in the code
        suggests it. ``given`` are names that stand for its arguments.
        """
        bound = set(given)
        for node in walk(expression):
            bound |= bound_by(node.target) if isinstance(node, cst.CompFor) else set()
            if isinstance(node, cst.Lambda):
                bound |= {param.name.value for param in node.params.params}
        return self._of(code, expression, bound)

    def _of(self, code: Code, node: cst.CSTNode, bound: set[str]) -> str:
        if isinstance(node, cst.Global | cst.Nonlocal | cst.Yield | cst.Await):
            return f"one of its effects is {code.source(node)!r}"
        if isinstance(node, cst.Call):
            return self._of_call(code, node, bound)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(code, node, bound)
        if isinstance(node, cst.Name):
            if node.value in bound:
                return ""
            return self._of_name(code, node)
        if isinstance(node, cst.Annotation | cst.Param):
            return ""
        return self._first(code, node.children, bound)

    def _first(self, code: Code, nodes: Iterable[cst.CSTNode], bound: set[str]) -> str:
        return next(filter(None, (self._of(code, node, bound) for node in nodes)), "")

    def _of_call(self, code: Code, call: cst.Call, bound: set[str]) -> str:
        written, name = code.source(call.func), code.name_of(call.func)
        is_own = isinstance(call.func, cst.Name) and call.func.value in bound
        if not is_own and name and (_GIVES_ANOTHER.match(name) or _READS.match(_last(name))):
            return f"{written}() may return something else at each call"
        if isinstance(call.func, cst.Attribute) and _READS.match(call.func.attr.value):
            return f"{written}() may return something else at each call"
        reason = self._first(code, [arg.value for arg in call.args], bound)
        if reason or is_own:
            return reason
        if function := self._function(code, name):
            return self._of_function(*function)
        if isinstance(call.func, cst.Attribute) and not _is_of_module(code, call.func):
            methods = self._methods(code, call.func.attr.value)
            reasons = (self._of_function(*method) for method in methods)
            return next(filter(None, reasons), "") or self._of(code, call.func.value, bound)
        if isinstance(call.func, cst.Name):
            if _is_known(code, call.func.value):
                return ""
            return self._of_name(code, call.func)
        if isinstance(call.func, cst.Attribute):
            return ""
        return self._of(code, call.func, bound)

    def _of_function(self, code: Code, function: cst.FunctionDef) -> str:
        if function in self._seen:
            return ""
        self._seen.add(function)
        for param in walk(function.params):
            if isinstance(param, cst.Param) and type(param.default) in _MUTABLE:
                return f"the default of {param.name.value} can be changed"
        bound = locals_of(function)
        return self._of(code, function.body, bound)

    def _function(self, code: Code, name: str) -> tuple[Code, cst.FunctionDef] | None:
        """Return the user's function of this name, with its file."""
        module, _, last = name.rpartition(".")
        if not last or module.partition(".")[0] in _LIBRARIES:
            return None
        files = self.files if module else (code, *self.files)
        for file in files:
            for function in file.functions_named(last):
                if isinstance(file.parent(function), cst.Module):
                    return file, function
        return None

    def _methods(self, code: Code, name: str) -> list[tuple[Code, cst.FunctionDef]]:
        """Return the methods of this name in the user's classes."""
        methods: list[tuple[Code, cst.FunctionDef]] = []
        for file in (code, *self.files):
            for function in file.functions_named(name):
                is_method = not isinstance(file.parent(function), cst.Module)
                if is_method:
                    methods.append((file, function))
        return methods

    def _of_attribute(self, code: Code, node: cst.Attribute, bound: set[str]) -> str:
        name = code.name_of(node)
        if _GIVES_ANOTHER.match(name):
            return f"{code.source(node)} can be changed"
        if _is_of_module(code, node) and name.partition(".")[0] in _LIBRARIES:
            return ""
        return f"{code.source(node)} can be assigned"

    def _of_name(self, code: Code, node: cst.Name) -> str:
        name = node.value
        if name in code.imported:
            imported = code.imported[name]
            is_module = "." not in imported
            is_library = imported.partition(".")[0] in _LIBRARIES
            if _GIVES_ANOTHER.match(imported):
                return f"{name} can be changed"
            if is_module or is_library:
                return ""
            return f"{name}, from another file, can be changed"
        values = _bindings(code, name)
        if not values:
            if hasattr(builtins, name):
                return ""
            return f"{name} is a variable of the enclosing function"
        if len(values) > 1 or _is_assigned_in_functions(code, name):
            return f"{name} is assigned in more than one place"
        return self._why_mutable(code, name, values[0])

    def _why_mutable(self, code: Code, name: str, value: cst.CSTNode) -> str:
        if isinstance(value, _IMMUTABLE):
            return ""
        if kind := _MUTABLE.get(type(value)):
            return f"{name} is {kind}, which can be changed"
        if isinstance(value, cst.Call) and code.name_of(value.func) not in _MAKES_IMMUTABLE:
            return f"{name} is an object that can be changed"
        if isinstance(value, cst.Name) and value.value in ("True", "False", "None"):
            return ""
        if isinstance(value, cst.Tuple):
            parts = (element.value for element in value.elements)
            return next(filter(None, (self._why_mutable(code, name, part) for part in parts)), "")
        return self._of(code, value, set())


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _is_known(code: Code, name: str) -> bool:
    """Return whether the name is a builtin, a function of a library, or defined in this file."""
    return (
        hasattr(builtins, name)
        or name in code.imported
        or any(isinstance(node, cst.ClassDef | cst.FunctionDef) for node in _bindings(code, name))
    )


def _is_of_module(code: Code, node: cst.Attribute) -> bool:
    """Return whether this is an attribute of an imported module or object."""
    while isinstance(node.value, cst.Attribute):
        node = node.value
    return isinstance(node.value, cst.Name) and node.value.value in code.imported


def _bindings(code: Code, name: str) -> list[cst.CSTNode]:
    """Return the nodes that bind the name at module level, including those inside conditions and
    loops.
    """
    nodes: list[cst.CSTNode] = []
    waiting: list[cst.CSTNode] = [code.module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            nodes += [node] if node.name.value == name else []
            continue
        if isinstance(node, cst.Assign):
            targets = [bound_by(target.target) for target in node.targets]
            nodes += [node.value for names in targets if name in names]
        elif isinstance(node, cst.AugAssign | cst.AnnAssign | cst.For | cst.NamedExpr):
            value = getattr(node, "value", None) or node
            nodes += [value] if name in bound_by(node.target) else []
            # ``n += 1`` binds what was bound before: it is another value by then.
            nodes += (
                [value] if isinstance(node, cst.AugAssign) and name in bound_by(node.target) else []
            )
        waiting += node.children
    return nodes


def _is_assigned_in_functions(code: Code, name: str) -> bool:
    declared = (item for statement in code.all(cst.Global) for item in statement.names)
    return any(item.name.value == name for item in declared)
