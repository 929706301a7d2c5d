"""This module writes a graph as Python code: ``gm.code`` as ``print_readable`` shows it, with a
class for each nested graph.

It is written from the rows of a session, so every recorded graph has it, and it can be copied and
run. What a row does not hold is a comment in its place, and is listed in ``missing``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fx_explorer import model
from fx_explorer.analysis.graph_expressions import (
    TOO_DEEP,
    NotPythonError,
    RowNames,
    arguments_of,
    arguments_text,
    attribute,
    call_of,
    member,
)
from fx_explorer.analysis.words import value_text
from fx_explorer.highlight import Lines, printable
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries.graphs import input_names

MAIN_CLASS = "GraphModule"

DEEPEST = 40
"""Maximum depth of graphs within graphs that are written; torch nests a handful, a damaged session
any number.
"""

LONG = 300
"""Maximum length of a line in which nothing can be nested too deeply."""

GRAPH_OF = '''\
def graph_of(module):
    """Return a module as a GraphModule with one node, which calls it: the operator that takes it \
asks for a graph."""
    graph = torch.fx.Graph()
    taken = [graph.placeholder(name) for name in inspect.signature(module.forward).parameters]
    graph.output(graph.call_module("body", tuple(taken)))
    return torch.fx.GraphModule({"body": module}, graph)
'''
"""Code of the helper for higher-order operators that read the graph or the metadata of the module
they call.
"""

_CALL_ANY_MODULE = {
    "higher_order.associative_scan",
    "higher_order.cond",
    "higher_order.flex_attention",
    "higher_order.flex_attention_backward",
    "higher_order.invoke_subgraph",
    "higher_order.map_impl",
    "higher_order.scan",
    "higher_order.while_loop",
    "higher_order.wrap",
}
"""Higher-order operators that only call the nested graphs that they are given."""

ValueOf = Callable[[model.Node], str]
"""Returns the value that a script assigns to an attribute of a graph, as Python; empty for none."""


@dataclass(frozen=True)
class GraphText:
    """The text of a graph, with the node of each line."""

    lines: tuple[str, ...]
    node_of_line: dict[int, int]
    """Line from 0 → id of the node that it computes."""
    missing: tuple[str, ...] = ()
    """Why some lines are comments: sentences."""
    inputs: tuple[model.Node, ...] = ()
    """The placeholders of the whole graph."""

    @cached_property
    def line_of_node(self) -> dict[int, int]:
        """Return id of a node → the first line that computes it."""
        return {node: line for line, node in reversed(self.node_of_line.items())}

    @cached_property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def coloured(self, language: str) -> Lines:
        """Return the text by lines that are coloured when needed. The first call takes 0.1 s for a
        graph of 100,000 nodes, further calls nothing.
        """
        if language not in self._coloured:
            self._coloured[language] = Lines(self.text, language)
        return self._coloured[language]

    @cached_property
    def _coloured(self) -> dict[str, Lines]:
        return {}


def graph_code(reader: SessionReader, graph: model.Graph) -> GraphText:
    """Return a graph as the code of a module, with its imports at the top."""
    names = RowNames()
    written = module_code(reader, graph, names)
    head = [*import_lines(names), "", ""]
    if names.asks_for_graphs:
        head += [*GRAPH_OF.splitlines(), "", ""]
    moved = {line + len(head): node for line, node in written.node_of_line.items()}
    return GraphText((*head, *written.lines), moved, written.missing, written.inputs)


def import_lines(names: RowNames) -> list[str]:
    """Return the imports, the standard library's first."""
    modules = {"torch", *names.roots}
    torchs = {module for module in modules if module.startswith("torch")}
    return [f"import {module}" for module in (*sorted(modules - torchs), *sorted(torchs))]


def module_code(
    reader: SessionReader, graph: model.Graph, names: RowNames, value_of: ValueOf | None = None
) -> GraphText:
    """Return the classes of a graph and of its nested graphs, inner ones first. With ``value_of``,
    attributes that are tensors get a value.
    """
    written = _Classes(reader, names, value_of)
    written.write(graph, MAIN_CLASS)
    inputs = tuple(node for node in reader.nodes(graph) if node.op == "placeholder")
    return GraphText(
        tuple(written.lines), written.node_of_line, tuple(dict.fromkeys(written.missing)), inputs
    )


