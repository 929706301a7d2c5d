"""This module reads torch's records of where kernels come from: two tables, both JSON.

``kernel_information.json`` lies in the packages of AOTInductor (torch/_inductor/debug.py,
``create_kernel_information_json``), and ``inductor_provenance_tracking_node_mappings.json`` in
debug directories and traces (``dump_inductor_provenance_info``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fx_explorer.model import Frame
from fx_explorer.torch_texts.reports import parse_stack

KERNEL_INFORMATION = "kernel_information.json"

NODE_MAPPINGS = "inductor_provenance_tracking_node_mappings.json"


@dataclass(frozen=True, slots=True)
class KernelOrigin:
    """One call of a kernel or of a library, with the nodes it computes."""

    name: str
    call: int
    """torch's number of the call; 0 without one."""
    computes: tuple[str, ...]
    """Nodes of the graph after Inductor's passes."""
    made_of: tuple[str, ...]
    """Nodes of the graph that AOTAutograd was given."""
    stacks: tuple[tuple[Frame, ...], ...] = ()
    """Stacks of the program's lines that the kernel computes."""

    @property
    def handle(self) -> str:
        """Return it as torch names it in the code: ``cpp_fused_relu_0:2``."""
        if not self.call:
            return self.name
        return f"{self.name}:{self.call}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """One of torch's provenance tables, parsed: the nodes that each kernel computes."""

    kernels: tuple[KernelOrigin, ...]
    without_kernel: tuple[str, ...] = ()
    """Nodes after Inductor's passes that no call computes by itself; known of ``NODE_MAPPINGS``
    only.
    """
    left_out: int = 0
    """Entries that are not as torch writes them."""


def read_provenance(text: str) -> Provenance:
    """Read one of torch's two provenance tables. Raises ValueError for any other text."""
    try:
        table = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(table, dict):
        raise ValueError("it is no table of kernels")
    if "cppCodeToPost" in table or "postToPre" in table or "preToPost" in table:
        return _of_mappings(table)
    return _of_information(table)


def _of_information(table: Mapping[str, Any]) -> Provenance:
    kernels = []
    for handle, value in table.items():
        if not isinstance(value, dict) or "post_grad_nodes" not in value:
            continue
        texts = _names(value.get("stack_traces"))
        kernel = _origin(
            handle,
            _names(value["post_grad_nodes"]),
            _names(value.get("pre_grad_nodes")),
            tuple(parse_stack(f"  {text}\n") for text in texts),
        )
        kernels.append(kernel)
    if table and not kernels:
        raise ValueError("it is no table of kernels")
    return Provenance(tuple(kernels), left_out=len(table) - len(kernels))


def _of_mappings(table: Mapping[str, Any]) -> Provenance:
    computed = _table(table.get("cppCodeToPost"))
    made_of = _table(table.get("postToPre"))
    given = _table(table.get("preToPost"))
    kernels = []
    known: set[str] = set()
    for handle, nodes in computed.items():
        before: dict[str, None] = {}
        for node in nodes:
            before |= dict.fromkeys(made_of.get(node, ()))
        kernels.append(_origin(handle, nodes, tuple(before), ()))
        known.update(nodes)
    every = dict.fromkeys(made_of)
    for nodes in given.values():
        every |= dict.fromkeys(nodes)
    return Provenance(tuple(kernels), tuple(node for node in every if node not in known))


def _origin(
    handle: str,
    computes: tuple[str, ...],
    made_of: tuple[str, ...],
    stacks: tuple[tuple[Frame, ...], ...],
) -> KernelOrigin:
    name, _, call = handle.rpartition(":")
    number = 0
    if name and call.isdecimal() and len(call) < 10:
        number = int(call)
    else:
        name = handle
    distinct = tuple(dict.fromkeys(stack for stack in stacks if stack))
    return KernelOrigin(name, number, computes, made_of, distinct)


def _table(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        return {}
    return {key: _names(names) for key, names in value.items()}


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(str(name) for name in value)
