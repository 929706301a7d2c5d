"""This module finds the values that a program assigns to a tensor used by a compiled graph: to a
global, an attribute, a variable of the enclosing function, a default argument, an argument of
``partial``, an item of a list or a dict.

It reads the program's text. It answers only where it sees every assignment: a name that is also
bound in a way it cannot follow (a loop, an argument, an import of a file that is not the user's)
has no answer.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)

_CHANGES_A_CONTAINER = ("append", "clear", "extend", "insert", "pop", "setdefault", "update")


@dataclass(frozen=True, slots=True)
class AssignedExpression:
    """An assigned expression, with its file."""

    file: str
    expression: ast.expr


@dataclass(frozen=True, slots=True)
class AssignedValues:
    """All expressions that the program assigns to the name or attribute of a source of torch's."""

    name: str
    """The program's own name, such as ``t`` for ``G['f'].__closure__[0].cell_contents``; empty
    where the source contains it.
    """
    is_attribute: bool
    values: tuple[AssignedExpression, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a tensor: the compiled function, and the line, which may be in another function
    that it calls.
    """

    file: str
    """File of the compiled function."""
    line: int
    """First line of the compiled function."""
    read_file: str
    read_line: int


class _Unclear(Exception):
    """Raised when the source text does not show how a name is bound."""


def assigned_to(
    source: str, trees: dict[str, ast.Module], reader: Reader, inputs: str | None
) -> AssignedValues | None:
    """Return the values that the program assigns to a variable or attribute (``L['self'].table``),
    or None where the source text does not show them. ``inputs`` are the user's inputs of the
    target, as Python; None for a script, which calls its functions itself.
    """
    try:
        expression = ast.parse(source, mode="eval").body
        return _Program(trees, reader, inputs).assigned(expression)
    except (SyntaxError, ValueError, RecursionError, _Unclear):
        return None


@dataclass(frozen=True, slots=True)
class _Program:
    trees: dict[str, ast.Module]
    reader: Reader
    inputs: str | None

    def assigned(self, source: ast.expr) -> AssignedValues:
        """Raise ``_Unclear`` where not every assignment is seen."""
        match source:
            case ast.Subscript(ast.Name("L"), ast.Constant(str(name))):
                return AssignedValues("", False, tuple(self._of_compiled_function(name)))
            case ast.Subscript(ast.Name("G"), ast.Constant(str(name))):
                return AssignedValues("", False, tuple(self._global(self.reader.file, name)))
            case ast.Attribute(
                ast.Subscript(ast.Attribute(_, "__closure__"), ast.Constant(int(index))), _
            ):
                return self._of_closure(index)
            case ast.Subscript(
                ast.Attribute(_, ("__defaults__" | "__kwdefaults__") as kind), ast.Constant(key)
            ):
                return self._default_of_reading_function(kind, key)
            case ast.Subscript(ast.Attribute(_, "keywords"), ast.Constant(str(name))):
                return AssignedValues(name, False, tuple(self._of_partials(name)))
            case ast.Subscript(ast.Attribute(_, "args"), ast.Constant(int(index))):
                return AssignedValues("", False, tuple(self._of_partials(index)))
            case ast.Attribute(ast.Subscript(ast.Name("G"), ast.Constant(str(module))), name):
                imported = self._module(self.reader.file, module)
                if imported:
                    file = self._file_of(imported)
                    return AssignedValues("", False, tuple(self._global(file, name)))
                return AssignedValues("", True, tuple(self._attribute(name)))
            case ast.Attribute(_, name):
                return AssignedValues("", True, tuple(self._attribute(name)))
            case ast.Subscript(ast.Call(ast.Name("dict")), ast.Constant(str(name))):
                return AssignedValues("", True, tuple(self._attribute(name)))  # of a class
            case ast.Subscript(container, ast.Constant(key)):
                return self._item(container, key)
        raise _Unclear

    # names of modules

    def _global(self, file: str, name: str) -> Iterator[AssignedExpression]:
        tree = self.trees.get(file)
        if tree is None:
            raise _Unclear
        for binding in _bindings(tree, name):
            if isinstance(binding, ast.ImportFrom):
                yield from self._imported(file, binding, name)
            else:
                yield AssignedExpression(file, _expression(binding))
        for function in _functions(tree):
            if _declares(function, ast.Global, name):
                for binding in _bindings(function, name):
                    yield AssignedExpression(file, _expression(binding))
        yield from self._set_from_other_files(name)

    def _imported(
        self, file: str, binding: ast.ImportFrom, name: str
    ) -> Iterator[AssignedExpression]:
        original = next(a.name for a in binding.names if (a.asname or a.name) == name)
        module = self._file_of(binding.module or "")
        if not module or module == file:
            raise _Unclear
        yield from self._global(module, original)

    def _set_from_other_files(self, name: str) -> Iterator[AssignedExpression]:
        """Yield the values assigned to a global as an attribute of its module."""
        for file, tree in self.trees.items():
            imported = _imported_names(tree)
            for target, value in _attribute_targets(tree, name):
                if isinstance(target.value, ast.Name) and target.value.id in imported:
                    yield AssignedExpression(file, _expression(value))

    def _module(self, file: str, name: str) -> str:
        """Return the module that a global names; empty for another object."""
        if name.startswith("__import_"):
            return name.removeprefix("__import_").replace("_dot_", ".")
        tree = self.trees.get(file)
        if tree is None:
            return ""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return alias.name
        return ""

    def _file_of(self, module: str) -> str:
        """Return the user's file of a module, if there is one with that name."""
        path = module.replace(".", "/")
        ends = (f"/{path}.py", f"/{path}/__init__.py")
        files = [file for file in self.trees if file.replace("\\", "/").endswith(ends)]
        if len(files) == 1:
            return files[0]
        return self.reader.file if module == "__main__" else ""

    # attributes

    def _attribute(self, name: str) -> Iterator[AssignedExpression]:
        """Yield the values assigned to an attribute of this name of any object."""
        for file, tree in self.trees.items():
            for _, value in _attribute_targets(tree, name):
                yield AssignedExpression(file, _expression(value))
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    for binding in _bindings(node, name):
                        yield AssignedExpression(file, _expression(binding))
                match node:
                    case ast.Call(
                        ast.Name("setattr") | ast.Attribute(_, "__setattr__"),
                        [*_, ast.Constant(attribute), value],
                    ) if attribute == name:
                        yield AssignedExpression(file, value)

    # variables of functions, and default arguments

    def _of_compiled_function(self, name: str) -> Iterator[AssignedExpression]:
        file = self.reader.file
        chain = self._functions_around(file, self.reader.line)
        if name not in _parameters(chain[-1]):
            yield from self._of_functions_around(file, chain, name)
            return
        default = _defaults(chain[-1]).get(name)
        if default is None or self._may_be_passed(chain[-1], name):
            raise _Unclear
        yield AssignedExpression(file, default)

    def _of_functions_around(
        self, file: str, chain: list[Function], name: str
    ) -> Iterator[AssignedExpression]:
        """Yield the values assigned to a variable in the enclosing functions; only those of the
        innermost function that binds it.
        """
        if _is_bound_by(chain[-1], name):
            raise _Unclear  # its own: computed in each call
        for function in reversed(chain[:-1]):
            if name in _parameters(function):
                raise _Unclear
            if not _is_bound_by(function, name):
                continue
            inner = [scope for scope in _functions(function) if scope is not function]
            sharing = [scope for scope in inner if _declares(scope, ast.Nonlocal, name)]
            for scope in (function, *sharing):
                for binding in _bindings(scope, name):
                    yield AssignedExpression(file, _expression(binding))
            return
        raise _Unclear

    def _of_closure(self, index: int) -> AssignedValues:
        """Return the values assigned to a closure variable, which Python numbers by name, as in
        ``co_freevars``.
        """
        file = self.reader.read_file
        chain = self._functions_around(file, self.reader.read_line)
        names = sorted(self._free_names(chain))
        if index >= len(names):
            raise _Unclear
        values = self._of_functions_around(file, chain, names[index])
        return AssignedValues(names[index], False, tuple(values))

    def _free_names(self, chain: list[Function]) -> set[str]:
        """Return the names that a function, or one inside it, takes from its enclosing
        functions.
        """
        innermost, around = chain[-1], chain[:-1]
        used: set[str] = set()
        for function in _functions(innermost):
            for node in _in_scope(function):
                if isinstance(node, ast.Name) and not _declares(function, ast.Global, node.id):
                    used.add(node.id)
        bound_around: set[str] = set()
        for name in used:
            if any(name in _parameters(f) or _is_bound_by(f, name) for f in around):
                bound_around.add(name)
        own = {n for n in used if n in _parameters(innermost) or _is_bound_by(innermost, n)}
        return bound_around - own

    def _default_of_reading_function(self, kind: str, key: object) -> AssignedValues:
        function = self._functions_around(self.reader.read_file, self.reader.read_line)[-1]
        arguments = function.args
        if kind == "__kwdefaults__":
            name = str(key)
        else:
            names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
            with_default = names[len(names) - len(arguments.defaults) :]
            if not isinstance(key, int) or key >= len(with_default):
                raise _Unclear
            name = with_default[key]
        default = _defaults(function).get(name)
        if default is None:
            raise _Unclear
        return AssignedValues(name, False, (AssignedExpression(self.reader.read_file, default),))

    def _functions_around(self, file: str, line: int) -> list[Function]:
        """Return the functions that a line is in, the innermost last."""
        tree = self.trees.get(file)
        functions = [f for f in _functions(tree) if _holds(f, line)] if tree else []
        lambdas = [f for f in functions if isinstance(f, ast.Lambda)]
        starting = [f for f in functions if _first_line(f) == line]
        if not functions or len(lambdas) > 1 or len(starting) > 1:
            raise _Unclear  # several on one line
        return functions

    def _may_be_passed(self, function: Function, name: str) -> bool:
        """Return whether a call of the program, or the inputs that the user gives, may pass an
        argument that has a default.
        """
        arguments = function.args
        positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        position = positional.index(name) if name in positional else None
        if position is not None and positional[0] == "self":
            position -= 1
        own_name = getattr(function, "name", "")
        names: set[str] = set()
        for tree in self.trees.values():
            functions = _functions(tree)
            names |= {other.name for other in functions if not isinstance(other, ast.Lambda)}
        others = names - {own_name}
        for tree in self.trees.values():
            known = {*dir(builtins), *(_imported_names(tree) - self._imported_of_users(tree))}
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and _root(node.func) not in known:
                    called = _last_name(node.func)
                    if called not in others and _passes(node, name, position):
                        return True
        return self.inputs is not None and _inputs_pass(self.inputs, name, position)

    def _imported_of_users(self, tree: ast.Module) -> set[str]:
        """Return the names in a file that refer to modules and objects of the user's files."""
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if self._file_of(alias.name):
                        names.add(alias.asname or alias.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom) and self._file_of(node.module or ""):
                names.update(alias.asname or alias.name for alias in node.names)
        return names

    # partial, and items

    def _of_partials(self, key: str | int) -> Iterator[AssignedExpression]:
        """Yield the arguments of each matching ``functools.partial`` in the program."""
        for file, tree in self.trees.items():
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call) or not _last_name(node.func).startswith(
                    "partial"
                ):
                    continue
                if any(keyword.arg is None for keyword in node.keywords):
                    raise _Unclear
                if any(isinstance(argument, ast.Starred) for argument in node.args):
                    raise _Unclear
                for keyword in node.keywords:
                    if keyword.arg == key:
                        yield AssignedExpression(file, keyword.value)
                if isinstance(key, int) and len(node.args) > key + 1:
                    yield AssignedExpression(file, node.args[key + 1])

    def _item(self, container: ast.expr, key: object) -> AssignedValues:
        assigned = self.assigned(container)
        name = _last_name(container)
        values = []
        for value in assigned.values:
            if not isinstance(value.expression, ast.Constant):
                element = _element(value.expression, key)
                values.append(AssignedExpression(value.file, element))
        for file, tree in self.trees.items():
            for node in ast.walk(tree):
                match node:
                    case ast.Call(ast.Attribute(changed, method)) if (
                        method in _CHANGES_A_CONTAINER and _last_name(changed) == name
                    ):
                        raise _Unclear
            for target, item in _item_targets(tree, name):
                if not isinstance(target.slice, ast.Constant):
                    raise _Unclear
                if target.slice.value == key:
                    values.append(AssignedExpression(file, _expression(item)))
        return AssignedValues("", assigned.is_attribute, tuple(values))