@dataclass
class _Classes:
    """Writes a class for a graph, after those of the graphs in it."""

    reader: SessionReader
    names: RowNames
    value_of: ValueOf | None
    lines: list[str] = field(default_factory=list)
    node_of_line: dict[int, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    _classes: set[str] = field(default_factory=set)
    _within: set[int] = field(default_factory=set)
    """Graphs that are being written: in a damaged session a graph may contain itself."""

    def write(self, graph: model.Graph, class_name: str) -> None:
        self._classes.add(class_name)
        self._within.add(graph.id)
        nodes = self.reader.nodes(graph)
        within = nested(self.reader, graph)
        inner = self._inner(nodes, within)
        if self.lines:
            self.lines += ["", ""]
        self.lines.append(f"class {class_name}(torch.nn.Module):")
        self._attributes(nodes, inner)
        self._forward(graph, nodes, within)
        self._within.discard(graph.id)

    def _inner(self, nodes: Sequence[model.Node], within: dict[str, model.Graph]) -> dict[str, str]:
        """Write the nested graphs, and return the expression for the attribute of each."""
        if within and len(self._within) >= DEEPEST:
            self.missing.append(
                f"Graphs are nested deeper than {DEEPEST} here; the inner ones are not "
                "part of this text."
            )
            return {}
        asking: set[str] = set()
        for node in nodes:
            if _asks_for_graphs(node):
                asking.update(node.subgraph_names)
        made = {name: f"{self._nested_class(graph)}()" for name, graph in within.items()}
        if asking & made.keys():
            self.names.asks_for_graphs = True
            self.names.roots["inspect"] = None
        for name in asking & made.keys():
            made[name] = f"graph_of({made[name]})"
        return made

    def _nested_class(self, graph: model.Graph) -> str:
        """Write the class of a nested graph, unless it encloses this one, and return its name."""
        wanted = re.sub(r"\W", "_", graph.name.rpartition(".")[2]) or "nested"
        if wanted[0].isdigit():
            wanted = f"_{wanted}"
        name = next(name for name in _numbered(wanted) if name not in self._classes)
        if graph.id not in self._within:
            self.write(graph, name)
        return name

    def _attributes(self, nodes: Sequence[model.Node], inner: dict[str, str]) -> None:
        """Write the lines that give the module its nested graphs, and in a script its tensors."""
        body = []
        for name, made in inner.items():
            if name.isidentifier():
                body.append(f"        self.{name} = {made}")
        attributes: dict[str, model.Node] = {}
        modules: dict[str, None] = {}
        for node in nodes:
            if node.op == "get_attr" and node.target not in inner:
                attributes[node.target] = node
            elif node.op == "call_module":
                modules[node.target] = None
        for node in attributes.values():
            shown = printable(value_text(node) or "a value that the session does not describe")
            if self.value_of is None:
                body.append(
                    f"        # self.{printable(node.target)}: {shown}, which is not part "
                    "of this text"
                )
            elif value := self.value_of(node):
                body.append(f"        put(self, {node.target!r}, {value})")
        for module in modules:
            body.append(
                f"        # self.{printable(module)}: a module of the program, which "
                "is not part of this text"
            )
            self.missing.append(f"The graph calls {printable(module)}, a module of the program.")
        if body:
            self.lines += ["    def __init__(self):", "        super().__init__()", *body, ""]

    def _forward(
        self, graph: model.Graph, nodes: Sequence[model.Node], within: dict[str, model.Graph]
    ) -> None:
        """Write the function, with a line for each input: a line can be lit."""
        inputs = [node for node in nodes if node.op == "placeholder"]
        if not inputs:
            self.lines.append("    def forward(self):")
        else:
            self.lines += ["    def forward(", "        self,"]
            for node in inputs:
                self.node_of_line[len(self.lines)] = node.id
                self.lines.append(f"        {_parameter(node)},")
            self.lines.append("    ):")
        self._body(graph, nodes, within)

    def _body(
        self, graph: model.Graph, nodes: Sequence[model.Node], within: dict[str, model.Graph]
    ) -> None:
        taken = input_names(self.reader, graph)
        place = (0, 0)
        files = {file.id: file_name(file.path) for file in self.reader.rows(model.SourceFile)}
        for node in nodes:
            if node.op == "placeholder":
                continue
            if node.line and (node.file, node.line) != place and node.op != "output":
                place = (node.file, node.line)
                file = printable(files.get(node.file, ""))
                self.lines.append(f"        # {file}:{node.line}{self._source_of(node)}")
            self.node_of_line[len(self.lines)] = node.id
            try:
                if node.subgraph_names:
                    self._check_region(node, within, taken.get(node.id, ()))
                self.lines.append(f"        {statement(node, taken.get(node.id, ()), self.names)}")
            except NotPythonError as error:
                self._cannot(node, str(error))
        if not any(node.op == "output" for node in nodes):
            self.lines.append("        pass")

    def _check_region(
        self, node: model.Node, within: dict[str, model.Graph], given: Sequence[str]
    ) -> None:
        """Raise NotPythonError for a call of a region that the session does not have in this form.
        AOTAutograd splits regions in two while it makes a joint graph, which calls the halves.
        """
        if _operator_name(node.target) != "higher_order.invoke_subgraph":
            return
        for name in node.subgraph_names:
            if name not in within:
                raise NotPythonError(f"the session does not have {name}, the region that it calls")
        positional, _ = arguments_of(node.arguments, given, self.names)
        region = within[node.subgraph_names[0]]
        takes = sum(node.op == "placeholder" for node in self.reader.nodes(region))
        if takes != len(positional) - 2:
            raise NotPythonError(
                f"it gives {len(positional) - 2} arguments to {region.name.rpartition('.')[2]}, "
                f"which takes {takes} in the session: the region was split or changed after it "
                "was recorded"
            )

    def _source_of(self, node: model.Node) -> str:
        """Return the source line of a node as the end of a comment; empty where it is not known."""
        if not node.stack:
            return ""
        for stack in self.reader.by_ids(model.Stack, [node.stack]):
            for frame in reversed(stack.frames):
                if frame.line == node.line:
                    code = frame.code.strip()
                    return f"  {printable(code)}" if code else ""
        return ""

    def _cannot(self, node: model.Node, why: str) -> None:
        text = f"{printable(node.name)} cannot be computed here: {printable(why)}."
        self.missing.append(text)
        self.lines.append(f"        # {text}")
        self.lines.append(f"        raise NotImplementedError({json.dumps(text)})")


def nested(reader: SessionReader, graph: model.Graph) -> dict[str, model.Graph]:
    """Return the nested graphs of the same stage, by the attribute that holds each."""
    graphs = {}
    for row in reader.rows(model.Graph, parent=graph.id, compilation=graph.compilation):
        if row.stage == graph.stage and row.name:
            graphs[row.name.rpartition(".")[2]] = row
    return graphs


def _asks_for_graphs(node: model.Node) -> bool:
    return (
        node.op == "call_function"
        and bool(node.subgraph_names)
        and _operator_name(node.target) not in _CALL_ANY_MODULE
    )


def _operator_name(target: str) -> str:
    """Return a higher-order operator as ``higher_order.cond``, however the session writes
    its name.
    """
    name = target.removeprefix("torch.ops.").removeprefix("higher_order.")
    return f"higher_order.{name.rpartition('.')[2]}"


def statement(node: model.Node, inputs: Sequence[str], names: RowNames) -> str:
    """Return a node as a line of Python. Raises NotPythonError if it cannot be written."""
    if node.op == "get_attr":
        return _readable(f"{_variable(node)} = {attribute(node.target)}")
    positional, named = arguments_of(node.arguments, inputs, names)
    if node.op == "output":
        result = positional[0] if positional else "None"
        return _readable(f"return {result}")
    return _readable(f"{_variable(node)} = {_computed(node, positional, named, names)}")


def _readable(line: str) -> str:
    """Return the line if Python can compile it: in a damaged session, a long one may be nested too
    deeply.
    """
    if len(line) > LONG:
        try:
            compile(f"def f():\n    {line}\n", "line", "exec")
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise NotPythonError(TOO_DEEP) from error
    return line


def _computed(
    node: model.Node, positional: list[str], named: dict[str, str], names: RowNames
) -> str:
    if node.op == "call_method":
        if not positional:
            raise NotPythonError(f"it calls the method {node.target} without an object")
        if positional[0].isidentifier():
            owner = positional[0]
        else:
            owner = f"({positional[0]})"
        return f"{owner}.{member(node.target)}({arguments_text(positional[1:], named)})"
    if node.op == "call_module":
        return f"{attribute(node.target)}({arguments_text(positional, named)})"
    return call_of(node.target, positional, named, names)


def _variable(node: model.Node) -> str:
    if not node.name.isidentifier():
        raise NotPythonError(f"its name {node.name!r} is not a name in Python")
    shown = value_text(node)
    if not shown:
        return node.name
    return f"{node.name}: {json.dumps(printable(shown))}"


def _parameter(node: model.Node) -> str:
    """Return an input of forward; those of symbolic_trace may be ``*args``."""
    if not node.name.isidentifier():
        return "_"
    stars = "*" * (len(node.target) - len(node.target.lstrip("*")))
    shown = value_text(node)
    if shown:
        return f"{stars[:2]}{node.name}: {json.dumps(printable(shown))}"
    return f"{stars[:2]}{node.name}"


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        yield f"{name}_{number}"
        number += 1
