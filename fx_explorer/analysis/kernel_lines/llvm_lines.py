"""Lines of LLVM IR: ``!dbg !12`` at the end of an instruction, and the ``DILocation`` that this
names.

Format: LLVM's language reference, "Specialized Metadata Nodes".
"""

from __future__ import annotations

import re

from fx_explorer.analysis.kernel_lines.line_map import KernelFile, LineMap

_METADATA = re.compile(r"^!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r'\b(\w+): (?:!(\d+)|(\d+)|"([^"]*)")')
_DEBUG = re.compile(r"!dbg !(\d+)(?:[,\s{]|$)")

_Node = dict[str, str]


def llvm_lines(text: str, file: KernelFile) -> LineMap:
    nodes = {
        found[1]: {"kind": found[2], **_fields(found[3])} for found in _METADATA.finditer(text)
    }
    mapped: LineMap = {}
    for number, line in enumerate(text.split("\n"), 1):
        found = None if line.startswith("!") else _DEBUG.search(line)
        sources = file.lines(_chain(nodes, found[1])) if found else ()
        if sources:
            mapped[number] = sources
    return mapped


def _fields(body: str) -> _Node:
    """Return the fields by name. A reference is returned without its ``!``."""
    return {found[1]: found[2] or found[3] or found[4] or "" for found in _FIELD.finditer(body)}


def _chain(nodes: dict[str, _Node], name: str) -> list[tuple[str, int]]:
    """Return the place, then the calls it was inlined into; the kernel's own line comes last."""
    node = nodes.get(name, {})
    found = [(_file_of(nodes, node), int(node.get("line") or 0))]
    # Metadata may name each other in a circle in a damaged text.
    passed = {name}
    while (outer := node.get("inlinedAt", "")) in nodes and outer not in passed:
        passed.add(outer)
        node = nodes[outer]
        found.append((_file_of(nodes, node), int(node.get("line") or 0)))
    return found


def _file_of(nodes: dict[str, _Node], node: _Node) -> str:
    """Return the file of a scope, or of the scope around it."""
    passed: set[str] = set()
    while "file" not in node and (scope := node.get("scope", "")) in nodes and scope not in passed:
        passed.add(scope)
        node = nodes[scope]
    return nodes.get(node.get("file", ""), {}).get("filename", "")
