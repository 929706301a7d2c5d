"""This module finds the user's names of a graph's inputs: ``blocks.0.conv1.weight`` instead of
``primals_3``.

Dynamo names an input after its source, with everything that cannot stand in a name replaced
(torch/_dynamo/output_graph.py), and AOTAutograd numbers the inputs again; links lead from one to
the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.naming import SizeNames, is_method, plain_source, with_names_of_function
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import guarded_sources
from fx_explorer.session.queries.graphs import nodes_of_stage, sources_of_inputs

InputKind = Literal["parameter", "buffer", "input"]

LONGEST_NAME = 1_000
"""Maximum number of characters of an input's name that are examined."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9]+")

_OF_MODULE = re.compile(
    r"(?:^|_)(?P<path>(?:modules_.+?_)?)(?P<kind>parameters|buffers)_(?P<name>\w+?)_*$"
)

_ATTRIBUTE = re.compile(r", attribute (?P<name>\w{1,200})$")
"""Matches the end of an input's value, where the input is an attribute of a tensor of the program's
own class.
"""

_KINDS: dict[str, InputKind] = {"parameters": "parameter", "buffers": "buffer"}


@dataclass(frozen=True, slots=True)
class InputName:
    """The user's name and kind of an input of a graph."""

    name: str
    """``fc1.weight``, or the name of an argument."""
    kind: InputKind
    node: int = 0
    """Id of the corresponding input of Dynamo's graph; 0 if no link leads there."""
    module: str = ""
    """Path of the module with the parameter or buffer, from the compiled module, or from a module
    given to a function; empty for other inputs.
    """


class InputNames:
    """Finds the user's name for placeholders of later graphs. Sizes are read once."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._compilations: dict[int, model.Compilation] = {}

    def of(self, placeholders: Iterable[model.Node]) -> dict[int, InputName]:
        """Return the names by node; a placeholder that no link leads from keeps torch's name."""
        nodes = {node.id: node for node in placeholders}
        first = _first_nodes(self._reader, nodes)
        known = {node.id: node for node in self._reader.by_ids(model.Node, first.values())}
        sources = sources_of_inputs(self._reader, known) if known else {}
        names = {}
        for number, node in nodes.items():
            dynamo_node = known.get(first.get(number, 0))
            names[number] = self._named(dynamo_node, node, sources)
        return names

    def _named(
        self, first: model.Node | None, node: model.Node, sources: Mapping[int, str]
    ) -> InputName:
        if first is None:
            return InputName(node.name, "input")
        if node.shape is None:
            attribute = _ATTRIBUTE.search(node.value)
        else:
            attribute = None
        if attribute:
            whole = self._named(first, replace(node, value=""), sources)
            return replace(whole, name=f"{whole.name}.{attribute['name']}", kind="input")
        if first.value.startswith("Sym("):
            name = self._sizes.in_text(self._compilation(first.graph).id, first.name)
            return InputName(name, "input", first.id)
        source = sources.get(first.id) or self._guarded.get(first.target, "")
        of_module = _OF_MODULE.search(first.target[:LONGEST_NAME])
        if of_module:
            kind = _KINDS[of_module["kind"]]
        else:
            kind = _kind_of_source(source)
        compilation = self._compilation(first.graph)
        if source and kind != "input":
            owner, _, path = plain_source(source, compilation).partition(".")
            # The first parameter of a method need not be called ``self``.
            is_own = owner == "self" or is_method(compilation.function)
            name = path if is_own and path else f"{owner}.{path}".strip(".")
            return InputName(name, kind, first.id, path.rpartition(".")[0])
        if source:
            name = plain_source(source, compilation).removeprefix("self.")
            return InputName(name, kind, first.id)
        name = with_names_of_function(_plain_target(first.target, of_module), compilation)
        return InputName(name, kind, first.id, name.rpartition(".")[0])

    @cached_property
    def _guarded(self) -> dict[str, str]:
        """Return Dynamo's names of guarded sources → these sources. Reading them takes long, and
        few inputs need it: most have a source of their own.
        """
        return {_mangled(source): source for source in guarded_sources(self._reader)}

    @cached_property
    def _sizes(self) -> SizeNames:
        return SizeNames(self._reader)

    def _compilation(self, graph: int) -> model.Compilation:
        if graph not in self._compilations:
            owner = self._reader.get(model.Graph, graph).compilation
            self._compilations[graph] = self._reader.get(model.Compilation, owner)
        return self._compilations[graph]