# What binds a name


def _bindings(scope: ast.AST, name: str) -> Iterator[ast.AST | None]:
    """Yield the bindings of a name in a scope: an expression, the ``from … import``, or None for
    any other binding.
    """
    for node in _in_scope(scope):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) == name:
                    from_import = node if isinstance(node, ast.ImportFrom) else None
                    yield from_import
        elif getattr(node, "name", None) == name:
            yield None  # a function, a class, an exception, a pattern
        else:
            for target, value in _targets(node):
                if isinstance(target, ast.Name) and target.id == name:
                    yield value


def _attribute_targets(tree: ast.AST, name: str) -> Iterator[tuple[ast.Attribute, ast.AST | None]]:
    for node in ast.walk(tree):
        for target, value in _targets(node):
            if isinstance(target, ast.Attribute) and target.attr == name:
                yield target, value


def _item_targets(tree: ast.AST, name: str) -> Iterator[tuple[ast.Subscript, ast.AST | None]]:
    for node in ast.walk(tree):
        for target, value in _targets(node):
            if isinstance(target, ast.Subscript) and _last_name(target.value) == name:
                yield target, value


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST | None]]:
    """Yield the names, attributes and items that a statement assigns to, each with its value: None
    where the text does not show it.
    """
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, None
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield from _unpacked(node.target, None)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _unpacked(node.optional_vars, None)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            yield target, None


