"""This module reads the text of a graph, line by line: its inputs, nodes, outputs, and nested
graphs.

torch prints nodes in torch/fx/graph.py (``CodeGen._gen_python_code``): a call of an operator as
``torch.ops.aten.mul.Tensor(a, 2)``, a method as ``x.sum()``, a module as ``self.fc(x)``, an
attribute as ``self.weight``, and Python's operators as they are written, ``a * 2``. The value of a
node is read from its annotation, its operation from the expression.

A line that is none of these is counted and left out, so that a text of another release, or one that
was cut off, gives what can be read of it.
"""

from __future__ import annotations

import ast
import re
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from fx_explorer.model import Frame
from fx_explorer.torch_texts import bounded


class PrintedNode(NamedTuple):
    """A node, with the content of its text. Its fields are those of ``model.Node``. A tuple, since
    a graph has tens of thousands.
    """

    name: str
    op: str
    target: str
    arguments: str = ""
    inputs: tuple[str, ...] = ()
    """Names of the nodes it takes, each once, in order."""
    dtype: str = ""
    shape: tuple[str, ...] | None = None
    stride: tuple[str, ...] | None = None
    device: str = ""
    value: str = ""
    frame: Frame | None = None
    """The user's line that the comment above it names."""


class Value(NamedTuple):
    """Type, sizes and device of a value, read from its annotation."""

    dtype: str = ""
    shape: tuple[str, ...] | None = None
    stride: tuple[str, ...] | None = None
    device: str = ""
    text: str = ""
    """For a value that is not a single tensor, the annotation itself: ``Sym(s77)``."""


_TENSOR = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]+(?::\d+)?)?"
)


LONGEST_KEPT = 200
"""Characters of an annotation that is kept; those of tensors are shorter."""


def value_of(annotation: str) -> Value:
    """Return the parsed annotation ``f32[8, s77][s77, 1]cuda:0``, of which a graph has few."""
    if len(annotation) > LONGEST_KEPT:
        return _parsed(annotation)
    return _kept(annotation)


@lru_cache(maxsize=4_096)
def _kept(annotation: str) -> Value:
    return _parsed(annotation)


def _parsed(annotation: str) -> Value:
    match = _TENSOR.fullmatch(annotation)
    if not match:
        return Value(text=annotation)
    stride = None if match["stride"] is None else _sizes(match["stride"])
    return Value(match["dtype"], _sizes(match["shape"]), stride, match["device"] or "")


def _sizes(text: str) -> tuple[str, ...]:
    if not text.strip():
        return ()
    return tuple(part.strip() for part in text.split(","))


class PrintedOperation(NamedTuple):
    """FX opcode, target and arguments of an expression."""

    op: str
    target: str
    arguments: str


_OVERLOAD = re.compile(r"torch\.ops\.(?P<target>[\w.]+)\((?P<arguments>.*)\)", re.S)

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}

_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


_NAME = r"[A-Za-z_]\w*"

_PATH_TEXT = rf"{_NAME}(?:\.{_NAME})*"

_ATOM = rf"(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e-?\d+)?|{_PATH_TEXT})"

_ATOMS = rf"{_ATOM}(?:, {_ATOM})*"

_ARGUMENT = rf"(?:{_NAME} = )?(?:{_ATOM}|\({_ATOMS},?\))"

_PLAIN_CALL = re.compile(
    rf"(?P<path>{_PATH_TEXT})\((?P<arguments>(?:{_ARGUMENT}(?:, {_ARGUMENT})*)?)\)"
)

_PLAIN_ITEM = re.compile(rf"(?P<taken>{_NAME})\[(?P<index>{_ATOM})\]")

_PLAIN_BINARY = re.compile(rf"(?P<left>{_ATOM}) (?P<operator>[-+*/@]) (?P<right>{_ATOM})")
"""The three forms that most expressions have that are no overloads. Python's own parser takes 50
times as long.
"""

_PLAIN_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "@": "matmul"}


