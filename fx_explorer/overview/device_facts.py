"""This module has the facts for the overview that say which tensors a compiled graph copies from
one device to another in each call, and which stay on the CPU on a machine with a GPU, although a
capture for a virtual one has them on the GPU.

Such a capture moves everything to the GPU, or makes everything there. What the program makes once
with no device (``table = torch.ones(256)`` in a module, ``self.table = torch.ones(256)``) and moves
nowhere stays on the CPU on a real machine: a module's ``.to`` moves parameters and buffers only.
The same holds for variables of an enclosing function, default arguments, arguments of ``partial``
and items of lists. This is read from the program's text. A tensor is named only if every assignment
to it shows this.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from fx_explorer import model
from fx_explorer.analysis.assigned_values import (
    AssignedExpression,
    AssignedValues,
    Reader,
    assigned_to,
)
from fx_explorer.analysis.cuda_graph_states import cuda_graphs
from fx_explorer.analysis.device_copies import DeviceCopy, Input, device_copies, input_of
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

FACTORIES = (
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn",
    "randperm", "tensor", "zeros",
)  # fmt: skip
"""Functions of torch that make a tensor on the default device."""

MOVES = ("cuda", "to", "device", "set_default_device", "set_default_tensor_type", "_apply")
"""Names that, in the code around an assignment, may put the tensor on another device."""

DEFAULT_DEVICES = ("set_default_device", "set_default_tensor_type")

MOST_INPUTS = 200

LONGEST = 1_000_000
"""Maximum number of characters of a source file that is searched."""


@dataclass(frozen=True, slots=True)
class MadeOnTheCpu:
    """A tensor that a compiled function reads, and that is created on the CPU."""

    input: Input
    file: str
    line: int
    """Line that creates the tensor."""
    read_file: str
    read_line: int
    """The line on which the compiled function reads it; without a file where torch knows no line.
    """


def made_on_the_cpu(reader: SessionReader) -> list[MadeOnTheCpu]:
    """Return the tensors, each once, in the order in which the graphs take them."""
    files = _UserFiles(reader)
    tensors: dict[AssignedExpression, MadeOnTheCpu] = {}
    for owner, node in _inputs_of_dynamo(reader):
        taken = input_of(reader, owner, node)
        if taken.kind == "module":
            continue
        read = reader.get(model.SourceFile, node.file).path if node.file else ""
        assigned = files.assigned(taken, Reader(owner.file, owner.line, read, node.line))
        if assigned is None:
            continue
        if assigned.name:
            taken = replace(taken, name=assigned.name)
        if assigned.is_attribute:
            taken = replace(taken, kind="attribute")
        else:
            taken = replace(taken, kind="global")
        first = assigned.values[0]
        if first not in tensors:
            line = first.expression.lineno
            tensors[first] = MadeOnTheCpu(taken, first.file, line, read, node.line)
    return list(tensors.values())


def _inputs_of_dynamo(reader: SessionReader) -> Iterator[tuple[model.Compilation, model.Node]]:
    for owner in variants_in_use(reader):
        for graph in reader.rows(model.Graph, compilation=owner.id, stage="dynamo", parent=0):
            inputs = reader.rows(model.Node, graph=graph.id, op="placeholder", limit=MOST_INPUTS)
            for node in inputs:
                if node.shape is not None:
                    yield owner, node


class _UserFiles:
    """The user's files of a session, each parsed once."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._trees: dict[str, ast.Module] | None = None

    def assigned(self, taken: Input, by: Reader) -> AssignedValues | None:
        """Return all assignments of a tensor, if there are any and all create it on the CPU."""
        trees = self._parsed()
        if any(map(_sets_devices, trees.values())):
            return None
        assigned = assigned_to(taken.source, trees, by, self._inputs())
        if assigned is None:
            return None
        values = [v for v in assigned.values if not isinstance(v.expression, ast.Constant)]
        if not values or not all(_is_made_on_the_cpu(value.expression) for value in values):
            return None
        return replace(assigned, values=tuple(values))  # it is a tensor: never None

    def _inputs(self) -> str | None:
        """Return the user's inputs of the target, as Python; None for a script."""
        target = self._reader.meta("target") or {}
        if target.get("kind") == "script":
            return None
        given = (self._reader.meta("request") or {}).get("inputs", "")
        tree = self._parsed().get(target.get("file", ""))
        if given or tree is None:
            return str(given)
        for node in tree.body:
            match node:
                case ast.Assign([ast.Name("example_inputs")], value):
                    return ast.unparse(value)
        return ""

    def _parsed(self) -> dict[str, ast.Module]:
        if self._trees is None:
            self._trees = {}
            for file in self._reader.rows(model.SourceFile, is_user=True):
                text = self._reader.text(file.text) if file.text else ""
                if not text or len(text) > LONGEST:
                    continue
                try:
                    self._trees[file.path] = ast.parse(text)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue  # no Python, or a text damaged in the session: nothing is said of it
        return self._trees


def _is_made_on_the_cpu(value: ast.expr) -> bool:
    """Return whether an expression creates a tensor on the CPU: it calls a factory of torch, and
    neither names a device nor takes the device of another tensor.
    """
    makes = False
    for node in ast.walk(value):
        if isinstance(node, ast.keyword) and (node.arg is None or node.arg in MOVES):
            return False
        if isinstance(node, ast.Attribute):
            if node.attr in MOVES or node.attr.endswith("_like"):
                return False
            is_torchs = isinstance(node.value, ast.Name) and node.value.id == "torch"
            makes = makes or (is_torchs and node.attr in FACTORIES)
    return makes


