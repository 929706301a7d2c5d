"""Lines of the user's that set a global setting of torch's, which compiled code is guarded by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

_SETTERS = {
    "num_threads": ("set_num_threads",),
    "default_dtype": ("set_default_dtype",),
    "deterministic_algorithms": ("use_deterministic_algorithms", "set_deterministic_debug_mode"),
}
"""Setting as torch names it (torch/csrc/dynamo/guards.cpp, GlobalStateGuard) → the functions that
set it.
"""

SHOWN_LINES = 3


def lines_that_set(reader: SessionReader, recompile: ExplainedRecompile) -> list[str]:
    """Return the user's lines that set what changed, as sentences; empty for other recompiles."""
    if recompile.change.kind != "global_state":
        return []
    functions: set[str] = set()
    for setting, setters in _SETTERS.items():
        if setting in recompile.description:
            functions.update(setters)
    return list(_calls(reader, functions))[:SHOWN_LINES] if functions else []


def _calls(reader: SessionReader, functions: set[str]) -> Iterator[str]:
    lines = SourceLines(reader)
    for file in reader.rows(model.SourceFile):
        tree = lines.tree(file.path) if file.is_user else None
        for node in ast.walk(tree) if tree else ():
            if not isinstance(node, ast.Call):
                continue
            if ast.unparse(node.func).rpartition(".")[2] in functions:
                where = in_file(file.path, node.lineno)
                yield f"{where} sets it: {lines.code(file.path, node.lineno)}"
