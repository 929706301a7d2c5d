"""Too little is compiled: all that torch.compile was given is one operation, so there is nothing to
fuse, and each call checks guards.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count

OF_PYTORCH = ("aten.", "prims.")
"""Begin the names of PyTorch's own operators. A higher-order operator or a custom one has code of
its own.
"""

MOST_CALLS = 20
"""Number of calls, views among them, from which on a graph is not looked at: it is no tiny one."""


def find_tiny_graphs(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding where a single operation is all that was compiled of the program."""
    if reader.count(model.GraphBreak) or reader.count(model.Failure):
        return
    compilations = [row for row in variants_in_use(reader) if row.status == "ok"]
    operations = [_single_operation(reader, row) for row in compilations]
    if not operations or "" in operations:
        return
    compilation = compilations[0]
    guards = check_count(reader, compilation.id)
    yield Finding(
        kind="tiny graph",
        text=(
            f"The compiled code is a single operation, {operations[0]} in "
            f"{plain_function(compilation.function)}: there is nothing to fuse."
        ),
        urgency="minor",
        severity="notice",
        topic="graphs",
        place=place_of_path(reader, compilation.file, compilation.line),
        view="graphs",
        evidence=(f"Each call checks {counted(guards, 'guard')} first.",) if guards else (),
        explanation=(
            "Compiled code is faster where it fuses operations, because values between them are "
            "not written to memory. A single operation is no faster than in eager mode, "
            "and its guards cost extra."
        ),
        remedies=(Remedy("Compile the function or module that calls it."),),
    )


def _single_operation(reader: SessionReader, compilation: model.Compilation) -> str:
    """Return the one operation that Inductor has of a compilation; empty where there are more or
    none, and where it is not PyTorch's own.
    """
    operations = []
    for graph in reader.rows(model.Graph, compilation=compilation.id, stage="post_grad"):
        if graph.direction == "backward":
            continue
        if graph.call_count > MOST_CALLS:
            return ""
        for node in reader.rows(model.Node, graph=graph.id):
            if node.op.startswith("call_") and not node.is_view:
                operations.append(node.target)
            if len(operations) > 1:
                return ""
    if len(operations) != 1 or not operations[0].startswith(OF_PYTORCH):
        return ""
    return operations[0].split(".")[1]