def _unpacked(
    target: ast.expr, value: ast.expr | None
) -> Iterator[tuple[ast.expr, ast.AST | None]]:
    if isinstance(target, ast.Starred):
        yield from _unpacked(target.value, None)
        return
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    parts: list[ast.expr | None] = [None] * len(target.elts)
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        stars = [part for part in (*value.elts, *target.elts) if isinstance(part, ast.Starred)]
        parts = [] if stars else list(value.elts)
        parts = parts or [None] * len(target.elts)
    for element, part in zip(target.elts, parts, strict=True):
        yield from _unpacked(element, part)


def _expression(binding: ast.AST | None) -> ast.expr:
    if not isinstance(binding, ast.expr):
        raise _Unclear
    return binding


def _element(container: ast.expr, key: object) -> ast.expr:
    """Return the item of a literal list or dict."""
    match container:
        case ast.List(elements) | ast.Tuple(elements) if isinstance(key, int):
            stars = any(isinstance(element, ast.Starred) for element in elements)
            if not stars and key < len(elements):
                return elements[key]
        case ast.ListComp(element):
            return element
        case ast.Dict(keys, values):
            items = list(zip(keys, values, strict=True))
            if all(isinstance(written, ast.Constant) for written in keys):
                for written, value in reversed(items):
                    if isinstance(written, ast.Constant) and written.value == key:
                        return value
        case ast.Call(ast.Name("dict"), [], keywords):
            for keyword in keywords:
                if keyword.arg == key:
                    return keyword.value
    raise _Unclear


