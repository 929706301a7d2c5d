"""This module checks whether a kernel's Triton source from an unknown author may be compiled, by an
allow-list of what Inductor writes.

To load a source is to run its top level as Python, and Triton calls, while it compiles, whatever
Python function the body of a kernel names (``triton/compiler/code_generator.py``,
``call_Function``). So both are read here, as a syntax tree, and nothing is run: known imports,
``triton_heuristics`` decorators with literal arguments, constants, and ``@triton.jit`` functions
that call Triton's own functions and each other. Whatever else there is, is refused with its line.
Files of any kind are out of reach: no string of a decorator has a slash in it,
``extern_elementwise`` is not called, and inline assembly has no directives.
"""

from __future__ import annotations

import ast
import re

from fx_explorer.session.untrusted.triton_allowed import (
    ARITHMETIC,
    ATTRIBUTES,
    BUILTINS,
    CALL,
    CONSTRUCTORS,
    DEEPEST,
    ENUMS,
    FROM_TRITON,
    HEURISTICS,
    IMPORTS,
    JIT_OPTIONS,
    LONGEST,
    METHODS,
    MODULES,
    ON_TOP,
    REACHES_OUT,
    RESERVED,
    Helpers,
    TritonSource,
    UntrustedSourceError,
    dotted,
    is_public,
    kind_of,
)

_STATEMENTS = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Expr,
    ast.For,
    ast.While,
    ast.If,
    ast.Return,
    ast.Pass,
    ast.Assert,
)
_EXPRESSIONS = (
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.BoolOp,
    ast.IfExp,
    ast.Tuple,
    ast.List,
    ast.Subscript,
    ast.Slice,
    ast.keyword,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.boolop,
    ast.expr_context,
)

MOST_SHIFTED = 64
"""Largest constant by which a kernel may shift left, in bits."""


def check_body(source: TritonSource, function: ast.FunctionDef) -> None:
    """Raise UntrustedSourceError for the first construct that is not allowed."""
    _Body(source, function).check()