def operation_of(expression: str, known: dict[str, int]) -> PrintedOperation | None:
    """Return the operation of an expression, in a graph whose earlier nodes are ``known``; None if
    torch does not print such expressions.
    """
    overload = _OVERLOAD.fullmatch(expression)
    if overload:
        return _overload(overload["target"], overload["arguments"])
    call = _PLAIN_CALL.fullmatch(expression)
    if call:
        return _call(call["path"], call["arguments"], known)
    item = _PLAIN_ITEM.fullmatch(expression)
    if item:
        return PrintedOperation(
            "call_function", "operator.getitem", f"{item['taken']}, {item['index']}"
        )
    binary = _PLAIN_BINARY.fullmatch(expression)
    if binary:
        name = _PLAIN_OPERATORS[binary["operator"]]
        arguments = f"{binary['left']}, {binary['right']}"
        return PrintedOperation("call_function", f"_operator.{name}", arguments)
    return _parsed_operation(expression, known)


def _overload(name: str, arguments: str) -> PrintedOperation:
    target = f"torch.ops.{name}" if name.startswith("higher_order.") else name
    return PrintedOperation("call_function", target, arguments)


def _parsed_operation(expression: str, known: dict[str, int]) -> PrintedOperation | None:
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    raw = expression.encode()

    def text(node: ast.expr) -> str:
        return raw[node.col_offset : node.end_col_offset].decode()

    if isinstance(tree, ast.Call):
        inner = raw[tree.func.end_col_offset : tree.end_col_offset].decode().strip()[1:-1]
        return _call(_path(tree.func), inner, known)
    if isinstance(tree, ast.Subscript):
        return PrintedOperation(
            "call_function", "operator.getitem", f"{text(tree.value)}, {text(tree.slice)}"
        )
    if isinstance(tree, ast.Attribute):
        path = _path(tree)
        if path.startswith("self."):
            return PrintedOperation("get_attr", path.removeprefix("self."), "")
        return PrintedOperation("call_function", "getattr", f"{text(tree.value)}, {tree.attr!r}")
    if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
        return PrintedOperation(
            "call_function",
            f"_operator.{_BINARY[type(tree.op)]}",
            f"{text(tree.left)}, {text(tree.right)}",
        )
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARISONS:
        name = _COMPARISONS[type(tree.ops[0])]
        return PrintedOperation(
            "call_function", f"_operator.{name}", f"{text(tree.left)}, {text(tree.comparators[0])}"
        )
    if isinstance(tree, ast.UnaryOp) and type(tree.op) in _UNARY:
        return PrintedOperation(
            "call_function", f"_operator.{_UNARY[type(tree.op)]}", text(tree.operand)
        )
    return None


def _call(path: str, arguments: str, known: dict[str, int]) -> PrintedOperation | None:
    """Return the operation of a call of ``path``; None for an empty one."""
    if not path:
        return None
    root, _, rest = path.partition(".")
    if root == "self":
        return PrintedOperation("call_module", rest, arguments)
    if root in known and rest:
        with_self = f"{root}, {arguments}" if arguments else root
        return PrintedOperation("call_method", rest, with_self)
    return PrintedOperation("call_function", path, arguments)


