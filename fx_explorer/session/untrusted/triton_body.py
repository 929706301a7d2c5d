"""This module checks that the body of a ``@triton.jit`` function stays within Triton's own
functions: Triton evaluates it while it compiles.
"""

from __future__ import annotations

import ast
import re

from fx_explorer.session.untrusted.triton_allowed import (
    ATTRIBUTES,
    BUILTINS,
    DEEPEST,
    METHODS,
    MODULES,
    RESERVED,
    TritonSource,
    dotted,
    is_public,
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
"""Bits."""


def check_body(source: TritonSource, function: ast.FunctionDef) -> None:
    """Raise UntrustedSourceError for the first thing that is not on the list."""
    _Body(source, function).check()


class _Body:
    """The body of one ``@triton.jit`` function: Triton evaluates it while it compiles."""

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
                    raise self._refuse(node, f"{node.id} is given another meaning")
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
            raise self._refuse(statement, "powers are not what Inductor writes")

    def _expression(self, node: ast.AST, depth: int) -> None:
        """Refuse an expression that is not on the list, or is nested too deeply."""
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
            raise self._refuse(node if hasattr(node, "lineno") else self._function)

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
            raise self._refuse(node, f"{node.id} is no name of the kernel's own")

    def _call(self, node: ast.Call, depth: int) -> None:
        """Refuse a call of anything but Triton's own functions, and ``**`` in a call."""
        called = node.func
        if isinstance(called, ast.Name):
            if called.id not in BUILTINS and called.id not in self._source.known:
                raise self._refuse(node, f"{called.id} is no function of Triton's")
        elif isinstance(called, ast.Attribute):
            self._attribute(called, depth, is_called=True)
        else:
            raise self._refuse(node)
        self._assembly(node)
        for argument in node.args:
            self._expression(argument, depth + 1)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refuse(node, "** is not what Inductor writes")
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
            raise self._refuse(node, f".{node.attr} is nothing that values in a kernel have")
        self._expression(node.value, depth + 1)

    def _of_module(self, node: ast.Attribute, chain: str) -> None:
        written = chain.replace("triton.language.", "tl.", 1)
        module, _, name = written.rpartition(".")
        enum = module.removesuffix(".PropagateNan")
        if enum == "tl" and module != enum and name in ATTRIBUTES:
            return
        stands_for = self._source.modules.get(module, module if module in MODULES else "")
        if not is_public(name) or not self._source.helpers.has(stands_for, name):
            raise self._refuse(node, f"{chain} is no function of Triton's")

    def _assembly(self, node: ast.Call) -> None:
        """Refuse assembly that is not written out or has a directive, because GNU assemblers read
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
            raise self._refuse(node, "assembly that is not written out")
        assembly = text.value
        if re.search(r"[\\#]|/\*", assembly):
            raise self._refuse(node, "assembly with a directive")
        for part in re.split(r"[;:\n{}]", assembly):
            if re.match(r"\s*\.(?!reg\b)", part):
                raise self._refuse(node, "assembly with a directive")
