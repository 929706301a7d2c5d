"""This module writes a graph to a file: as code, as a table, as a script, or for programs that draw
graphs, with a first line that identifies the graph.

A script makes inputs of the same shape, strides, dtype and device. Their contents are random: a
session keeps none. Whatever else is not as it was in the program is said at the script's top.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from fx_explorer import model
from fx_explorer.analysis.graph_exports import (
    graph_as_dot,
    graph_as_graphml,
    graph_for_model_explorer,
)
from fx_explorer.analysis.graph_expressions import NotPythonError, RowNames, size_expression
from fx_explorer.analysis.graph_python import GRAPH_OF, MAIN_CLASS, import_lines, module_code
from fx_explorer.analysis.graph_texts import graph_text
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import value_text
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader

FileForm = Literal["code", "table", "script", "dot", "graphml", "model-explorer"]

FORMS: tuple[FileForm, ...] = get_args(FileForm)

EXPORTS = {
    "dot": graph_as_dot,
    "graphml": graph_as_graphml,
    "model-explorer": graph_for_model_explorer,
}
"""Forms for other programs → the function that writes each."""

SIGN = "written by fx-explorer"
"""Text near the beginning of every such file."""

STRANGERS = (
    "Read this before you run it: you did not capture the session on this machine. From the "
    "session, the script takes only torch's functions, Python's operators and plain values."
)


def written_graph(
    reader: SessionReader, graph: model.Graph, title: str, form: FileForm, *, is_own: bool = True
) -> str:
    """Return the text of the file. ``title`` is the name of the graph; ``is_own`` whether this user
    captured it.
    """
    origin = describe_origin(reader, graph, title)
    if form == "script":
        head = [f"{origin}."]
        if not is_own:
            head.append(STRANGERS)
        return graph_script(reader, graph, head)
    if form == "code" or form == "table":
        return f"# {origin}\n\n{graph_text(reader, form, graph.id).text}"
    return EXPORTS[form](reader, graph, origin)


def describe_origin(reader: SessionReader, graph: model.Graph, title: str) -> str:
    """Return a line that names the graph, its compilation and function, and fx-explorer as its
    author.
    """
    owner = next(iter(reader.by_ids(model.Compilation, [graph.compilation])), None)
    if owner:
        of = f" of [{owner.name}] {plain_function(owner.function)}"
    else:
        of = ""
    return printable(f"{title}{of}, {SIGN}")


def script_name(owner: str, title: str) -> str:
    """Return a name for the file: ``0_0_forward_post_grad.py``."""
    return re.sub(r"\W+", "_", f"{owner}_{title}".lower()).strip("_") + ".py"


# A graph as a script that runs it alone.

UNKNOWN_SIZE = 4
"""Value for a size whose value is unknown, because it depends on data."""

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "b8": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
"""dtype as it is printed → its name in torch."""

RANDOM = (
    "Inputs, parameters and buffers have their recorded shapes, strides, dtypes and devices, and "
    "random content."
)

HELPERS = '''\
def device_here(name):
    """Return the device that the graph was made for, or the CPU where this machine has no \
such device."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        return torch.device("cpu")
    return torch.device(name)


def tensor(size, stride, dtype, where):
    """Return a tensor that lies in memory as in the program, with random content; whole \
numbers are 0 or 1.

    One without dimensions is between 0 and 1: it may stand for a number, as a probability \
or a scale.
    """
    length = 1 + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else 0
    if dtype.is_floating_point or dtype.is_complex:
        memory = (torch.randn(length) if size else torch.rand(length)).to(dtype)
    else:
        memory = torch.randint(0, 2, (length,)).to(dtype)
    return memory.to(device_here(where)).as_strided(size, stride)


def put(module, path, value):
    """Set an attribute such as ``layers.0.weight``, with modules that hold it."""
    *owners, name = path.split(".")
    for owner in owners:
        if not hasattr(module, owner):
            module.add_module(owner, torch.nn.Module())
        module = getattr(module, owner)
    setattr(module, name, value)


