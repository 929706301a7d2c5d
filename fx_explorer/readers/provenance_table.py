"""This module reads torch's tables of the nodes that each kernel computes, writes them in words,
and makes a session of a table without other files.

There are two tables, both JSON: ``kernel_information.json`` lies in the packages of AOTInductor
(torch/_inductor/debug.py, ``create_kernel_information_json``), and
``inductor_provenance_tracking_node_mappings.json`` in debug directories and traces
(``dump_inductor_provenance_info``).

The words go from the kernel to the program's line, and from the operations of the program to the
kernels. The session has one document, with its kernels, what they compute, and the lines of the
program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer.errors import SessionError
from fx_explorer.model import Artifact, Compilation, Frame, Outcome
from fx_explorer.outside_file import read_outside
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.readers.torch_trace.places import is_torch
from fx_explorer.session import SessionWriter
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
        raise ValueError("it is not a table of kernels")
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
        raise ValueError("it is not a table of kernels")
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


TITLE = "What each kernel computes"

_WIDTH = 13


def format_provenance(table: Provenance, called_in: Mapping[str, int] | None = None) -> str:
    """Return the text. ``called_in`` has the line of the wrapper that makes each call."""
    lines: list[str] = []
    for kernel in table.kernels:
        lines += [*_of_kernel(kernel, (called_in or {}).get(kernel.handle, 0)), ""]
    if not table.kernels:
        lines += ["torch names no kernel here.", ""]
    if table.without_kernel:
        lines += ["Without a kernel of their own:", *_listed("", table.without_kernel), ""]
    if table.left_out:
        lines += [
            f"Left out, because torch does not write them in this form: {table.left_out:,}",
            "",
        ]
    lines += _by_operation(table.kernels)
    return "\n".join(lines).rstrip("\n") + "\n"


def _of_kernel(kernel: KernelOrigin, line: int) -> Iterator[str]:
    where = f", in line {line} of the wrapper" if line else ""
    call = f", call {kernel.call}" if kernel.call else ""
    yield f"{kernel.name}{call}{where}"
    yield from _listed("computes", kernel.computes or ("nothing that torch names",))
    if kernel.made_of:
        yield from _listed("made of", kernel.made_of)
    for stack in kernel.stacks:
        yield from _stack(stack)


def _stack(stack: tuple[Frame, ...]) -> Iterator[str]:
    """Yield the frame of the program's line, then the frames of library calls below it."""
    own = len(stack) - 1
    for i in reversed(range(len(stack))):
        if not is_torch(stack[i].file):
            own = i
            break
    for i, frame in enumerate(stack[own:]):
        label = "your line" if i == 0 and not is_torch(frame.file) else "in"
        yield f"    {label:<{_WIDTH}}{frame.file}:{frame.line} in {frame.function}: {frame.code}"


def _listed(label: str, names: Iterable[str]) -> Iterator[str]:
    """Yield lines of at most 100 characters."""
    line = ""
    for name in names:
        if line and len(line) + len(name) > 80:
            yield f"    {label:<{_WIDTH}}{line},"
            label, line = "", ""
        line = f"{line}, {name}" if line else name
    yield f"    {label:<{_WIDTH}}{line}"


def _by_operation(kernels: Iterable[KernelOrigin]) -> list[str]:
    """Return lines of text: each operation of the program, and below it the kernel calls that
    compute it. Empty where the table names no operation.
    """
    handles_by_name: dict[str, list[str]] = {}
    for kernel in kernels:
        for name in kernel.made_of:
            handles_by_name.setdefault(name, []).append(kernel.handle)
    if not handles_by_name:
        return []
    lines = ["From the operations of the program to their kernels:"]
    for name, handles in handles_by_name.items():
        lines.append(f"    {name}")
        lines += [f"        {handle}" for handle in handles]
    return lines


# A table that lies alone, as a session.


NOT_IN_TABLE = "the table has names of nodes, but no graph"

MOST_READ = 256 << 20
"""Largest file that is read, in bytes."""


def read_table(file: Path, session: Path) -> None:
    """Write the session of a table. Raises SessionError for a file that cannot be read, or is no
    table.
    """
    try:
        text = read_outside(file, MOST_READ).decode(errors="replace")
        table = read_provenance(text)
    except OSError as error:
        raise SessionError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SessionError(f"{file} was not written by torch, or is incomplete: {error}") from error
    stages = ("dynamo", "pre_grad", "joint", "forward", "backward", "post_grad", "schedule")
    with SessionWriter(session, checks_rows=True) as writer, writer.transaction():
        write_beginning(writer, file)
        row = Compilation(
            0,
            "table",
            0,
            0,
            "",
            "",
            0,
            status="ok",
            missing_stages=dict.fromkeys(stages, NOT_IN_TABLE),
        )
        compilation = writer.add(row)
        for title, language, shown in (
            (TITLE, "text", format_provenance(table)),
            (file.name, "json", _indented(text)),
        ):
            lines = shown.removesuffix("\n").count("\n") + 1
            writer.add(
                Artifact(
                    0,
                    compilation,
                    "listing",
                    "output_code",
                    "",
                    title,
                    language,
                    writer.text(shown),
                    lines,
                )
            )
        writer.set_meta("skipped_records", table.left_out)
        writer.set_meta("build", True)  # torch built what it wrote of
        log = {
            "format": "provenance",
            "records": len(table.kernels),
            "kinds": {"kernel": len(table.kernels)},
            "unknown": {},
        }
        writer.set_meta("log", log)
        writer.set_meta("outcome", Outcome("finished").to_json())


def _indented(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