class _Body:
    """Checks the body of one ``@triton.jit`` function, which Triton evaluates while it compiles."""

    def __init__(self, source: TritonSource, function: ast.FunctionDef) -> None:
        self._source = source
        self._function = function
        self._refuse = source.refuse
        parameters = function.args
        self._locals = {
            arg.arg for arg in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
        }

    def check(self) -> None:
        # All names first, since a loop may read what a line behind it binds.
        for node in ast.walk(self._function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if node.id in RESERVED or node.id.startswith("__") or node.id in self._source.known:
                    raise self._refuse(node, f"{node.id} is redefined")
                self._locals.add(node.id)
            elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(
                node.ctx, ast.Load
            ):
                raise self._refuse(node, "only names are given values")
        for statement in self._function.body:
            self._statement(statement, 0)

    def _statement(self, statement: ast.stmt, depth: int) -> None:
        if not isinstance(statement, _STATEMENTS) or depth > DEEPEST:
            raise self._refuse(statement)
        for name, value in ast.iter_fields(statement):
            if name == "annotation" and isinstance(value, ast.expr):
                self._source.annotation(value)
            elif name == "type_comment":
                continue
            else:
                parts = value if isinstance(value, list) else [value]
                for part in parts:
                    self._part(statement, part, depth)

    def _part(self, statement: ast.stmt, part: object, depth: int) -> None:
        if isinstance(part, ast.stmt):
            self._statement(part, depth + 1)
        elif isinstance(part, ast.expr):
            self._expression(part, 0)
        elif isinstance(part, ast.Pow | ast.MatMult):
            raise self._refuse(statement, "Inductor does not write powers")

    def _expression(self, node: ast.AST, depth: int) -> None:
        """Refuse an expression that is not allowed, or is nested too deeply."""
        if depth > DEEPEST:
            raise self._refuse(node, "this is nested too deeply")
        if isinstance(node, ast.Constant):
            self._constant(node)
        elif isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, depth, is_called=False)
        elif isinstance(node, ast.Call):
            self._call(node, depth)
        elif isinstance(node, _EXPRESSIONS) and not isinstance(node, ast.Pow | ast.MatMult):
            self._shift(node)
            for child in ast.iter_child_nodes(node):
                self._expression(child, depth + 1)
        else:
            place = node if hasattr(node, "lineno") else self._function
            raise self._refuse(place)

    def _constant(self, node: ast.Constant) -> None:
        self._source.plain(node, is_path_free=False)

    def _shift(self, node: ast.AST) -> None:
        """Refuse a shift as large as ``1 << 4000000000``, which is computed while compiling."""
        if not (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.LShift)
            and isinstance(node.right, ast.Constant)
        ):
            return
        if not isinstance(node.right.value, int) or node.right.value > MOST_SHIFTED:
            raise self._refuse(node, "this shift is too large")

    def _name(self, node: ast.Name) -> None:
        is_type = node.id in ("float", "int", "bool", "True", "False")
        if node.id not in self._locals and node.id not in self._source.known and not is_type:
            raise self._refuse(node, f"{node.id} is not defined in the kernel")

    def _call(self, node: ast.Call, depth: int) -> None:
        """Refuse a call of any function but Triton's own, and ``**`` in a call."""
        called = node.func
        if isinstance(called, ast.Name):
            if called.id not in BUILTINS and called.id not in self._source.known:
                raise self._refuse(node, f"{called.id} is not a Triton function")
        elif isinstance(called, ast.Attribute):
            self._attribute(called, depth, is_called=True)
        else:
            raise self._refuse(node)
        self._assembly(node)
        for argument in node.args:
            self._expression(argument, depth + 1)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refuse(node, "Inductor does not write ** here")
            self._expression(keyword.value, depth + 1)

    def _attribute(self, node: ast.Attribute, depth: int, is_called: bool) -> None:
        chain = dotted(node) or ""
        root = chain.partition(".")[0]
        if root in self._source.modules and root not in self._locals:
            self._of_module(node, chain)
            return
        if node.attr not in METHODS | ATTRIBUTES or (
            is_called and node.attr in ATTRIBUTES - METHODS
        ):
            raise self._refuse(node, f".{node.attr} is not an attribute of values in a kernel")
        self._expression(node.value, depth + 1)

    def _of_module(self, node: ast.Attribute, chain: str) -> None:
        written = chain.replace("triton.language.", "tl.", 1)
        module, _, name = written.rpartition(".")
        enum = module.removesuffix(".PropagateNan")
        if enum == "tl" and module != enum and name in ATTRIBUTES:
            return
        if module in self._source.modules:
            stands_for = self._source.modules[module]
        elif module in MODULES:
            stands_for = module
        else:
            stands_for = ""
        if not is_public(name) or not self._source.helpers.has(stands_for, name):
            raise self._refuse(node, f"{chain} is not a Triton function")

    def _assembly(self, node: ast.Call) -> None:
        """Refuse assembly that is not a literal or has a directive, because GNU assemblers read
        files at ``.incbin``. One statement of assembly is one instruction here.
        """
        if (dotted(node.func) or "").rpartition(".")[2] != "inline_asm_elementwise":
            return
        text: ast.expr | None = None
        if node.args:
            text = node.args[0]
        else:
            for keyword in node.keywords:
                if keyword.arg == "asm":
                    text = keyword.value
                    break
        if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
            raise self._refuse(node, "assembly that is not a literal string")
        assembly = text.value
        if re.search(r"[\\#]|/\*", assembly):
            raise self._refuse(node, "assembly with a directive")
        for part in re.split(r"[;:\n{}]", assembly):
            if re.match(r"\s*\.(?!reg\b)", part):
                raise self._refuse(node, "assembly with a directive")


def check_source(source: str, helpers: Helpers) -> None:
    """Raise UntrustedSourceError for the first construct that is not allowed, with its line. Runs
    nothing.
    """
    if len(source) > LONGEST:
        raise UntrustedSourceError(
            f"the kernel's source has {len(source):,} characters; at most {LONGEST:,} are compiled"
        )
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f" (line {line})" if line else ""
        raise UntrustedSourceError(
            f"the kernel's source is not valid Python{where}: {_first(error)}"
        ) from error
    _TopLevel(TritonSource(source, helpers)).check(tree)


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