def shown(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
'''


REGISTERED = '''\
def registered(operator):
    """Stop when torch does not have an operator that is not its own."""
    namespace, _, name = operator.partition(".")
    if not hasattr(getattr(torch.ops, namespace), name):
        raise SystemExit(f"{operator} is not registered: import the file or the library \
that defines it, below the imports.")
'''


def graph_script(reader: SessionReader, graph: model.Graph, head: Sequence[str]) -> str:
    """Return the text of the script. ``head``: sentences that identify the graph."""
    return _Script(reader, graph).text(head)


class _Script:
    def __init__(self, reader: SessionReader, graph: model.Graph) -> None:
        self._reader = reader
        self._graph = graph
        self._names = RowNames(device="device_here({})")
        self._remarks: list[str] = []
        """Sentences on how the script's inputs or values differ from the program's."""

    def text(self, head: Sequence[str]) -> str:
        module = module_code(self._reader, self._graph, self._names, self._attribute)
        inputs: list[str] = []
        for node in module.inputs:
            inputs += self._input(node)
        symbols = self._symbols()
        foreign = list(self._names.foreign)
        for operator in foreign:
            self._remarks.append(
                f"{operator} is not torch's: import the file or the library that "
                "registers it, below the imports."
            )
        remarks = dict.fromkeys([*module.missing, *self._remarks])
        release = f"torch was {self._release()}."
        lines = [self._head([*head, release, RANDOM, *remarks]), *import_lines(self._names)]
        if symbols:
            lines += ["", *symbols]
        lines += ["", "", HELPERS.rstrip()]
        if foreign:
            lines += ["", "", REGISTERED.rstrip()]
        if self._names.asks_for_graphs:
            lines += ["", "", GRAPH_OF.rstrip()]
        lines += ["", "", *module.lines, "", ""]
        lines += ["def inputs():", "    torch.manual_seed(0)"]
        if inputs:
            lines += ["    return (", *inputs, "    )"]
        else:
            lines.append("    return ()")
        lines += ["", "", 'if __name__ == "__main__":']
        lines += [f"    registered({operator!r})" for operator in foreign]
        lines += [
            f"    module = {MAIN_CLASS}()",
            "    with torch.no_grad():",
            "        outputs = module(*inputs())",
            "    print(shown(outputs))",
        ]
        return "\n".join(lines) + "\n"

    def _head(self, parts: Iterable[str]) -> str:
        lines: list[str] = []
        for part in parts:
            lines += _comment(printable(part))
        return "\n".join(lines)

    def _release(self) -> str:
        environment = self._reader.meta("environment") or {}
        if isinstance(environment, dict):
            return str(environment.get("torch", "") or "of an unknown release")
        return ""

    # values

    def _input(self, node: model.Node) -> list[str]:
        """Return the lines that make the value of an input, with its name, and a sentence if it
        differs from the original.
        """
        comment = printable(f"{node.name}  {value_text(node)}".strip())
        try:
            return [f"        {self._value(node)},  # {comment}"]
        except NotPythonError as error:
            self._remarks.append(f"The input {node.name} is None: {error}.")
            return [f"        None,  # {comment}: {printable(str(error))}"]

    def _attribute(self, node: model.Node) -> str:
        try:
            return self._value(node)
        except NotPythonError as error:
            self._remarks.append(f"The attribute {node.target} is missing: {error}.")
            return ""

    def _value(self, node: model.Node) -> str:
        if node.shape is not None:
            return self._tensor(node)
        number = re.fullmatch(r"Sym\((.*)\)", node.value)
        if number:
            return size_expression(number[1], self._names)
        if re.fullmatch(r"None|True|False|-?\d+(\.\d+)?(e-?\d+)?", node.value):
            return node.value
        raise NotPythonError(f"the session records only: {node.value or 'nothing'}")

    def _tensor(self, node: model.Node) -> str:
        assert node.shape is not None
        if node.value:
            self._remarks.append(
                f"{node.name} was {node.value}; here it is replaced by a plain tensor of the same "
                "shape."
            )
        size = [size_expression(length, self._names) for length in node.shape]
        if node.stride is None:
            self._remarks.append(
                f"{node.name} had a layout that strides cannot describe; here it is an ordinary "
                "tensor."
            )
            stride = _contiguous(size)
        else:
            stride = [size_expression(step, self._names) for step in node.stride]
        dtype = DTYPES.get(node.dtype, node.dtype)
        if not dtype.isidentifier():
            raise NotPythonError(f"its dtype is {dtype!r}")
        return (
            f"tensor({_tuple(size)}, {_tuple(stride)}, torch.{dtype}, "
            f"{json.dumps(node.device or 'cpu')})"
        )

    def _symbols(self) -> list[str]:
        """Return the lines that define each size that is used by name, with its value in the
        program.
        """
        rows = self._reader.rows(model.Symbol, compilation=self._graph.compilation)
        known = {row.name: row for row in rows}
        lines = []
        for name in sorted(self._names.symbols):
            row = known.get(name)
            if row and re.fullmatch(r"-?\d+(\.\d+)?", row.hint):
                lines.append(f"{name} = {row.hint}  # {printable(row.source)}")
            elif name.isidentifier():
                self._remarks.append(
                    f"The size {name} has no value in the session; here it is {UNKNOWN_SIZE}."
                )
                lines.append(f"{name} = {UNKNOWN_SIZE}")
        return lines


def _comment(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, 110, initial_indent="# ", subsequent_indent="#   ")


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def _contiguous(size: list[str]) -> list[str]:
    """Return the strides of a contiguous tensor: of each dimension, the product of those after
    it.
    """
    strides = []
    for at in range(len(size)):
        lengths_after = [f"({length})" for length in size[at + 1 :]]
        strides.append(" * ".join(lengths_after))
    if strides:
        strides[-1] = "1"
    return strides