def _sets_devices(tree: ast.Module) -> bool:
    """Return whether a file sets a default device, for a block (``with torch.device("cuda")``) or
    from then on.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.withitem) and _names(node.context_expr) & {"device"}:
            return True
        if isinstance(node, ast.Attribute | ast.Name) and _name(node) in DEFAULT_DEVICES:
            return True
    return False


def _names(expression: ast.expr) -> set[str]:
    return {_name(node) for node in ast.walk(expression)}


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


SHOWN_AT_MOST = 5


def device_copy_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each line that copies tensors between devices in each call."""
    by_line: dict[tuple[str, int, bool], list[DeviceCopy]] = {}
    for copy in device_copies(reader):
        by_line.setdefault((copy.file, copy.line, _is_on_the_cpu(copy.of)), []).append(copy)
    for copies in list(by_line.values())[:SHOWN_AT_MOST]:
        yield _copy_fact(reader, copies)
    if len(by_line) > SHOWN_AT_MOST:
        more = counted(len(by_line) - SHOWN_AT_MOST, "more line")
        yield Fact("call", "problem", f"… and {more} that copy tensors between devices.")


def _is_on_the_cpu(device: str) -> bool:
    return device.startswith("cpu")


def _copy_fact(reader: SessionReader, copies: Sequence[DeviceCopy]) -> Fact:
    first = copies[0]
    if first.file:
        where = in_file(first.file, first.line)
    else:
        where = "An unknown line"
    tensors = f"{counted(len(copies), 'tensor')} ({listed(copy.tensor for copy in copies)})"
    text = f"{where} copies {tensors} from {_named(first.of)} to {_named(first.to)} in each call."
    made_of = dict.fromkeys(chain.from_iterable(copy.made_of for copy in copies))
    severity: Severity = "problem"
    details = [_code(reader, first)]
    if _is_on_the_cpu(first.of):
        details.append(_advice(list(made_of)))
        if made_of and all(taken.kind == "argument" for taken in made_of):
            severity = "notice"  # a batch that the caller has on the CPU must be copied once
    elif _is_on_the_cpu(first.to):
        details.append("The CPU waits for this copy, unless it is non_blocking.")
    detail = "\n".join(filter(None, details))
    if first.file:
        place = place_of_path(reader, first.file, first.line)
    else:
        place = None
    return Fact("call", severity, text, detail, place, "graphs")


def _named(device: str) -> str:
    if _is_on_the_cpu(device):
        return "the CPU"
    if device.partition(":")[0] in ("cuda", "xpu"):
        return "the GPU"
    return device


def _code(reader: SessionReader, copy: DeviceCopy) -> str:
    """Return the line of the program; empty where its text is not in the session."""
    for file in reader.rows(model.SourceFile, path=copy.file, limit=1):
        lines = reader.text(file.text).split("\n") if file.text else []
        if 0 < copy.line <= len(lines):
            return lines[copy.line - 1].strip()
    return ""


def _advice(made_of: Sequence[Input]) -> str:
    """Return the advice for a copy from the CPU to the GPU."""
    if not made_of:
        return "It is created on the CPU inside the graph: create it on the GPU (device=...)."
    named = [taken for taken in made_of if taken.name]
    computed = f"It is computed from {listed(taken.name for taken in named)} on the CPU: "
    if not named:
        computed = ""
    kinds = {taken.kind for taken in named}
    if "attribute" in kinds:
        what = _ATTRIBUTE
    elif "module" in kinds:
        what = "move the module to the GPU (.to)."
    elif "global" in kinds:
        what = _GLOBAL
    else:
        what = "pass it on the GPU; the caller can keep it there for several calls."
    if computed:
        return computed + what
    return what[0].upper() + what[1:]


_ATTRIBUTE = (
    "create it on the GPU (device=...), or register it as a buffer of the module "
    "(self.register_buffer), which .to() moves."
)

_GLOBAL = (
    "create it on the GPU (device=...), or register it as a buffer of a module, which .to() moves."
)


def stays_on_the_cpu_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield, for a capture that put everything on a virtual GPU, which tensors would stay on the
    CPU on a machine with a real one.
    """
    record = reader.meta("virtual_gpu") or {}
    if record.get("feeding") != "transplant" and not record.get("puts_everything_there"):
        return
    made = made_on_the_cpu(reader)
    asks_for_graphs = bool(made and cuda_graphs(reader).asked)
    for tensor in made[:SHOWN_AT_MOST]:
        yield _stays(reader, tensor, asks_for_graphs=asks_for_graphs)
    if len(made) > SHOWN_AT_MOST:
        more = counted(len(made) - SHOWN_AT_MOST, "more tensor")
        yield Fact("run", "notice", f"… and {more} that would stay on the CPU.", view="source")


def _stays(reader: SessionReader, made: MadeOnTheCpu, *, asks_for_graphs: bool) -> Fact:
    text = (
        f"{in_file(made.file, made.line)} creates {made.input.name} on the CPU, where it stays on "
        "a machine with a GPU; in this capture it is on the virtual GPU like everything else."
    )
    if made.read_file:
        read = f" at {in_file(made.read_file, made.read_line)}"
    else:
        read = ""
    graphs = ", and outside of CUDA graphs" if asks_for_graphs else ""
    advice = _ATTRIBUTE if made.input.kind == "attribute" else _GLOBAL
    detail = (
        f"It is read{read}. On a GPU, operations that use only this tensor run on the CPU, in C++ "
        f"kernels instead of the Triton ones shown, with a copy to the GPU in each call{graphs}: "
        f"{advice}"
    )
    place: Place | None = place_of_path(reader, made.file, made.line)
    return Fact("run", "notice", text, detail, place, "source")