# Functions and their scopes


def _in_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in their order, without those of functions and classes in it,
    which are yielded themselves.
    """
    body = getattr(scope, "body", [])
    waiting = body[::-1] if isinstance(body, list) else [body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _functions(tree: ast.AST) -> list[Function]:
    """Return the functions of a tree, outer ones before inner ones."""
    return [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]


def _first_line(function: Function) -> int:
    """Return the line that Python names a function by: that of its first decorator."""
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return min([function.lineno, *(decorator.lineno for decorator in decorators)])


def _holds(function: Function, line: int) -> bool:
    return _first_line(function) <= line <= (function.end_lineno or function.lineno)


def _declares(function: Function, kind: type[ast.Global | ast.Nonlocal], name: str) -> bool:
    return any(isinstance(node, kind) and name in node.names for node in _in_scope(function))


def _is_bound_by(function: Function, name: str) -> bool:
    """Return whether a name is a local variable of a function, parameters excluded."""
    if _declares(function, ast.Global, name) or _declares(function, ast.Nonlocal, name):
        return False
    return any(True for _ in _bindings(function, name))


def _parameters(function: Function) -> set[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every.extend(extra for extra in (arguments.vararg, arguments.kwarg) if extra)
    return {argument.arg for argument in every}


def _defaults(function: Function) -> dict[str, ast.expr]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    defaults = {}
    for argument, default in zip(with_default, arguments.defaults, strict=True):
        defaults[argument.arg] = default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None:
            defaults[argument.arg] = keyword_default
    return defaults


# Calls


def _passes(call: ast.Call, name: str, position: int | None) -> bool:
    """Return whether a call gives an argument of this name or position."""
    if any(keyword.arg in (None, name) for keyword in call.keywords):
        return True
    if position is None:
        return False
    stars = any(isinstance(argument, ast.Starred) for argument in call.args)
    return stars or len(call.args) > position


def _inputs_pass(inputs: str, name: str, position: int | None) -> bool:
    """Return whether the inputs of a target include an argument: a tuple by position, a dict by
    name, anything else the first.
    """
    match ast.parse(inputs or "None", mode="eval").body:
        case ast.Constant(None):
            return True  # they are made by a function, or by the file
        case ast.Tuple(elements):
            return position is not None and len(elements) > position
        case ast.Dict(keys):
            written = [key.value for key in keys if isinstance(key, ast.Constant)]
            return name in written or len(written) < len(keys)
    return position == 0


def _imported_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.add(alias.asname or alias.name.partition(".")[0])
    return names


def _root(expression: ast.expr) -> str:
    """Return the first name of a called expression: ``torch`` for ``torch.nn.Linear``; empty for a
    result of another call, ``torch.compile(f)``.
    """
    while isinstance(expression, ast.Attribute | ast.Subscript):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _last_name(expression: ast.expr) -> str:
    """Return the name that an expression ends with: ``items`` for ``self.items``, ``TABLES`` for
    torch's ``G['TABLES']``.
    """
    match expression:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(ast.Name("L" | "G"), ast.Constant(str(name))):
            return name
    return ""
