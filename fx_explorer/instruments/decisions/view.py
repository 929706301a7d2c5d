"""View v z: Inductor's decisions about kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_kernel
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, listed
from fx_explorer.drawing.view_table import (
    DIRECTION,
    Detail,
    TableColumn,
    TableRow,
    ViewTable,
    shown_name,
)
from fx_explorer.instruments.decisions.figures import Explained, explained_decisions
from fx_explorer.instruments.decisions.other_choices import other_choices, why_no_other
from fx_explorer.instruments.kernels.candidates import why_no_kernels
from fx_explorer.instruments.kernels.launched import measured_choices
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("about", "strong", min_width=12),
    TableColumn("why", min_width=16),
    TableColumn("kernel", min_width=20, keeps="name"),
    TableColumn("your line", "link", min_width=12, max_width=30, priority=1, keeps="end"),
    TableColumn("times", is_number=True, min_width=5, priority=2),
    DIRECTION,
)

NONE = "Inductor's decisions about kernels were not recorded."

NOT_IN_LOG = (
    "A log does not have Inductor's decisions about kernels. Capture the program to see it."
)


MOST_MEASURED = 5
"""Maximum number of operations of a log that the autotuner timed and that are told."""


def decisions_table(reader: SessionReader) -> ViewTable:
    decisions = [e for e in explained_decisions(reader) if not e.is_elsewhere]
    return ViewTable(
        shows="Why kernels are the way they are: library calls, copies, splits, tiles, C++ loops.",
        notice="",
        origin="Inductor's own checks with their answers and numbers, recorded while it lowered "
        "the graph and wrote the kernels",
        columns=COLUMNS,
        rows=[_row(reader, explained) for explained in decisions],
        empty=_why_none(reader),
        answer=_answer(decisions),
    )


def _why_none(reader: SessionReader) -> str:
    if is_log(reader):
        measured = [f"{choice.description}." for choice in measured_choices(reader)]
        return " ".join(measured[:MOST_MEASURED]) or NOT_IN_LOG
    if not reader.count(model.Kernel):
        return why_no_kernels(reader)
    return NONE


def _answer(decisions: Sequence[Explained]) -> str:
    """Return how many library calls and copies there are, and the most frequent reasons."""
    of_calls, of_attention = Counter[str](), Counter[str]()
    copies = set()
    for explained in decisions:
        row = explained.decision
        if row.kind == "attention":
            of_attention[row.outcome] += explained.count
        elif row.kind == "library call":
            of_calls[row.outcome] += explained.count
        elif row.outcome == "copied":
            copies.add(row.id)
    parts = []
    if of_attention:
        kinds = (f"{count} {kind}" for kind, count in of_attention.most_common())
        parts.append(f"Attention: {listed(kinds)}.")
    if of_calls:
        reasons = (f"{count} {reason}" for reason, count in of_calls.most_common())
        parts.append(f"{counted(of_calls.total(), 'library call')}: {listed(reasons, 4)}.")
    if copies:
        parts.append(f"{counted(len(copies), 'copy')} only to change the memory layout.")
    return " ".join(parts)


def _row(reader: SessionReader, explained: Explained) -> TableRow:
    kernel, row = explained.kernel, explained.decision
    line = in_file(*explained.line) if explained.line else ""
    cells = (
        row.kind,
        explained.reason.kind,
        f"#{kernel.id} {shown_name(kernel.name)}",
        line,
        f"{explained.count:,}",
        kernel.direction,
    )
    return TableRow(
        cells,
        detail=partial(_detail, reader, explained),
        values={"times": float(explained.count)},
        find_place=partial(place_of_kernel, reader, kernel),
    )


def _detail(reader: SessionReader, explained: Explained) -> Detail:
    return Detail("\n".join([*explain(explained), _what_can_be_tried(reader, explained)]))


def _what_can_be_tried(reader: SessionReader, explained: Explained) -> str:
    choices = other_choices(reader, explained)
    if not choices:
        return f"Nothing to try: {why_no_other(explained)}"
    words = [choice.words for choice in choices]
    return f"c z tries {listed(dict.fromkeys(words), MOST_CHOICES)}."


MOST_CHOICES = 4
"""Maximum number of other choices that are named below the list."""


def explain(explained: Explained) -> list[str]:
    """Return the sentences about a decision: what was decided and why, what may change it, and
    where it was decided.
    """
    sentences = [explained.reason.text]
    if explained.reason.change:
        sentences.append(f"What may change it: {explained.reason.change}")
    row = explained.decision
    if row.check:
        condition = f", under “{row.reason}”" if row.kind == "library call" and row.reason else ""
        sentences.append(f"Decided in {row.check}{condition}.")
    answers = row.texts.get("answers")
    if answers:
        sentences.append(f"Inductor's checks: {answers}.")
    if explained.count > 1:
        sentences.append(f"It occurs {counted(explained.count, 'time')}.")
    return sentences