class _TopLevel:
    """Checks the top level of a kernel's module, which Python runs when the source is loaded."""

    def __init__(self, source: TritonSource) -> None:
        self._source = source
        self._refuse = source.refuse

    def check(self, tree: ast.Module) -> None:
        functions = [statement for statement in tree.body if isinstance(statement, ast.FunctionDef)]
        # All functions first: one may call another that stands behind it.
        self._source.known.update(function.name for function in functions)
        for statement in tree.body:
            if not isinstance(statement, ast.FunctionDef):
                self._statement(statement)
        for function in functions:
            self._function(function)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(statement)
        elif isinstance(statement, ast.Expr):
            is_text = isinstance(statement.value, ast.Constant) and isinstance(
                statement.value.value, str
            )
            if not is_text and ast.unparse(statement) not in ON_TOP:
                raise self._refuse(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            self._constant(statement)
        else:
            raise self._refuse(statement)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        written = ast.unparse(statement)
        if written in IMPORTS:
            self._source.modules.update(IMPORTS[written])
            return
        if (
            not isinstance(statement, ast.ImportFrom)
            or statement.level
            or not FROM_TRITON.fullmatch(statement.module or "")
        ):
            raise self._refuse(statement, "Inductor does not write this import")
        every = frozenset().union(*self._source.helpers.of_module.values())
        for alias in statement.names:
            name = alias.asname or alias.name
            if (
                alias.name not in every
                or alias.name == "inline_asm_elementwise"
                or name in RESERVED
                or name.startswith("__")
            ):
                raise self._refuse(statement, f"{alias.name} is not a function of triton.language")
            self._source.known.add(name)

    def _constant(self, statement: ast.Assign | ast.AnnAssign) -> None:
        """Check a constant: ``N = 4``, ``N = tl.constexpr(4)``, ``N: tl.constexpr = 4``,
        ``f32 = tl.float32``.
        """
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            targets = [statement.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or statement.value is None:
            raise self._refuse(statement)
        name = targets[0].id
        if name in RESERVED or name.startswith("__"):
            raise self._refuse(statement, f"{name} is redefined")
        if isinstance(statement, ast.AnnAssign):
            self._source.annotation(statement.annotation)
        value = statement.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) in (
            "tl.constexpr",
            "triton.language.constexpr",
        ):
            if len(value.args) != 1 or value.keywords:
                raise self._refuse(value)
            value = value.args[0]
        if not self._is_type(value) and not (
            isinstance(value, ast.Name) and value.id in self._source.known
        ):
            self._literal(value, 0, is_path_free=False)
        self._source.known.add(name)

    def _function(self, function: ast.FunctionDef) -> None:
        if (
            function.name in RESERVED
            or function.name.startswith("__")
            or not function.name.isascii()
        ):
            raise self._refuse(function, f"a function must not be called {function.name}")
        # The last decorator is applied first, so no other one is given a Python function.
        if not function.decorator_list or not self._is_jit(function.decorator_list[-1]):
            raise self._refuse(function, "a function without @triton.jit would run as Python code")
        for decorator in function.decorator_list[:-1]:
            self._decorator(decorator)
        self._parameters(function)
        check_body(self._source, function)

    def _is_jit(self, decorator: ast.expr) -> bool:
        if isinstance(decorator, ast.Call) and not decorator.args:
            for keyword in decorator.keywords:
                if keyword.arg not in JIT_OPTIONS:
                    raise self._refuse(keyword.value, f"triton.jit({keyword.arg}=…) is not literal")
                self._literal(keyword.value, 0)
            decorator = decorator.func
        return ast.unparse(decorator) == "triton.jit"

    def _decorator(self, decorator: ast.expr) -> None:
        if isinstance(decorator, ast.Call):
            called = ast.unparse(decorator.func)
        else:
            called = ""
        owner, _, name = called.rpartition(".")
        is_known = (owner == "triton_heuristics" and name in HEURISTICS) or called in (
            "triton.autotune",
            "triton.heuristics",
        )
        if not isinstance(decorator, ast.Call) or not is_known:
            raise self._refuse(decorator, "Inductor does not use this decorator")
        self._arguments(decorator, 0)

    def _arguments(self, call: ast.Call, depth: int) -> None:
        for argument in call.args:
            self._literal(argument, depth)
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in REACHES_OUT:
                raise self._refuse(
                    keyword.value, f"Inductor does not use the argument {keyword.arg or '**'}"
                )
            is_own_file = (
                keyword.arg == "filename"
                and isinstance(keyword.value, ast.Name)
                and keyword.value.id == "__file__"
            )
            if (
                keyword.arg == "filename"
                and not is_own_file
                and ast.unparse(keyword.value) != "None"
            ):
                raise self._refuse(keyword.value, "a file is named")
            if not is_own_file:
                self._literal(keyword.value, depth)

    def _literal(self, value: ast.expr, depth: int, is_path_free: bool = True) -> None:
        """Check a literal. With ``is_path_free``, strings must be plain names; else any text is
        allowed, since only a kernel compares with it.
        """
        if depth > DEEPEST:
            raise self._refuse(value, "this is nested too deeply")
        if isinstance(value, ast.Constant):
            self._source.plain(value, is_path_free)
        elif isinstance(value, ast.Tuple | ast.List | ast.Set):
            for expression in value.elts:
                self._literal(expression, depth + 1, is_path_free)
        elif isinstance(value, ast.Dict):
            self._dict(value, depth)
        elif (
            isinstance(value, ast.UnaryOp)
            and isinstance(value.op, ast.USub | ast.UAdd)
            and isinstance(value.operand, ast.Constant)
        ):
            self._source.plain(value.operand, is_path_free)
        elif isinstance(value, ast.Call):
            self._constructed(value, depth)
        elif not self._is_enum(value) and not self._is_type(value):
            raise self._refuse(value, f"{kind_of(value)} is no literal")

    def _dict(self, value: ast.Dict, depth: int) -> None:
        for key, item in zip(value.keys, value.values, strict=True):
            if key is None or (isinstance(key, ast.Constant) and key.value in REACHES_OUT):
                raise self._refuse(value, "Inductor does not write an entry of this dict")
            self._literal(key, depth + 1)
            name = key.value if isinstance(key, ast.Constant) else ""
            if name == "precomputed_grids":
                self._grids(item)
                continue
            if name == "autotune_remote_cache":
                is_off = isinstance(item, ast.Constant) and not item.value
                if not is_off:
                    raise self._refuse(value, "it asks for a remote cache")
            self._literal(item, depth + 1)

    def _grids(self, value: ast.expr) -> None:
        """Check the expressions of grids. Launchers run them as Python, so that only arithmetic is
        allowed.
        """
        for node in ast.walk(value):
            if not isinstance(
                node, ast.List | ast.Tuple | ast.Dict | ast.Constant | ast.expr_context
            ):
                raise self._refuse(node)
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and (not ARITHMETIC.fullmatch(text) or CALL.search(text)):
                raise self._refuse(node, "this is no arithmetic")
            if isinstance(text, bytes):
                raise self._refuse(node)

    def _constructed(self, call: ast.Call, depth: int) -> None:
        # ``unparse`` recurses: it is not asked about what is nested too deeply.
        called = ast.unparse(call.func) if depth < DEEPEST else ""
        if called == "float" and len(call.args) == 1 and not call.keywords:
            number = call.args[0]
        else:
            number = None
        if isinstance(number, ast.Constant) and number.value in ("inf", "-inf", "nan"):
            return
        if called not in CONSTRUCTORS:
            raise self._refuse(call, "Inductor does not write this call in a decorator's arguments")
        self._arguments(call, depth + 1)

    def _is_enum(self, value: ast.expr) -> bool:
        return (
            isinstance(value, ast.Attribute)
            and isinstance(value.value, ast.Name)
            and value.value.id in ENUMS
            and is_public(value.attr)
        )

    def _is_type(self, value: ast.expr) -> bool:
        """Return whether an expression is a type, such as ``tl.float32`` or ``torch.bfloat16``."""
        if not (isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)):
            return False
        return value.value.id in ("tl", "torch") and bool(
            re.fullmatch(r"(b?float|u?int|complex|bool)\w*", value.attr, re.ASCII)
        )

    def _parameters(self, function: ast.FunctionDef) -> None:
        """Check annotations and defaults, which are run as Python when the function is defined."""
        given = function.args
        if given.vararg or given.kwarg or getattr(function, "type_params", None):
            raise self._refuse(
                function, "Inductor does not write *args, **kwargs and type parameters"
            )
        for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            if parameter.arg in RESERVED or parameter.arg.startswith("__"):
                raise self._refuse(parameter, f"{parameter.arg} is redefined")
            if parameter.annotation:
                self._source.annotation(parameter.annotation)
        for default in filter(None, (*given.defaults, *given.kw_defaults)):
            if not (isinstance(default, ast.Name) and default.id in self._source.known):
                self._literal(default, 0)
        if function.returns:
            self._source.annotation(function.returns)