def _kind_of_source(source: str) -> InputKind:
    """Return the kind of a tensor that Dynamo's graph holds, because its name there does not show
    it.
    """
    if "._parameters[" in source:
        return "parameter"
    if "._buffers[" in source:
        return "buffer"
    return "input"


_TORCHS_BEGINNINGS = ("getitem", "primals_", "tangents_", "arg", "l_", "L_", "g_", "G_")
"""Prefixes of the names that torch gives to inputs, and to a result picked from several."""


def user_names_of_nodes(reader: SessionReader, names: Mapping[int, str]) -> dict[int, str]:
    """Return names of nodes with the user's words where torch only numbered: of inputs, and of
    results that are chosen. ``names`` are torch's, by node.
    """
    numbered = [node for node, name in names.items() if name.startswith(_TORCHS_BEGINNINGS)]
    nodes = reader.by_ids(model.Node, numbered)
    inputs = [node for node in nodes if node.op == "placeholder"]
    known: dict[int, str] = {}
    if inputs:
        for node_id, input_name in InputNames(reader).of(inputs).items():
            if input_name.node:
                known[node_id] = input_name.name
    users = {node.id: known.get(node.id) or result_name(node) for node in nodes}
    return {**names, **users}


def _mangled(source: str) -> str:
    return _NOT_IN_A_NAME.sub("_", source)


def _plain_target(target: str, of_module: re.Match[str] | None) -> str:
    """Return ``blocks.0.conv1.weight`` for
    ``L_self_modules_blocks_modules_0_modules_conv1_parameters_weight_``.
    """
    if not of_module:
        return target.removeprefix("L_").removeprefix("G_").strip("_")
    path = [part.strip("_") for part in of_module["path"].split("modules_") if part.strip("_")]
    return ".".join([*path, of_module["name"]])


_TANGENT = re.compile(r"tangents_(?P<number>\d+)$")

_GETITEM = re.compile(r"(?P<whole>\w+), (?P<index>\d+)$")


def result_name(node: model.Node) -> str:
    """Return a node's name, or a description if torch only numbered it: ``result 1 of sort`` for
    ``getitem_3``, ``incoming gradient 1`` for ``tangents_1``.
    """
    if node.op == "placeholder":
        return tangent_name(node.name)
    if not node.name.startswith("getitem"):
        return node.name
    match = _GETITEM.match(node.arguments)
    if match is None or match["whole"].startswith("getitem"):
        return "a result of an operation"
    return f"result {match['index']} of {match['whole']}"


def with_own_names(names: Iterable[str]) -> list[str]:
    """Return the names of operations, without the operations that only select one result of another
    (getitem).
    """
    return [name for name in names if not name.startswith("getitem")]


def tangent_name(name: str) -> str:
    """Return ``incoming gradient 1`` for ``tangents_1``, the first inputs of the backward. Other
    names are unchanged.
    """
    match = _TANGENT.match(name)
    if not match:
        return name
    return f"incoming gradient {match['number']}"


MAX_LINKS = 12
"""Maximum number of graphs between a kernel's graph and Dynamo's."""


def _first_nodes(reader: SessionReader, nodes: Mapping[int, model.Node]) -> dict[int, int]:
    """Return the node of Dynamo's graph that each node is, by identity, name or AOTAutograd's
    word.
    """
    current = {node: node for node in nodes}
    first: dict[int, int] = {}
    for _ in range(MAX_LINKS):
        dynamo = set(nodes_of_stage(reader, current.values(), "dynamo"))
        parents: dict[int, int] = {}
        for link in reader.parents(current.values()):
            if link.how in _SAME:
                parents[link.child] = link.parent
        following = {}
        for origin, node in current.items():
            if node in dynamo:
                first[origin] = node
            elif node in parents:
                following[origin] = parents[node]
        current = following
        if not current:
            break
    return first


_SAME = ("identity", "name", "aot_input")
"""Evidence of a link that leads from an input to the very same input."""


INPUT_KINDS = ("parameter", "buffer", "input", "size", "saved value", "gradient")


def input_kind(node: model.Node, name: InputName) -> str:
    """Return the kind of an input of a graph, one of INPUT_KINDS."""
    if node.value.startswith("Sym("):
        return "size"
    if name.node:
        return name.kind
    if tangent_name(node.name) != node.name:
        return "gradient"
    return "saved value"