def _path(node: ast.expr) -> str:
    """Return ``self.layers.0`` for ``getattr(self.layers, "0")``, and the dotted name of any other
    attribute; empty for other expressions.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _path(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) == 2
    ):
        inner, name = _path(node.args[0]), node.args[1]
        if inner and isinstance(name, ast.Constant) and isinstance(name.value, str):
            return f"{inner}.{name.value}"
        return ""
    return ""


_STRING = re.compile(r"'(?:[^'\\]|\\.)*(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)", re.S)

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?! ?=[^=])")
"""Matches a name that is neither an attribute nor a keyword."""


def inputs_in(text: str, known: dict[str, int]) -> tuple[str, ...]:
    """Return the names of ``known`` nodes that a text has, each once, in order."""
    if "'" in text or '"' in text:
        text = _STRING.sub("''", text)
    names = [word for word in _WORD.findall(text) if word in known]
    if len(names) > 1:
        return tuple(dict.fromkeys(names))
    return tuple(names)


class PrintedGraph:
    """A graph that was read.

    It goes from one process to another by column: tens of thousands of tuples take four times as
    long, and most who ask want some of the columns.
    """

    def __init__(
        self,
        name: str,
        nodes: Iterable[PrintedNode] = (),
        children: Iterable[PrintedGraph] = (),
        unread: int = 0,
    ) -> None:
        self.name = name
        """The name of its class: ``GraphModule``, ``true_graph_0``."""
        self.children = list(children)
        self.unread = unread
        """Lines that could not be read."""
        self._nodes: list[PrintedNode] | None = list(nodes)
        self._columns: tuple[Sequence[Any], ...] | None = None
        self._edges: list[tuple[int, int]] | None = None

    @property
    def nodes(self) -> list[PrintedNode]:
        """Return the nodes. They are not changed once a column was asked for."""
        if self._nodes is None:
            self._nodes = [*map(PrintedNode._make, zip(*self._all_columns(), strict=True))]
        return self._nodes

    def column(self, name: str) -> Sequence[Any]:
        """Return a field of all nodes."""
        return self._all_columns()[PrintedNode._fields.index(name)]

    def _all_columns(self) -> tuple[Sequence[Any], ...]:
        if self._columns is None:
            columns = zip(*self.nodes, strict=True)
            self._columns = tuple(columns) or ((),) * len(PrintedNode._fields)
        return self._columns

    def edges(self) -> list[tuple[int, int]]:
        """Return (producer, consumer) positions of every use."""
        if self._edges is None:
            position = {name: at for at, name in enumerate(self.column("name"))}
            self._edges = []
            for consumer, inputs in enumerate(self.column("inputs")):
                for name in inputs:
                    self._edges.append((position[name], consumer))
        return self._edges

    def __reduce__(self) -> tuple[object, ...]:
        edges = array("l", [position for edge in self.edges() for position in edge])
        return _of_columns, (self.name, self._all_columns(), edges, self.children, self.unread)


def _of_columns(
    name: str,
    columns: tuple[Sequence[Any], ...],
    edges: array[int],
    children: list[PrintedGraph],
    unread: int,
) -> PrintedGraph:
    graph = PrintedGraph(name, (), children, unread)
    graph._nodes, graph._columns = None, columns
    graph._edges = list(zip(edges[::2], edges[1::2], strict=True))
    return graph


_CLASS = re.compile(r"(?P<indent> *)class (?P<name>\S+?)\(torch\.nn\.Module\):")

_HEADER = re.compile(r" *def (?P<name>\w+)\(")

_INPUT = re.compile(
    r"\*?\b(?P<name>\w+)\b\s*(?:(?::\s*(?:\"(?P<annotation>[^\"]*)\")?|=)[^,]*)?(?:,|$)"
)

_DECLARED = re.compile(r"\b(?P<name>\w+): \"(?P<annotation>[^\"]*)\"")
"""Matches an input of a joint graph, whose header names only the two groups."""

_ALL_DECLARED = re.compile(r"\w+: \"[^\"]*\"(?:; \w+: \"[^\"]*\")*;?")

_UNPACKED = re.compile(r"[\w, ]+ = fx_pytree\.tree_flatten_spec\(")

_STATEMENT = re.compile(
    r"(?P<name>\w+)(?:: \"(?P<annotation>[^\"]*)\")? = (?P<expression>.*)", re.S
)

_OVERLOAD_LINE = re.compile(
    r"[ \t]*(?!return )(?P<name>\w+): \"(?P<annotation>[^\"#;]*)\" = "
    r"torch\.ops\.(?P<target>[\w.]+)\((?P<arguments>[^#;]*)\)(?:;  (?:\w+ = )+None)?[ \t]*"
)
"""Matches a line that calls an overload, as nearly all lines after AOTAutograd's tracing do: one
match for what ``_statement`` takes apart in several.
"""

_DELETION = re.compile(r"(?:\w+ = )+None")

_IN_PLACE = re.compile(
    r"(?P<left>.+?) (?P<operator>[-+*/@%&|^]|//|\*\*|<<|>>)= (?P<right>.*)", re.S
)

_STORED = re.compile(r"(?P<taken>\w+)\[(?P<index>.*?)\] = (?P<value>.*)", re.S)

_IN_PLACE_NAMES = {
    "+": "iadd", "-": "isub", "*": "imul", "/": "itruediv", "//": "ifloordiv", "%": "imod",
    "**": "ipow", "@": "imatmul",
    "&": "iand", "|": "ior", "^": "ixor", "<<": "ilshift", ">>": "irshift",
}  # fmt: skip

_PLACE = re.compile(r"File: (?P<file>.+?):(?P<line>\d+) in (?P<function>.+)")
"""Matches the place of a line of the program, before its code."""

_NO_PLACE = " No stacktrace found for following nodes"
"""End of a comment above nodes without a place. Before a place or this, torch writes the nodes'
annotations, and whether they are recomputed: ``# recompute: MUST_SAVE File: …`` (torch/fx/graph.py,
``append_stacktrace_summary``).
"""


def read_graphs(text: str) -> list[PrintedGraph]:
    """Return the graphs of a text, with nested graphs as children."""
    reader = _Reader(text.split("\n"))
    return reader.graphs()


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._outermost: list[PrintedGraph] = []
        self._open: list[tuple[int, PrintedGraph]] = []
        """Graphs around the line, with the indentation of their classes."""
        self._known: dict[str, int] = {}
        """The names of the graph's nodes."""
        self._frame: Frame | None = None

    def graphs(self) -> list[PrintedGraph]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            overload = _OVERLOAD_LINE.fullmatch(line)
            if overload and self._open:
                name, annotation, target, arguments = overload.groups()
                operation = _overload(target, arguments)
                self._add_call(self._open[-1][1], name, annotation, operation)
                continue
            if not line or line.isspace():
                continue
            opened = _CLASS.fullmatch(line.rstrip())
            if opened:
                self._open_graph(len(opened["indent"]), opened["name"])
            elif self._open:
                self._line(self._open[-1][1], line)
        return self._outermost

    def _open_graph(self, indent: int, name: str) -> None:
        graph = PrintedGraph(name)
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        siblings = self._open[-1][1].children if self._open else self._outermost
        siblings.append(graph)
        self._open.append((indent, graph))
        self._known, self._frame = {}, None

    def _line(self, graph: PrintedGraph, line: str) -> None:
        stripped = line.strip()
        if stripped.startswith("#"):
            self._comment(stripped)
        elif _HEADER.match(line):
            self._inputs(graph, self._balanced(stripped))
        elif stripped.startswith("return "):
            returned = self._balanced(stripped).removeprefix("return ").rstrip(";")
            self._add(
                graph,
                PrintedNode(
                    "output", "output", "output", returned, inputs_in(returned, self._known)
                ),
            )
        elif not _UNPACKED.match(stripped):
            self._statement(graph, stripped)

    def _comment(self, comment: str) -> None:
        where, has_code, code = bounded(comment).partition(", code: ")
        place = _PLACE.fullmatch(where, max(0, where.rfind("File: ")))
        if place and has_code:
            self._frame = Frame(place["file"], int(place["line"]), place["function"], code.strip())
        elif comment.endswith(_NO_PLACE):
            self._frame = None

    def _balanced(self, first: str) -> str:
        """Return a statement that continues until its brackets are closed, without the comments."""
        parts = [_without_comment(first)]
        depth = _depth(parts[0])
        while depth > 0 and self._at < len(self._lines):
            parts.append(_without_comment(self._lines[self._at].strip()))
            depth += _depth(parts[-1])
            self._at += 1
        return " ".join(part for part in parts if part)

    def _inputs(self, graph: PrintedGraph, header: str) -> None:
        if ")" in header:
            inner = header[header.index("(") + 1 : header.rindex(")")]
        else:
            inner = header[header.index("(") + 1 :]
        for match in _INPUT.finditer(inner):
            if match["name"] != "self":
                self._add_input(graph, match["name"], match["annotation"] or "")

    def _add_input(self, graph: PrintedGraph, name: str, annotation: str) -> None:
        value = value_of(annotation)
        self._add(
            graph,
            PrintedNode(
                name,
                "placeholder",
                name,
                dtype=value.dtype,
                shape=value.shape,
                stride=value.stride,
                device=value.device,
                value=value.text,
            ),
        )

    def _statement(self, graph: PrintedGraph, line: str) -> None:
        parts = _without_comment(line).split(";  ")
        statements = [part for part in parts if not _DELETION.fullmatch(part)]
        if statements and _ALL_DECLARED.fullmatch(statements[0]):
            for declared in _DECLARED.finditer(statements[0]):
                self._declare(graph, declared["name"], declared["annotation"])
        elif len(statements) == 2 and self._changes_in_place(graph, *statements):
            pass
        elif len(statements) != 1 or not self._computes(graph, statements[0]):
            graph.unread += 1

    def _declare(self, graph: PrintedGraph, name: str, annotation: str) -> None:
        """Add an input of a joint graph, in the place of the groups that its header names."""
        are_of_header = all(
            node.op == "placeholder" and not node.dtype and not node.value for node in graph.nodes
        )
        if are_of_header:
            graph.nodes.clear()
            self._known.clear()
        self._add_input(graph, name, annotation)

    def _changes_in_place(self, graph: PrintedGraph, change: str, named: str) -> bool:
        """Add the node of ``x += y;  iadd: "f32[8]" = x`` or ``x[0] = y;  setitem = x``."""
        result, in_place, stored = (
            _STATEMENT.fullmatch(named),
            _IN_PLACE.fullmatch(change),
            _STORED.fullmatch(change),
        )
        if not result or not (in_place or stored):
            return False
        if in_place:
            target, arguments = (
                _IN_PLACE_NAMES[in_place["operator"]],
                f"{in_place['left']}, {in_place['right']}",
            )
        else:
            assert stored is not None
            target, arguments = (
                "setitem",
                f"{stored['taken']}, {stored['index']}, {stored['value']}",
            )
        operation = PrintedOperation("call_function", f"_operator.{target}", arguments)
        self._add_call(graph, result["name"], result["annotation"] or "", operation)
        return True

    def _computes(self, graph: PrintedGraph, statement: str) -> bool:
        match = _STATEMENT.fullmatch(statement)
        if not match:
            return False
        name, expression = match["name"], match["expression"]
        if (
            expression in self._known
        ):  # l_x_ = L_x_: the input has one name outside and another one inside
            return self._rename(graph, expression, name)
        operation = operation_of(expression, self._known)
        if operation is None:
            return False
        self._add_call(graph, name, match["annotation"] or "", operation)
        return True

    def _rename(self, graph: PrintedGraph, outside: str, inside: str) -> bool:
        position = self._known[outside]
        node = graph.nodes[position]
        if node.op != "placeholder":
            return False
        graph.nodes[position] = PrintedNode(
            inside,
            "placeholder",
            outside,
            "",
            (),
            node.dtype,
            node.shape,
            node.stride,
            node.device,
            node.value,
        )
        del self._known[outside]
        self._known[inside] = position
        return True

    def _add_call(
        self, graph: PrintedGraph, name: str, annotation: str, operation: PrintedOperation
    ) -> None:
        op, target, arguments = operation
        inputs = inputs_in(arguments, self._known)
        dtype, shape, stride, device, text = value_of(annotation)
        node = PrintedNode(
            name, op, target, arguments, inputs, dtype, shape, stride, device, text, self._frame
        )
        self._add(graph, node)

    def _add(self, graph: PrintedGraph, node: PrintedNode) -> None:
        self._known[node.name] = len(graph.nodes)
        graph.nodes.append(node)


def _without_comment(line: str) -> str:
    return line.partition("  # ")[0].rstrip()


def _depth(text: str) -> int:
    opened = sum(text.count(bracket) for bracket in "([{")
    closed = sum(text.count(bracket) for bracket in ")]}")
    return opened - closed
