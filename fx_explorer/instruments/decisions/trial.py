"""This module tries another choice at a decision against Inductor's own: the graph is compiled a
second time with it, and both are compared.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.lineage import kernels_of_variant
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.decisions.other_choices import OtherChoice
from fx_explorer.model import CaptureRequest, Changes
from fx_explorer.session import SessionReader
from fx_explorer.trials import HERE, Told, TrialWorker, ignore_message
from fx_explorer.variant_trials import AskedAgain, Asking, VariantTrial, compile_again


async def try_choice(
    request: CaptureRequest,
    kernel: tuple[str, model.Direction],
    choice: OtherChoice,
    worker: TrialWorker = HERE,
    *,
    measures: bool = False,
    tell: Told = ignore_message,
    folder: Path | None = None,
) -> VariantTrial:
    """Compile with another choice, and compare. ``request`` is that of the session with the
    decision, ``kernel`` the compilation and direction of its kernel. With ``measures`` both are
    built and timed; with ``folder`` the session is kept there. Raises SessionWriteError when there
    is no room for a session.
    """
    again = AskedAgain(*kernel, choice.gate)
    asking = Asking(lambda _: choice.changes, "", partial(why_no_difference, kernel[1]))
    return await compile_again(
        request, again, asking, worker, measures=measures, tell=tell, folder=folder
    )


def why_no_difference(
    direction: model.Direction,
    reader: SessionReader,
    original: model.Compilation,
    variant: model.Compilation,
    changes: Changes,
) -> str:
    """Return why another choice changed nothing; empty where the code differs."""
    if variant.status != "ok":
        return f"Compiling it again failed: {variant.error}"
    if _code(reader, original, direction) != _code(reader, variant, direction):
        return ""
    if changes.candidates:
        return (
            "Inductor wrote the same code: it had already chosen this candidate, or does not "
            "offer it in this compile."
        )
    counts = _candidates_of(reader, variant)
    if counts:
        return (
            f"Inductor now has {counted(max(counts), 'candidate')} to choose from, and would time "
            "them; without a build it takes the first, the library's. Try the others one "
            "by one on this variant, or capture with --build."
        )
    return "Inductor wrote the same code with it."


def _candidates_of(reader: SessionReader, variant: model.Compilation) -> list[int]:
    """Return how many candidates there were for each library call of a variant that is one of
    several.
    """
    rows = reader.rows(model.KernelDecision, kind="library call", outcome="chosen")
    graphs = {row.id for row in reader.rows(model.Graph, compilation=variant.id)}
    nodes = {node.id: node for node in reader.by_ids(model.Node, {row.node for row in rows})}
    return [
        row.numbers.get("choices", 0)
        for row in rows
        if row.node in nodes and nodes[row.node].graph in graphs
    ]


def _code(
    reader: SessionReader, variant: model.Compilation, direction: model.Direction
) -> list[tuple[str, str]]:
    """Return the kernels of a variant with their code, in the order in which they run. A library
    call has no code but its call.
    """
    code = []
    for kernel in kernels_of_variant(reader, variant):
        if kernel.direction == direction:
            text = ""
            if kernel.artifact:
                text = reader.text(reader.get(model.Artifact, kernel.artifact).text)
            code.append((kernel.name, text))
    return code
