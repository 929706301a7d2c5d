"""This module says what a pane for kernels cannot show: which library call computes a selection,
with the kernels that Inductor generated for the other direction, or that nothing computes it.
"""

from __future__ import annotations

from fx_explorer.analysis.documents import Document, is_of_graph
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.words import counted, listed, plural
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.session.queries.kernels import kernels_of

MOST_NAMED, MOST_NUMBERS = 2, 4
"""Maximum numbers of calls that are named, and of kernels of which the number is given."""

MOST_NAME_CELLS = 34

NOT_COMPUTED = "Nothing computes this: its operations became views, or were removed."


def describe_missing_kernel(selection: Selection, shown: Document | None) -> str:
    """Return why the pane for kernels, which shows ``shown``, has no generated kernel of a selected
    line or node; empty where it has one, and for any other place.
    """
    document = selection.place.document
    is_selectable = document.kind == "source" or is_of_graph(document.kind)
    if shown is None or not is_selectable or not selection.nodes:
        return ""
    if shown.stage == "output_code" and shown.id in selection.computing:
        return _describe_calls(selection, shown)
    is_of_kernels = shown.stage in ("kernel", "output_code")
    if is_of_kernels and not selection.computing and not selection.own_lines:
        return NOT_COMPUTED
    return ""


def _describe_calls(selection: Selection, shown: Document) -> str:
    """Return the library calls of the selection in one direction, and the kernels that were
    generated for it in others.
    """
    kernels = kernels_of(selection.reader, sorted(selection.family))
    calls = [row for row in kernels if row.output_code == shown.id and not row.artifact]
    if not calls:
        return ""
    generated = [row for row in kernels if row.artifact and row.compilation == shown.compilation]
    names = listed(map(_short_name, dict.fromkeys(call.name for call in calls)), MOST_NAMED)
    number = "A library call" if len(calls) == 1 else counted(len(calls), "library call")
    made = f"{number}: {names}."
    if not generated:
        return made
    numbers = listed((f"#{kernel.id}" for kernel in generated), MOST_NUMBERS)
    noun = plural(len(generated), "kernel")
    return f"{made} Generated for its {generated[0].direction}: {noun} {numbers}."


def _short_name(name: str) -> str:
    """Return the name of a library call as it fits into a pane."""
    return cut_in_middle(name.removeprefix("torch.ops."), MOST_NAME_CELLS)
