"""What torch says of where kernels are from: two tables, both JSON.

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
    """One call of a kernel or of a library, and what it computes."""

    name: str
    call: int
    """torch's number of the call; 0 where it has none."""
    computes: tuple[str, ...]
    """Nodes of the graph after Inductor's passes."""
    made_of: tuple[str, ...]
    """Nodes of the graph that AOTAutograd was given."""
    stacks: tuple[tuple[Frame, ...], ...] = ()
    """Where the program asked for it."""

    @property
    def handle(self) -> str:
        """Return it as torch names it in the code: ``cpp_fused_relu_0:2``."""
        return f"{self.name}:{self.call}" if self.call else self.name


@dataclass(frozen=True, slots=True)
class Provenance:
    """A table."""

    kernels: tuple[KernelOrigin, ...]
    without_kernel: tuple[str, ...] = ()
    """Nodes after Inductor's passes that no call computes by itself; known of ``NODE_MAPPINGS``
    only.
    """
    left_out: int = 0
    """Entries that are not as torch writes them."""


def read_provenance(text: str) -> Provenance:
    """Read either table. Raises ValueError for what is none."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is no table of kernels")
    if "cppCodeToPost" in found or "postToPre" in found or "preToPost" in found:
        return _of_mappings(found)
    return _of_information(found)


def _of_information(found: Mapping[str, Any]) -> Provenance:
    whole = {
        name: value
        for name, value in found.items()
        if isinstance(value, dict) and "post_grad_nodes" in value
    }
    kernels = []
    for handle, value in whole.items():
        stacks = tuple(parse_stack(f"  {one}\n") for one in _names(value.get("stack_traces")))
        kernels.append(
            _origin(
                handle,
                _names(value["post_grad_nodes"]),
                _names(value.get("pre_grad_nodes")),
                stacks,
            )
        )
    if found and not kernels:
        raise ValueError("it is no table of kernels")
    return Provenance(tuple(kernels), left_out=len(found) - len(whole))


def _of_mappings(found: Mapping[str, Any]) -> Provenance:
    computed, made_of, given = (
        _table(found.get(key)) for key in ("cppCodeToPost", "postToPre", "preToPost")
    )
    kernels = []
    for handle, nodes in computed.items():
        before = dict.fromkeys(one for node in nodes for one in made_of.get(node, ()))
        kernels.append(_origin(handle, nodes, tuple(before), ()))
    known = {node for nodes in computed.values() for node in nodes}
    every = dict.fromkeys([*made_of, *(node for nodes in given.values() for node in nodes)])
    return Provenance(tuple(kernels), tuple(node for node in every if node not in known))


def _origin(
    handle: str,
    computes: tuple[str, ...],
    made_of: tuple[str, ...],
    stacks: tuple[tuple[Frame, ...], ...],
) -> KernelOrigin:
    name, _, call = handle.rpartition(":")
    is_numbered = bool(name) and call.isdecimal() and len(call) < 10
    distinct = tuple(dict.fromkeys(stack for stack in stacks if stack))
    return KernelOrigin(
        name if is_numbered else handle,
        int(call) if is_numbered else 0,
        computes,
        made_of,
        distinct,
    )


def _table(value: Any) -> dict[str, tuple[str, ...]]:
    return {key: _names(names) for key, names in value.items()} if isinstance(value, dict) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()
